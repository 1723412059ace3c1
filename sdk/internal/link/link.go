// Package link joins the packages of the SDK that are optional (sdk/cputrace, sdk/otelsdk) to its runtime, so that the
// runtime needs no public methods for them and they are linked only into programs that import them.
package link

import (
	"context"
	"sync/atomic"

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
}

// Of returns the target of a runtime, a *sdk.Runtime; nil stands for the default runtime. The sdk package sets it.
var Of func(runtime any) Target
