//go:build (darwin || linux) && (amd64 || arm64)

package mtl

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/stax-otel/stax/metal/internal/objc"
)

// System is an opened Metal. Its methods are safe for concurrent use.
type System struct {
	rt *objc.Runtime
	m  bindings

	createDefault, copyAll       uintptr
	machAbsolute, machContinuous uintptr
	timebaseNumer, timebaseDenom uint32
}

// ErrNil says that a method returned nil and set no error.
var ErrNil = errors.New("nil result without an error")

// Open opens Metal behind a lookup.
func Open(lookup objc.Lookup) (*System, error) {
	rt, err := objc.Open(lookup)
	if err != nil {
		return nil, fmt.Errorf("open Objective-C runtime: %w", err)
	}
	s := &System{rt: rt}
	var timebase uintptr
	for _, want := range []struct {
		name string
		addr *uintptr
	}{
		{"MTLCreateSystemDefaultDevice", &s.createDefault},
		{"MTLCopyAllDevices", &s.copyAll},
		{"mach_absolute_time", &s.machAbsolute},
		{"mach_continuous_time", &s.machContinuous},
		{"mach_timebase_info", &timebase},
	} {
		if *want.addr, err = rt.Symbol(want.name); err != nil {
			return nil, fmt.Errorf("open Metal: %w", err)
		}
	}
	if err := rt.Bind(&s.m); err != nil {
		return nil, fmt.Errorf("open Metal: %w", err)
	}
	info := new([2]uint32)
	if r, _, _ := purego.SyscallN(timebase, uintptr(unsafe.Pointer(info))); int32(r) != 0 || info[0] == 0 || info[1] == 0 {
		return nil, fmt.Errorf("open Metal: mach_timebase_info gave %d, %d/%d", int32(r), info[0], info[1])
	}
	s.timebaseNumer, s.timebaseDenom = info[0], info[1]
	return s, nil
}

// Runtime is the Objective-C runtime behind the system.
func (s *System) Runtime() *objc.Runtime { return s.rt }

// Pool runs fn on one OS thread inside an autorelease pool.
func (s *System) Pool(fn func()) { s.rt.Pool(fn) }

// MachAbsolute reads mach_absolute_time: ticks that stop while the machine sleeps. See [System.Timebase].
func (s *System) MachAbsolute() uint64 {
	r, _, _ := purego.SyscallN(s.machAbsolute)
	return uint64(r)
}

// MachContinuous reads mach_continuous_time: the same ticks, but counting sleep.
func (s *System) MachContinuous() uint64 {
	r, _, _ := purego.SyscallN(s.machContinuous)
	return uint64(r)
}

// Timebase is the length of a mach tick in nanoseconds as a fraction.
func (s *System) Timebase() (numer, denom uint32) { return s.timebaseNumer, s.timebaseDenom }

// DefaultDevice returns the system's default device.
func (s *System) DefaultDevice() (*Device, error) {
	r, _, _ := purego.SyscallN(s.createDefault)
	if r == 0 {
		return nil, fmt.Errorf("default device: %w", errors.ErrUnsupported)
	}
	return &Device{object{s, id(r)}}, nil
}

// Devices returns all devices; none is an empty list.
func (s *System) Devices() []*Device {
	r, _, _ := purego.SyscallN(s.copyAll)
	var out []*Device
	s.Pool(func() {
		for _, d := range s.rt.Array(id(r)) {
			out = append(out, &Device{object{s, s.rt.Retain(d)}})
		}
	})
	s.rt.Release(id(r))
	return out
}

// object is a reference that its holder owns.
type object struct {
	s  *System
	id id
}

// ID is the object's address: for messages the bindings lack and for comparisons.
func (o *object) ID() objc.ID { return o.id }

// Release gives the reference up. Later calls do nothing; other methods must not be called any more.
func (o *object) Release() {
	s, i := o.s, o.id
	o.id = 0
	if s != nil {
		s.rt.Release(i)
	}
}

// ClassName names the live class of the object.
func (o *object) ClassName() string { return o.s.rt.ClassName(o.s.rt.ClassOf(o.id)) }

// need returns an error wrapping errors.ErrUnsupported unless the object implements the selector.
func (o *object) need(selector string) error {
	if o.s.rt.Responds(o.id, selector) {
		return nil
	}
	return fmt.Errorf("%s does not respond to %s: %w", o.ClassName(), selector, errors.ErrUnsupported)
}

// label sends a setLabel: method; "" sends nothing.
func (o *object) label(set func(id, id), text string) {
	if text != "" {
		o.s.Pool(func() { set(o.id, o.s.rt.String(text)) })
	}
}

// borrowed runs get inside a pool and retains what it returns.
func (o *object) borrowed(what string, get func() id) (object, error) {
	var got id
	o.s.Pool(func() {
		if got = get(); got != 0 {
			o.s.rt.Retain(got)
		}
	})
	if got == 0 {
		return object{}, fmt.Errorf("%s: %w", what, ErrNil)
	}
	return object{o.s, got}, nil
}

// created runs a method of the new family with an NSError result inside a pool.
func (o *object) created(what string, create func(err *id) id) (object, error) {
	var got id
	var fault error
	o.s.Pool(func() {
		nserr := new(id)
		if got = create(nserr); got == 0 {
			fault = ErrNil
			if e := o.s.rt.Error(*nserr); e != nil {
				fault = e
			}
		}
	})
	if fault != nil {
		return object{}, fmt.Errorf("%s: %w", what, fault)
	}
	return object{o.s, got}, nil
}

// text reads an NSString property.
func (o *object) text(get func(id) id) (out string) {
	o.s.Pool(func() { out = o.s.rt.GoString(get(o.id)) })
	return out
}

// descriptor makes an object with +new.
func (s *System) descriptor(name string) (object, error) {
	c, err := s.rt.Class(name)
	if err != nil {
		return object{}, fmt.Errorf("%w: %w", err, errors.ErrUnsupported)
	}
	d := s.m.Object.New(c)
	if d == 0 {
		return object{}, fmt.Errorf("new %s: %w", name, ErrNil)
	}
	return object{s, d}, nil
}

var errUnsupported = errors.ErrUnsupported
