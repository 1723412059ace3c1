package sdk

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stax-otel/stax/sdk/internal/collectortest"
	"github.com/stax-otel/stax/sdk/otlp"
)

// TestStalledCollector lets the collector hang while goroutines report more than the rings hold: every call returns,
// the newest are dropped, and after the stall the account is exact.
func TestStalledCollector(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	rt := newTestRuntime(t, c.Endpoint(), func(cfg *Config) {
		cfg.MemoryLimit = minMemoryLimit
		cfg.timing.sendTimeout = time.Minute
		cfg.timing.sendBudget = time.Hour
	})
	lane := rt.NewLane("l", LaneGeneric)
	n := lane.Name("x")
	flush(t, rt)
	release := c.Stall()
	const calls = 20000
	begin := time.Now()
	for i := range calls {
		lane.Report(n, Time(i), Time(i+1))
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("%d calls took %v while the collector hangs", calls, d)
	}
	st := rt.Stats()
	if st.Dropped.Full == 0 || st.Emitted != calls || st.Queued+st.Sent+st.Dropped.Full != calls {
		t.Errorf("stats while stalled: %+v", st)
	}
	release()
	flush(t, rt)
	if err := rt.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.See(func(v collectortest.View) {
		arrived, dropped := account(t, v, "r")
		if arrived+dropped != calls || uint64(dropped) != rt.Stats().Dropped.Full {
			t.Errorf("%d arrived + %d dropped, want %d", arrived, dropped, calls)
		}
		first := int64(1 << 62)
		for _, s := range v.Spans() {
			first = min(first, s.Start)
		}
		if first != 0 {
			t.Errorf("the oldest record that arrived is %d: the newest must be dropped, not the oldest", first)
		}
	})
}

func TestRetry(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	rt := newTestRuntime(t, c.Endpoint(), nil)
	lane := rt.NewLane("l", LaneGeneric)
	flush(t, rt)
	c.Force(otlp.TracesPath, http.StatusServiceUnavailable, http.Header{"Retry-After": {"1"}})
	before := 0
	c.See(func(v collectortest.View) { before = v.Attempts(otlp.TracesPath) })
	lane.Report(lane.Name("x"), 1, 2)
	c.Until("retries", func(v collectortest.View) bool { return v.Attempts(otlp.TracesPath) > before+3 })
	c.Force(otlp.TracesPath, 0, nil)
	flush(t, rt)
	c.See(func(v collectortest.View) {
		if arrived, dropped := account(t, v, "r"); arrived != 1 || dropped != 0 {
			t.Errorf("%d arrived, %d dropped", arrived, dropped)
		}
	})
	if st := rt.Stats(); st.Retries < 3 || st.Sent != 1 {
		t.Errorf("stats: %+v", st)
	}
}

// TestRefused gives up what the collector refuses for good, says so in the next heartbeat, and defines stacks again.
func TestRefused(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	rt := newTestRuntime(t, c.Endpoint(), nil)
	lane := rt.NewLane("l", LaneGeneric)
	flush(t, rt)
	c.Force(otlp.TracesPath, http.StatusBadRequest, nil)
	lane.Report(lane.Name("x"), 1, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := rt.Flush(ctx); !errors.Is(err, errGivenUp) {
		t.Errorf("flush: got %v, want errGivenUp", err)
	}
	c.Force(otlp.TracesPath, 0, nil)
	lane.Report(lane.Name("y"), 3, 4)
	flush(t, rt)
	c.See(func(v collectortest.View) {
		if arrived, dropped := account(t, v, "r"); arrived != 1 || dropped != 1 {
			t.Errorf("%d arrived, %d dropped, want 1 and 1", arrived, dropped)
		}
	})
	if st := rt.Stats(); st.Dropped.Send != 1 {
		t.Errorf("stats: %+v", st)
	}
}

func TestPartialSuccess(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	rt := newTestRuntime(t, c.Endpoint(), nil)
	lane := rt.NewLane("l", LaneGeneric)
	flush(t, rt)
	c.Partial([]byte{0x0a, 0x05, 0x08, 0x01, 0x12, 0x01, 'x'})
	lane.Report(lane.Name("x"), 1, 2)
	flush(t, rt)
	if st := rt.Stats(); st.Rejected == 0 || st.Sent != 1 {
		t.Errorf("stats: %+v", st)
	}
}

// TestShutdownWithoutCollector is bounded by the context and counts what it gives up.
func TestShutdownWithoutCollector(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	rt := newTestRuntime(t, c.Endpoint(), nil)
	lane := rt.NewLane("l", LaneGeneric)
	flush(t, rt)
	release := c.Stall()
	defer release()
	lane.Report(lane.Name("x"), 1, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := rt.Shutdown(ctx); err == nil {
		t.Error("shutdown lost a record and said nothing")
	}
	waitFor(t, "the count", func() bool { return rt.Stats().Dropped.Send == 1 })
	if err := rt.Shutdown(t.Context()); err != nil {
		t.Errorf("second shutdown: %v", err)
	}
	if lane.Active() || rt.NewLane("late", LaneGeneric).Active() {
		t.Error("active after shutdown")
	}
	if err := rt.Flush(t.Context()); !errors.Is(err, ErrDisabled) {
		t.Errorf("flush after shutdown: %v", err)
	}
}

func TestShutdownBeforeFirstLane(t *testing.T) {
	rt := NewRuntime(Config{Endpoint: "http://127.0.0.1:1"})
	if err := rt.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l := rt.NewLane("l", LaneGeneric); l.Active() || rt.Stats().State != StateDisabled {
		t.Errorf("stats: %+v", rt.Stats())
	}
}

// TestPanicStaysInside lets the runtime fail: the host goes on, the recording is told, calls are no-ops.
func TestPanicStaysInside(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	rt := newTestRuntime(t, c.Endpoint(), nil)
	lane := rt.NewLane("l", LaneGeneric)
	flush(t, rt)
	rt.protect(func() { panic("test") })
	if st := rt.Stats(); lane.Active() || st.State != StateDisabled || st.Reason != "internal error: test" {
		t.Errorf("stats: %+v", st)
	}
	lane.Report(lane.Name("x"), 1, 2)
	c.Until("the diagnostic", func(v collectortest.View) bool {
		for _, r := range v.Records("stax.diagnostic") {
			if r.Attrs["stax.diagnostic.code"] == "sdk_panic" {
				return true
			}
		}
		return false
	})
}
