package otlprows

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// recorder is a user that remembers nothing and writes down what it is told.
type recorder struct {
	lanes   []Lane
	threads map[int64]string
	drops   []string
	foreign int
}

func (r *recorder) Lane(l Lane) { r.lanes = append(r.lanes, l) }
func (r *recorder) Thread(id int64, name string) {
	if r.threads == nil {
		r.threads = map[int64]string{}
	}
	r.threads[id] = name
}
func (r *recorder) Intern(b []byte) string                                     { return string(b) }
func (r *recorder) HoldsStack(archive.StackID) bool                            { return false }
func (r *recorder) HoldsCounters(archive.CounterSetID, []archive.Counter) bool { return false }
func (r *recorder) Drop(seq archive.Seq, signal, reason string, n int) {
	r.drops = append(r.drops, fmt.Sprintf("%d %s %s @%d", n, signal, reason, seq.N))
}
func (r *recorder) ForeignSpan(ptrace.ResourceSpans, ptrace.ScopeSpans, ptrace.Span) { r.foreign++ }
func (r *recorder) ForeignLog(plog.ResourceLogs, plog.ScopeLogs, plog.LogRecord)     { r.foreign++ }
func newSpan(to ptrace.SpanSlice, id byte, attributes map[string]any) (s ptrace.Span) {
	s = to.AppendEmpty()
	s.SetSpanID(pcommon.SpanID{7: id})
	s.SetTraceID(pcommon.TraceID{1})
	if err := s.Attributes().FromRaw(attributes); err != nil {
		panic(err)
	}
	return s
}

func TestKinds(t *testing.T) {
	awaits := []any{"dispatch:0000000000000001", "command_buffer:0000000000000002", "queue:q@7", "queue:a@b"}
	for name, c := range map[string]struct {
		lane       bool
		id         byte
		attributes map[string]any
		want       Kind
		drops      []string
	}{
		"plain span":                 {false, 1, nil, KindForeign, nil},
		"plain span in a lane":       {true, 1, nil, KindDispatch, nil},
		"dispatch":                   {true, 1, map[string]any{semconv.SpanTypeKey: semconv.SpanTypeDispatch}, KindDispatch, nil},
		"dispatch without a lane":    {false, 1, map[string]any{semconv.SpanTypeKey: semconv.SpanTypeDispatch}, KindDropped, []string{"1 span unknown_span_type @0"}},
		"command buffer":             {true, 1, map[string]any{semconv.SpanTypeKey: semconv.SpanTypeCommandBuffer}, KindCommandBuffer, nil},
		"segment":                    {true, 1, map[string]any{semconv.SpanTypeKey: semconv.SpanTypeSegment}, KindSegment, nil},
		"wait by its awaits":         {false, 1, map[string]any{semconv.WaitAwaitsKey: awaits}, KindWait, nil},
		"wait that awaits nonsense":  {false, 1, map[string]any{semconv.WaitAwaitsKey: []any{"fish:1"}}, KindDropped, []string{"1 wait bad_attribute @0"}},
		"type of another version":    {true, 1, map[string]any{semconv.SpanTypeKey: "dream", semconv.SeqKey: 1<<seqBits | 5}, KindDropped, []string{"1 span unknown_span_type @5"}},
		"type that is no text":       {true, 1, map[string]any{semconv.SpanTypeKey: 1}, KindDropped, []string{"1 span unknown_span_type @0"}},
		"no id":                      {true, 0, nil, KindDropped, []string{"1 dispatch zero_id @0"}},
		"thread that is no number":   {true, 1, map[string]any{semconv.OriginThreadIDKey: "7"}, KindDropped, []string{"1 dispatch bad_attribute @0"}},
		"counter without a set":      {true, 1, map[string]any{semconv.CounterPrefix + "x": 1}, KindDispatch, []string{"1 counter bad_counter @0"}},
		"verdicts of a linker":       {true, 1, map[string]any{semconv.ContainmentClassKey: 7, semconv.OriginGradeKey: 1.5}, KindDispatch, nil},
		"locked that is no boolean":  {true, 1, map[string]any{semconv.OriginThreadLockedKey: "yes"}, KindDropped, []string{"1 dispatch bad_attribute @0"}},
		"stack id of the wrong size": {true, 1, map[string]any{semconv.OriginStackIDKey: "ff"}, KindDropped, []string{"1 dispatch bad_attribute @0"}},
	} {
		t.Run(name, func(t *testing.T) {
			var b archive.Batch
			var conv Converter
			r := &recorder{}
			conv.Begin(&b, "rt", r)
			scope := pcommon.NewInstrumentationScope()
			if c.lane {
				scope.Attributes().PutStr(semconv.LaneIDKey, "l")
			}
			sc := ReadScope(scope)
			got := conv.Span(&sc, newSpan(ptrace.NewSpanSlice(), c.id, c.attributes))
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.drops, r.drops)
			assert.Len(t, b.Dispatches, map[Kind]int{c.want: 1}[KindDispatch])
			assert.Len(t, b.CommandBuffers, map[Kind]int{c.want: 1}[KindCommandBuffer])
			assert.Len(t, b.Waits, map[Kind]int{c.want: 1}[KindWait])
			assert.Len(t, b.Awaits, map[Kind]int{c.want: len(awaits)}[KindWait], "of a wait that is dropped nothing stays")
		})
	}
}

func TestOriginOfADispatch(t *testing.T) {
	var b archive.Batch
	var conv Converter
	r := &recorder{}
	conv.Begin(&b, "rt", r)
	scope := pcommon.NewInstrumentationScope()
	scope.Attributes().PutStr(semconv.LaneIDKey, "l")
	sc := ReadScope(scope)
	s := newSpan(ptrace.NewSpanSlice(), 1, map[string]any{
		semconv.OriginThreadIDKey: 7, semconv.OriginTimeKey: 9, semconv.OriginThreadLockedKey: true, "model": "llama",
		semconv.CodeFunctionNameKey: "kept",
	})
	link := s.Links().AppendEmpty()
	link.SetTraceID(pcommon.TraceID{0xab})
	link.SetSpanID(pcommon.SpanID{7: 0xcd})
	link.Attributes().PutInt(semconv.OriginGoroutineIDKey, 3)
	require.Equal(t, KindDispatch, conv.Span(&sc, s))
	assert.Equal(t, archive.Origin{
		ThreadID: 7, GoroutineID: 3, TimeNanos: 9, ThreadLocked: true, CPUTrace: archive.TraceID{0xab}, CPUSpan: 0xcd,
	}, b.Dispatches[0].Origin)
	assert.JSONEq(t, `{"code.function.name":"kept","model":"llama"}`, b.Dispatches[0].Tags)
	assert.Equal(t, map[int64]string{7: ""}, r.threads)
	assert.Empty(t, r.drops)
}

func TestReadRuntime(t *testing.T) {
	m := pcommon.NewMap()
	row := archive.Runtime{ServiceName: "old", ClockErrorNanos: -1}
	ReadRuntime(&row, m)
	assert.Equal(t, archive.Runtime{ServiceName: "old", ClockErrorNanos: -1}, row, "what is not said stays")
	require.NoError(t, m.FromRaw(map[string]any{
		semconv.ProcessPIDKey: 5, semconv.ProcessParentPIDKey: "4", semconv.ServiceNameKey: "", semconv.TelemetrySDKNameKey: "stax",
		semconv.ClockErrorNanosKey: math.MaxInt64,
	}))
	ReadRuntime(&row, m)
	assert.Equal(t, archive.Runtime{
		ServiceName: "old", PID: 5, TargetPID: 5, SDKName: "stax", Sequenced: true, ClockErrorNanos: math.MaxInt64,
	}, row, "another type is not said")
	assert.Equal(t, archive.RuntimeID("pid-5"), RuntimeID(m))
	m.PutStr(semconv.RuntimeIDKey, "r")
	assert.Equal(t, archive.RuntimeID("r"), RuntimeID(m))
}

var update = flag.Bool("update", false, "write the seeds in testdata")

// saveSeed writes the request that a fuzz target begins with, with -update. The order of attributes in it is random, and the
// fuzzing engine needs one that stays.
func saveSeed(f *testing.F, seed []byte) {
	if *update {
		dir := filepath.Join("testdata", "fuzz", f.Name())
		require.NoError(f, os.MkdirAll(dir, 0o755))
		require.NoError(f, os.WriteFile(filepath.Join(dir, "request"), fmt.Appendf(nil, "go test fuzz v1\n[]byte(%q)\n", seed), 0o644))
	}
}

// FuzzSpans: whatever comes in a request, every span becomes one row, is counted, or is not part of the model.
func FuzzSpans(f *testing.F) {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().Attributes().PutStr(semconv.LaneIDKey, "l")
	d := newSpan(ss.Spans(), 1, map[string]any{
		semconv.OriginThreadIDKey: 7, semconv.OriginStackIDKey: "00000000000000ff", semconv.CounterPrefix + "s/p/n": 1,
		"deep": map[string]any{"a": []any{1, 2.5, true, nil, []byte{1}}},
	})
	d.Events().AppendEmpty().SetName(semconv.EventFault)
	d.Links().AppendEmpty().Attributes().PutStr(semconv.OriginKindKey, semconv.OriginKindCompletion)
	newSpan(rs.ScopeSpans().AppendEmpty().Spans(), 2, map[string]any{semconv.WaitAwaitsKey: []any{"queue:q@1", "dispatch:0000000000000001"}})
	heartbeat := rs.ScopeSpans().AppendEmpty()
	heartbeat.Scope().SetName(semconv.ScopeHeartbeat)
	if err := heartbeat.Scope().Attributes().FromRaw(map[string]any{
		semconv.HeartbeatTimeKey: 1, semconv.HeartbeatShardsKey: []any{0}, semconv.HeartbeatBaseKey: []any{0}, semconv.HeartbeatEmittedKey: []any{1},
		semconv.HeartbeatDroppedFullKey: []any{0}, semconv.HeartbeatDroppedSendKey: []any{0}, semconv.HeartbeatDroppedOtherKey: []any{0},
	}); err != nil {
		f.Fatal(err)
	}
	seed, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	if err != nil {
		f.Fatal(err)
	}
	saveSeed(f, seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(data)
		if err != nil {
			return
		}
		var b archive.Batch
		var conv Converter
		for _, rs := range td.ResourceSpans().All() {
			r := &recorder{}
			conv.Begin(&b, RuntimeID(rs.Resource().Attributes()), r)
			for _, ss := range rs.ScopeSpans().All() {
				sc := ReadScope(ss.Scope())
				for _, s := range ss.Spans().All() {
					before, drops := len(b.Dispatches)+len(b.CommandBuffers)+len(b.Waits), len(r.drops)
					kind := conv.Span(&sc, s)
					rows := len(b.Dispatches) + len(b.CommandBuffers) + len(b.Waits) - before
					if (kind > KindDropped) != (rows == 1) || rows > 1 {
						t.Fatalf("kind %d made %d rows", kind, rows)
					}
					if kind == KindDropped && len(r.drops) == drops {
						t.Fatal("dropped and not counted")
					}
				}
			}
			conv.Spans(rs)
			conv.Release()
		}
	})
}

// FuzzLogs: whatever comes in a request of logs does no harm.
func FuzzLogs(f *testing.F) {
	ld := plog.NewLogs()
	records := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords()
	for event, attributes := range map[string]map[string]any{
		semconv.EventLane:       {semconv.LaneIDKey: "l", semconv.LaneKindKey: "gpu"},
		semconv.EventStack:      {semconv.StackIDKey: "00000000000000ff", semconv.StackFunctionsKey: []any{"f"}, semconv.StackFilesKey: []any{"f.go"}, semconv.StackLinesKey: []any{1}},
		semconv.EventCounterSet: {semconv.CounterSetIDKey: "s", semconv.CounterSetNamesKey: []any{"n"}, semconv.CounterSetUnitsKey: []any{"bytes"}},
		semconv.EventClockSample: {
			semconv.ClockNameKey: "monotonic", semconv.ClockRawTicksKey: 1, semconv.ClockUnixNanosKey: 2, semconv.ClockBracketNanosKey: 3,
		},
		semconv.EventDiagnostic: {semconv.DiagnosticCodeKey: "c"},
		"other":                 nil,
	} {
		lr := records.AppendEmpty()
		lr.SetEventName(event)
		if err := lr.Attributes().FromRaw(attributes); err != nil {
			f.Fatal(err)
		}
	}
	seed, err := (&plog.ProtoMarshaler{}).MarshalLogs(ld)
	if err != nil {
		f.Fatal(err)
	}
	saveSeed(f, seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		ld, err := (&plog.ProtoUnmarshaler{}).UnmarshalLogs(data)
		if err != nil {
			return
		}
		var b archive.Batch
		var conv Converter
		for _, rl := range ld.ResourceLogs().All() {
			r := &recorder{}
			conv.Begin(&b, "rt", r)
			conv.Logs(rl, 1)
			records := 0
			for _, sl := range rl.ScopeLogs().All() {
				records += sl.LogRecords().Len()
			}
			if n := len(r.drops) + r.foreign + len(r.lanes); n > records {
				t.Fatalf("%d records had %d outcomes", records, n)
			}
		}
	})
}
