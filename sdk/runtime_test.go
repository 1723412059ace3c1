package sdk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stax-otel/stax/sdk/internal/collectortest"
	"github.com/stax-otel/stax/sdk/semconv"
)

// quick makes the intervals short, so that tests wait for events and not for time. The grace time stays long: on a busy
// machine a short question may time out, and only tests of that shorten it.
var quick = timing{
	drain: 2 * time.Millisecond, heartbeat: 20 * time.Millisecond, poll: 20 * time.Millisecond, firstPoll: 5 * time.Second,
	pollRetry: 5 * time.Millisecond, grace: time.Minute, hold: 5 * time.Second, sendTimeout: 2 * time.Second,
	sendBudget: 5 * time.Second, backoff: 2 * time.Millisecond, maxBackoff: 20 * time.Millisecond, drainTimeout: 500 * time.Millisecond,
}

func newTestRuntime(t testing.TB, endpoint string, change func(*Config)) *Runtime {
	t.Helper()
	cfg := Config{Endpoint: endpoint, Token: "secret", ServiceName: "svc", timing: quick}
	if change != nil {
		change(&cfg)
	}
	rt := NewRuntime(cfg)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = rt.Shutdown(ctx)
	})
	return rt
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func flush(t testing.TB, rt *Runtime) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := rt.Flush(ctx); err != nil {
		t.Fatalf("flush: %v", err)
	}
}

// account checks a heartbeat: per shard the records that arrived plus those dropped are exactly those owed.
func account(t testing.TB, v collectortest.View, recording string) (arrived, dropped int64) {
	t.Helper()
	h := v.LastHeartbeat(recording)
	if h == nil {
		t.Fatalf("no heartbeat of %s", recording)
	}
	got := map[int64]map[int64]bool{}
	for _, r := range v.Traces() {
		if r.Resource[semconv.RecordingIDKey] != recording {
			continue
		}
		for _, s := range r.Spans {
			if seq, ok := s.Attrs[semconv.SeqKey].(int64); ok {
				if got[seq>>48] == nil {
					got[seq>>48] = map[int64]bool{}
				}
				if got[seq>>48][seq&(1<<48-1)] {
					t.Errorf("sequence number %d/%d arrived twice", seq>>48, seq&(1<<48-1))
				}
				got[seq>>48][seq&(1<<48-1)] = true
			}
		}
	}
	col := func(key string) []int64 { l, _ := h[key].([]int64); return l }
	shards := col(semconv.HeartbeatShardsKey)
	for i, s := range shards {
		owed := col(semconv.HeartbeatEmittedKey)[i] - col(semconv.HeartbeatBaseKey)[i]
		lost := col(semconv.HeartbeatDroppedFullKey)[i] + col(semconv.HeartbeatDroppedSendKey)[i] + col(semconv.HeartbeatDroppedOtherKey)[i]
		if n := int64(len(got[s])); n+lost != owed {
			t.Errorf("shard %d: %d arrived + %d dropped, owed %d", s, n, lost, owed)
		}
		arrived += int64(len(got[s]))
		dropped += lost
		delete(got, s)
	}
	for s := range got {
		t.Errorf("shard %d arrived without heartbeat", s)
	}
	return arrived, dropped
}

func TestRecordsEndToEnd(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			var c *collectortest.Collector
			if network == "tcp" {
				c = collectortest.New(t)
			} else {
				c = collectortest.NewUnix(t, t.TempDir()+"/s.sock")
			}
			c.Record("rec1")
			rt := newTestRuntime(t, c.Endpoint(), nil)
			lane := rt.NewLane("pool", LaneThreadPool, WithQueue("q0"), WithClockError(7))
			if !lane.Active() {
				t.Fatal("lane is not active after the synchronous first question")
			}
			set := NewCounterSet("rt-set", "Set", Counter{"reads", UnitBytes}, Counter{"busy", UnitPercent}, Counter{"a", UnitCount}, Counter{"b", UnitCount})
			cb := lane.CommandBuffer(lane.Name("frame"))
			d := lane.Dispatch(lane.Name("draw"))
			d.CommandBuffer(cb.ID())
			d.Queue(NewQueue("q1"), 9)
			d.Shader(NewShader("sh"))
			d.CaptureOrigin(t.Context())
			d.Counters(set, AfterDispatch, IntValue(-3), FloatValue(2.5), CounterError(), CounterUnresolved())
			d.Tag(NewKey("model"), "m")
			d.Tag(NewKey("model"), "ignored")
			d.TagInt(NewKey("batch"), 4)
			d.TagFloat(NewKey("rate"), 0.5)
			d.Completion(OriginAt(11, 500))
			d.FaultOrigin(OriginAt(12, 600))
			d.Fault("boom")
			d.Report(100, 200)
			cb.Report(90, 210)
			w := rt.BeginWait(t.Context(), NewName("sync"))
			w.Await(d.ID())
			w.AwaitCommandBuffer(cb.ID())
			w.AwaitQueue(NewQueue("q1"), 9)
			w.AwaitQueue(NewQueue("q0"), 0)
			w.AwaitQueue(NewQueue("q@"), 0)
			w.EndTimedOut()
			lane.Report(lane.Name("plain"), -1, 0)
			flush(t, rt)

			c.See(func(v collectortest.View) {
				spans := map[string]collectortest.Span{}
				for _, s := range v.Spans() {
					spans[s.Name] = s
				}
				if len(spans) != 4 {
					t.Fatalf("got %d spans, want 4: %v", len(spans), spans)
				}
				draw, frame, wait, plain := spans["draw"], spans["frame"], spans["sync"], spans["plain"]
				id := func(v uint64) string { return fmt.Sprintf("%016x", v) }
				if draw.SpanID != id(uint64(d.ID())) || draw.Parent != id(uint64(cb.ID())) || draw.Kind != 5 || draw.Start != 100 || draw.End != 200 {
					t.Errorf("draw: got %+v", draw)
				}
				want := map[string]any{
					"stax.queue.id": "q1", "stax.queue.seq": int64(9), "stax.shader.id": "sh", "model": "m", "batch": int64(4), "rate": 0.5,
					"stax.counter.rt-set/after_dispatch/reads": int64(-3), "stax.counter.rt-set/after_dispatch/busy": 2.5,
					"stax.counter.rt-set/after_dispatch/a": "error", "stax.counter.rt-set/after_dispatch/b": "unresolved",
				}
				for k, x := range want {
					if draw.Attrs[k] != x {
						t.Errorf("draw: %s = %v, want %v", k, draw.Attrs[k], x)
					}
				}
				if draw.Dropped != 1 || draw.StatusCode != 2 || draw.StatusMessage != "boom" {
					t.Errorf("draw: dropped %d, status %d %q", draw.Dropped, draw.StatusCode, draw.StatusMessage)
				}
				if len(draw.Events) != 2 || draw.Events[0].Name != "stax.completion" || draw.Events[0].Attrs["stax.origin.thread_id"] != int64(11) ||
					draw.Events[1].Name != "stax.fault" || draw.Events[1].Attrs["stax.origin.time_unix_nano"] != int64(600) {
					t.Errorf("draw: events %+v", draw.Events)
				}
				if frame.Attrs["stax.span.type"] != "command_buffer" || frame.TraceID != draw.TraceID || frame.Attrs["stax.queue.id"] != "q0" {
					t.Errorf("frame: got %+v", frame)
				}
				if plain.Start != -1 || plain.End != 0 {
					t.Errorf("plain: nonsense times were changed: %d %d", plain.Start, plain.End)
				}
				if wait.Attrs["stax.span.type"] != "wait" || wait.Kind != 1 || wait.Attrs["stax.wait.timed_out"] != true || len(wait.Scope) != 0 {
					t.Errorf("wait: got %+v", wait)
				}
				awaits := []string{"dispatch:" + id(uint64(d.ID())), "command_buffer:" + id(uint64(cb.ID())), "queue:q1@9", "queue:q0", "queue:q_"}
				if got := wait.Attrs["stax.wait.awaits"]; !slices.Equal(got.([]string), awaits) {
					t.Errorf("wait: awaits %v, want %v", got, awaits)
				}
				roots := v.Roots()
				if len(roots) != 1 || frame.Parent != roots[0].SpanID || plain.Parent != roots[0].SpanID || roots[0].Start != roots[0].End {
					t.Errorf("roots: got %+v", roots)
				}
				scope := map[string]any{"stax.lane.id": "1", "stax.lane.name": "pool", "stax.lane.kind": "thread_pool", "stax.lane.clock_error_ns": int64(7), "stax.segment.id": roots[0].SpanID}
				for k, x := range scope {
					if draw.Scope[k] != x {
						t.Errorf("scope: %s = %v, want %v", k, draw.Scope[k], x)
					}
				}
				stack := draw.Attrs["stax.origin.stack_id"]
				var stackRecord *collectortest.Record
				for _, r := range v.Records("stax.stack") {
					if r.Attrs["stax.stack.id"] == stack {
						stackRecord = &r
					}
				}
				if stackRecord == nil {
					t.Fatalf("stack %v is not defined", stack)
				}
				if fn := stackRecord.Attrs["stax.stack.functions"].([]string)[0]; !strings.Contains(fn, "TestRecordsEndToEnd") {
					t.Errorf("leaf is %s", fn)
				}
				var frames []Frame
				for i, fn := range stackRecord.Attrs["stax.stack.functions"].([]string) {
					frames = append(frames, Frame{fn, stackRecord.Attrs["stax.stack.files"].([]string)[i], int(stackRecord.Attrs["stax.stack.lines"].([]int64)[i])})
				}
				if got := fmt.Sprintf("%016x", StackID(frames)); got != stack {
					t.Errorf("StackID of the frames is %s, want %s", got, stack)
				}
				if len(v.Records("stax.lane")) != 1 || len(v.Records("stax.clock_sample")) == 0 {
					t.Error("registrations are missing")
				}
				found := false
				for _, r := range v.Records("stax.counter_set") {
					if r.Attrs["stax.counter_set.id"] == "rt-set" {
						found = slices.Equal(r.Attrs["stax.counter_set.names"].([]string), []string{"reads", "busy", "a", "b"}) &&
							slices.Equal(r.Attrs["stax.counter_set.units"].([]string), []string{"bytes", "percent", "count", "count"})
					}
				}
				if !found {
					t.Error("counter set is not registered")
				}
				if v.Order()[0] != "logs" {
					t.Errorf("order %v: logs must come first", v.Order())
				}
				for _, r := range append(slices.Clone(v.Traces()), v.Logs()...) {
					if r.Token != "secret" || r.Resource["stax.recording.id"] != "rec1" || r.Resource["service.name"] != "svc" ||
						r.Resource["stax.runtime.id"] != rt.ID() || r.Schema != semconv.SchemaURL {
						t.Errorf("resource: %v token %q schema %q", r.Resource, r.Token, r.Schema)
					}
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := rt.Shutdown(ctx); err != nil {
				t.Fatal(err)
			}
			c.See(func(v collectortest.View) {
				if !v.Final("rec1") {
					t.Error("no final heartbeat")
				}
				if n, lost := account(t, v, "rec1"); n != 4 || lost != 0 {
					t.Errorf("account: %d arrived, %d lost", n, lost)
				}
			})
			st := rt.Stats()
			if st.State != StateDisabled || st.Emitted != 4 || st.Sent != 4 || st.Queued != 0 {
				t.Errorf("stats after shutdown: %+v", st)
			}
		})
	}
}

// A target that never pauses is told the clock as often as an idle one.
func TestBusyTargetSendsClockSamples(t *testing.T) {
	c := collectortest.New(t)
	c.Record("rec1")
	rt := newTestRuntime(t, c.Endpoint(), func(cfg *Config) { cfg.timing.heartbeat = 200 * time.Millisecond })
	lane := rt.NewLane("busy", LaneGeneric)
	waitFor(t, "gate", lane.Active)
	name := NewName("work")
	c.Until("three clock samples", func(v collectortest.View) bool {
		lane.Report(name, 1, 2) // each request is answered by a record for the next one, so the idle heartbeat is never due
		return len(v.Records(semconv.EventClockSample)) >= 3
	})
}
