package sdk

import (
	"hash/fnv"
	"io"
	"runtime"
	"strconv"
	"strings"
)

// Frame is one frame of a stack.
type Frame struct {
	Function string // fully qualified
	File     string // as the compiler recorded it
	Line     int    // 0 when unknown
}

// StackID is the identity of a stack on the wire: FNV-1a 64 over its frames, leaf first, each as function, NUL, file,
// NUL, decimal line, newline. It is never 0.
func StackID(frames []Frame) uint64 {
	h := fnv.New64a()
	for _, f := range frames {
		_, _ = io.WriteString(h, f.Function+"\x00"+f.File+"\x00"+strconv.Itoa(f.Line)+"\n")
	}
	if id := h.Sum64(); id != 0 {
		return id
	}
	return 1
}

const otelPrefix = "go.opentelemetry.io/otel/"

// symbolize turns program counters of runtime.Callers into frames, leaf first.
func symbolize(pcs []uintptr) []Frame {
	out := make([]Frame, 0, len(pcs))
	it := runtime.CallersFrames(pcs)
	for {
		f, more := it.Next()
		if len(out) == 0 && strings.HasPrefix(f.Function, otelPrefix) {
			// The OpenTelemetry SDK calls sdk/otelsdk: what the program did comes after.
		} else if f.Function != "" || f.File != "" {
			out = append(out, Frame{Function: clipTo(f.Function, maxFrameString), File: clipTo(f.File, maxFrameString), Line: f.Line})
		}
		if !more {
			return out
		}
	}
}
