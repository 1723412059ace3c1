package derive

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/stax-otel/stax/sdk/semconv"
)

// emission builds the metrics of one resource. Series of one metric come from different lanes, so metrics are looked up.
type emission struct {
	sm          pmetric.ScopeMetrics
	metrics     map[metricKey]pmetric.NumberDataPointSlice
	histogram   pmetric.HistogramDataPointSlice // of durations
	histograms  bool                            // there is one
	start, time pcommon.Timestamp
}

type metricKey struct {
	name, unit string
}

var units = map[string]string{
	semconv.CounterUnitTicks:       "{tick}",
	semconv.CounterUnitCycles:      "{cycle}",
	semconv.CounterUnitInvocations: "{invocation}",
	semconv.CounterUnitBytes:       "By",
	semconv.CounterUnitPercent:     "%",
	semconv.CounterUnitCount:       "{count}",
	semconv.CounterUnitNanos:       "ns",
}

func (r *resource) emit(rm pmetric.ResourceMetrics, now time.Time) {
	attrs := rm.Resource().Attributes()
	put := func(key, value string) {
		if value != "" {
			attrs.PutStr(key, value)
		}
	}
	put(semconv.ServiceNameKey, r.info.service)
	put(serviceNamespaceKey, r.info.namespace)
	put(serviceInstanceKey, r.instance())
	if r.info.pid != 0 {
		attrs.PutInt(semconv.ProcessPIDKey, r.info.pid)
	}
	put(semconv.RuntimeIDKey, r.key.Runtime)
	put(semconv.RecordingIDKey, r.key.Recording)

	sm := rm.ScopeMetrics().AppendEmpty()
	sm.Scope().SetName(semconv.ScopeDerived)
	sm.SetSchemaUrl(semconv.SchemaURL)
	e := &emission{
		sm: sm, metrics: map[metricKey]pmetric.NumberDataPointSlice{},
		start: pcommon.NewTimestampFromTime(r.since), time: pcommon.NewTimestampFromTime(now),
	}
	for _, l := range r.order {
		e.lane(r, l)
	}
}

func (e *emission) lane(r *resource, l *lane) {
	overflow := l.overflow || r.key.Runtime == ""
	e.laneAttributes(e.sum(MetricDispatches, "{dispatch}", "Dispatches of the lane.", l.dispatches).Attributes(), l, overflow)
	dp := e.sum(MetricDispatchTime, "ns", "Target time of the lane's dispatches. It is not CPU time.", int64(l.nanos))
	e.laneAttributes(dp.Attributes(), l, overflow)
	l.slowest.take(dp, true)
	e.durations(l, overflow)
	if l.untimed > 0 {
		dp = e.sum(MetricUntimed, "{dispatch}", "Dispatches whose times make no duration; they are not in stax.dispatch.time.", l.untimed)
		e.laneAttributes(dp.Attributes(), l, overflow)
	}
	for _, n := range l.order {
		for _, s := range n.order {
			e.series(l, n, s, overflow || n.overflow)
		}
		if n.lost > 0 {
			dp := e.unavailable(n.lost, StateOverflow)
			e.laneAttributes(dp.Attributes(), l, true)
			n.nameAttribute(dp)
		}
	}
}

func (e *emission) durations(l *lane, overflow bool) {
	if !e.histograms {
		m := e.metric(metricKey{MetricDuration, "s"}, "Target time of single dispatches of the lane. It is not CPU time.")
		h := m.SetEmptyHistogram()
		h.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		e.histogram, e.histograms = h.DataPoints(), true
	}
	dp := e.histogram.AppendEmpty()
	dp.SetStartTimestamp(e.start)
	dp.SetTimestamp(e.time)
	e.laneAttributes(dp.Attributes(), l, overflow)
	dp.ExplicitBounds().EnsureCapacity(len(durationBounds))
	for _, b := range durationBounds {
		dp.ExplicitBounds().Append(float64(b) / 1e9)
	}
	dp.BucketCounts().Append(l.durations.counts[:]...)
	total := uint64(0)
	for i, n := range l.durations.counts {
		total += n
		if x := &l.durations.longest[i]; x.ok {
			x.value /= 1e9
			x.put(dp.Exemplars().AppendEmpty(), false)
		}
	}
	dp.SetCount(total)
	dp.SetSum(float64(l.nanos) / 1e9)
}

func (e *emission) series(l *lane, n *named, s *series, overflow bool) {
	label := func(dp pmetric.NumberDataPoint) {
		e.laneAttributes(dp.Attributes(), l, overflow)
		n.nameAttribute(dp)
		attrs := dp.Attributes()
		attrs.PutStr(semconv.CounterSetKey, s.set)
		attrs.PutStr(semconv.CounterNameKey, s.name)
		attrs.PutStr(semconv.CounterPointKey, s.point)
	}
	switch {
	case s.unit == semconv.CounterUnitPercent:
		if s.windowCount > 0 {
			dp := e.gauge(s.metric, units[s.unit], "Average of the dispatches since the last point.")
			dp.SetDoubleValue(s.windowSum / float64(s.windowCount))
			label(dp)
			s.largest.take(dp, false)
		}
	case s.values > 0:
		dp := e.sum(s.metric, units[s.unit], "Sum over dispatches.", s.ints)
		if s.isFloat {
			dp.SetDoubleValue(s.floats + float64(s.ints))
		}
		label(dp)
		s.largest.take(dp, !s.isFloat)
	}
	s.windowSum, s.windowCount = 0, 0
	for i, count := range s.unavailable {
		if count > 0 {
			label(e.unavailable(count, stateNames[i]))
		}
	}
}

func (e *emission) unavailable(count int64, state string) pmetric.NumberDataPoint {
	dp := e.sum(MetricUnavailable, "{value}", "Counter values that are no numbers, by state.", count)
	dp.Attributes().PutStr(semconv.CounterStateKey, state)
	return dp
}

func (n *named) nameAttribute(dp pmetric.NumberDataPoint) {
	if n.name != "" {
		dp.Attributes().PutStr(semconv.DispatchNameKey, n.name)
	}
}

func (e *emission) laneAttributes(attrs pcommon.Map, l *lane, overflow bool) {
	if !l.overflow {
		attrs.PutStr(semconv.LaneNameKey, l.key.name)
		attrs.PutStr(semconv.LaneKindKey, l.key.kind)
	}
	if overflow {
		attrs.PutBool(overflowKey, true)
	}
}

func (e *emission) sum(name, unit, description string, value int64) pmetric.NumberDataPoint {
	key := metricKey{name, unit}
	points, ok := e.metrics[key]
	if !ok {
		m := e.metric(key, description)
		sum := m.SetEmptySum()
		sum.SetIsMonotonic(true)
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		points = sum.DataPoints()
		e.metrics[key] = points
	}
	dp := e.point(points)
	dp.SetStartTimestamp(e.start)
	dp.SetIntValue(value)
	return dp
}

func (e *emission) gauge(name, unit, description string) pmetric.NumberDataPoint {
	key := metricKey{name, unit}
	points, ok := e.metrics[key]
	if !ok {
		points = e.metric(key, description).SetEmptyGauge().DataPoints()
		e.metrics[key] = points
	}
	return e.point(points)
}

func (e *emission) metric(key metricKey, description string) pmetric.Metric {
	m := e.sm.Metrics().AppendEmpty()
	m.SetName(key.name)
	m.SetUnit(key.unit)
	m.SetDescription(description)
	return m
}

func (e *emission) point(points pmetric.NumberDataPointSlice) pmetric.NumberDataPoint {
	dp := points.AppendEmpty()
	dp.SetTimestamp(e.time)
	return dp
}

// take moves the exemplar to the point: the next emission begins a new search.
func (x *exemplar) take(dp pmetric.NumberDataPoint, asInt bool) {
	if x.ok {
		x.put(dp.Exemplars().AppendEmpty(), asInt)
	}
}

// put writes the exemplar and forgets it.
func (x *exemplar) put(ex pmetric.Exemplar, asInt bool) {
	ex.SetTimestamp(x.at)
	ex.SetTraceID(x.trace)
	ex.SetSpanID(x.span)
	if asInt {
		ex.SetIntValue(int64(x.value))
	} else {
		ex.SetDoubleValue(x.value)
	}
	*x = exemplar{}
}
