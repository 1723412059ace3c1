// Package link joins the packages of the SDK that are optional (sdk/cputrace, sdk/otelsdk) to its runtime, so that the
// runtime needs no public methods for them and they are linked only into programs that import them.
package link

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/stax-otel/stax/sdk/otlp"
)

// Tracing is on while sdk/cputrace keeps an execution trace: captures of origins then leave an event in it. Only
// sdk/cputrace writes it.
var Tracing atomic.Bool

// Target is a runtime as the optional packages see it. Its methods may be called from any goroutine.
type Target interface {
	// Context ends when the runtime has ended or has given up: requests must not outlive it.
	Context() context.Context
	// Client talks to the runtime's receiver; nil when the runtime is disabled.
	Client() *otlp.Client
	// Resource is the content of an OTLP Resource that describes the runtime in a recording.
	Resource(recording string) []byte
	// Hold delays the last word of the recording until the returned function is called, for a bounded time: whoever
	// holds still has data to send.
	Hold(recording string) (release func())
	// Capture captures where the caller's caller's caller is, as dear as the recording wants it, and has the recording
	// told its stack. thread and stack are 0 when not captured; all are 0 while not recorded.
	Capture() (thread, unixNanos int64, stack uint64)
}

// Process are the attributes of a resource that describe this process. The sdk package sets it.
var Process func() []attribute.KeyValue

// Sink takes what a runtime's lanes report, instead of a receiver. One goroutine calls it.
type Sink interface {
	// Take takes one record. It must not keep s.
	Take(s *Span)
	// Drained is called when nothing more is there for now. all: nothing may be kept for later.
	Drained(all bool)
}

// SinkOptions configures a runtime with a sink.
type SinkOptions struct {
	MemoryLimit int           // as sdk.Config's
	Drain       time.Duration // between looks at the rings; 0: the default
}

// NewRuntime makes a *sdk.Runtime that is always active and whose records go to s. The sdk package sets it.
var NewRuntime func(s Sink, o SinkOptions) any

// Lane describes a lane to a sink.
type Lane struct {
	Index      uint32
	Name       string
	Attributes []attribute.KeyValue // of its instrumentation scope
}

// Span is one record: a dispatch, a command buffer or a wait.
type Span struct {
	ID            uint64
	CommandBuffer uint64 // that a dispatch belongs to; 0: none
	IsBuffer      bool
	Lane          *Lane // nil: a wait
	Name          string
	Start, End    int64 // Unix ns
	Trace         [16]byte
	Parent        [8]byte // span that was active at the origin, in Trace; zero: none
	Faulted       bool
	Message       string
	Attributes    []attribute.KeyValue
	Events        []Event
	Awaits        []Await // of a wait
}

// Event is a span event.
type Event struct {
	Name       string
	Time       int64
	Attributes []attribute.KeyValue
}

// Await is one thing that a wait awaits.
type Await struct {
	Prefix string // semconv.Await…Prefix
	ID     uint64 // of a dispatch or command buffer
	Queue  string // queue id and submission number, as on the wire
}

// Of returns the target of a runtime, a *sdk.Runtime; nil stands for the default runtime. The sdk package sets it.
var Of func(runtime any) Target
