//go:build (darwin || linux) && (amd64 || arm64)

package objc

import (
	"fmt"
	"reflect"
)

// How arguments travel, for calls that take only integers, pointers and structs of 8-byte integers:
//
//   - amd64 (System V): 6 integer registers. A struct of at most 16 bytes goes into registers if all of it fits, else
//     whole on the stack, and later arguments may still use the registers left over. A larger struct is always copied
//     onto the stack.
//   - arm64 (AAPCS64): 8 integer registers. A struct of at most 16 bytes goes into registers if all of it fits, else the
//     registers are closed and it goes on the stack. A larger struct is copied and its address passed.
//
// purego's own struct passing splits a struct between the last register and the stack on amd64 (purego issue 525),
// which resolveCounterHeap:withRange:intoBuffer:waitFence:updateFence: would meet, so the words are laid out here and
// sent with SyscallN. Apple's arm64 packs stack arguments smaller than 8 bytes: such a method is refused, none exists.

// place says where the words of one argument go. Index 0 is the first word of the call (the receiver).
type place struct {
	at    int // first word
	words int
	byRef bool // one word: the address of a copy
}

type plan struct {
	places []place
	total  int // words of the call, padding included
}

// registers is the number of integer registers that carry arguments.
func registers(arch string) int {
	if arch == "amd64" {
		return 6
	}
	return 8
}

// layout computes where receiver, selector and args go on the given architecture.
func layout(arch string, args []reflect.Type) (plan, error) {
	regs := registers(arch)
	next, stack := 2, 0
	p := plan{places: make([]place, 0, len(args))}
	onStack := func(n int) int {
		at := regs + stack
		stack += n
		return at
	}
	for _, t := range args {
		n, err := words(t)
		if err != nil {
			return plan{}, err
		}
		switch {
		case n > 2 && arch == "amd64":
			p.places = append(p.places, place{at: onStack(n), words: n})
			continue
		case n > 2:
			if next < regs {
				p.places = append(p.places, place{at: next, words: 1, byRef: true})
				next++
			} else {
				p.places = append(p.places, place{at: onStack(1), words: 1, byRef: true})
			}
			continue
		case next+n <= regs:
			p.places = append(p.places, place{at: next, words: n})
			next += n
			continue
		}
		if t.Size() < 8 {
			return plan{}, fmt.Errorf("a %s argument on the stack is packed differently on Apple arm64", t)
		}
		if arch != "amd64" {
			next = regs
		}
		p.places = append(p.places, place{at: onStack(n), words: n})
	}
	p.total = next
	if stack > 0 {
		p.total = regs + stack
	}
	return p, nil
}

// words is the number of 8-byte words of an argument.
func words(t reflect.Type) (int, error) {
	switch t.Kind() {
	case reflect.Bool, reflect.Uint8, reflect.Int32, reflect.Uint32, reflect.Int64, reflect.Uint64, reflect.Uintptr,
		reflect.Pointer, reflect.UnsafePointer:
		return 1, nil
	case reflect.Struct:
		for i := range t.NumField() {
			if k := t.Field(i).Type.Kind(); k != reflect.Uint64 && k != reflect.Int64 {
				return 0, fmt.Errorf("struct %s holds a %s: only 8-byte integers can be passed", t, k)
			}
		}
		return t.NumField(), nil
	}
	return 0, fmt.Errorf("a %s cannot be passed as an argument", t)
}

// fill writes an argument's words to dst.
func fill(dst []uintptr, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		dst[0] = 0
		if v.Bool() {
			dst[0] = 1
		}
	case reflect.Int64, reflect.Int32:
		dst[0] = uintptr(v.Int())
	case reflect.Pointer, reflect.UnsafePointer:
		dst[0] = v.Pointer()
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanInt() {
				dst[i] = uintptr(f.Int())
			} else {
				dst[i] = uintptr(f.Uint())
			}
		}
	default:
		dst[0] = uintptr(v.Uint())
	}
}
