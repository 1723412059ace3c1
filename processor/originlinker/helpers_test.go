package originlinker

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/processor/xprocessor"

	"github.com/stax-otel/stax/processor/originlinker/internal/metadata"
	"github.com/stax-otel/stax/sdk/semconv"
)

const (
	testRuntime = "000102030405060708090a0b0c0d0e0f"
	testStack   = "00000000000000ff"
)

// rig is a linker in three pipelines.
type rig struct {
	t        *testing.T
	host     component.Host
	cfg      *Config
	tel      *componenttest.Telemetry
	traces   processor.Traces
	logs     processor.Logs
	profiles xprocessor.Profiles
	out      *consumertest.TracesSink
	logsOut  *consumertest.LogsSink
}

func newRig(t *testing.T, change func(*Config)) *rig {
	return newRigWith(t, componenttest.NewNopHost(), change)
}

func newRigWith(t *testing.T, host component.Host, change func(*Config)) *rig {
	r := &rig{t: t, host: host, out: new(consumertest.TracesSink)}
	r.build(change, r.out)
	r.start()
	return r
}

func (r *rig) build(change func(*Config), next consumer.Traces) {
	t := r.t
	r.logsOut = new(consumertest.LogsSink)
	if r.host == nil {
		r.host = componenttest.NewNopHost()
	}
	f := NewFactory()
	r.cfg = f.CreateDefaultConfig().(*Config)
	if change != nil {
		change(r.cfg)
	}
	require.NoError(t, r.cfg.Validate())
	r.tel = componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, r.tel.Shutdown(context.WithoutCancel(t.Context()))) })
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = r.tel.NewTelemetrySettings()
	var err error
	r.traces, err = f.CreateTraces(t.Context(), set, r.cfg, next)
	require.NoError(t, err)
	r.logs, err = f.CreateLogs(t.Context(), set, r.cfg, r.logsOut)
	require.NoError(t, err)
	var sink xconsumer.Profiles = new(consumertest.ProfilesSink)
	r.profiles, err = f.(xprocessor.Factory).CreateProfiles(t.Context(), set, r.cfg, sink)
	require.NoError(t, err)
}

func (r *rig) start() {
	for _, c := range []component.Component{r.traces, r.logs, r.profiles} {
		require.NoError(r.t, c.Start(r.t.Context(), r.host))
	}
}

func (r *rig) stop() {
	require.NoError(r.t, r.traces.Shutdown(r.t.Context()))
	require.NoError(r.t, r.logs.Shutdown(r.t.Context()))
	require.NoError(r.t, r.profiles.Shutdown(r.t.Context()))
}

func (r *rig) send(td ptrace.Traces) { require.NoError(r.t, r.traces.ConsumeTraces(r.t.Context(), td)) }

// spans returns what came out so far, by name.
func (r *rig) spans() map[string]ptrace.Span {
	out := map[string]ptrace.Span{}
	for _, td := range r.out.AllTraces() {
		eachSpan(td, func(_ pcommon.InstrumentationScope, s ptrace.Span) {
			require.NotContains(r.t, out, s.Name(), "came twice")
			out[s.Name()] = s
		})
	}
	return out
}

func eachSpan(td ptrace.Traces, f func(pcommon.InstrumentationScope, ptrace.Span)) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				f(ss.Scope(), s)
			}
		}
	}
}

func text(s ptrace.Span, key string) string {
	if s == (ptrace.Span{}) {
		return "no such span"
	}
	if v, ok := s.Attributes().Get(key); ok {
		return v.AsString()
	}
	return ""
}

// builder makes requests of one runtime.
type builder struct {
	ptrace.Traces
	rs   ptrace.ResourceSpans
	lane ptrace.SpanSlice
	cpu  ptrace.SpanSlice
}

func resource(r pcommon.Resource) {
	a := r.Attributes()
	a.PutStr(semconv.RecordingIDKey, "r1")
	a.PutStr(semconv.RuntimeIDKey, testRuntime)
	a.PutInt(semconv.ProcessPIDKey, 4242)
	a.PutStr(semconv.TelemetrySDKLanguageKey, "go")
	a.PutStr(semconv.ServiceNameKey, "svc")
}

func newRequest() *builder {
	b := &builder{Traces: ptrace.NewTraces()}
	b.rs = b.ResourceSpans().AppendEmpty()
	resource(b.rs.Resource())
	lane := b.rs.ScopeSpans().AppendEmpty()
	lane.Scope().Attributes().PutStr(semconv.LaneIDKey, "l1")
	lane.Scope().Attributes().PutStr(semconv.LaneNameKey, "gpu")
	lane.Scope().Attributes().PutStr(semconv.LaneKindKey, "metal")
	b.lane = lane.Spans()
	b.cpu = b.rs.ScopeSpans().AppendEmpty().Spans()
	return b
}

func span(to ptrace.SpanSlice, trace byte, id uint64, name string, start, end int64) ptrace.Span {
	s := to.AppendEmpty()
	s.SetTraceID(pcommon.TraceID{trace})
	var sid pcommon.SpanID
	binary.BigEndian.PutUint64(sid[:], id)
	s.SetSpanID(sid)
	s.SetName(name)
	s.SetStartTimestamp(pcommon.Timestamp(start))
	s.SetEndTimestamp(pcommon.Timestamp(end))
	return s
}

// dispatch adds a dispatch that was queued at an instant by thread 7 with the stack testStack.
func (b *builder) dispatch(id uint64, name string, queued, start, end int64) ptrace.Span {
	s := span(b.lane, 1, id, name, start, end)
	s.SetKind(ptrace.SpanKindConsumer)
	s.Attributes().PutInt(semconv.OriginThreadIDKey, 7)
	s.Attributes().PutInt(semconv.OriginTimeKey, queued)
	s.Attributes().PutStr(semconv.OriginStackIDKey, testStack)
	return s
}

func (b *builder) wait(id uint64, name string, begin, end int64, awaits ...string) ptrace.Span {
	s := span(b.cpu, 2, id, name, begin, end)
	s.Attributes().PutInt(semconv.ThreadIDKey, 7)
	to := s.Attributes().PutEmptySlice(semconv.WaitAwaitsKey)
	for _, a := range awaits {
		to.AppendEmpty().SetStr(a)
	}
	return s
}

// stackLogs defines testStack.
func stackLogs() plog.Logs {
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	resource(rl.Resource())
	lr := rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	lr.SetEventName(semconv.EventStack)
	lr.Attributes().PutStr(semconv.StackIDKey, testStack)
	for key, values := range map[string][]string{
		semconv.StackFunctionsKey: {"main.encode", "main.main"}, semconv.StackFilesKey: {"/src/encode.go", "/src/main.go"},
	} {
		sl := lr.Attributes().PutEmptySlice(key)
		for _, v := range values {
			sl.AppendEmpty().SetStr(v)
		}
	}
	sl := lr.Attributes().PutEmptySlice(semconv.StackLinesKey)
	sl.AppendEmpty().SetInt(12)
	sl.AppendEmpty().SetInt(34)
	return ld
}
