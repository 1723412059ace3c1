package sdk

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// TestNoAllocations pins the promise of the hot path.
func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	off := NewRuntime(Config{Endpoint: "off"}).NewLane("off", LaneGeneric)
	_, stack := benchRuntime(t, "stack")
	_, thread := benchRuntime(t, "thread")
	n, key, text := stack.Name("x"), NewKey("alloc.key"), "a text that is not interned"
	set := NewCounterSet("alloc-set", "Alloc", Counter{"a", UnitCount}, Counter{"b", UnitBytes})
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	rich := func(l *Lane) func() {
		return func() {
			cb := l.CommandBuffer(n)
			d := l.Dispatch(n)
			d.CommandBuffer(cb.ID())
			d.CaptureOrigin(ctx)
			d.Counters(set, AfterDispatch, IntValue(1), FloatValue(2))
			d.Counters(set, "runtime-defined", IntValue(1), CounterError())
			d.Tag(key, text)
			d.TagInt(key, 1)
			d.Fault(text)
			d.Completion(l.CaptureOrigin(ctx))
			d.Report(1, 2)
			cb.CaptureOrigin(ctx)
			cb.Report(1, 2)
			w := l.rt.BeginWait(ctx, n)
			w.Await(d.ID())
			w.AwaitQueue(Queue{1}, 3)
			w.End()
			s := l.Begin(ctx, n)
			s.End()
			l.ReportFrom(l.CaptureOrigin(ctx), n, 1, 2)
		}
	}
	for name, f := range map[string]func(){
		"off":           rich(off),
		"reporting":     func() { ReportingActive() },
		"Report":        func() { stack.Report(n, 1, 2) },
		"Dispatch":      func() { d := stack.Dispatch(n); d.Report(1, 2) },
		"thread origin": func() { d := thread.Dispatch(n); d.CaptureOrigin(ctx); d.Report(1, 2) },
		"stack origin":  func() { d := stack.Dispatch(n); d.CaptureOrigin(ctx); d.Report(1, 2) },
		"counters": func() {
			d := thread.Dispatch(n)
			d.Counters(set, AfterDispatch, IntValue(1), IntValue(2))
			d.Report(1, 2)
		},
		"everything":      rich(stack),
		"never reported":  func() { d := stack.Dispatch(n); d.CaptureOrigin(ctx) },
		"Now":             func() { Now() },
		"free capture":    func() { CaptureOrigin(ctx) },
		"runtime capture": func() { stack.rt.CaptureOrigin(ctx) },
	} {
		if got := testing.AllocsPerRun(1000, f); got != 0 {
			t.Errorf("%s: %v allocations per call, want 0", name, got)
		}
	}
}
