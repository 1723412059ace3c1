//go:build (darwin || linux) && (amd64 || arm64)

package objc

import (
	"bytes"
	"fmt"
	"unsafe"
)

// foundation is what the bridge needs of Foundation.
type foundation struct {
	StringWithUTF8 func(Class, *byte) ID   `objc:"+NSString stringWithUTF8String:"`
	UTF8String     func(ID) *byte          `objc:"-NSString UTF8String"`
	ErrorCode      func(ID) int64          `objc:"-NSError code"`
	ErrorDomain    func(ID) ID             `objc:"-NSError domain"`
	ErrorText      func(ID) ID             `objc:"-NSError localizedDescription"`
	DataBytes      func(ID) unsafe.Pointer `objc:"-NSData bytes"`
	DataLength     func(ID) uint64         `objc:"-NSData length"`
	ArrayCount     func(ID) uint64         `objc:"-NSArray count"`
	ArrayObject    func(ID, uint64) ID     `objc:"-NSArray objectAtIndex:"`
	FileURL        func(Class, ID) ID      `objc:"+NSURL fileURLWithPath:"`
	URLPath        func(ID) ID             `objc:"-NSURL path"`
	ProcessInfo    func(Class) ID          `objc:"+NSProcessInfo processInfo"`
	OSVersion      func(ID) OSVersion      `objc:"-NSProcessInfo operatingSystemVersion"`
	OSText         func(ID) ID             `objc:"-NSProcessInfo operatingSystemVersionString"`
}

// FoundationTable is the binding table of this package, for the checks against the ABI table.
func FoundationTable() any { return &foundation{} }

// String makes an autoreleased NSString. Call it inside [Runtime.Pool].
func (rt *Runtime) String(s string) ID {
	c, err := rt.Class("NSString")
	if err != nil {
		return 0
	}
	return rt.f.StringWithUTF8(c, cString(s))
}

// GoString copies an NSString; nil gives "".
func (rt *Runtime) GoString(id ID) string {
	if id == 0 {
		return ""
	}
	return goString(uintptr(unsafe.Pointer(rt.f.UTF8String(id))))
}

// FileURL makes an autoreleased file NSURL. Call it inside [Runtime.Pool].
func (rt *Runtime) FileURL(path string) ID {
	c, err := rt.Class("NSURL")
	if err != nil {
		return 0
	}
	return rt.f.FileURL(c, rt.String(path))
}

// URLPath returns the path of an NSURL; nil gives "".
func (rt *Runtime) URLPath(id ID) string {
	if id == 0 {
		return ""
	}
	return rt.GoString(rt.f.URLPath(id))
}

// Bytes copies an NSData; nil gives nil.
func (rt *Runtime) Bytes(id ID) []byte {
	if id == 0 {
		return nil
	}
	n := rt.f.DataLength(id)
	if n == 0 {
		return []byte{}
	}
	return bytes.Clone(unsafe.Slice((*byte)(rt.f.DataBytes(id)), n))
}

// Array returns the objects of an NSArray, not retained; nil gives nil.
func (rt *Runtime) Array(id ID) []ID {
	if id == 0 {
		return nil
	}
	out := make([]ID, rt.f.ArrayCount(id))
	for i := range out {
		out[i] = rt.f.ArrayObject(id, uint64(i))
	}
	return out
}

// OSVersion returns the version of the operating system and its text.
func (rt *Runtime) OSVersion() (v OSVersion, text string, err error) {
	c, err := rt.Class("NSProcessInfo")
	if err != nil {
		return v, "", err
	}
	rt.Pool(func() {
		info := rt.f.ProcessInfo(c)
		v, text = rt.f.OSVersion(info), rt.GoString(rt.f.OSText(info))
	})
	return v, text, nil
}

// Error is an NSError.
type Error struct {
	Domain string
	Code   int64
	Text   string // localized description
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%s %d)", e.Text, e.Domain, e.Code) }

// Error copies an NSError; nil gives nil.
func (rt *Runtime) Error(id ID) *Error {
	if id == 0 {
		return nil
	}
	return &Error{
		Domain: rt.GoString(rt.f.ErrorDomain(id)),
		Code:   rt.f.ErrorCode(id),
		Text:   rt.GoString(rt.f.ErrorText(id)),
	}
}
