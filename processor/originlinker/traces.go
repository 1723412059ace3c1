package originlinker

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/stax-otel/stax/internal/otlprows"
)

// Outcomes: why target spans were resolved when they were.
const (
	outcomeHeld     = "held"
	outcomeOverflow = "overflow"
	outcomeShutdown = "shutdown"
)

// tracesNode holds the target spans of one traces pipeline, request by request and in the order in which they came.
type tracesNode struct {
	node
	next consumer.Traces

	mu        sync.Mutex
	queue     []held
	closed    bool
	releasing sync.WaitGroup // requests that were taken from the queue and are not forwarded yet

	wake    chan struct{} // the queue has a first request
	stop    chan struct{}
	stopped chan struct{} // closed when the releasing goroutine has ended; nil before Start
}

// held is what one request brought that is held.
type held struct {
	traces ptrace.Traces
	spans  int
	bytes  int
	due    time.Time
}

func newTracesNode(l *linker, next consumer.Traces) *tracesNode {
	return &tracesNode{node: node{linker: l}, next: next, wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// Capabilities implements consumer.Traces: verdicts are written on the spans.
func (n *tracesNode) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: true}
}

// Start implements component.Component.
func (n *tracesNode) Start(ctx context.Context, host component.Host) error {
	if err := n.node.Start(ctx, host); err != nil {
		return err
	}
	n.stopped = make(chan struct{})
	go n.run()
	return nil
}

// Shutdown resolves and forwards what this node holds: the next component lives only until it returns.
func (n *tracesNode) Shutdown(ctx context.Context) error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	n.mu.Unlock()
	close(n.stop)
	if n.stopped != nil {
		<-n.stopped
	}
	n.releaseWhile(outcomeShutdown, func(held) bool { return true })
	n.releasing.Wait()
	return n.node.Shutdown(ctx)
}

// ConsumeTraces implements consumer.Traces. Spans that are not part of the model are forwarded before it returns, with their
// context; their error is the caller's, who then brings the whole request again. Target spans are taken over.
func (n *tracesNode) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	var kinds []otlprows.Kind
	for _, rs := range td.ResourceSpans().All() {
		kinds = n.linker.evidence(rs.Resource()).observeSpans(rs, kinds)
	}
	target, ok := split(td, kinds)
	if !ok {
		return n.next.ConsumeTraces(ctx, td)
	}
	if td.ResourceSpans().Len() > 0 {
		if err := n.next.ConsumeTraces(ctx, td); err != nil {
			return err
		}
	}
	n.hold(target)
	return nil
}

// held reports whether spans of a kind are held. Roots of segments are containers without verdicts, but they belong with
// the dispatches that they came with.
func isHeld(k otlprows.Kind) bool { return k > otlprows.KindDropped || k == otlprows.KindSegment }

// split moves the target spans of td to traces of their own, with their resources and scopes. kinds are those of all spans,
// in order. It reports false when there are none; when there are only such, td itself is what is returned.
func split(td ptrace.Traces, kinds []otlprows.Kind) (ptrace.Traces, bool) {
	held, segments := 0, 0
	for _, k := range kinds {
		switch {
		case k == otlprows.KindSegment:
			segments++
		case isHeld(k):
			held++
		}
	}
	switch {
	case held == 0:
		return ptrace.Traces{}, false
	case held+segments == len(kinds):
		whole := ptrace.NewTraces()
		td.MoveTo(whole)
		return whole, true
	}
	out := ptrace.NewTraces()
	at := 0
	td.ResourceSpans().RemoveIf(func(rs ptrace.ResourceSpans) bool {
		var to ptrace.ResourceSpans
		moved := false
		rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool {
			var spans ptrace.SpanSlice
			movedHere := false
			ss.Spans().RemoveIf(func(s ptrace.Span) bool {
				k := kinds[at]
				at++
				if !isHeld(k) {
					return false
				}
				if !moved {
					moved = true
					to = out.ResourceSpans().AppendEmpty()
					rs.Resource().CopyTo(to.Resource())
					to.SetSchemaUrl(rs.SchemaUrl())
				}
				if !movedHere {
					movedHere = true
					toScope := to.ScopeSpans().AppendEmpty()
					ss.Scope().CopyTo(toScope.Scope())
					toScope.SetSchemaUrl(ss.SchemaUrl())
					spans = toScope.Spans()
				}
				s.MoveTo(spans.AppendEmpty())
				return true
			})
			return movedHere && ss.Spans().Len() == 0
		})
		return moved && rs.ScopeSpans().Len() == 0
	})
	return out, true
}

var sizer ptrace.ProtoMarshaler

// hold takes target spans over.
func (n *tracesNode) hold(td ptrace.Traces) {
	l := n.linker
	h := held{traces: td, spans: td.SpanCount(), bytes: sizer.TracesSize(td), due: l.now().Add(l.cfg.Hold)}
	l.spans.Add(int64(h.spans))
	l.bytes.Add(int64(h.bytes))
	l.telemetry.StaxLinkerHeld.Add(context.Background(), int64(h.spans))
	n.mu.Lock()
	n.queue = append(n.queue, h)
	closed := n.closed
	n.mu.Unlock()
	switch {
	case closed: // only a pipeline that breaks the collector's contract gets here
		n.releaseWhile(outcomeShutdown, func(held) bool { return true })
	case l.cfg.Hold == 0:
		n.releaseWhile(outcomeHeld, func(held) bool { return true })
	default:
		n.releaseWhile(outcomeOverflow, func(held) bool { return l.full() })
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// run releases what is due until the node stops.
func (n *tracesNode) run() {
	defer close(n.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := n.linker.now()
		n.releaseWhile(outcomeHeld, func(h held) bool { return !h.due.After(now) })
		n.mu.Lock()
		var next <-chan time.Time
		if len(n.queue) > 0 {
			timer.Reset(n.queue[0].due.Sub(n.linker.now()))
			next = timer.C
		}
		n.mu.Unlock()
		select {
		case <-n.stop:
			return
		case <-next:
		case <-n.wake:
		}
	}
}

// releaseWhile resolves and forwards the oldest requests as long as the condition holds.
func (n *tracesNode) releaseWhile(outcome string, condition func(held) bool) {
	for {
		n.mu.Lock()
		if len(n.queue) == 0 || !condition(n.queue[0]) {
			n.mu.Unlock()
			return
		}
		h := n.queue[0]
		n.queue[0] = held{}
		n.queue = n.queue[1:]
		if len(n.queue) == 0 {
			n.queue = nil
		}
		n.releasing.Add(1)
		n.mu.Unlock()
		n.release(h, outcome)
		n.releasing.Done()
	}
}

// release resolves one request and forwards it. What was held has been acknowledged, so nobody is left to tell of an error.
func (n *tracesNode) release(h held, outcome string) {
	l := n.linker
	ctx := context.Background()
	t := newTally()
	resources := h.traces.ResourceSpans()
	for i := range resources.Len() { // wall traces are appended to them
		rs := resources.At(i)
		ev := l.evidence(rs.Resource())
		ev.resolve(rs, h.traces, t)
		t.refused += int64(ev.takeRefused())
	}
	l.spans.Add(-int64(h.spans))
	l.bytes.Add(-int64(h.bytes))
	l.telemetry.StaxLinkerHeld.Add(ctx, -int64(h.spans))
	t.report(ctx, l.telemetry, outcome, h.spans)
	if err := n.next.ConsumeTraces(ctx, h.traces); err != nil {
		l.telemetry.StaxLinkerFailed.Add(ctx, int64(h.spans))
		if !l.refusing.Swap(true) {
			l.log.Error("resolved spans are refused by the next component and lost on this path; "+
				"give its exporter a sending_queue and retry_on_failure", zap.Error(err))
		}
		return
	}
	if l.refusing.Swap(false) {
		l.log.Info("resolved spans are taken again")
	}
}
