package staxtargetreceiver

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/derive"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/validate"
	"github.com/stax-otel/stax/sdk/semconv"
)

var noSeq archive.Seq // metrics, logs and profiles are not sequenced

// takeMetrics forwards a target's own metrics as they are; only the resource is marked. It returns how many data points
// were forwarded.
func (r *targetReceiver) takeMetrics(ctx context.Context, q *request, md pmetric.Metrics) (int, error) {
	md.ResourceMetrics().RemoveIf(func(rm pmetric.ResourceMetrics) bool {
		adm, reason := q.admit(rm.Resource())
		if reason != "" {
			for _, sm := range rm.ScopeMetrics().All() {
				q.rejectMetrics(adm, sm, reason)
			}
			return true
		}
		rm.ScopeMetrics().RemoveIf(func(sm pmetric.ScopeMetrics) bool {
			reason := checkScope(sm.Scope())
			if sm.Scope().Name() == semconv.ScopeDerived {
				reason = validate.ReservedScope
			}
			if reason != validate.OK {
				q.rejectMetrics(adm, sm, string(reason))
				return true
			}
			had := sm.Metrics().Len()
			sm.Metrics().RemoveIf(func(m pmetric.Metric) bool {
				if len(m.Name()) <= validate.MaxName && len(m.Unit()) <= validate.MaxName && len(m.Description()) <= validate.MaxValue {
					return false
				}
				n := points(m)
				q.reject(adm, "metric", string(validate.StringTooLong), noSeq, n, n)
				return true
			})
			return had > 0 && sm.Metrics().Len() == 0
		})
		return rm.ScopeMetrics().Len() == 0
	})
	n := md.DataPointCount()
	if md.ResourceMetrics().Len() == 0 {
		return 0, nil
	}
	return n, r.nextMetrics.ConsumeMetrics(ctx, md)
}

func (q *request) rejectMetrics(adm admission, sm pmetric.ScopeMetrics, reason string) {
	n := 0
	for _, m := range sm.Metrics().All() {
		n += points(m)
	}
	q.reject(adm, "metric", reason, noSeq, n, n)
}

// points counts the data points of a metric.
func points(m pmetric.Metric) int {
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		return m.Gauge().DataPoints().Len()
	case pmetric.MetricTypeSum:
		return m.Sum().DataPoints().Len()
	case pmetric.MetricTypeHistogram:
		return m.Histogram().DataPoints().Len()
	case pmetric.MetricTypeExponentialHistogram:
		return m.ExponentialHistogram().DataPoints().Len()
	case pmetric.MetricTypeSummary:
		return m.Summary().DataPoints().Len()
	}
	return 0
}

// takeLogs validates registrations and other events, and forwards them with a target's own logs. It returns how many
// records were forwarded.
func (r *targetReceiver) takeLogs(ctx context.Context, q *request, ld plog.Logs) (int, error) {
	ld.ResourceLogs().RemoveIf(func(rl plog.ResourceLogs) bool {
		adm, reason := q.admit(rl.Resource())
		if reason != "" {
			for _, sl := range rl.ScopeLogs().All() {
				q.reject(adm, "log", reason, noSeq, sl.LogRecords().Len(), sl.LogRecords().Len())
			}
			return true
		}
		rl.ScopeLogs().RemoveIf(func(sl plog.ScopeLogs) bool {
			had := sl.LogRecords().Len()
			if reason := checkScope(sl.Scope()); reason != validate.OK {
				q.reject(adm, "log", string(reason), noSeq, had, had)
				return true
			}
			sl.LogRecords().RemoveIf(func(lr plog.LogRecord) bool {
				if reason := validate.Log(lr); reason != validate.OK {
					q.reject(adm, "log", string(reason), noSeq, 1, 1)
					return true
				}
				if r.deriver != nil && lr.EventName() == semconv.EventCounterSet {
					r.defineSet(adm, lr.Attributes())
				}
				return false
			})
			return had > 0 && sl.LogRecords().Len() == 0
		})
		return rl.ScopeLogs().Len() == 0
	})
	n := ld.LogRecordCount()
	if ld.ResourceLogs().Len() == 0 {
		return 0, nil
	}
	return n, r.nextLogs.ConsumeLogs(ctx, ld)
}

// defineSet tells the derived metrics the units of a counter set. Doing so before the record is delivered does no harm.
func (r *targetReceiver) defineSet(adm admission, attrs pcommon.Map) {
	set, _ := attrs.Get(semconv.CounterSetIDKey) // validated: all three are there
	names, _ := attrs.Get(semconv.CounterSetNamesKey)
	units, _ := attrs.Get(semconv.CounterSetUnitsKey)
	key := derive.Resource{Recording: string(adm.rec.ID()), Runtime: string(adm.runtime)}
	r.deriver.DefineSet(key, set.Str(), names.Slice(), units.Slice())
}

// checkScope holds a scope that is no lane's to the caps.
func checkScope(s pcommon.InstrumentationScope) validate.Reason {
	if len(s.Name()) > validate.MaxName || len(s.Version()) > validate.MaxName {
		return validate.StringTooLong
	}
	return validate.Attributes(s.Attributes())
}
