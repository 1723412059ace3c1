package staxarchiveexporter

import (
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/stax-otel/stax/internal/otlprows"
)

// spans converts one resource of a traces request.
func (s *state) spans(req *request, rspans ptrace.ResourceSpans) {
	s.convert(req, rspans.Resource(), func(rs *runtimeState) {
		req.conv.Spans(rspans)
		req.foreignSpans.store(s, req, rs)
	})
}

// ForeignSpan implements [otlprows.Hooks].
func (q *request) ForeignSpan(rspans ptrace.ResourceSpans, ss ptrace.ScopeSpans, span ptrace.Span) {
	q.foreignSpans.add(rspans, ss, span)
}

// foreignSpans collects the spans of one resource that are not part of the model, with their scopes.
type foreignSpans struct {
	traces ptrace.Traces
	dst    ptrace.ResourceSpans
	from   ptrace.ScopeSpans // that to was copied from
	to     ptrace.ScopeSpans
	n      int
}

func (f *foreignSpans) add(rspans ptrace.ResourceSpans, ss ptrace.ScopeSpans, span ptrace.Span) {
	if f.n == 0 {
		f.traces = ptrace.NewTraces()
		f.dst = f.traces.ResourceSpans().AppendEmpty()
		rspans.Resource().CopyTo(f.dst.Resource())
		f.dst.SetSchemaUrl(rspans.SchemaUrl())
	}
	if f.n == 0 || f.from != ss {
		f.to = f.dst.ScopeSpans().AppendEmpty()
		f.from = ss
		ss.Scope().CopyTo(f.to.Scope())
		f.to.SetSchemaUrl(ss.SchemaUrl())
	}
	span.CopyTo(f.to.Spans().AppendEmpty())
	f.n++
}

func (f *foreignSpans) store(s *state, req *request, rs *runtimeState) {
	if f.n == 0 {
		return
	}
	payload, err := ptraceotlp.NewExportRequestFromTraces(f.traces).MarshalProto()
	s.passthrough(req, rs, "traces", otlprows.SignalSpan, f.n, payload, err)
}
