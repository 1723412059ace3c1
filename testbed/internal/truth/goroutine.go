package truth

import (
	"bytes"
	"runtime"
	"strconv"
)

// Goroutine is the id of the calling goroutine, read from its own stack dump ("goroutine 17 [running]"): slow, and
// independent of everything that a recording uses to find it. 0 when the dump has another shape.
func Goroutine() int64 {
	var buf [64]byte
	text, ok := bytes.CutPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	if !ok {
		return 0
	}
	digits, _, _ := bytes.Cut(text, []byte(" "))
	n, _ := strconv.ParseInt(string(digits), 10, 64)
	return n
}
