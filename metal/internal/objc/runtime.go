//go:build (darwin || linux) && (amd64 || arm64)

package objc

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Runtime is an opened Objective-C runtime. Its methods are safe for concurrent use; what they do to objects is as safe
// as the objects are.
type Runtime struct {
	lookup Lookup
	sym    symbols

	sels sync.Map // string → SEL

	f     foundation
	words func(ID, SEL) words3  // sends that return a struct of three words
	float func(ID, SEL) float64 // sends that return a double
}

// symbols are the addresses of the C functions used.
type symbols struct {
	msgSend, selRegister, getClass, objectGetClass, className, responds   uintptr
	instanceMethod, classMethod, encoding, getProtocol, protocolMethod    uintptr
	poolPush, poolPop, retain, release, blockCopy, blockRelease, stackISA uintptr
}

type words3 struct{ a, b, c uint64 }

// Symbols that only fakes have: entries for methods whose result a Go callback cannot return from the ordinary entry, a
// double and, on arm64, a struct of three words. Real runtimes have no such symbols and use objc_msgSend.
const (
	FakeDoubleSend = "stax_fake_objc_msgSend_double"
	FakeWordsSend  = "stax_fake_objc_msgSend_words"
)

// Open resolves what the bridge needs. A missing symbol is an error that names it.
func Open(lookup Lookup) (*Runtime, error) {
	rt := &Runtime{lookup: lookup}
	s := &rt.sym
	for _, want := range []struct {
		name string
		addr *uintptr
	}{
		{"objc_msgSend", &s.msgSend},
		{"sel_registerName", &s.selRegister},
		{"objc_getClass", &s.getClass},
		{"object_getClass", &s.objectGetClass},
		{"class_getName", &s.className},
		{"class_respondsToSelector", &s.responds},
		{"class_getInstanceMethod", &s.instanceMethod},
		{"class_getClassMethod", &s.classMethod},
		{"method_getTypeEncoding", &s.encoding},
		{"objc_getProtocol", &s.getProtocol},
		{"protocol_getMethodDescription", &s.protocolMethod},
		{"objc_autoreleasePoolPush", &s.poolPush},
		{"objc_autoreleasePoolPop", &s.poolPop},
		{"objc_retain", &s.retain},
		{"objc_release", &s.release},
		{"_Block_copy", &s.blockCopy},
		{"_Block_release", &s.blockRelease},
		{"_NSConcreteStackBlock", &s.stackISA},
	} {
		addr, err := rt.Symbol(want.name)
		if err != nil {
			return nil, err
		}
		*want.addr = addr
	}
	stret := s.msgSend
	if runtime.GOARCH == "amd64" {
		var err error
		if stret, err = rt.Symbol("objc_msgSend_stret"); err != nil {
			return nil, err
		}
	} else if addr, err := lookup(FakeWordsSend); err == nil && addr != 0 {
		stret = addr
	}
	purego.RegisterFunc(&rt.words, stret)
	double := s.msgSend
	if addr, err := lookup(FakeDoubleSend); err == nil && addr != 0 {
		double = addr
	}
	purego.RegisterFunc(&rt.float, double)
	if err := rt.Bind(&rt.f); err != nil {
		return nil, err
	}
	return rt, nil
}

// Symbol returns the address of a C symbol, or an error that names it.
func (rt *Runtime) Symbol(name string) (uintptr, error) {
	addr, err := rt.lookup(name)
	if err != nil {
		return 0, fmt.Errorf("symbol %s: %w", name, err)
	}
	if addr == 0 {
		return 0, fmt.Errorf("symbol %s: not found", name)
	}
	return addr, nil
}

// ExternString reads an NSString constant such as MTLCommonCounterSetTimestamp: the symbol is the address of a variable
// that holds the string.
func (rt *Runtime) ExternString(name string) (string, error) {
	addr, err := rt.Symbol(name)
	if err != nil {
		return "", err
	}
	return rt.GoString(*(*ID)(pointer(addr))), nil
}

// SEL returns a selector by name; names are registered once.
func (rt *Runtime) SEL(name string) SEL {
	if s, ok := rt.sels.Load(name); ok {
		return s.(SEL)
	}
	c := cString(name)
	r, _, _ := purego.SyscallN(rt.sym.selRegister, uintptr(unsafe.Pointer(c)))
	rt.sels.Store(name, SEL(r))
	return SEL(r)
}

// ErrNoClass says that a class does not exist in this system.
var ErrNoClass = errors.New("no such class")

// Class returns a class by name, or an error wrapping [ErrNoClass].
func (rt *Runtime) Class(name string) (Class, error) {
	c := cString(name)
	r, _, _ := purego.SyscallN(rt.sym.getClass, uintptr(unsafe.Pointer(c)))
	if r == 0 {
		return 0, fmt.Errorf("class %s: %w", name, ErrNoClass)
	}
	return Class(r), nil
}

// ClassOf returns the live class of an object: with validation or capture layers on, not the one that was asked for.
func (rt *Runtime) ClassOf(id ID) Class {
	r, _, _ := purego.SyscallN(rt.sym.objectGetClass, uintptr(id))
	return Class(r)
}

// ClassName returns the name of a class.
func (rt *Runtime) ClassName(c Class) string {
	r, _, _ := purego.SyscallN(rt.sym.className, uintptr(c))
	return goString(r)
}

// Responds tells whether an object implements a selector. It is the only gate for methods newer than the oldest
// supported system: the SDK's availability is a hint.
func (rt *Runtime) Responds(id ID, selector string) bool {
	return id != 0 && rt.ClassResponds(rt.ClassOf(id), selector)
}

// ClassResponds tells whether instances of a class implement a selector.
func (rt *Runtime) ClassResponds(c Class, selector string) bool {
	r, _, _ := purego.SyscallN(rt.sym.responds, uintptr(c), uintptr(rt.SEL(selector)))
	return r&0xff != 0
}

// ClassEncoding returns the type encoding of a method as the runtime has it, or "" when the class lacks it.
func (rt *Runtime) ClassEncoding(c Class, selector string, classMethod bool) string {
	fn := rt.sym.instanceMethod
	if classMethod {
		fn = rt.sym.classMethod
	}
	m, _, _ := purego.SyscallN(fn, uintptr(c), uintptr(rt.SEL(selector)))
	if m == 0 {
		return ""
	}
	r, _, _ := purego.SyscallN(rt.sym.encoding, m)
	return goString(r)
}

// ProtocolEncoding returns the type encoding of an instance method that a protocol describes, or "" when the protocol
// or the method is unknown to the runtime.
func (rt *Runtime) ProtocolEncoding(protocol, selector string, required bool) string {
	c := cString(protocol)
	p, _, _ := purego.SyscallN(rt.sym.getProtocol, uintptr(unsafe.Pointer(c)))
	if p == 0 {
		return ""
	}
	req := uintptr(0)
	if required {
		req = 1
	}
	// struct objc_method_description {SEL; char *} comes back in two registers.
	_, types, _ := purego.SyscallN(rt.sym.protocolMethod, p, uintptr(rt.SEL(selector)), req, 1)
	return goString(types)
}

// Retain adds a reference and returns id.
func (rt *Runtime) Retain(id ID) ID {
	r, _, _ := purego.SyscallN(rt.sym.retain, uintptr(id))
	return ID(r)
}

// Release gives up a reference; nil is allowed.
func (rt *Runtime) Release(id ID) {
	if id != 0 {
		_, _, _ = purego.SyscallN(rt.sym.release, uintptr(id))
	}
}

// Pool runs fn on one OS thread inside an autorelease pool: what methods return without ownership lives until fn
// returns. Pools nest.
func (rt *Runtime) Pool(fn func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	token, _, _ := purego.SyscallN(rt.sym.poolPush)
	defer func() { _, _, _ = purego.SyscallN(rt.sym.poolPop, token) }()
	fn()
}
