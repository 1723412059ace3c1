package originlinker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/stax-otel/stax/processor/originlinker/internal/metadatatest"
	"github.com/stax-otel/stax/sdk/semconv"
)

// ms returns an instant of the recording.
func ms(n int64) int64 { return time.Now().Add(-time.Minute).UnixNano()/1e9*1e9 + n*1e6 }

func TestTargetSpansAreHeldAndOthersAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.stop()
		req := newRequest()
		span(req.lane, 1, 99, "segment", ms(0), ms(100)).Attributes().PutStr(semconv.SpanTypeKey, semconv.SpanTypeSegment)
		req.dispatch(1, "mul", ms(10), ms(20), ms(30))
		req.wait(2, "wait", ms(11), ms(31), "dispatch:0000000000000001")
		span(req.cpu, 3, 5, "GET /", ms(0), ms(90))
		req.dispatch(3, "add", ms(12), ms(30), ms(40))
		r.send(req.Traces)
		assert.Len(t, r.spans(), 1, "only the CPU span")
		assert.Contains(t, r.spans(), "GET /")

		time.Sleep(r.cfg.Hold - time.Millisecond)
		synctest.Wait()
		assert.Len(t, r.spans(), 1)
		require.NoError(t, r.logs.ConsumeLogs(t.Context(), stackLogs())) // late, but not too late
		assert.Equal(t, 1, r.logsOut.LogRecordCount())
		time.Sleep(time.Millisecond)
		synctest.Wait()
		got := r.spans()
		require.Len(t, got, 5)
		require.Len(t, r.out.AllTraces(), 2, "what came together is forwarded together")

		mul := got["mul"]
		assert.Equal(t, "linked", text(mul, semconv.OriginStatusKey))
		assert.Equal(t, "A", text(mul, semconv.OriginGradeKey))
		assert.Equal(t, "main.encode", text(mul, semconv.CodeFunctionNameKey))
		assert.Equal(t, "/src/encode.go", text(mul, semconv.CodeFilePathKey))
		assert.Equal(t, "12", text(mul, semconv.CodeLineNumberKey))
		assert.NotContains(t, mul.Attributes().AsRaw(), semconv.CodeStacktraceKey)
		assert.NotContains(t, mul.Attributes().AsRaw(), semconv.OriginDistanceNanosKey, "an exact stack has no distance")
		assert.Equal(t, "synchronous", text(mul, semconv.ContainmentClassKey))
		assert.Equal(t, "0000000000000002", text(mul, semconv.ContainmentWaitIDKey))
		assert.Equal(t, "10000000", text(mul, semconv.ContainmentOwnedNanosKey))
		assert.Equal(t, "asynchronous", text(got["add"], semconv.ContainmentClassKey))
		assert.NotContains(t, got["add"].Attributes().AsRaw(), semconv.ContainmentWaitIDKey)
		assert.Equal(t, "missing_thread", text(got["wait"], semconv.OriginStatusKey), "there are no samples")
		assert.NotContains(t, got["wait"].Attributes().AsRaw(), semconv.ContainmentClassKey)
		assert.Empty(t, got["GET /"].Attributes().AsRaw())
		assert.Empty(t, text(got["segment"], semconv.ContainmentClassKey))
		for name, s := range got {
			assert.True(t, s.ParentSpanID().IsEmpty(), "%s: nothing is nested", name)
		}
		metadatatest.AssertEqualStaxLinkerSpans(t, r.tel, []metricdata.DataPoint[int64]{
			{Value: 4, Attributes: attribute.NewSet(attribute.String("outcome", "held"))},
		}, metricdatatest.IgnoreTimestamp())
		metadatatest.AssertEqualStaxLinkerHeld(t, r.tel, []metricdata.DataPoint[int64]{{Value: 0}}, metricdatatest.IgnoreTimestamp())
	})
}

func TestOverflowResolvesTheOldestAtOnce(t *testing.T) {
	pair := func(i uint64) ptrace.Traces {
		req := newRequest()
		for j := range uint64(2) {
			req.dispatch(10*i+j+1, fmt.Sprintf("d%d%d", i, j), 1e18, 1e18+1, 1e18+2)
		}
		return req.Traces
	}
	for name, change := range map[string]func(*Config){
		"spans": func(c *Config) { c.MaxHeldSpans = 4 },
		"bytes": func(c *Config) { c.MaxHeldBytes = int64(2 * sizer.TracesSize(pair(0))) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, change)
				defer r.stop()
				for i := range uint64(3) {
					r.send(pair(i))
				}
				got := r.spans()
				require.Len(t, got, 2)
				assert.Equal(t, "unproven", text(got["d00"], semconv.ContainmentClassKey))
				assert.Equal(t, "no_waits", text(got["d00"], semconv.ContainmentReasonKey))
				huge := newRequest()
				for j := range uint64(20) {
					huge.dispatch(100+j, fmt.Sprint("h", j), ms(1), ms(2), ms(3))
				}
				r.send(huge.Traces)
				assert.Len(t, r.spans(), 26, "what does not fit at all is not held at all")
				metadatatest.AssertEqualStaxLinkerSpans(t, r.tel, []metricdata.DataPoint[int64]{
					{Value: 26, Attributes: attribute.NewSet(attribute.String("outcome", "overflow"))},
				}, metricdatatest.IgnoreTimestamp())
			})
		})
	}
}

func TestShutdownForwardsEverything(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Hold, c.EvidenceAge = time.Hour, 2*time.Hour })
	req := newRequest()
	req.dispatch(1, "mul", ms(1), ms(2), ms(3))
	r.send(req.Traces)
	require.Empty(t, r.spans())
	require.NoError(t, r.traces.Shutdown(t.Context()))
	assert.Equal(t, "unproven", text(r.spans()["mul"], semconv.ContainmentClassKey))
	metadatatest.AssertEqualStaxLinkerSpans(t, r.tel, []metricdata.DataPoint[int64]{
		{Value: 1, Attributes: attribute.NewSet(attribute.String("outcome", "shutdown"))},
	}, metricdatatest.IgnoreTimestamp())

	// Other pipelines stop later and may still be fed.
	require.NoError(t, r.logs.ConsumeLogs(t.Context(), stackLogs()))
	late := newRequest()
	late.dispatch(2, "late", ms(1), ms(2), ms(3))
	require.NoError(t, r.traces.ConsumeTraces(t.Context(), late.Traces))
	assert.Equal(t, "linked", text(r.spans()["late"], semconv.OriginStatusKey), "the state lives until the last node stops")
	require.NoError(t, r.traces.Shutdown(t.Context()), "twice")
	require.NoError(t, r.logs.Shutdown(t.Context()))
	require.NoError(t, r.profiles.Shutdown(t.Context()))
}

func TestLateAndOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.stop()
		at := ms(0) // the wait comes first, the dispatch a second later, the end of it all much later
		first := newRequest()
		first.wait(2, "wait", at+11, at+31, "dispatch:0000000000000001")
		r.send(first.Traces)
		time.Sleep(time.Second)
		second := newRequest()
		second.dispatch(1, "mul", at+10, at+20, at+30)
		r.send(second.Traces)
		time.Sleep(r.cfg.Hold)
		synctest.Wait()
		require.Len(t, r.spans(), 2)
		assert.Equal(t, "synchronous", text(r.spans()["mul"], semconv.ContainmentClassKey))
		assert.Equal(t, "missing_thread", text(r.spans()["mul"], semconv.OriginStatusKey), "its stack is not known")
		assert.NotContains(t, r.spans()["mul"].Attributes().AsRaw(), semconv.CodeFunctionNameKey)

		// What comes after the verdict changes nothing that was forwarded, and serves what follows.
		require.NoError(t, r.logs.ConsumeLogs(t.Context(), stackLogs()))
		third := newRequest()
		third.dispatch(3, "add", at+12, at+20, at+30)
		r.send(third.Traces)
		time.Sleep(r.cfg.Hold)
		synctest.Wait()
		assert.Equal(t, "linked", text(r.spans()["add"], semconv.OriginStatusKey))
	})
}

func TestHoldZeroResolvesAtOnce(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Hold = 0 })
	defer r.stop()
	req := newRequest()
	req.dispatch(1, "mul", ms(1), ms(2), ms(3))
	r.send(req.Traces)
	assert.Contains(t, r.spans(), "mul")
}

func TestVerdictsOfEventsCommandBuffersAndOwnCode(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Hold, c.Stacktrace = 0, true })
	defer r.stop()
	require.NoError(t, r.logs.ConsumeLogs(t.Context(), stackLogs()))
	req := newRequest()
	cb := req.dispatch(9, "buffer", ms(1), ms(2), ms(3))
	cb.Attributes().PutStr(semconv.SpanTypeKey, semconv.SpanTypeCommandBuffer)
	d := req.dispatch(1, "mul", ms(1), ms(2), ms(3))
	d.Attributes().PutStr(semconv.CodeFunctionNameKey, "kernel_main")
	for range 2 {
		e := d.Events().AppendEmpty()
		e.SetName(semconv.EventCompletion)
		e.Attributes().PutInt(semconv.OriginThreadIDKey, 7)
		e.Attributes().PutInt(semconv.OriginTimeKey, ms(4))
		e.Attributes().PutStr(semconv.OriginStackIDKey, testStack)
	}
	d.Events().AppendEmpty().SetName("other")
	link := d.Links().AppendEmpty()
	link.SetTraceID(pcommon.TraceID{0xab})
	link.SetSpanID(pcommon.SpanID{0xcd})
	r.send(req.Traces)
	buffer, mul := r.spans()["buffer"], r.spans()["mul"]
	assert.Equal(t, "linked", text(buffer, semconv.OriginStatusKey))
	assert.NotContains(t, buffer.Attributes().AsRaw(), semconv.ContainmentClassKey)
	assert.Equal(t, "main.encode\n\t/src/encode.go:12\nmain.main\n\t/src/main.go:34\n", text(buffer, semconv.CodeStacktraceKey))
	assert.Equal(t, "cd00000000000000", text(mul, semconv.OriginSpanIDKey), "what the link says, where viewers look")
	assert.Equal(t, "ab000000000000000000000000000000", text(mul, semconv.OriginTraceIDKey))
	assert.Equal(t, "kernel_main", text(mul, semconv.CodeFunctionNameKey), "the target's own")
	for i := range 2 {
		assert.Equal(t, "linked", mul.Events().At(i).Attributes().AsRaw()[semconv.OriginStatusKey])
	}
	assert.Empty(t, mul.Events().At(2).Attributes().AsRaw())
}

func TestWallTraceNestsOnlyWhatIsProven(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Hold, c.EvidenceAge, c.WallTrace = time.Hour, 2*time.Hour, true })
	req := newRequest()
	req.dispatch(1, "sync", ms(10), ms(20), ms(30))
	req.dispatch(2, "sync too", ms(10), ms(30), ms(40))
	req.dispatch(3, "async", ms(10), ms(40), ms(50))
	req.dispatch(4, "timed out", ms(10), ms(50), ms(90))
	req.wait(5, "wait", ms(11), ms(41), "dispatch:0000000000000001", "dispatch:0000000000000002", "dispatch:0000000000000004")
	req.wait(6, "in vain", ms(11), ms(41), "dispatch:0000000000000004")
	r.send(req.Traces)
	r.stop()

	lane, derived := map[string]ptrace.Span{}, map[string]ptrace.Span{}
	for _, td := range r.out.AllTraces() {
		eachSpan(td, func(scope pcommon.InstrumentationScope, s ptrace.Span) {
			if text(s, semconv.DerivedKey) == "true" {
				assert.Equal(t, semconv.ScopeDerived, scope.Name())
				derived[s.Name()] = s
			} else {
				lane[s.Name()] = s
			}
		})
	}
	require.Len(t, lane, 6)
	for name, s := range lane {
		assert.True(t, s.ParentSpanID().IsEmpty(), "%s: the lane trace stays as it is", name)
	}
	require.Len(t, derived, 3, "wait and two dispatches")
	root := derived["wait"]
	assert.True(t, root.ParentSpanID().IsEmpty())
	assert.Equal(t, lane["wait"].SpanID(), root.Links().At(0).SpanID())
	assert.Equal(t, lane["wait"].TraceID(), root.Links().At(0).TraceID())
	for _, name := range []string{"sync", "sync too"} {
		s := derived[name]
		assert.Equal(t, root.SpanID(), s.ParentSpanID())
		assert.Equal(t, root.TraceID(), s.TraceID())
		assert.NotEqual(t, lane[name].TraceID(), s.TraceID())
		assert.NotEqual(t, lane[name].SpanID(), s.SpanID())
		assert.Equal(t, lane[name].SpanID(), s.Links().At(0).SpanID())
		assert.Equal(t, lane[name].StartTimestamp(), s.StartTimestamp())
		assert.Equal(t, "synchronous", text(s, semconv.ContainmentClassKey))
		assert.Equal(t, "gpu", text(s, semconv.LaneNameKey))
	}
}

// pausing is a next consumer that counts.
type pausing struct {
	spans atomic.Int64
	err   atomic.Pointer[error]
}

func (*pausing) Capabilities() consumer.Capabilities { return consumer.Capabilities{MutatesData: true} }

func (p *pausing) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	if err := p.err.Load(); err != nil {
		return *err
	}
	p.spans.Add(int64(td.SpanCount()))
	return nil
}

func TestNoSpanIsLostUnderLoad(t *testing.T) {
	next := &pausing{}
	r := &rig{t: t}
	r.build(func(c *Config) { c.Hold, c.MaxHeldSpans = time.Millisecond, 500 }, next)
	r.start()
	const senders, requests = 8, 50
	var sent atomic.Int64
	var wg sync.WaitGroup
	for g := range uint64(senders) {
		wg.Go(func() {
			for i := range uint64(requests) {
				req := newRequest()
				for j := range 1 + (g+i)%40 {
					req.dispatch(g<<32|i<<16|j+1, "d", ms(1), ms(2), ms(3))
				}
				req.wait(g<<32|i<<16|1<<15, "w", ms(1), ms(5), "queue:q")
				span(req.cpu, 3, 7, "cpu", ms(1), ms(2))
				sent.Add(int64(req.SpanCount()))
				if err := r.traces.ConsumeTraces(t.Context(), req.Traces); err != nil {
					t.Error(err)
				}
				if i%10 == 0 {
					if err := r.logs.ConsumeLogs(t.Context(), stackLogs()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	r.stop()
	assert.Equal(t, sent.Load(), next.spans.Load())
	metadatatest.AssertEqualStaxLinkerHeld(t, r.tel, []metricdata.DataPoint[int64]{{Value: 0}}, metricdatatest.IgnoreTimestamp())
}

func TestRefusals(t *testing.T) {
	next := &pausing{}
	r := &rig{t: t}
	r.build(func(c *Config) { c.Hold = 0 }, next)
	r.start()
	defer r.stop()
	refusal := errors.New("full")
	next.err.Store(&refusal)
	mixed := func() ptrace.Traces {
		req := newRequest()
		req.dispatch(1, "d", ms(1), ms(2), ms(3))
		span(req.cpu, 3, 7, "cpu", ms(1), ms(2))
		return req.Traces
	}
	require.ErrorIs(t, r.traces.ConsumeTraces(t.Context(), mixed()), refusal, "the caller brings it again")
	target := newRequest()
	target.dispatch(1, "d", ms(1), ms(2), ms(3))
	require.NoError(t, r.traces.ConsumeTraces(t.Context(), target.Traces), "taken over")
	next.err.Store(nil)
	require.NoError(t, r.traces.ConsumeTraces(t.Context(), mixed()))
	assert.EqualValues(t, 2, next.spans.Load())
	metadatatest.AssertEqualStaxLinkerFailed(t, r.tel, []metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
}

func TestConfig(t *testing.T) {
	cm, err := confmaptest.LoadConf("testdata/config.yaml")
	require.NoError(t, err)
	cfg := NewFactory().CreateDefaultConfig().(*Config)
	sub, err := cm.Sub("originlinker")
	require.NoError(t, err)
	require.NoError(t, sub.Unmarshal(cfg))
	require.NoError(t, cfg.Validate())
	assert.Equal(t, &Config{
		Hold: time.Second, Limit: 20 * time.Millisecond, MaxHeldSpans: 10, MaxHeldBytes: 1 << 20, EvidenceAge: 10 * time.Second,
		MaxEvidenceRows: 1000, Stacktrace: true, WallTrace: true, Query: component.MustNewIDWithName("staxquery", "mine"),
	}, cfg)
	for want, change := range map[string]func(*Config){
		"hold":              func(c *Config) { c.Hold = -1 },
		"limit":             func(c *Config) { c.Limit = 0 },
		"max_held_spans":    func(c *Config) { c.MaxHeldSpans = 0 },
		"max_held_bytes":    func(c *Config) { c.MaxHeldBytes = 0 },
		"evidence_age":      func(c *Config) { c.EvidenceAge = time.Second },
		"max_evidence_rows": func(c *Config) { c.MaxEvidenceRows = 0 },
	} {
		bad := NewFactory().CreateDefaultConfig().(*Config)
		change(bad)
		require.ErrorContains(t, bad.Validate(), want)
	}
}

func BenchmarkConsumeAndResolve(b *testing.B) {
	f := NewFactory()
	cfg := f.CreateDefaultConfig().(*Config)
	cfg.Hold = 0
	l, err := newLinker(cfg, componenttest.NewNopTelemetrySettings(), func() {})
	require.NoError(b, err)
	l.nodes = 1
	n := newTracesNode(l, &pausing{})
	const spans = 512
	req := newRequest()
	for i := range uint64(spans) {
		req.dispatch(i+1, "mul", ms(1), ms(2), ms(3))
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		td := ptrace.NewTraces()
		req.CopyTo(td)
		b.StartTimer()
		require.NoError(b, n.ConsumeTraces(b.Context(), td))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/spans, "ns/span")
	require.NoError(b, n.Shutdown(b.Context()))
}
