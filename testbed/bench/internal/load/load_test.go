package load

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/stax-otel/stax/sdk/semconv"
)

// TestStream decodes what a stream makes with pdata and counts it again.
func TestStream(t *testing.T) {
	for _, shape := range []Shape{ShapeStax, ShapePlain} {
		for _, batch := range []int{100, 256, 2048} {
			s := NewStream(shape, batch, 3)
			s.Reset(7)
			var got Truth
			seqs := make(map[int64]bool)
			var last []uint64
			for range 30 {
				req := ptraceotlp.NewExportRequest()
				require.NoError(t, req.UnmarshalProto(s.Next()))
				rs := req.Traces().ResourceSpans()
				require.Equal(t, 1, rs.Len())
				runtime, _ := rs.At(0).Resource().Attributes().Get(semconv.RuntimeIDKey)
				assert.Equal(t, s.runtime, runtime.Str())
				records := 0
				for _, ss := range rs.At(0).ScopeSpans().All() {
					if ss.Scope().Name() == semconv.ScopeHeartbeat {
						v, _ := ss.Scope().Attributes().Get(semconv.HeartbeatEmittedKey)
						last = last[:0]
						for _, n := range v.Slice().All() {
							last = append(last, uint64(n.Int()))
						}
					}
					for _, sp := range ss.Spans().All() {
						if count(&got, sp, seqs) {
							records++
						}
					}
				}
				require.Equal(t, batch, records, shape)
			}
			want := s.Truth()
			if shape == ShapeStax {
				assert.Equal(t, want.Emitted[s.runtime], last)
				assert.Len(t, seqs, int(want.Records()))
				final := ptraceotlp.NewExportRequest()
				require.NoError(t, final.UnmarshalProto(s.Final()))
			}
			got.Emitted, got.Bytes = want.Emitted, want.Bytes
			assert.Equal(t, want, got, "%s %d", shape, batch)
			t.Logf("%s, %d in a batch: %.0f bytes a record", shape, batch, float64(want.Bytes)/float64(want.Records()))
		}
	}
}

// count adds sp to t and reports whether it is a record.
func count(t *Truth, sp ptrace.Span, seqs map[int64]bool) bool {
	id := number(sp.SpanID())
	dur := uint64(sp.EndTimestamp() - sp.StartTimestamp())
	typ, typed := sp.Attributes().Get(semconv.SpanTypeKey)
	if v, ok := sp.Attributes().Get(semconv.SeqKey); ok {
		seqs[v.Int()] = true
	}
	for key := range sp.Attributes().All() {
		if strings.HasPrefix(key, semconv.CounterPrefix) {
			t.Counters++
		}
	}
	switch {
	case !typed:
		t.Dispatches++
		t.DispatchIDs += id
		t.DispatchTime += dur
		if _, ok := sp.Attributes().Get(semconv.SeqKey); ok {
			t.Parents += number(sp.ParentSpanID())
		}
	case typ.Str() == semconv.SpanTypeCommandBuffer:
		t.Buffers++
		t.BufferIDs += id
	case typ.Str() == semconv.SpanTypeWait:
		t.Waits++
		t.WaitIDs += id
	default:
		return false
	}
	return true
}

func number(id pcommon.SpanID) (n uint64) {
	for _, b := range id {
		n = n<<8 | uint64(b)
	}
	return n
}

func TestRegistrations(t *testing.T) {
	req := plogotlp.NewExportRequest()
	require.NoError(t, req.UnmarshalProto(NewStream(ShapeStax, 100, 0).Registrations()))
	assert.Equal(t, lanes+1+stacks, req.Logs().LogRecordCount())
}

func BenchmarkNext(b *testing.B) {
	s := NewStream(ShapeStax, 256, 0)
	s.Reset(1)
	b.ReportAllocs()
	for b.Loop() {
		s.Next()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/span")
}

// BenchmarkUnmarshal is what every pipeline on pdata pays before it begins.
func BenchmarkUnmarshal(b *testing.B) {
	for _, shape := range []Shape{ShapeStax, ShapePlain} {
		b.Run(string(shape), func(b *testing.B) {
			s := NewStream(shape, 256, 0)
			s.Reset(1)
			request := s.Next()
			b.ReportAllocs()
			for b.Loop() {
				req := ptraceotlp.NewExportRequest()
				if err := req.UnmarshalProto(request); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/span")
		})
	}
}
