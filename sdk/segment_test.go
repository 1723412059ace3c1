package sdk

import (
	"testing"
	"time"

	"github.com/stax-otel/stax/sdk/internal/collectortest"
	"github.com/stax-otel/stax/sdk/semconv"
)

// TestSegments checks the limits of segments, that their roots are there once and linked, and that no command buffer is
// cut, whatever the order in which its parts are reported.
func TestSegments(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	rt := newTestRuntime(t, c.Endpoint(), func(cfg *Config) {
		cfg.timing.segmentSpans, cfg.timing.segmentAge, cfg.timing.batchRecords = 10, time.Hour, 7
	})
	lane, other := rt.NewLane("l", LaneGeneric), rt.NewLane("other", LaneGeneric)
	n := lane.Name("x")
	var late []CommandBuffer
	for i := range 40 {
		cb := lane.CommandBuffer(n)
		for range 3 {
			d := lane.Dispatch(n)
			d.CommandBuffer(cb.ID())
			d.Report(1, 2)
		}
		if i%2 == 0 {
			cb.Report(1, 2)
		} else {
			late = append(late, cb)
		}
		lane.Report(n, 1, 2)
		other.Report(n, 1, 2)
		if i%10 == 0 {
			flush(t, rt)
		}
	}
	for i := range late {
		late[i].Report(1, 2)
	}
	flush(t, rt)
	c.See(func(v collectortest.View) {
		roots := map[string]collectortest.Span{} // by trace
		for _, r := range v.Roots() {
			if _, twice := roots[r.TraceID]; twice {
				t.Errorf("root of %s was sent twice", r.TraceID)
			}
			roots[r.TraceID] = r
		}
		ids := map[string]bool{}
		traceOf := map[string]string{}
		count := map[string]int{}
		for _, s := range v.Spans() {
			if ids[s.SpanID] {
				t.Errorf("span id %s twice", s.SpanID)
			}
			ids[s.SpanID] = true
			traceOf[s.SpanID] = s.TraceID
			count[s.TraceID]++
			root, ok := roots[s.TraceID]
			if !ok {
				t.Fatalf("no root for %s", s.TraceID)
			}
			if s.Scope[semconv.SegmentIDKey] != root.SpanID || root.Scope[semconv.LaneIDKey] != s.Scope[semconv.LaneIDKey] {
				t.Errorf("span and root disagree: %v %v", s.Scope, root.Scope)
			}
		}
		for _, s := range v.Spans() {
			if s.Parent == roots[s.TraceID].SpanID {
				continue
			}
			if traceOf[s.Parent] != s.TraceID {
				t.Errorf("dispatch in %s, its command buffer in %q", s.TraceID, traceOf[s.Parent])
			}
		}
		linked := 0
		for trace, k := range count {
			if k > 10+8 {
				t.Errorf("segment %s has %d spans", trace, k)
			}
			for _, l := range roots[trace].Links {
				if roots[l.TraceID].SpanID != l.SpanID {
					t.Errorf("root links to %+v, which is no root", l)
				}
				linked++
			}
		}
		if linked != len(roots)-2 {
			t.Errorf("%d links between %d segments of 2 lanes", linked, len(roots))
		}
		if n, lost := account(t, v, "r"); n != 40*6 || lost != 0 {
			t.Errorf("%d arrived, %d lost", n, lost)
		}
	})
}

func TestSegmentAge(t *testing.T) {
	rt := localRuntime(t, "")
	rt.cfg.timing.segmentAge = time.Second
	e := newEncoder(rt, rt.cur)
	l := newLaneEncoder(&Lane{rt: rt, index: 1})
	now := time.Now()
	e.reset(now)
	first := e.current(l, &record{})
	e.reset(now.Add(999 * time.Millisecond))
	if e.current(l, &record{}) != first {
		t.Error("segment ended before one second")
	}
	e.reset(now.Add(time.Second))
	if s := e.current(l, &record{}); s == first || s.trace == first.trace || s.root == first.root {
		t.Error("segment went on after one second")
	}
}

// TestForgottenBuffers bounds what a lane remembers.
func TestForgottenBuffers(t *testing.T) {
	rt := localRuntime(t, "")
	e := newEncoder(rt, rt.cur)
	l := newLaneEncoder(&Lane{rt: rt, index: 1})
	e.reset(time.Now())
	for i := range uint64(5 * maxOpenBuffers) {
		e.segmentOf(l, &record{parent: i + 1})
	}
	if n := len(l.young) + len(l.old); n > 2*maxOpenBuffers {
		t.Errorf("a lane remembers %d command buffers", n)
	}
}
