//go:build (darwin || linux) && (amd64 || arm64)

// Package objc is a small bridge to the Objective-C runtime on purego's core, without cgo.
//
// Everything it needs from the system comes through one function, [Lookup]: dlsym over Apple's libraries on a Mac, a
// fake (package metaltest) anywhere else. So all of it but the library paths runs in tests on Linux.
//
// Ownership follows Cocoa: methods of the new, alloc and copy families return an object that the caller must release;
// what other methods return is autoreleased and lives until the surrounding [Runtime.Pool] ends.
package objc

import "unsafe"

// Lookup finds the address of a C symbol.
type Lookup func(name string) (uintptr, error)

// ID is an Objective-C object; 0 is nil.
type ID uintptr

// ObjCType returns the encoding of an object.
func (ID) ObjCType() string { return "@" }

// Class is an Objective-C class; 0 is Nil.
type Class uintptr

// ObjCType returns the encoding of a class as a receiver or a result.
func (Class) ObjCType() string { return "#" }

// SEL is a selector.
type SEL uintptr

// ObjCType returns the encoding of a selector.
func (SEL) ObjCType() string { return ":" }

// Block is a block on the heap, made by [Runtime.NewBlock].
type Block uintptr

// ObjCType returns the encoding of a block.
func (Block) ObjCType() string { return "@?" }

// Range is NSRange.
type Range struct{ Location, Length uint64 }

// ObjCType returns the encoding of NSRange.
func (Range) ObjCType() string { return "{_NSRange=QQ}" }

// OSVersion is NSOperatingSystemVersion.
type OSVersion struct{ Major, Minor, Patch int64 }

// ObjCType returns the encoding of NSOperatingSystemVersion.
func (OSVersion) ObjCType() string { return "{?=qqq}" }

// pointer turns an address from outside Go into a pointer. The address does not belong to Go's heap, or the owner of
// the memory keeps it alive by other means.
func pointer(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// goString copies a C string; a nil pointer gives "".
func goString(addr uintptr) string {
	if addr == 0 {
		return ""
	}
	p := (*byte)(pointer(addr))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// cString returns s with a terminating zero byte.
func cString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}
