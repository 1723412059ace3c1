package otelsdk

import (
	"context"
	runtimetrace "runtime/trace"
	"sync"
	"unsafe"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/internal/link"
	"github.com/stax-otel/stax/sdk/semconv"
)

// NewSpanProcessor makes a processor for sdktrace.WithSpanProcessor. While a recording of rt (nil: the default runtime)
// wants origins, each span that has no origin yet gets, as it starts, the attributes thread.id and stax.origin.*: OS thread, instant and, when
// the recording wants stacks, the id of the exact stack, which the runtime tells the recording. While sdk/cputrace runs,
// the span's id also stands in the execution trace. While nothing is recorded the cost is one atomic load.
//
// It starts the runtime as its first lane would.
func NewSpanProcessor(rt *sdk.Runtime) sdktrace.SpanProcessor {
	p := &processor{target: link.Of(rt), active: sdk.ReportingActive}
	if rt == nil {
		p.cancel = sdk.Subscribe(func(sdk.Recording) {})
		return p
	}
	p.active = rt.ReportingActive
	p.cancel = rt.Subscribe(func(sdk.Recording) {})
	return p
}

type processor struct {
	target link.Target
	active func() bool
	cancel func()
}

var _ sdktrace.SpanProcessor = (*processor)(nil)

// OnStart implements sdktrace.SpanProcessor.
func (p *processor) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	if !p.active() || hasOrigin(s) {
		return
	}
	thread, at, stack := p.target.Capture()
	if link.Tracing.Load() {
		logSpan(ctx, s.SpanContext().SpanID())
	}
	if at == 0 {
		return
	}
	attrs := make([]attribute.KeyValue, 0, 4)
	if thread != 0 {
		attrs = append(attrs, attribute.Int64(semconv.ThreadIDKey, thread), attribute.Int64(semconv.OriginThreadIDKey, thread))
	}
	attrs = append(attrs, attribute.Int64(semconv.OriginTimeKey, at))
	if stack != 0 {
		attrs = append(attrs, attribute.String(semconv.OriginStackIDKey, sdk.DispatchID(stack).String()))
	}
	s.SetAttributes(attrs...)
}

// hasOrigin reports whether the span says already where it comes from: one of a lane (see [NewRuntime]) starts in a
// goroutine of ours, long after the fact.
func hasOrigin(s sdktrace.ReadWriteSpan) bool {
	if s.InstrumentationScope().Name == scopeName {
		return true
	}
	for _, kv := range s.Attributes() {
		if kv.Key == semconv.OriginTimeKey || kv.Key == semconv.OriginThreadIDKey {
			return true
		}
	}
	return false
}

// OnEnd implements sdktrace.SpanProcessor.
func (*processor) OnEnd(sdktrace.ReadOnlySpan) {}

// Shutdown implements sdktrace.SpanProcessor. The runtime goes on.
func (p *processor) Shutdown(context.Context) error {
	p.cancel()
	return nil
}

// ForceFlush implements sdktrace.SpanProcessor.
func (*processor) ForceFlush(context.Context) error { return nil }

// logBuffers hold the text of one event each: the tracer copies it before it returns, which the compiler cannot know.
var logBuffers = sync.Pool{New: func() any { return new([16]byte) }}

// logSpan leaves the start of a span in the execution trace. It does not allocate.
func logSpan(ctx context.Context, id trace.SpanID) {
	const digits = "0123456789abcdef"
	if ctx == nil {
		ctx = context.Background()
	}
	buf, _ := logBuffers.Get().(*[16]byte)
	for i, c := range id {
		buf[2*i], buf[2*i+1] = digits[c>>4], digits[c&15]
	}
	runtimetrace.Log(ctx, semconv.TraceLogSpan, unsafe.String(&buf[0], len(buf)))
	logBuffers.Put(buf)
}
