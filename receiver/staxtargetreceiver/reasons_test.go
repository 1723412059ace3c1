package staxtargetreceiver

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/metadatatest"
	"github.com/stax-otel/stax/sdk/semconv"
)

// TestRejectedSpans has one row per reason: a request with one good span and one that cannot be taken.
func TestRejectedSpans(t *testing.T) {
	for _, tc := range []struct {
		name   string
		break_ func(ptrace.Span)
		reason string
		signal string // default: dispatch
		noSeq  bool   // the span's own number cannot be read
	}{
		{name: "zero span id", break_: func(s ptrace.Span) { s.SetSpanID(pcommon.SpanID{}) }, reason: "zero_span_id"},
		{name: "zero trace id", break_: func(s ptrace.Span) { s.SetTraceID(pcommon.TraceID{}) }, reason: "zero_trace_id"},
		{name: "seq is a string", break_: func(s ptrace.Span) { s.Attributes().PutStr(semconv.SeqKey, "7") }, reason: "bad_seq", noSeq: true},
		{name: "seq without number", break_: func(s ptrace.Span) { s.Attributes().PutInt(semconv.SeqKey, 3<<48) }, reason: "bad_seq", noSeq: true},
		{name: "unknown span type", break_: func(s ptrace.Span) { s.Attributes().PutStr(semconv.SpanTypeKey, "kernel") }, reason: "bad_span_type"},
		{name: "awaits is a string", break_: func(s ptrace.Span) {
			s.Attributes().PutStr(semconv.WaitAwaitsKey, "dispatch:0000000000000001")
		}, reason: "bad_awaits", signal: "wait"},
		{name: "awaits something unknown", break_: func(s ptrace.Span) {
			s.Attributes().PutEmptySlice(semconv.WaitAwaitsKey).AppendEmpty().SetStr("thread:7")
		}, reason: "bad_awaits", signal: "wait"},
		{name: "counter key without point", break_: func(s ptrace.Span) { s.Attributes().PutInt("stax.counter.set/cycles", 1) }, reason: "bad_counter_key"},
		{name: "counter value is a bool", break_: func(s ptrace.Span) { s.Attributes().PutBool("stax.counter.s/p/cycles", true) }, reason: "wrong_type"},
		{name: "counter state unknown", break_: func(s ptrace.Span) { s.Attributes().PutStr("stax.counter.s/p/cycles", "soon") }, reason: "wrong_type"},
		{name: "queue seq is a string", break_: func(s ptrace.Span) { s.Attributes().PutStr(semconv.QueueSeqKey, "1") }, reason: "wrong_type"},
		{name: "origin kind unknown on a link", break_: func(s ptrace.Span) {
			s.Links().AppendEmpty().Attributes().PutStr(semconv.OriginKindKey, "cause")
		}, reason: "wrong_type"},
		{name: "origin time of an event is a double", break_: func(s ptrace.Span) {
			s.Events().AppendEmpty().Attributes().PutDouble(semconv.OriginTimeKey, 1)
		}, reason: "wrong_type"},
		{name: "stack id in upper case", break_: func(s ptrace.Span) { s.Attributes().PutStr(semconv.OriginStackIDKey, "00000000000000FF") }, reason: "bad_id"},
		{name: "origin trace id too short", break_: func(s ptrace.Span) { s.Attributes().PutStr(semconv.OriginTraceIDKey, "01") }, reason: "bad_id"},
		{name: "command buffer id zero", break_: func(s ptrace.Span) { s.Attributes().PutStr(semconv.CommandBufferIDKey, "0000000000000000") }, reason: "bad_id"},
		{name: "shader id too long", break_: func(s ptrace.Span) { s.Attributes().PutStr(semconv.ShaderIDKey, strings.Repeat("x", 257)) }, reason: "bad_id"},
		{name: "name too long", break_: func(s ptrace.Span) { s.SetName(strings.Repeat("x", 4097)) }, reason: "string_too_long"},
		{name: "event name too long", break_: func(s ptrace.Span) { s.Events().AppendEmpty().SetName(strings.Repeat("x", 4097)) }, reason: "string_too_long"},
		{name: "value too long", break_: func(s ptrace.Span) { s.Attributes().PutStr("model", strings.Repeat("x", 64<<10+1)) }, reason: "string_too_long"},
		{name: "nested value too long", break_: func(s ptrace.Span) {
			v := s.Attributes().PutEmptySlice("models")
			for range 65 {
				v.AppendEmpty().SetStr(strings.Repeat("x", 1<<10))
			}
		}, reason: "string_too_long"},
		{name: "value too deep", break_: func(s ptrace.Span) {
			v := s.Attributes().PutEmptySlice("deep")
			for range 20 {
				v = v.AppendEmpty().SetEmptySlice()
			}
		}, reason: "string_too_long"},
		{name: "key too long", break_: func(s ptrace.Span) { s.Attributes().PutInt(strings.Repeat("k", 257), 1) }, reason: "string_too_long"},
		{name: "too many attributes", break_: func(s ptrace.Span) {
			for i := range 513 {
				s.Attributes().PutInt("k"+time.Duration(i).String(), 1)
			}
		}, reason: "too_many_attributes"},
		{name: "too many attributes on a link", break_: func(s ptrace.Span) {
			l := s.Links().AppendEmpty()
			for i := range 513 {
				l.Attributes().PutInt("k"+time.Duration(i).String(), 1)
			}
		}, reason: "too_many_attributes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			td, ss := laneTraces()
			root := segment(ss)
			good, bad := addSpan(ss, 1), addSpan(ss, 2)
			good.SetParentSpanID(root)
			bad.SetParentSpanID(root)
			bad.Attributes().PutInt(semconv.SeqKey, 3<<48|9)
			tc.break_(bad)

			rejected, message := fx.sendTraces(td)
			assert.EqualValues(t, 1, rejected)
			assert.Contains(t, message, "refused: 1 "+tc.reason+" (")
			require.Len(t, fx.traces.AllTraces(), 1)
			assert.Equal(t, 1, fx.traces.SpanCount())
			assert.Equal(t, spanID(1), fx.traces.AllTraces()[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0).SpanID())

			want := archive.Drop{
				Runtime: testRuntime, Shard: 3, Sequenced: true, Stage: "receiver", Reason: tc.reason, Signal: "dispatch", Count: 1,
			}
			if tc.signal != "" {
				want.Signal = tc.signal
			}
			if tc.noSeq {
				want.Shard, want.Sequenced = 0, false
			}
			drops := fx.rec.TakeDrops()
			require.Len(t, drops, 1)
			drops[0].TimeNanos = 0
			assert.Equal(t, want, drops[0])
			fx.wantRejected(want.Signal, tc.reason, 1)
		})
	}
}

func (fx *fixture) wantRejected(signal, reason string, n int64) {
	fx.t.Helper()
	metadatatest.AssertEqualStaxReceiverRejected(fx.t.(*testing.T), fx.tel, []metricdata.DataPoint[int64]{{
		Attributes: attribute.NewSet(attribute.String("signal", signal), attribute.String("reason", reason)), Value: n,
	}}, metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars())
}

// TestRejectedScopes refuses all spans of a scope.
func TestRejectedScopes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(ptrace.ScopeSpans)
		signal string
		reason string
	}{
		{"kind unknown", func(ss ptrace.ScopeSpans) { ss.Scope().Attributes().PutStr(semconv.LaneKindKey, "quantum") }, "dispatch", "bad_lane_kind"},
		{"kind too long", func(ss ptrace.ScopeSpans) {
			ss.Scope().Attributes().PutStr(semconv.LaneKindKey, strings.Repeat("x", 1<<20))
		}, "dispatch", "string_too_long"},
		{"kind missing", func(ss ptrace.ScopeSpans) { ss.Scope().Attributes().Remove(semconv.LaneKindKey) }, "dispatch", "bad_lane_kind"},
		{"id is an int", func(ss ptrace.ScopeSpans) { ss.Scope().Attributes().PutInt(semconv.LaneIDKey, 1) }, "dispatch", "wrong_type"},
		{"segment is no id", func(ss ptrace.ScopeSpans) { ss.Scope().Attributes().PutStr(semconv.SegmentIDKey, "one") }, "dispatch", "bad_id"},
		{"lane name too long", func(ss ptrace.ScopeSpans) {
			ss.Scope().Attributes().PutStr(semconv.LaneNameKey, strings.Repeat("x", 4097))
		}, "dispatch", "string_too_long"},
		{"scope name too long", func(ss ptrace.ScopeSpans) { ss.Scope().SetName(strings.Repeat("x", 4097)) }, "dispatch", "string_too_long"},
		{"neither id nor name, dispatch", func(ss ptrace.ScopeSpans) {
			ss.Scope().Attributes().Clear()
			ss.Spans().At(0).Attributes().PutStr(semconv.SpanTypeKey, semconv.SpanTypeDispatch)
		}, "dispatch", "missing_lane"},
		{"neither id nor name, command buffer", func(ss ptrace.ScopeSpans) {
			ss.Scope().Attributes().Clear()
			ss.Spans().At(0).Attributes().PutStr(semconv.SpanTypeKey, semconv.SpanTypeCommandBuffer)
		}, "command_buffer", "missing_lane"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			td, ss := laneTraces()
			addSpan(ss, 1).Attributes().PutInt(semconv.SeqKey, 1<<48|1)
			tc.change(ss)
			rejected, message := fx.sendTraces(td)
			assert.EqualValues(t, 1, rejected)
			assert.Contains(t, message, tc.reason)
			assert.Empty(t, fx.traces.AllTraces(), "nothing is left to forward")
			fx.wantRejected(tc.signal, tc.reason, 1)
			drops := fx.rec.TakeDrops()
			require.Len(t, drops, 1)
			assert.Equal(t, uint32(1), drops[0].Shard)
			assert.Equal(t, tc.reason, drops[0].Reason)
		})
	}
}

func TestRejectedResources(t *testing.T) {
	const other = "0123456789abcdef0123456789abcdef"
	for _, tc := range []struct {
		name    string
		opts    []fixtureOption
		change  func(*fixture, pcommon.Map)
		headers []string
		reason  string
	}{
		{name: "no active recording", opts: []fixtureOption{withoutRecording()}, reason: recording.ReasonNoActiveRecording},
		{name: "another process", change: func(_ *fixture, m pcommon.Map) { m.PutInt(semconv.ProcessPIDKey, 1) }, reason: recording.ReasonWrongPID},
		{name: "no process", change: func(_ *fixture, m pcommon.Map) { m.Remove(semconv.ProcessPIDKey) }, reason: recording.ReasonWrongPID},
		{name: "bad token", headers: []string{semconv.HeaderToken, other}, reason: recording.ReasonBadToken},
		{name: "unknown recording", change: func(_ *fixture, m pcommon.Map) { m.PutStr(semconv.RecordingIDKey, "0000") }, reason: recording.ReasonUnknownRecording},
		{name: "finished recording", change: func(fx *fixture, m pcommon.Map) {
			m.PutStr(semconv.RecordingIDKey, string(fx.rec.ID()))
			_, err := fx.manager.Stop(fx.t.Context(), fx.rec.ID(), "test")
			require.NoError(fx.t, err)
		}, reason: recording.ReasonRecordingOver},
		{name: "pid is a string", change: func(_ *fixture, m pcommon.Map) { m.PutStr(semconv.ProcessPIDKey, "1") }, reason: "wrong_type"},
		{name: "runtime id is an int", change: func(_ *fixture, m pcommon.Map) { m.PutInt(semconv.RuntimeIDKey, 1) }, reason: "wrong_type"},
		{name: "runtime id too long", change: func(_ *fixture, m pcommon.Map) { m.PutStr(semconv.RuntimeIDKey, strings.Repeat("x", 257)) }, reason: "bad_id"},
		{name: "recording id is an int", change: func(_ *fixture, m pcommon.Map) { m.PutInt(semconv.RecordingIDKey, 1) }, reason: "wrong_type"},
		{name: "attribute too long", change: func(_ *fixture, m pcommon.Map) { m.PutStr("x", strings.Repeat("x", 1<<20)) }, reason: "string_too_long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t, tc.opts...)
			td, ss := laneTraces()
			addSpan(ss, 1)
			addSpan(ss, 2)
			if tc.change != nil {
				tc.change(fx, td.ResourceSpans().At(0).Resource().Attributes())
			}
			rejected, message := fx.sendTraces(td, tc.headers...)
			assert.EqualValues(t, 2, rejected)
			assert.Contains(t, message, "refused: 2 "+tc.reason+" (")
			assert.Empty(t, fx.traces.AllTraces())
			fx.wantRejected("dispatch", tc.reason, 2)
		})
	}
}

func TestMessageNamesEveryReason(t *testing.T) {
	fx := newFixture(t)
	td, ss := laneTraces()
	for i := range 3 {
		addSpan(ss, byte(i+1)).Attributes().PutStr(semconv.SeqKey, "")
	}
	addSpan(ss, 9).SetSpanID(pcommon.SpanID{})
	rejected, message := fx.sendTraces(td)
	assert.EqualValues(t, 4, rejected)
	assert.Regexp(t, `^refused: 3 bad_seq \(.*\); 1 zero_span_id \(.*\)$`, message)
}

func TestTokenAdmits(t *testing.T) {
	fx := newFixture(t, withRecording(recording.StartOptions{Name: "byToken"}))
	td, ss := laneTraces()
	addSpan(ss, 1)
	td.ResourceSpans().At(0).Resource().Attributes().PutInt(semconv.ProcessPIDKey, 1)
	rejected, message := fx.sendTraces(td, semconv.HeaderToken, fx.rec.Token())
	assert.Zero(t, rejected, message)
	assert.Empty(t, message)
	require.Len(t, fx.traces.AllTraces(), 1)
	got, _ := fx.traces.AllTraces()[0].ResourceSpans().At(0).Resource().Attributes().Get(semconv.RecordingIDKey)
	assert.Equal(t, string(fx.rec.ID()), got.Str())
}

// TestResourceIsMarked: the recording's id overwrites what the target says, a runtime id is derived only when missing.
func TestResourceIsMarked(t *testing.T) {
	fx := newFixture(t)
	mark := func(change func(pcommon.Map)) (recordingID, runtimeID string) {
		fx.traces.Reset()
		td, ss := laneTraces()
		addSpan(ss, 1)
		attrs := td.ResourceSpans().At(0).Resource().Attributes()
		change(attrs)
		rejected, message := fx.sendTraces(td)
		require.Zero(t, rejected, message)
		got := fx.traces.AllTraces()[0].ResourceSpans().At(0).Resource().Attributes()
		a, _ := got.Get(semconv.RecordingIDKey)
		b, _ := got.Get(semconv.RuntimeIDKey)
		return a.Str(), b.Str()
	}
	rec, rt := mark(func(pcommon.Map) {})
	assert.Equal(t, string(fx.rec.ID()), rec)
	assert.Equal(t, testRuntime, rt)

	rec, rt = mark(func(m pcommon.Map) { m.Remove(semconv.RuntimeIDKey) })
	assert.Equal(t, string(fx.rec.ID()), rec)
	assert.Regexp(t, "^[0-9a-f]{32}$", rt)
	_, again := mark(func(m pcommon.Map) { m.Remove(semconv.RuntimeIDKey); m.PutStr("model", "x") })
	assert.Equal(t, rt, again, "stable: free attributes do not change it")
	_, renamed := mark(func(m pcommon.Map) { m.Remove(semconv.RuntimeIDKey); m.PutStr(semconv.ServiceNameKey, "other") })
	assert.NotEqual(t, rt, renamed)
}

// TestTimesAreKept: odd times are neither refused nor changed, only counted.
func TestTimesAreKept(t *testing.T) {
	at := uint64(testNow.UnixNano())
	hour := uint64(time.Hour)
	for _, tc := range []struct {
		name       string
		start, end uint64
		codes      map[string]int64
	}{
		{"fine", at, at + 5, nil},
		{"no duration", at, at, nil},
		{"zero start", 0, at, map[string]int64{"time_zero": 1}},
		{"zero both", 0, 0, map[string]int64{"time_zero": 1}},
		{"all ones", at, 1<<64 - 1, map[string]int64{"time_all_ones": 1}},
		{"end before start", at, at - 1, map[string]int64{"end_before_start": 1}},
		{"two hours ago", at - 2*hour, at, map[string]int64{"outside_recording": 1}},
		{"in two hours", at, at + 2*hour, map[string]int64{"outside_recording": 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			td, ss := laneTraces()
			root := segment(ss)
			s := addSpan(ss, 1)
			s.SetParentSpanID(root)
			s.SetStartTimestamp(pcommon.Timestamp(tc.start))
			s.SetEndTimestamp(pcommon.Timestamp(tc.end))
			rejected, message := fx.sendTraces(td)
			require.Zero(t, rejected)
			require.Empty(t, message)
			got := fx.traces.AllTraces()[0].ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
			assert.Equal(t, tc.start, uint64(got.StartTimestamp()))
			assert.Equal(t, tc.end, uint64(got.EndTimestamp()))
			var want []metricdata.DataPoint[int64]
			for code, n := range tc.codes {
				want = append(want, metricdata.DataPoint[int64]{Attributes: attribute.NewSet(attribute.String("code", code)), Value: n})
			}
			if want == nil {
				_, err := fx.tel.GetMetric("otelcol_stax_receiver_diagnostics")
				require.Error(t, err)
				return
			}
			metadatatest.AssertEqualStaxReceiverDiagnostics(t, fx.tel, want, metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars())
		})
	}
}

func TestImportHasNoWindow(t *testing.T) {
	fx := newFixture(t, withRecording(recording.StartOptions{Mode: modeImport, PIDs: []int{os.Getpid()}}))
	td, ss := laneTraces()
	s := addSpan(ss, 1)
	s.SetStartTimestamp(1)
	s.SetEndTimestamp(2)
	fx.sendTraces(td)
	assert.Equal(t, 2, fx.traces.SpanCount(), "and the segment's root")
	_, err := fx.tel.GetMetric("otelcol_stax_receiver_diagnostics")
	require.Error(t, err)
}

// TestHeartbeat: the final heartbeat is observed only once the next consumer has it.
func TestHeartbeat(t *testing.T) {
	fx := newFixture(t)
	beat := func(change func(pcommon.Map)) (int64, string) {
		td := ptrace.NewTraces()
		rs := td.ResourceSpans().AppendEmpty()
		setResource(rs.Resource())
		rs.Resource().Attributes().PutStr(semconv.RuntimeIDKey, testRuntime)
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName(semconv.ScopeHeartbeat)
		m := ss.Scope().Attributes()
		m.PutInt(semconv.HeartbeatTimeKey, testNow.UnixNano())
		for _, k := range []string{semconv.HeartbeatShardsKey, semconv.HeartbeatEmittedKey, semconv.HeartbeatDroppedFullKey} {
			a := m.PutEmptySlice(k)
			a.AppendEmpty().SetInt(1)
			a.AppendEmpty().SetInt(2)
		}
		change(m)
		return fx.sendTraces(td)
	}
	final := func() bool {
		for _, rt := range fx.rec.Info().Runtimes {
			if rt.Runtime == testRuntime {
				return rt.Final
			}
		}
		t.Fatal("runtime not observed")
		return false
	}

	n, message := beat(func(pcommon.Map) {})
	assert.Zero(t, n)
	assert.Empty(t, message)
	require.Len(t, fx.traces.AllTraces(), 1, "forwarded though it has no span")
	assert.False(t, final())

	for name, broken := range map[string]func(pcommon.Map){
		"no shards":    func(m pcommon.Map) { m.Remove(semconv.HeartbeatShardsKey) },
		"other length": func(m pcommon.Map) { m.PutEmptySlice(semconv.HeartbeatBaseKey).AppendEmpty().SetInt(1) },
		"strings":      func(m pcommon.Map) { m.PutEmptySlice(semconv.HeartbeatBaseKey).AppendEmpty().SetStr("1") },
		"final is 1":   func(m pcommon.Map) { m.PutInt(semconv.HeartbeatFinalKey, 1) },
	} {
		n, message = beat(broken)
		assert.Zero(t, n, name)
		assert.NotEmpty(t, message, name)
		assert.Len(t, fx.traces.AllTraces(), 1, name)
		drops := fx.rec.TakeDrops()
		require.Len(t, drops, 1, name)
		assert.Equal(t, "heartbeat", drops[0].Signal, name)
	}
	assert.False(t, final())

	beat(func(m pcommon.Map) { m.PutBool(semconv.HeartbeatFinalKey, true) })
	assert.True(t, final())
}

func TestFinalHeartbeatOfFailedRequestIsNotObserved(t *testing.T) {
	next := &switchable{err: context.DeadlineExceeded}
	fx := newFixture(t, withTraces(next))
	td := oneSpan()
	ss := td.ResourceSpans().At(0).ScopeSpans().AppendEmpty()
	ss.Scope().SetName(semconv.ScopeHeartbeat)
	ss.Scope().Attributes().PutEmptySlice(semconv.HeartbeatShardsKey)
	ss.Scope().Attributes().PutEmptySlice(semconv.HeartbeatEmittedKey)
	ss.Scope().Attributes().PutBool(semconv.HeartbeatFinalKey, true)
	send := func() { fx.do("POST", pathTraces, typeProto, protoTraces(t, td)) }
	send()
	require.False(t, fx.rec.Info().Runtimes[0].Final)
	next.set(nil)
	send()
	require.True(t, fx.rec.Info().Runtimes[0].Final)
}
