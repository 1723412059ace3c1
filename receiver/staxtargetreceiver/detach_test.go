package staxtargetreceiver

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/derive"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/detach"
	"github.com/stax-otel/stax/sdk/semconv"
)

// foreignTrace is what a plain OTel SDK sends: a CPU span, below it a dispatch and a command buffer with a dispatch, a
// dispatch that is a root and only links to the CPU span of its own trace, and a wait; all in one trace.
func foreignTrace() ptrace.Traces {
	td, ss := laneTraces()
	rs := td.ResourceSpans().At(0)
	rs.Resource().Attributes().Remove(semconv.RuntimeIDKey)
	link := func(s ptrace.Span, to byte) {
		l := s.Links().AppendEmpty()
		l.SetTraceID(traceID(1))
		l.SetSpanID(spanID(to))
		l.Attributes().PutStr(semconv.OriginKindKey, semconv.OriginKindDispatch)
	}
	addSpan(ss, 1).SetParentSpanID(spanID(100))
	cb := addSpan(ss, 2)
	cb.SetName("cb")
	cb.SetParentSpanID(spanID(100))
	cb.Attributes().PutStr(semconv.SpanTypeKey, semconv.SpanTypeCommandBuffer)
	addSpan(ss, 3).SetParentSpanID(spanID(2))
	root := addSpan(ss, 4)
	link(root, 100)

	cpu := rs.ScopeSpans().AppendEmpty()
	cpu.Scope().SetName("app")
	addSpan(cpu, 100).SetName("handle request")
	wait := addSpan(cpu, 101)
	wait.SetParentSpanID(spanID(100))
	wait.Attributes().PutEmptySlice(semconv.WaitAwaitsKey).AppendEmpty().SetStr("dispatch:" + spanID(4).String())
	link(wait, 4)
	return td
}

// jaegerParent is the parent that Jaeger's UI gives a span: its first reference, CHILD_OF or FOLLOWS_FROM, whose span is in
// the same trace. References are the parent, then the links.
func jaegerParent(s ptrace.Span, all map[pcommon.SpanID]ptrace.Span) (pcommon.SpanID, bool) {
	refs := []pcommon.SpanID{}
	if !s.ParentSpanID().IsEmpty() {
		refs = append(refs, s.ParentSpanID())
	}
	for _, l := range s.Links().All() {
		if l.TraceID() == s.TraceID() {
			refs = append(refs, l.SpanID())
		}
	}
	for _, r := range refs {
		if p, ok := all[r]; ok && p.TraceID() == s.TraceID() {
			return r, true
		}
	}
	return pcommon.SpanID{}, false
}

// TestForeignSpans: after the receiver no viewer can take provenance for containment.
func TestForeignSpans(t *testing.T) {
	fx := newFixture(t)
	for _, name := range []string{"first request", "second request"} {
		fx.traces.Reset()
		rejected, message := fx.sendTraces(foreignTrace())
		require.Zero(t, rejected, message)
		rs := fx.traces.AllTraces()[0].ResourceSpans().At(0)
		all := map[pcommon.SpanID]ptrace.Span{}
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				all[s.SpanID()] = s
			}
		}
		lane := rs.ScopeSpans().At(0)
		seg, ok := lane.Scope().Attributes().Get(semconv.SegmentIDKey)
		require.True(t, ok)
		var root pcommon.SpanID
		_, err := hex.Decode(root[:], []byte(seg.Str()))
		require.NoError(t, err)

		laneSpans := map[pcommon.SpanID]bool{root: true}
		for _, s := range lane.Spans().All() {
			laneSpans[s.SpanID()] = true
			assert.NotEqual(t, traceID(1), s.TraceID())
			assert.Equal(t, lane.Spans().At(0).TraceID(), s.TraceID(), "one trace per segment")
			for _, l := range s.Links().All() {
				assert.NotEqual(t, s.TraceID(), l.TraceID(), "%s links into its own trace", s.Name())
			}
		}
		for _, s := range lane.Spans().All() {
			if parent, ok := jaegerParent(s, all); ok {
				assert.True(t, laneSpans[parent], "%s: %s is nested below the CPU span %s", name, s.SpanID(), parent)
			}
		}
		if name == "first request" {
			require.Len(t, all, 7, "the root of the segment is new")
			r := all[root]
			assert.True(t, r.ParentSpanID().IsEmpty())
			typ, _ := r.Attributes().Get(semconv.SpanTypeKey)
			assert.Equal(t, semconv.SpanTypeSegment, typ.Str())
			_, sequenced := r.Attributes().Get(semconv.SeqKey)
			assert.False(t, sequenced)
			assert.Equal(t, "gpu queue", r.Name())
		} else if _, ok := all[root]; ok {
			require.Len(t, all, 7, "unless the first segment is over")
		}

		attr := func(id byte, key string) string {
			v, ok := all[spanID(id)].Attributes().Get(key)
			if !ok {
				return ""
			}
			return v.Str()
		}
		for _, id := range []byte{1, 2, 4} {
			assert.Equal(t, root, all[spanID(id)].ParentSpanID())
		}
		assert.Equal(t, spanID(2), all[spanID(3)].ParentSpanID(), "a command buffer stays the parent of its dispatches")
		for id := byte(1); id <= 4; id++ {
			assert.Equal(t, traceID(1).String(), attr(id, semconv.DetachedTraceIDKey))
		}
		assert.Equal(t, spanID(100).String(), attr(1, semconv.DetachedParentSpanIDKey))
		assert.Empty(t, attr(3, semconv.DetachedParentSpanIDKey))
		assert.Empty(t, attr(4, semconv.DetachedParentSpanIDKey))
		assert.Zero(t, all[spanID(1)].Links().Len(), "its parent could be a command buffer that comes later")

		want := foreignTrace().ResourceSpans().At(0).ScopeSpans().At(1)
		assert.Equal(t, want, rs.ScopeSpans().At(1), "spans of no lane are unchanged")
	}
}

// TestOldParentIsOrigin: in a lane without nesting, a parent elsewhere is the CPU span that queued the work, unless the span
// names another.
func TestOldParentIsOrigin(t *testing.T) {
	fx := newFixture(t)
	td, ss := laneTraces()
	addSpan(ss, 1).SetParentSpanID(spanID(100))
	named := addSpan(ss, 2)
	named.SetParentSpanID(spanID(100))
	named.Links().AppendEmpty().SetSpanID(spanID(200))
	named.Links().At(0).SetTraceID(traceID(2))
	addSpan(ss, 3)
	fx.sendTraces(td)
	spans := fx.traces.AllTraces()[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	require.Equal(t, 1, spans.At(0).Links().Len())
	l := spans.At(0).Links().At(0)
	assert.Equal(t, spanID(100), l.SpanID())
	assert.Equal(t, traceID(1), l.TraceID())
	assert.Equal(t, map[string]any{semconv.OriginKindKey: semconv.OriginKindDispatch}, l.Attributes().AsRaw())
	require.Equal(t, 1, spans.At(1).Links().Len())
	assert.Equal(t, spanID(200), spans.At(1).Links().At(0).SpanID())
	assert.Zero(t, spans.At(2).Links().Len())

	fx.traces.Reset()
	td, ss = laneTraces()
	addSpan(ss, 4).Attributes().PutStr(semconv.SpanTypeKey, semconv.SpanTypeCommandBuffer)
	fx.sendTraces(td)
	td, ss = laneTraces()
	addSpan(ss, 5).SetParentSpanID(spanID(99))
	fx.sendTraces(td)
	spans = fx.traces.AllTraces()[1].ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	assert.Zero(t, spans.At(0).Links().Len(), "the lane is known to have command buffers")
}

// TestOwnSpansUntouched: what stax's SDK sends passes as it is.
func TestOwnSpansUntouched(t *testing.T) {
	td, ss := laneTraces()
	root := segment(ss)
	r := addSpan(ss, 0xff)
	r.Attributes().PutStr(semconv.SpanTypeKey, semconv.SpanTypeSegment)
	cb := addSpan(ss, 2)
	cb.SetParentSpanID(root)
	cb.Attributes().PutStr(semconv.SpanTypeKey, semconv.SpanTypeCommandBuffer)
	cb.Attributes().PutInt(semconv.SeqKey, 1)
	d := addSpan(ss, 3)
	d.SetParentSpanID(spanID(2))
	d.Attributes().PutInt(semconv.SeqKey, 2)
	d.Attributes().PutInt("stax.counter.gpu/after_dispatch/cycles", 7)
	l := d.Links().AppendEmpty()
	l.SetTraceID(traceID(9))
	l.SetSpanID(spanID(9))

	fx := newFixture(t)
	rejected, message := fx.sendTraces(td)
	require.Zero(t, rejected, message)
	assert.Equal(t, ss, fx.traces.AllTraces()[0].ResourceSpans().At(0).ScopeSpans().At(0))
}

// TestUndeliveredSegmentRoot: the root of a segment is sent again when its request was refused.
func TestUndeliveredSegmentRoot(t *testing.T) {
	next := &switchable{err: assert.AnError}
	fx := newFixture(t, withTraces(next))
	td, ss := laneTraces()
	addSpan(ss, 1)
	body := protoTraces(t, td)
	require.Equal(t, http.StatusServiceUnavailable, fx.do(http.MethodPost, pathTraces, typeProto, body).code)
	next.set(nil)
	require.Equal(t, http.StatusOK, fx.do(http.MethodPost, pathTraces, typeProto, body).code)
	assert.Equal(t, 2, next.seen)
}

// TestBigForeignRequest: segments are bounded, and never cut a command buffer.
func TestBigForeignRequest(t *testing.T) {
	fx := newFixture(t)
	td, ss := laneTraces()
	id := func(n int) pcommon.SpanID { return pcommon.SpanID{2, 5: byte(n >> 16), 6: byte(n >> 8), 7: byte(n)} }
	n := 0
	for range 4000 {
		cb := addSpan(ss, 0)
		cb.SetSpanID(id(n))
		cb.Attributes().PutStr(semconv.SpanTypeKey, semconv.SpanTypeCommandBuffer)
		parent := n
		n++
		for range 2 {
			d := addSpan(ss, 0)
			d.SetSpanID(id(n))
			d.SetParentSpanID(id(parent))
			n++
		}
	}
	rejected, message := fx.sendTraces(td)
	require.Zero(t, rejected, message)
	rs := fx.traces.AllTraces()[0].ResourceSpans().At(0)
	require.Equal(t, 3, rs.ScopeSpans().Len())
	seen := map[pcommon.TraceID]bool{}
	for _, ss := range rs.ScopeSpans().All() {
		assert.LessOrEqual(t, ss.Spans().Len(), detach.MaxSpans+3)
		trace := ss.Spans().At(0).TraceID()
		assert.False(t, seen[trace])
		seen[trace] = true
		in := map[pcommon.SpanID]bool{}
		for _, s := range ss.Spans().All() {
			in[s.SpanID()] = true
			assert.Equal(t, trace, s.TraceID())
		}
		for _, s := range ss.Spans().All() {
			assert.True(t, s.ParentSpanID().IsEmpty() || in[s.ParentSpanID()])
		}
	}
	assert.Equal(t, n+3, fx.traces.SpanCount())
}

// TestDerivedMetrics sends dispatches with counters and reads the metrics that the receiver makes of them.
func TestDerivedMetrics(t *testing.T) {
	fx := newFixture(t)
	require.Equal(t, http.StatusOK, fx.do(http.MethodPost, pathLogs, typeProto, counterSetLog(t)).code)
	for foreign := range 2 { // final ids and detached ones give the same
		td, ss := laneTraces()
		var root pcommon.SpanID
		if foreign == 0 {
			root = segment(ss)
		}
		for i := range 3 {
			s := addSpan(ss, byte(10*foreign+i+1))
			s.SetParentSpanID(root)
			s.Attributes().PutInt("stax.counter.gpu/after_dispatch/bytes read", int64(100*(i+1)))
			s.Attributes().PutDouble("stax.counter.gpu/after_dispatch/busy", 50)
			if i == 2 {
				s.Attributes().PutStr("stax.counter.gpu/after_dispatch/cycles", "error")
			}
		}
		fx.sendTraces(td)
	}
	fx.r.emit(t.Context())
	require.Len(t, fx.metrics.AllMetrics(), 1)
	rm := fx.metrics.AllMetrics()[0].ResourceMetrics().At(0)
	pid, _ := rm.Resource().Attributes().Get(semconv.ProcessPIDKey)
	assert.Equal(t, int64(os.Getpid()), pid.Int())
	rec, _ := rm.Resource().Attributes().Get(semconv.RecordingIDKey)
	assert.Equal(t, string(fx.rec.ID()), rec.Str())
	sm := rm.ScopeMetrics().At(0)
	assert.Equal(t, semconv.ScopeDerived, sm.Scope().Name())
	byName := map[string]pmetric.Metric{}
	for _, m := range sm.Metrics().All() {
		byName[m.Name()] = m
	}
	point := func(name, unit string) pmetric.NumberDataPoint {
		m, ok := byName[name]
		require.True(t, ok, "%s in %v", name, byName)
		assert.Equal(t, unit, m.Unit(), name)
		if m.Type() == pmetric.MetricTypeGauge {
			require.Equal(t, 1, m.Gauge().DataPoints().Len())
			return m.Gauge().DataPoints().At(0)
		}
		assert.True(t, m.Sum().IsMonotonic())
		assert.Equal(t, pmetric.AggregationTemporalityCumulative, m.Sum().AggregationTemporality())
		require.Equal(t, 1, m.Sum().DataPoints().Len(), name)
		return m.Sum().DataPoints().At(0)
	}
	assert.Equal(t, map[string]any{semconv.LaneNameKey: "gpu queue", semconv.LaneKindKey: "gpu"},
		point(derive.MetricDispatches, "{dispatch}").Attributes().AsRaw())
	assert.EqualValues(t, 6, point(derive.MetricDispatches, "{dispatch}").IntValue())
	assert.EqualValues(t, 6_000_000, point(derive.MetricDispatchTime, "ns").IntValue())
	read := point("stax.counter.gpu.bytes read", "By")
	assert.EqualValues(t, 1200, read.IntValue())
	assert.Equal(t, map[string]any{
		semconv.LaneNameKey: "gpu queue", semconv.LaneKindKey: "gpu", semconv.DispatchNameKey: "matmul",
		semconv.CounterSetKey: "gpu", semconv.CounterNameKey: "bytes read", semconv.CounterPointKey: "after_dispatch",
	}, read.Attributes().AsRaw())
	require.Equal(t, 1, read.Exemplars().Len())
	assert.Equal(t, spanID(3), read.Exemplars().At(0).SpanID())
	assert.EqualValues(t, 300, read.Exemplars().At(0).IntValue())
	assert.InDelta(t, 50, point("stax.counter.gpu.busy", "%").DoubleValue(), 0)
	bad := point(derive.MetricUnavailable, "{value}")
	assert.EqualValues(t, 2, bad.IntValue())
	state, _ := bad.Attributes().Get(semconv.CounterStateKey)
	assert.Equal(t, "error", state.Str())

	fx.r.emit(t.Context())
	assert.Len(t, fx.metrics.AllMetrics(), 1, "nothing changed")
	fx.sendTraces(oneSpan())
	require.NoError(t, fx.r.Shutdown(t.Context()))
	assert.Len(t, fx.metrics.AllMetrics(), 2, "Shutdown emits the last values")
}

// TestDerivedMetricsRefused: sums are cumulative, so the next emission has what was refused.
func TestDerivedMetricsRefused(t *testing.T) {
	next := &switchable{err: assert.AnError}
	fx := newFixture(t, withMetrics(next))
	fx.sendTraces(oneSpan())
	fx.r.emit(t.Context())
	md, ok := fx.r.deriver.Metrics()
	require.True(t, ok)
	assert.Positive(t, md.DataPointCount())
}

// TestDerivedMetricsRetire: a finished recording leaves nothing behind.
func TestDerivedMetricsRetire(t *testing.T) {
	fx := newFixture(t)
	fx.sendTraces(oneSpan())
	assert.Positive(t, fx.r.deriver.Series())
	_, err := fx.manager.Stop(t.Context(), fx.rec.ID(), "test")
	require.NoError(t, err)
	fx.r.emit(t.Context())
	assert.Len(t, fx.metrics.AllMetrics(), 1, "the last values are emitted first")
	assert.Zero(t, fx.r.deriver.Series())
}

func TestForeignSpanInDeclaredSegment(t *testing.T) {
	for name, break_ := range map[string]func(ptrace.Span){
		"another root": func(s ptrace.Span) { s.SetParentSpanID(pcommon.SpanID{}) },
		"link into its own trace": func(s ptrace.Span) {
			l := s.Links().AppendEmpty()
			l.SetTraceID(s.TraceID())
			l.SetSpanID(spanID(100))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			td, ss := laneTraces()
			root := segment(ss)
			for i := range 2 {
				s := addSpan(ss, byte(i+1))
				s.SetParentSpanID(root)
				if i == 1 {
					break_(s)
				}
			}
			fx.sendTraces(td)
			for _, s := range fx.traces.AllTraces()[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
				assert.NotEqual(t, traceID(1), s.TraceID())
				for _, l := range s.Links().All() {
					assert.NotEqual(t, s.TraceID(), l.TraceID())
				}
			}
			m, err := fx.tel.GetMetric("otelcol_stax_receiver_detached")
			require.NoError(t, err, fmt.Sprint(m))
		})
	}
}
