package staxarchiveexporter

import (
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// metrics passes one resource of a metrics request through, without the metrics that stax derives from dispatches: those
// would be counted twice.
func (s *state) metrics(req *request, rmetrics pmetric.ResourceMetrics) {
	rs := s.begin(rmetrics.Resource())
	defer s.end(req, rs)
	one := pmetric.NewMetrics()
	dst := one.ResourceMetrics().AppendEmpty()
	for _, sm := range rmetrics.ScopeMetrics().All() {
		if sm.Scope().Name() != semconv.ScopeDerived && sm.Metrics().Len() > 0 {
			sm.CopyTo(dst.ScopeMetrics().AppendEmpty())
		}
	}
	n := one.DataPointCount()
	if n == 0 {
		return
	}
	rmetrics.Resource().CopyTo(dst.Resource())
	dst.SetSchemaUrl(rmetrics.SchemaUrl())
	payload, err := pmetricotlp.NewExportRequestFromMetrics(one).MarshalProto()
	s.passthrough(req, rs, "metrics", signalMetric, n, payload, err)
}

// onlyDerived reports whether md holds nothing but metrics that stax derives from dispatches.
func onlyDerived(md pmetric.Metrics) bool {
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			if sm.Scope().Name() != semconv.ScopeDerived {
				return false
			}
		}
	}
	return true
}

// passthrough stores OTLP that is not part of the model. rs.mu is held.
func (s *state) passthrough(req *request, rs *runtimeState, otlpSignal, signal string, items int, payload []byte, err error) {
	if err != nil {
		req.drop(rs.id, archive.Seq{}, signal, reasonUnencodable, items)
		return
	}
	req.batch.Passthrough = append(req.batch.Passthrough, archive.Passthrough{
		Runtime: rs.id, TimeNanos: s.now().UnixNano(), Signal: otlpSignal, Items: uint64(items), Payload: payload,
	})
}
