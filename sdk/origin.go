package sdk

import (
	"context"
	"runtime"

	"go.opentelemetry.io/otel/trace"

	"github.com/stax-otel/stax/sdk/internal/link"
)

// OriginMode says how much an origin captures.
type OriginMode uint32

// The origin modes, cheapest first.
const (
	OriginDefault OriginMode = iota // what the recording wants, else OriginStack
	OriginOff                       // nothing
	OriginThread                    // OS thread and instant
	OriginStack                     // OS thread, instant and exact stack of at most 32 frames
)

// An Origin says where on the CPU something was caused: OS thread, instant, and, when captured, the exact stack and the
// OTel span that was active. It is a plain value. The zero Origin means "not captured".
type Origin struct {
	thread    int64
	goroutine int64
	time      int64
	stack     uint64 // hash of the program counters; see stackTable
	cpuTrace  trace.TraceID
	cpuSpan   trace.SpanID
	locked    bool
}

// OriginAt makes an origin from facts that the caller knows: an OS thread id (0: unknown) and an instant.
func OriginAt(threadID int64, t Time) Origin { return Origin{thread: threadID, time: int64(t)} }

// WithGoroutine returns o with the id of the goroutine that it names. Captures do not know it: it matters for origins
// that a program makes itself with [OriginAt].
func (o Origin) WithGoroutine(id int64) Origin {
	o.goroutine = id
	return o
}

// WithThreadLocked returns o with the promise that the code which it names is bound to its thread
// (runtime.LockOSThread), so that CPU samples of the thread are samples of that code.
func (o Origin) WithThreadLocked() Origin {
	o.locked = true
	return o
}

// GoroutineID is the goroutine's id, 0 when unknown.
func (o Origin) GoroutineID() int64 { return o.goroutine }

// ThreadLocked reports what [Origin.WithThreadLocked] promised.
func (o Origin) ThreadLocked() bool { return o.locked }

// IsZero reports whether nothing was captured.
func (o Origin) IsZero() bool { return o == Origin{} }

// ThreadID is the OS thread id, 0 when unknown.
func (o Origin) ThreadID() int64 { return o.thread }

// Time is the instant of the capture.
func (o Origin) Time() Time { return Time(o.time) }

// HasStack reports whether the origin carries an exact stack.
func (o Origin) HasStack() bool { return o.stack != 0 }

// CaptureOrigin captures where the calling goroutine is, for the default runtime. ctx may be nil; an OTel span in it
// becomes the origin's CPU span. While not recorded the origin is zero.
func CaptureOrigin(ctx context.Context) Origin {
	m := OriginMode(std.active.Load())
	if m <= OriginOff {
		return Origin{}
	}
	return std.capture(ctx, m, 1)
}

// CaptureOrigin is [CaptureOrigin] for this runtime.
func (rt *Runtime) CaptureOrigin(ctx context.Context) Origin {
	m := OriginMode(rt.active.Load())
	if m <= OriginOff {
		return Origin{}
	}
	return rt.capture(ctx, m, 1)
}

// capture fills an origin in mode m > OriginOff. skip counts the SDK frames between capture and the user's function.
// The instant is taken last: the cost of the capture lies before it.
func (rt *Runtime) capture(ctx context.Context, m OriginMode, skip int) Origin {
	var o Origin
	if m >= OriginStack {
		if t := rt.stacks.Load(); t != nil {
			var pcs [maxFrames]uintptr
			n := runtime.Callers(skip+2, pcs[:])
			o.stack = t.insert(pcs[:n])
		}
	}
	if ctx != nil {
		if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
			o.cpuTrace, o.cpuSpan = sc.TraceID(), sc.SpanID()
		}
	}
	o.thread = threadID()
	o.time = int64(Now())
	if link.Tracing.Load() {
		traceOrigin(ctx, o.time)
	}
	return o
}
