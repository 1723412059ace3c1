package abi

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"
)

// Typed is implemented by Go types that stand for one Objective-C type, such as an object id or NSRange.
type Typed interface {
	// ObjCType returns the type's encoding; it must not look at the value.
	ObjCType() string
}

// EncodingOf returns the encoding of a Go type as an argument or a result.
func EncodingOf(t reflect.Type) (string, error) {
	if v, ok := reflect.Zero(t).Interface().(Typed); ok && t.Kind() != reflect.Pointer {
		return v.ObjCType(), nil
	}
	switch t.Kind() {
	case reflect.Bool:
		return "B", nil
	case reflect.Int64:
		return "q", nil
	case reflect.Uint64:
		return "Q", nil
	case reflect.Int32:
		return "i", nil
	case reflect.Uint32:
		return "I", nil
	case reflect.Uint8:
		return "C", nil
	case reflect.Float64:
		return "d", nil
	case reflect.Float32:
		return "f", nil
	case reflect.UnsafePointer:
		return "^v", nil
	case reflect.Pointer:
		if t.Elem().Kind() == reflect.Uint8 {
			return "*", nil
		}
		e, err := EncodingOf(t.Elem())
		return "^" + e, err
	}
	return "", fmt.Errorf("no Objective-C encoding for the Go type %s", t)
}

// MethodEncoding returns the encoding of a method whose Go form is func(self, args...) result. The selector is not
// among the Go arguments.
func MethodEncoding(fn reflect.Type) (string, error) {
	if fn.Kind() != reflect.Func || fn.NumIn() < 1 || fn.NumOut() > 1 || fn.IsVariadic() {
		return "", fmt.Errorf("%s is not the form of a method", fn)
	}
	var b strings.Builder
	if fn.NumOut() == 0 {
		b.WriteByte('v')
	} else {
		e, err := EncodingOf(fn.Out(0))
		if err != nil {
			return "", err
		}
		b.WriteString(e)
	}
	for i := range fn.NumIn() {
		e, err := EncodingOf(fn.In(i))
		if err != nil {
			return "", err
		}
		if i == 0 {
			if e != "@" && e != "#" {
				return "", fmt.Errorf("%s: the receiver is %q, not an object or a class", fn, e)
			}
			e = "@:"
		}
		b.WriteString(e)
	}
	return b.String(), nil
}

// A Binding is one bound method: the key of its record and its Go form.
type Binding struct {
	Key  string
	Func reflect.Type
}

// Bindings lists the methods of binding tables: pointers to structs whose fields are funcs with a tag such as
// `objc:"-MTLDevice newCommandQueue"`, or structs of such.
func Bindings(tables ...any) []Binding {
	var out []Binding
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			if key, ok := f.Tag.Lookup("objc"); ok {
				out = append(out, Binding{key, f.Type})
			} else if f.Type.Kind() == reflect.Struct {
				walk(f.Type)
			}
		}
	}
	for _, table := range tables {
		walk(reflect.TypeOf(table).Elem())
	}
	return out
}

// Mismatch is one difference between a Go type or a runtime and the table.
type Mismatch struct {
	Key  string
	Want string // the table's normalised encoding, or what the table lacks
	Got  string
}

func (m Mismatch) String() string { return fmt.Sprintf("%s: table %q, got %q", m.Key, m.Want, m.Got) }

// Check compares Go forms with the table and returns every difference.
func (f *Facts) Check(bindings []Binding) []Mismatch {
	var out []Mismatch
	for _, b := range bindings {
		r := f.Method(b.Key)
		if r == nil {
			out = append(out, Mismatch{b.Key, "a record", "none"})
			continue
		}
		got, err := MethodEncoding(b.Func)
		if err != nil {
			out = append(out, Mismatch{b.Key, Normalize(r.Encoding), err.Error()})
			continue
		}
		if want := Normalize(r.Encoding); got != want {
			out = append(out, Mismatch{b.Key, want, got})
		}
	}
	return out
}

// CheckStruct compares the size and the encoding of a Go struct with its record.
func (f *Facts) CheckStruct(name string, t reflect.Type) error {
	r := f.Named("struct", name)
	if r == nil {
		return fmt.Errorf("struct %s has no record", name)
	}
	if uint64(t.Size()) != r.Size {
		return fmt.Errorf("struct %s: table %d bytes, Go %d", name, r.Size, t.Size())
	}
	if v, ok := reflect.Zero(t).Interface().(Typed); ok && r.Enc != "" && v.ObjCType() != r.Enc {
		return fmt.Errorf("struct %s: table %q, Go %q", name, r.Enc, v.ObjCType())
	}
	return nil
}

// Word is the size of a register: both supported architectures have 8 bytes.
const Word = unsafe.Sizeof(uintptr(0))
