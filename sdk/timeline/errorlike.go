package timeline

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// ErrorLike is an error as plain text. Name is the Go type of the error, "panic" for a panic with a value that is no
// error, "Goexit" when the system ended its goroutine. Stack is there after a panic, leaf first, a line per frame;
// it has no addresses and no goroutine numbers, so that replays compare. Cause is the message of the wrapped error.
type ErrorLike struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
	Cause   string `json:"cause,omitempty"`
}

const (
	maxMessage = 4 << 10 // bytes
	maxFrames  = 32
)

func errorLike(err error) *ErrorLike {
	e := &ErrorLike{Name: fmt.Sprintf("%T", err), Message: message(err)}
	if cause := errors.Unwrap(err); cause != nil {
		e.Cause = message(cause)
	}
	return e
}

// panicLike describes the panic that is being recovered.
func panicLike(v any) *ErrorLike {
	var e *ErrorLike
	switch v := v.(type) {
	case nil:
		return &ErrorLike{Name: "Goexit", Message: "the system ended its goroutine"}
	case error:
		e = errorLike(v)
	default:
		e = &ErrorLike{Name: "panic", Message: message(v)}
	}
	e.Stack = panicStack()
	return e
}

// message is v's text. A value whose own method panics must not harm the tick loop; fmt sees to that.
func message(v any) string {
	s := fmt.Sprint(v)
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "")
	}
	return s
}

// panicStack is the stack of the panic, from the function that panicked up to the one that called the recorder.
func panicStack() string {
	var pcs [maxFrames * 2]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	var b strings.Builder
	panicked, n := false, 0
	for more := true; more && n < maxFrames; {
		var f runtime.Frame
		f, more = frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			panicked = panicked || f.Function == "runtime.gopanic"
		case strings.HasSuffix(f.Function, ".(*Recorder).captureSystem"):
			return b.String()
		case panicked:
			b.WriteString(f.Function + " " + filepath.Base(f.File) + ":" + strconv.Itoa(f.Line) + "\n")
			n++
		}
	}
	return b.String()
}
