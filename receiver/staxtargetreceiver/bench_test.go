package staxtargetreceiver

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/stax-otel/stax/sdk/semconv"
)

// BenchmarkTraces is what the receiver adds to decoding: admit, validate and count a request of 512 dispatches from stax's
// SDK, with and without decoding, with and without derived metrics.
func BenchmarkTraces(b *testing.B) {
	const spans = 512
	td, ss := laneTraces()
	root := segment(ss)
	for i := range spans {
		s := addSpan(ss, 0)
		s.SetSpanID(pcommon.SpanID{1, 6: byte(i >> 8), 7: byte(i)})
		s.SetParentSpanID(root)
		a := s.Attributes()
		a.PutInt(semconv.SeqKey, int64(i+1))
		a.PutInt(semconv.OriginThreadIDKey, 4711)
		a.PutInt(semconv.OriginTimeKey, testNow.UnixNano())
		a.PutStr(semconv.OriginStackIDKey, "0123456789abcdef")
	}
	body := protoTraces(b, td)
	for _, derived := range []bool{false, true} {
		name := "derive=off"
		opts := []fixtureOption{withTraces(consumertest.NewNop()), withMetrics(nil)}
		if derived {
			name = "derive=on"
			opts = opts[:1]
		}
		fx := newFixture(b, opts...)
		run := func(b *testing.B, decode bool) {
			b.ReportAllocs()
			fresh := func() ptrace.Traces {
				req := ptraceotlp.NewExportRequest()
				require.NoError(b, req.UnmarshalProto(body))
				return req.Traces()
			}
			td := fresh()
			for b.Loop() {
				if decode {
					td = fresh()
				}
				q := fx.r.newRequest(sender{})
				n, err := fx.r.takeTraces(b.Context(), q, td)
				q.settle(b.Context())
				q.release()
				if err != nil || n != spans {
					b.Fatal(n, err, q.message())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*spans), "ns/span")
		}
		b.Run(name, func(b *testing.B) { run(b, false) })
		b.Run(name+" with decoding", func(b *testing.B) { run(b, true) })
	}
}
