package sdk

import (
	"context"
	"runtime/trace"
	"strconv"
	"sync"
	"unsafe"

	"github.com/stax-otel/stax/sdk/semconv"
)

// logBuffers hold the text of one event each. The tracer copies the text before it returns, but the compiler cannot
// know that, so a buffer on the stack would be an allocation per event.
var logBuffers = sync.Pool{New: func() any { return new([24]byte) }}

// traceOrigin leaves an event in the execution trace: thread, goroutine and exact stack of the origin captured at t.
func traceOrigin(ctx context.Context, t int64) {
	if ctx == nil {
		ctx = context.Background()
	}
	buf, _ := logBuffers.Get().(*[24]byte)
	text := strconv.AppendInt(buf[:0], t, 10)
	trace.Log(ctx, semconv.TraceLogOrigin, unsafe.String(unsafe.SliceData(text), len(text)))
	logBuffers.Put(buf)
}
