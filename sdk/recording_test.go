package sdk

import (
	"context"
	"io"
	"runtime/trace"
	"sync"
	"testing"
	"time"

	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/internal/collectortest"
	"github.com/stax-otel/stax/sdk/internal/link"
	"github.com/stax-otel/stax/sdk/semconv"
)

// told collects what a subscriber hears.
type told struct {
	mu   sync.Mutex
	list []Recording
}

func (l *told) hear(r Recording) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r)
}

func (l *told) all() []Recording {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Recording(nil), l.list...)
}

func (l *told) last() Recording { return l.all()[len(l.all())-1] }

func TestSubscribe(t *testing.T) {
	c := collectortest.New(t)
	c.Reply(gate.Reply{
		RecordingID: "r1", SampleHz: 250, SampleBudgetPermille: 50, OriginMode: gate.OriginThread, StopAtUnixNano: 7,
		Timelines: []string{"frames"}, StageResetEpoch: 2,
	})
	rt := newTestRuntime(t, c.Endpoint(), nil)
	var a, b told
	cancel := rt.Subscribe(a.hear) // no lane exists
	if got, want := a.all()[0], (Recording{"r1", 250, 50, OriginThread, 7, []string{"frames"}, 2}); len(a.all()) != 1 || !got.equal(want) {
		t.Fatalf("told %+v at once, want %+v", a.all(), want)
	}
	rt.Subscribe(b.hear)
	rt.Subscribe(func(Recording) { panic("a bad subscriber") })
	c.Record("")
	waitFor(t, "off", func() bool { return a.last().ID == "" && b.last().ID == "" })
	c.Record("r2")
	waitFor(t, "r2", func() bool { return a.last().ID == "r2" && b.last().ID == "r2" })
	cancel()
	heard := len(a.all())
	if err := rt.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(a.all()) != heard {
		t.Error("told after cancel")
	}
	if got := b.all(); got[len(got)-1].ID != "" || len(got) != 4 {
		t.Errorf("told %+v, want r1, off, r2, off", got)
	}
}

func TestSubscribeWithoutCollector(t *testing.T) {
	var l told
	NewRuntime(Config{Endpoint: "off"}).Subscribe(l.hear)
	if got := l.all(); len(got) != 1 || got[0].ID != "" {
		t.Errorf("told %+v, want once, nothing", got)
	}
}

// TestHold keeps the last word of a recording back until the holder lets go, or for too long.
func TestHold(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	rt := newTestRuntime(t, c.Endpoint(), func(cfg *Config) { cfg.timing.drainTimeout = 8 * time.Second })
	rt.Subscribe(func(Recording) {})
	release := link.Of(rt).Hold("r")
	done := make(chan error, 1)
	go func() { done <- rt.Shutdown(context.Background()) }()
	beats := 0
	c.Until("heartbeats after the end", func(v collectortest.View) bool {
		if beats == 0 && rt.Stats().State == StateDisabled {
			beats = len(v.Traces())
		}
		return beats > 0 && len(v.Traces()) > beats+2
	})
	c.See(func(v collectortest.View) {
		if v.Final("r") {
			t.Error("the last word did not wait")
		}
	})
	release()
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	c.See(func(v collectortest.View) {
		if !v.Final("r") {
			t.Error("no last word")
		}
	})
}

func TestHoldIsBounded(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	rt := newTestRuntime(t, c.Endpoint(), nil)
	rt.Subscribe(func(Recording) {})
	link.Of(rt).Hold("r")
	if err := rt.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	c.See(func(v collectortest.View) {
		if !v.Final("r") {
			t.Error("a holder that never lets go took the last word away")
		}
	})
}

func TestGivenOrigins(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	rt := newTestRuntime(t, c.Endpoint(), nil)
	lane := rt.NewLane("l", LaneGeneric)
	d := lane.Dispatch(lane.Name("x"))
	d.Origin(OriginAt(1, 2).WithGoroutine(3).WithThreadLocked())
	d.Completion(OriginAt(4, 5).WithThreadLocked())
	d.FaultOrigin(OriginAt(6, 7).WithGoroutine(8))
	d.Report(1, 2)
	flush(t, rt)
	c.See(func(v collectortest.View) {
		s := v.Spans()[0]
		got := []any{s.Attrs[semconv.OriginGoroutineIDKey], s.Attrs[semconv.OriginThreadLockedKey]}
		for _, e := range s.Events {
			got = append(got, e.Attrs[semconv.OriginGoroutineIDKey], e.Attrs[semconv.OriginThreadLockedKey])
		}
		want := []any{int64(3), true, nil, true, int64(8), nil}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("goroutine and lock of origin, completion, fault: got %v, want %v", got, want)
			}
		}
	})
	if o := OriginAt(1, 2).WithGoroutine(3).WithThreadLocked(); o.GoroutineID() != 3 || !o.ThreadLocked() {
		t.Errorf("got %+v", o)
	}
}

// TestNoAllocationsWhileTraced pins the promise of the hot path while an execution trace runs.
func TestNoAllocationsWhileTraced(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	if err := trace.Start(io.Discard); err != nil {
		t.Skip(err)
	}
	defer trace.Stop()
	link.Tracing.Store(true)
	defer link.Tracing.Store(false)
	_, lane := benchRuntime(t, "stack")
	n := lane.Name("x")
	for name, f := range map[string]func(){
		"dispatch":    func() { d := lane.Dispatch(n); d.CaptureOrigin(context.Background()); d.Report(1, 2) },
		"nil context": func() { lane.CaptureOrigin(nil) }, //nolint:staticcheck // a nil context is allowed here
		"wait":        func() { w := lane.rt.BeginWait(context.Background(), n); w.End() },
	} {
		if got := testing.AllocsPerRun(1000, f); got != 0 {
			t.Errorf("%s: %v allocations per call, want 0", name, got)
		}
	}
}
