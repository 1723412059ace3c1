package otelsdk

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/internal/link"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Options configures [NewRuntime]. The zero Options are right for most programs.
type Options struct {
	// MemoryLimit bounds the memory of the rings, in bytes. 0: sdk.DefaultMemoryLimit.
	MemoryLimit int
}

const (
	scopeName    = "stax"
	holdFor      = 2 * time.Second // for what a record refers to
	maxHeld      = 16 << 10        // records
	maxRemember  = 64 << 10        // spans of a generation of [ids]
	segmentSpans = 5000
	segmentAge   = time.Second
)

// NewRuntime makes a runtime whose lanes emit through tp: it is always active, asks no gate and opens no connection.
// Dispatches, command buffers and waits become spans with their own times, after the fact and in a goroutine of the
// runtime; lanes are tracers with the lane's attributes as instrumentation attributes; each lane's spans stand under
// segment roots, as the stax exporter sends them.
//
// Flush hands everything reported so far to tp, and Shutdown does the same and ends the runtime; neither flushes nor
// shuts down tp, which is the caller's. Origins carry thread, instant and CPU span; stacks are named only while the
// default runtime is recorded by stax, because only it can say what they are.
func NewRuntime(tp trace.TracerProvider, o Options) *sdk.Runtime {
	s := &sink{provider: tp, plain: tp.Tracer(scopeName), lanes: map[uint32]*lane{}, now: time.Now}
	rt, _ := link.NewRuntime(s, link.SinkOptions{MemoryLimit: o.MemoryLimit}).(*sdk.Runtime)
	return rt
}

// sink emits records through a TracerProvider. Only the runtime's goroutine uses it.
type sink struct {
	provider trace.TracerProvider
	plain    trace.Tracer // of waits: they belong to no lane
	lanes    map[uint32]*lane
	ids      ids
	held     []*heldSpan
	attrs    []attribute.KeyValue // scratch
	now      func() time.Time
}

var _ link.Sink = (*sink)(nil)

// lane is a lane's tracer and open segment.
type lane struct {
	tracer trace.Tracer
	root   trace.Span
	ctx    context.Context // holds root
	born   time.Time
	end    int64 // latest of the segment's spans
	spans  int
}

// heldSpan waits for what it refers to.
type heldSpan struct {
	span  link.Span
	until time.Time
}

// Take implements link.Sink.
func (s *sink) Take(sp *link.Span) {
	if !s.ready(sp) && len(s.held) < maxHeld {
		keep := *sp
		keep.Attributes, keep.Events, keep.Awaits = slices.Clone(sp.Attributes), slices.Clone(sp.Events), slices.Clone(sp.Awaits)
		s.held = append(s.held, &heldSpan{span: keep, until: s.now().Add(holdFor)})
		return
	}
	s.emit(sp)
}

// Drained implements link.Sink. Dispatches go before waits: a wait may await one of them.
func (s *sink) Drained(all bool) {
	now := s.now()
	for _, waits := range []bool{false, true} {
		s.held = slices.DeleteFunc(s.held, func(h *heldSpan) bool {
			due := all || now.After(h.until) || s.ready(&h.span)
			if (h.span.Lane == nil) != waits || !due {
				return false
			}
			s.emit(&h.span)
			return true
		})
	}
	for _, l := range s.lanes {
		if l.root != nil && (all || now.Sub(l.born) >= segmentAge) {
			l.close()
		}
	}
}

// ready reports whether everything that the record refers to has an id of the provider.
func (s *sink) ready(sp *link.Span) bool {
	if sp.CommandBuffer != 0 && !s.ids.knows(sp.CommandBuffer) {
		return false
	}
	for _, a := range sp.Awaits {
		if a.ID != 0 && !s.ids.knows(a.ID) {
			return false
		}
	}
	return true
}

func (s *sink) emit(sp *link.Span) {
	if sp.Lane == nil {
		s.wait(sp)
		return
	}
	l := s.laneOf(sp.Lane)
	ctx := l.segment(s, sp)
	s.attrs = append(s.attrs[:0], sp.Attributes...)
	if sp.CommandBuffer != 0 {
		id, parent := s.ids.text(sp.CommandBuffer)
		s.attrs = append(s.attrs, attribute.String(semconv.CommandBufferIDKey, id))
		if parent.IsValid() {
			ctx = trace.ContextWithSpanContext(context.Background(), parent)
		}
	}
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(time.Unix(0, sp.Start)), trace.WithAttributes(s.attrs...),
	}
	if cpu := cpuSpan(sp); cpu.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{
			SpanContext: cpu, Attributes: []attribute.KeyValue{attribute.String(semconv.OriginKindKey, semconv.OriginKindDispatch)},
		}))
	}
	_, span := l.tracer.Start(ctx, sp.Name, options...)
	s.ids.remember(sp.ID, span.SpanContext())
	finish(span, sp)
}

// wait emits a wait: a child of the CPU span that was active, else a trace of its own.
func (s *sink) wait(sp *link.Span) {
	ctx := context.Background()
	if cpu := cpuSpan(sp); cpu.IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, cpu)
	}
	awaits := make([]string, 0, len(sp.Awaits))
	for _, a := range sp.Awaits {
		text := a.Queue
		if a.ID != 0 {
			text, _ = s.ids.text(a.ID)
		}
		awaits = append(awaits, a.Prefix+text)
	}
	s.attrs = append(append(s.attrs[:0], sp.Attributes...), attribute.StringSlice(semconv.WaitAwaitsKey, awaits))
	_, span := s.plain.Start(ctx, sp.Name,
		trace.WithSpanKind(trace.SpanKindInternal), trace.WithTimestamp(time.Unix(0, sp.Start)), trace.WithAttributes(s.attrs...))
	finish(span, sp)
}

func finish(span trace.Span, sp *link.Span) {
	for _, e := range sp.Events {
		span.AddEvent(e.Name, trace.WithTimestamp(time.Unix(0, e.Time)), trace.WithAttributes(e.Attributes...))
	}
	if sp.Faulted {
		span.SetStatus(codes.Error, sp.Message)
	}
	span.End(trace.WithTimestamp(time.Unix(0, sp.End)))
}

// cpuSpan is the span that was active at the origin. Its sampling is not known; it counts as sampled, so that samplers
// that follow the parent keep the wait.
func cpuSpan(sp *link.Span) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: sp.Trace, SpanID: sp.Parent, TraceFlags: trace.FlagsSampled})
}

func (s *sink) laneOf(info *link.Lane) *lane {
	l := s.lanes[info.Index]
	if l == nil {
		l = &lane{tracer: s.provider.Tracer(scopeName, trace.WithInstrumentationAttributes(info.Attributes...))}
		s.lanes[info.Index] = l
	}
	return l
}

// segment returns a context that holds the root of the lane's segment for one more span. Segments are short, so that
// trace viewers can show them; a command buffer's dispatches follow their buffer wherever it is.
func (l *lane) segment(s *sink, sp *link.Span) context.Context {
	now := s.now()
	if l.root != nil && (l.spans >= segmentSpans || now.Sub(l.born) >= segmentAge) {
		l.close()
	}
	if l.root == nil {
		l.ctx, l.root = l.tracer.Start(context.Background(), sp.Lane.Name, trace.WithNewRoot(), trace.WithTimestamp(time.Unix(0, sp.Start)),
			trace.WithAttributes(attribute.String(semconv.SpanTypeKey, semconv.SpanTypeSegment)))
		l.born, l.end, l.spans = now, sp.Start, 0
	}
	l.end = max(l.end, sp.End)
	l.spans++
	return l.ctx
}

func (l *lane) close() {
	l.root.End(trace.WithTimestamp(time.Unix(0, l.end)))
	l.root, l.ctx = nil, nil
}

// ids maps the runtime's ids to the provider's. It remembers the last one to two times maxRemember.
type ids struct {
	young, old map[uint64]trace.SpanContext
}

func (m *ids) remember(id uint64, sc trace.SpanContext) {
	if len(m.young) >= maxRemember {
		m.old, m.young = m.young, nil
	}
	if m.young == nil {
		m.young = map[uint64]trace.SpanContext{}
	}
	m.young[id] = sc
}

func (m *ids) find(id uint64) (trace.SpanContext, bool) {
	if sc, ok := m.young[id]; ok {
		return sc, true
	}
	sc, ok := m.old[id]
	return sc, ok
}

func (m *ids) knows(id uint64) bool {
	_, ok := m.find(id)
	return ok
}

// text is the provider's id, or ours when there is none.
func (m *ids) text(id uint64) (string, trace.SpanContext) {
	if sc, ok := m.find(id); ok && sc.SpanID().IsValid() {
		return sc.SpanID().String(), sc
	}
	return sdk.DispatchID(id).String(), trace.SpanContext{}
}
