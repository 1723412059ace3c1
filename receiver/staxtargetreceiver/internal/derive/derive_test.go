package derive

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/validate"
	"github.com/stax-otel/stax/sdk/semconv"
)

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

var res = Resource{Recording: "r", Runtime: "rt"}

// dispatch commits one dispatch of lane "gpu" of length nanos.
func dispatch(d *Deriver, key Resource, lane, name string, nanos uint64, counters ...validate.Counter) {
	b := d.Batch()
	attrs := pcommon.NewMap()
	attrs.PutStr(semconv.ServiceNameKey, "app")
	b.Resource(key, attrs)
	b.Lane(lane, "gpu")
	s := ptrace.NewSpan()
	s.SetName(name)
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{byte(nanos)})
	s.SetStartTimestamp(1000)
	s.SetEndTimestamp(pcommon.Timestamp(1000 + nanos))
	b.Span(s, &validate.Facts{Type: semconv.SpanTypeDispatch, Counters: counters})
	b.Commit()
}

func intCounter(key string, v int64) validate.Counter {
	return validate.Counter{Key: key, State: archive.CounterOK, Int: v}
}

func floatCounter(key string, v float64) validate.Counter {
	return validate.Counter{Key: key, State: archive.CounterOK, IsFloat: true, Float: v}
}

// dump lists the points as "metric{attributes} value".
func dump(t *testing.T, d *Deriver) map[string]float64 {
	t.Helper()
	md, _ := d.Metrics()
	out := map[string]float64{}
	for _, rm := range md.ResourceMetrics().All() {
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			var points pmetric.NumberDataPointSlice
			if m.Type() == pmetric.MetricTypeHistogram {
				continue // see TestDurations
			}
			if m.Type() == pmetric.MetricTypeGauge {
				points = m.Gauge().DataPoints()
			} else {
				points = m.Sum().DataPoints()
			}
			for _, dp := range points.All() {
				v := float64(dp.IntValue())
				if dp.ValueType() == pmetric.NumberDataPointValueTypeDouble {
					v = dp.DoubleValue()
				}
				key := m.Name()
				if _, ok := dp.Attributes().Get(overflowKey); ok {
					key += " overflow"
				}
				for _, k := range []string{semconv.LaneNameKey, semconv.DispatchNameKey, semconv.CounterStateKey} {
					if a, ok := dp.Attributes().Get(k); ok {
						key += " " + a.Str()
					}
				}
				_, twice := out[key]
				require.False(t, twice, "two points of one series: %s", key)
				out[key] = v
			}
		}
	}
	return out
}

func TestSumsAreCumulative(t *testing.T) {
	c := &clock{t: time.Unix(1000, 0)}
	d := New(100, c.now)
	dispatch(d, res, "q", "a", 5, intCounter("s/p/n", 3))
	c.add(time.Second)
	assert.Equal(t, map[string]float64{"stax.dispatches q": 1, "stax.dispatch.time q": 5, "stax.counter.s.n q a": 3}, dump(t, d))
	dispatch(d, res, "q", "a", 7, intCounter("s/p/n", 4))
	dispatch(d, res, "q", "b", 1, intCounter("s/p/n", 1))
	assert.Equal(t, map[string]float64{
		"stax.dispatches q": 3, "stax.dispatch.time q": 13, "stax.counter.s.n q a": 7, "stax.counter.s.n q b": 1,
	}, dump(t, d))
	assert.Empty(t, dump(t, d), "nothing changed")
	c.add(keepAlive)
	md, ok := d.Metrics()
	require.True(t, ok, "but a series does not go stale")
	dp := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Sum().DataPoints().At(0)
	assert.Equal(t, int64(1000), dp.StartTimestamp().AsTime().Unix())
	assert.Equal(t, int64(1031), dp.Timestamp().AsTime().Unix())
}

func TestValuesThatAreNoNumbers(t *testing.T) {
	d := New(100, time.Now)
	dispatch(d, res, "q", "a", 1,
		intCounter("s/p/n", 1), intCounter("s/p/n", -1), floatCounter("s/p/n", -0.5), floatCounter("s/p/n", math.NaN()),
		floatCounter("s/p/n", math.Inf(1)), validate.Counter{Key: "s/p/n", State: archive.CounterError},
		validate.Counter{Key: "s/p/n", State: archive.CounterUnresolved})
	assert.Equal(t, map[string]float64{
		"stax.dispatches q": 1, "stax.dispatch.time q": 1, "stax.counter.s.n q a": 1,
		"stax.counter.unavailable q a error": 1, "stax.counter.unavailable q a unresolved": 1,
		"stax.counter.unavailable q a not_finite": 2, "stax.counter.unavailable q a negative": 2,
	}, dump(t, d))
}

func TestDurations(t *testing.T) {
	d := New(100, time.Now)
	for _, nanos := range []uint64{0, 1000, 1001, 2000, 3_000_000, 3_000_001, 60e9} {
		dispatch(d, res, "q", "a", nanos)
	}
	dispatch(d, res, "p", "a", 7)
	points := func() pmetric.HistogramDataPointSlice {
		md, ok := d.Metrics()
		require.True(t, ok)
		for _, m := range md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
			if m.Name() == MetricDuration {
				assert.Equal(t, "s", m.Unit())
				assert.Equal(t, pmetric.AggregationTemporalityCumulative, m.Histogram().AggregationTemporality())
				return m.Histogram().DataPoints()
			}
		}
		require.Fail(t, "no "+MetricDuration)
		return pmetric.HistogramDataPointSlice{}
	}
	got := points()
	require.Equal(t, 2, got.Len(), "one per lane")
	dp := got.At(0)
	assert.Equal(t, map[string]any{semconv.LaneNameKey: "q", semconv.LaneKindKey: "gpu"}, dp.Attributes().AsRaw())
	assert.EqualValues(t, 7, dp.Count())
	assert.InDelta(t, 60.006004002, dp.Sum(), 1e-9)
	bounds, counts := dp.ExplicitBounds(), dp.BucketCounts()
	require.Equal(t, bounds.Len()+1, counts.Len())
	assert.InDelta(t, 1e-6, bounds.At(0), 0)
	assert.EqualValues(t, 2, counts.At(0), "a bound is the last value of its bucket")
	assert.EqualValues(t, 2, counts.At(1))
	assert.EqualValues(t, 1, counts.At(counts.Len()-1))
	require.Equal(t, 4, dp.Exemplars().Len(), "the longest of each bucket")
	assert.InDelta(t, 2e-6, dp.Exemplars().At(1).DoubleValue(), 0)
	assert.Equal(t, pcommon.TraceID{1}, dp.Exemplars().At(1).TraceID())
	assert.Equal(t, pcommon.SpanID{2000 % 256}, dp.Exemplars().At(1).SpanID())
	assert.InDelta(t, 0.003000001, dp.Exemplars().At(2).DoubleValue(), 0)

	dispatch(d, res, "q", "a", 1)
	dp = points().At(0)
	assert.EqualValues(t, 8, dp.Count(), "cumulative")
	assert.Equal(t, 1, dp.Exemplars().Len(), "exemplars since the last emission")
}

func TestUntimed(t *testing.T) {
	d := New(100, time.Now)
	b := d.Batch()
	b.Resource(res, pcommon.NewMap())
	b.Lane("q", "gpu")
	for _, at := range [][2]uint64{{0, 5}, {5, 4}, {5, 1<<64 - 1}, {5, 5}, {1, 1 << 63}, {1, 1 << 63}} {
		s := ptrace.NewSpan()
		s.SetStartTimestamp(pcommon.Timestamp(at[0]))
		s.SetEndTimestamp(pcommon.Timestamp(at[1]))
		b.Span(s, &validate.Facts{Type: semconv.SpanTypeDispatch})
	}
	b.Commit()
	assert.Equal(t, map[string]float64{
		"stax.dispatches q": 6, "stax.dispatches.untimed q": 4, "stax.dispatch.time q": 1<<63 - 1,
	}, dump(t, d))
}

func TestIntOverflowBecomesDouble(t *testing.T) {
	d := New(100, time.Now)
	for range 3 {
		dispatch(d, res, "q", "a", 1, intCounter("s/p/n", math.MaxInt64))
	}
	assert.InEpsilon(t, 3*float64(math.MaxInt64), dump(t, d)["stax.counter.s.n q a"], 1e-9)
}

func TestMixedIntAndFloat(t *testing.T) {
	d := New(100, time.Now)
	dispatch(d, res, "q", "a", 1, intCounter("s/p/n", 2), floatCounter("s/p/n", 0.5))
	assert.InDelta(t, 2.5, dump(t, d)["stax.counter.s.n q a"], 0)
}

func TestPercentIsAnAverage(t *testing.T) {
	d := New(100, time.Now)
	define(d, "s", "busy", semconv.CounterUnitPercent)
	dispatch(d, res, "q", "a", 1, intCounter("s/p/busy", 20))
	dispatch(d, res, "q", "a", 1, intCounter("s/p/busy", 40))
	assert.InDelta(t, 30, dump(t, d)["stax.counter.s.busy q a"], 0)
	dispatch(d, res, "q", "a", 1, intCounter("s/p/busy", 90))
	assert.InDelta(t, 90, dump(t, d)["stax.counter.s.busy q a"], 0, "since the last emission")
	dispatch(d, res, "q", "a", 1)
	assert.NotContains(t, dump(t, d), "stax.counter.s.busy q a", "no value, no point")
}

func define(d *Deriver, set, name, unit string) {
	names, units := pcommon.NewSlice(), pcommon.NewSlice()
	names.AppendEmpty().SetStr(name)
	units.AppendEmpty().SetStr(unit)
	d.DefineSet(res, set, names, units)
}

func TestUnits(t *testing.T) {
	for unit, want := range map[string]string{
		"bytes": "By", "ns": "ns", "ticks": "{tick}", "cycles": "{cycle}", "invocations": "{invocation}", "count": "{count}", "": "",
	} {
		for late := range 2 {
			d := New(100, time.Now)
			if late == 0 {
				define(d, "s", "n", unit)
			}
			dispatch(d, res, "q", "a", 1, intCounter("s/p/n", 1))
			if late == 1 {
				define(d, "s", "n", unit)
			}
			md, _ := d.Metrics()
			ms := md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
			assert.Equal(t, want, ms.At(ms.Len()-1).Unit())
		}
	}
}

func TestExemplarIsTheLargestSinceTheLastEmission(t *testing.T) {
	d := New(100, time.Now)
	exemplar := func() pcommon.SpanID {
		md, _ := d.Metrics()
		for _, m := range md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
			if m.Name() == MetricDispatchTime {
				require.Equal(t, 1, m.Sum().DataPoints().At(0).Exemplars().Len())
				return m.Sum().DataPoints().At(0).Exemplars().At(0).SpanID()
			}
		}
		return pcommon.SpanID{}
	}
	dispatch(d, res, "q", "a", 5)
	dispatch(d, res, "q", "a", 9)
	dispatch(d, res, "q", "a", 7)
	assert.Equal(t, pcommon.SpanID{9}, exemplar())
	dispatch(d, res, "q", "a", 3)
	assert.Equal(t, pcommon.SpanID{3}, exemplar())
}

// TestOverflow: totals stay right when there are more names, lanes and runtimes than series.
func TestOverflow(t *testing.T) {
	d := New(10, time.Now)
	const runtimes, lanes, names, counters = 3, 4, 5, 6
	for r := range runtimes {
		for l := range lanes {
			for n := range names {
				var cs []validate.Counter
				for c := range counters {
					cs = append(cs, intCounter(fmt.Sprintf("s/p/c%d", c), 1))
				}
				dispatch(d, Resource{Recording: "r", Runtime: fmt.Sprint(r)}, fmt.Sprint(l), fmt.Sprint(n), 1, cs...)
			}
		}
	}
	assert.LessOrEqual(t, d.Series(), 12)
	md, _ := d.Metrics()
	dispatches, values, overflow := int64(0), int64(0), 0
	for _, rm := range md.ResourceMetrics().All() {
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			if m.Type() == pmetric.MetricTypeHistogram {
				continue
			}
			for _, dp := range m.Sum().DataPoints().All() {
				if v, ok := dp.Attributes().Get(overflowKey); ok {
					assert.True(t, v.Bool())
					overflow++
				}
				switch m.Name() {
				case MetricDispatches:
					dispatches += dp.IntValue()
				case MetricDispatchTime:
				default:
					values += dp.IntValue()
				}
			}
		}
	}
	assert.EqualValues(t, runtimes*lanes*names, dispatches)
	assert.EqualValues(t, runtimes*lanes*names*counters, values)
	assert.Positive(t, overflow)
	assert.LessOrEqual(t, md.ResourceMetrics().Len(), 2)
}

// TestOverflowOfMetricNames: made-up counters cannot grow memory through the overflow either, and are counted.
func TestOverflowOfMetricNames(t *testing.T) {
	d := New(1, time.Now)
	for c := range 10 * maxSpill {
		dispatch(d, res, "q", "a", 1, intCounter(fmt.Sprintf("s/p/c%d", c), 1))
	}
	got := dump(t, d)
	assert.LessOrEqual(t, len(got), maxSpill+5)
	assert.InDelta(t, 9*maxSpill, got["stax.counter.unavailable overflow q overflow"], 0)
}

func TestRetire(t *testing.T) {
	c := &clock{t: time.Unix(1000, 0)}
	d := New(100, c.now)
	define(d, "s", "n", "bytes")
	dispatch(d, res, "q", "a", 1, intCounter("s/p/n", 1))
	other := Resource{Recording: "r", Runtime: "other"}
	dispatch(d, other, "q", "a", 1)
	over := func(r Resource) bool { return r == res }
	d.Retire(over)
	assert.Equal(t, 7, d.Series(), "not before the last values were emitted")
	d.Metrics()
	d.Retire(over)
	assert.Equal(t, 3, d.Series())
	assert.Empty(t, d.units)
	c.add(idleTimeout)
	d.Retire(func(Resource) bool { return false })
	assert.Zero(t, d.Series(), "idle")
}

func TestTruncateAndDiscard(t *testing.T) {
	d := New(100, time.Now)
	b := d.Batch()
	b.Resource(res, pcommon.NewMap())
	b.Lane("q", "gpu")
	s := ptrace.NewSpan()
	f := &validate.Facts{Type: semconv.SpanTypeDispatch, Counters: []validate.Counter{intCounter("s/p/n", 1)}}
	b.Span(s, f)
	b.Span(s, f)
	b.Truncate(1)
	assert.Equal(t, 1, b.Len())
	b.Commit()
	assert.InDelta(t, 1, dump(t, d)["stax.counter.s.n q"], 0)
	b = d.Batch()
	b.Resource(res, pcommon.NewMap())
	b.Lane("q", "gpu")
	b.Span(s, f)
	b.Discard()
	_, ok := d.Metrics()
	assert.False(t, ok)
}

func TestCommandBuffersAreNoDispatches(t *testing.T) {
	d := New(100, time.Now)
	b := d.Batch()
	b.Resource(res, pcommon.NewMap())
	b.Lane("q", "gpu")
	s := ptrace.NewSpan()
	s.SetName("frame 12345") // must not become a label
	b.Span(s, &validate.Facts{Type: semconv.SpanTypeCommandBuffer, Counters: []validate.Counter{intCounter("s/p/n", 5)}})
	b.Span(s, &validate.Facts{Type: semconv.SpanTypeCommandBuffer})
	b.Span(s, &validate.Facts{Type: semconv.SpanTypeSegment})
	b.Commit()
	assert.Equal(t, map[string]float64{"stax.dispatches q": 0, "stax.dispatch.time q": 0, "stax.counter.s.n q": 5}, dump(t, d))
}

func TestConcurrentUse(t *testing.T) {
	d := New(50, time.Now)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				dispatch(d, Resource{"r", fmt.Sprint(g)}, "q", fmt.Sprint(i%7), 1, intCounter("s/p/n", 1))
				if i%20 == 0 {
					d.Metrics()
					d.Retire(func(Resource) bool { return false })
				}
			}
		})
	}
	wg.Wait()
	d.Unsent()
	md, _ := d.Metrics()
	sum := int64(0)
	for _, rm := range md.ResourceMetrics().All() {
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			if m.Name() == MetricDispatches {
				for _, dp := range m.Sum().DataPoints().All() {
					sum += dp.IntValue()
				}
			}
		}
	}
	assert.EqualValues(t, 800, sum)
}

// BenchmarkCommit is the cost per dispatch with two counters.
func BenchmarkCommit(b *testing.B) {
	d := New(2000, time.Now)
	attrs := pcommon.NewMap()
	s := ptrace.NewSpan()
	s.SetName("matmul")
	s.SetStartTimestamp(1000)
	s.SetEndTimestamp(2000)
	f := &validate.Facts{Type: semconv.SpanTypeDispatch, Counters: []validate.Counter{intCounter("s/p/a", 1), intCounter("s/p/b", 1)}}
	const spans = 512
	b.ReportAllocs()
	for b.Loop() {
		batch := d.Batch()
		batch.Resource(res, attrs)
		batch.Lane("q", "gpu")
		for range spans {
			batch.Span(s, f)
		}
		batch.Commit()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*spans), "ns/span")
}
