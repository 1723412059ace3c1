package truth

import "runtime"

// Below is the source position one line under its caller's call of it: where the next statement captures.
//
//go:noinline
func Below() Site {
	var pcs [1]uintptr
	runtime.Callers(2, pcs[:])
	f, _ := runtime.CallersFrames(pcs[:]).Next()
	return Site{Function: f.Function, File: f.File, Line: f.Line + 1}
}
