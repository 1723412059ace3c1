//go:build (darwin || linux) && (amd64 || arm64)

package objc

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Bind fills a binding table: a pointer to a struct whose fields are funcs func(self, args...) result with a tag
// `objc:"-Owner selector:"`, or structs of such fields. Whether a live object implements a method is not asked here.
//
// Shapes on the hot path become closures over SyscallN that allocate only what SyscallN does; all others go through
// reflection. A form that cannot be called is an error.
func (rt *Runtime) Bind(table any) error {
	return rt.bind(reflect.ValueOf(table).Elem())
}

func (rt *Runtime) bind(v reflect.Value) error {
	for i := range v.NumField() {
		field, t := v.Field(i), v.Type().Field(i)
		key, ok := t.Tag.Lookup("objc")
		if !ok {
			if err := rt.bind(field); err != nil {
				return err
			}
			continue
		}
		_, selector, ok := strings.Cut(key, " ")
		if !ok {
			return fmt.Errorf("bind %s: tag %q is not \"-Owner selector\"", t.Name, key)
		}
		if args := field.Type().NumIn() - 1; args != strings.Count(selector, ":") {
			return fmt.Errorf("bind %s: %d arguments for the selector %s", t.Name, args, selector)
		}
		if rt.bindHot(field.Addr().Interface(), rt.SEL(selector)) {
			continue
		}
		if err := rt.bindCold(field, rt.SEL(selector)); err != nil {
			return fmt.Errorf("bind %s: %w", key, err)
		}
	}
	return nil
}

// bindHot binds the shapes that a recorded dispatch goes through.
func (rt *Runtime) bindHot(field any, sel SEL) bool {
	fn, s := rt.sym.msgSend, uintptr(sel)
	switch f := field.(type) {
	case *func(ID):
		*f = func(self ID) { _, _, _ = purego.SyscallN(fn, uintptr(self), s) }
	case *func(ID) ID:
		*f = func(self ID) ID { r, _, _ := purego.SyscallN(fn, uintptr(self), s); return ID(r) }
	case *func(ID) uint64:
		*f = func(self ID) uint64 { r, _, _ := purego.SyscallN(fn, uintptr(self), s); return uint64(r) }
	case *func(ID, ID):
		*f = func(self, a ID) { _, _, _ = purego.SyscallN(fn, uintptr(self), s, uintptr(a)) }
	case *func(ID, ID, uint64):
		*f = func(self, a ID, b uint64) { _, _, _ = purego.SyscallN(fn, uintptr(self), s, uintptr(a), uintptr(b)) }
	case *func(ID, uint64, uint64):
		*f = func(self ID, a, b uint64) { _, _, _ = purego.SyscallN(fn, uintptr(self), s, uintptr(a), uintptr(b)) }
	case *func(ID, ID, uint64, uint64):
		*f = func(self, a ID, b, c uint64) {
			_, _, _ = purego.SyscallN(fn, uintptr(self), s, uintptr(a), uintptr(b), uintptr(c))
		}
	case *func(ID, int64, ID, uint64):
		*f = func(self ID, a int64, b ID, c uint64) {
			_, _, _ = purego.SyscallN(fn, uintptr(self), s, uintptr(a), uintptr(b), uintptr(c))
		}
	case *func(ID, *ID, uint64, ID):
		*f = func(self ID, a *ID, n uint64, b ID) {
			_, _, _ = purego.SyscallN(fn, uintptr(self), s, uintptr(unsafe.Pointer(a)), uintptr(n), uintptr(b))
		}
	case *func(ID, *uint64, *uint64):
		*f = func(self ID, a, b *uint64) {
			_, _, _ = purego.SyscallN(fn, uintptr(self), s, uintptr(unsafe.Pointer(a)), uintptr(unsafe.Pointer(b)))
		}
	default:
		return false
	}
	return true
}

// bindCold binds any other shape by reflection.
func (rt *Runtime) bindCold(field reflect.Value, sel SEL) error {
	t := field.Type()
	var args []reflect.Type
	for i := 1; i < t.NumIn(); i++ {
		args = append(args, t.In(i))
	}
	p, err := layout(runtime.GOARCH, args)
	if err != nil {
		return err
	}
	result, err := rt.resultOf(t)
	if err != nil {
		return err
	}
	field.Set(reflect.MakeFunc(t, func(in []reflect.Value) []reflect.Value {
		call := make([]uintptr, p.total)
		call[0], call[1] = uintptr(in[0].Uint()), uintptr(sel)
		var copies []unsafe.Pointer
		for i, at := range p.places {
			if !at.byRef {
				fill(call[at.at:], in[i+1])
				continue
			}
			c := reflect.New(in[i+1].Type())
			c.Elem().Set(in[i+1])
			copies = append(copies, c.UnsafePointer())
			call[at.at] = c.Pointer()
		}
		out := result(call)
		runtime.KeepAlive(in)
		runtime.KeepAlive(copies)
		return out
	}))
	return nil
}

// resultOf returns how a method of this form is sent and its result read.
func (rt *Runtime) resultOf(t reflect.Type) (func(call []uintptr) []reflect.Value, error) {
	send := func(call []uintptr) uintptr {
		r, _, _ := purego.SyscallN(rt.sym.msgSend, call...)
		return r
	}
	if t.NumOut() == 0 {
		return func(call []uintptr) []reflect.Value { send(call); return nil }, nil
	}
	out := t.Out(0)
	value := func(set func(v reflect.Value, call []uintptr)) func([]uintptr) []reflect.Value {
		return func(call []uintptr) []reflect.Value {
			v := reflect.New(out).Elem()
			set(v, call)
			return []reflect.Value{v}
		}
	}
	switch {
	case out.Kind() == reflect.Bool: // only the low byte of a BOOL is defined
		return value(func(v reflect.Value, call []uintptr) { v.SetBool(send(call)&0xff != 0) }), nil
	case out.Kind() == reflect.Int64:
		return value(func(v reflect.Value, call []uintptr) { v.SetInt(int64(send(call))) }), nil
	case out.Kind() == reflect.Uint64, out.Kind() == reflect.Uintptr:
		return value(func(v reflect.Value, call []uintptr) { v.SetUint(uint64(send(call))) }), nil
	case out.Kind() == reflect.UnsafePointer:
		return value(func(v reflect.Value, call []uintptr) { v.SetPointer(pointer(send(call))) }), nil
	case out.Kind() == reflect.Pointer:
		return value(func(v reflect.Value, call []uintptr) { v.Set(reflect.NewAt(out.Elem(), pointer(send(call)))) }), nil
	case out.Kind() == reflect.Struct && out.Size() == 8:
		return value(func(v reflect.Value, call []uintptr) { v.Field(0).SetUint(uint64(send(call))) }), nil
	case out.Kind() == reflect.Float64 && t.NumIn() == 1:
		return value(func(v reflect.Value, call []uintptr) { v.SetFloat(rt.float(ID(call[0]), SEL(call[1]))) }), nil
	case out.Kind() == reflect.Struct && out.Size() == 24 && t.NumIn() == 1:
		return value(func(v reflect.Value, call []uintptr) {
			w := rt.words(ID(call[0]), SEL(call[1]))
			*(*words3)(v.Addr().UnsafePointer()) = w
		}), nil
	}
	return nil, fmt.Errorf("a result of type %s is not supported", out)
}
