package staxarchiveexporter

import (
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"

	"github.com/stax-otel/stax/internal/otlprows"
)

// logs converts one resource of a logs request: registrations become rows, other records pass through.
func (s *state) logs(req *request, rlogs plog.ResourceLogs) {
	s.convert(req, rlogs.Resource(), func(rs *runtimeState) {
		req.conv.Logs(rlogs, s.now().UnixNano())
		req.foreignLogs.store(s, req, rs)
	})
}

// ForeignLog implements [otlprows.Hooks].
func (q *request) ForeignLog(rlogs plog.ResourceLogs, sl plog.ScopeLogs, lr plog.LogRecord) {
	q.foreignLogs.add(rlogs, sl, lr)
}

// foreignLogs collects the log records of one resource that are not registrations, with their scopes.
type foreignLogs struct {
	logs plog.Logs
	dst  plog.ResourceLogs
	from plog.ScopeLogs
	to   plog.ScopeLogs
	n    int
}

func (f *foreignLogs) add(rlogs plog.ResourceLogs, sl plog.ScopeLogs, lr plog.LogRecord) {
	if f.n == 0 {
		f.logs = plog.NewLogs()
		f.dst = f.logs.ResourceLogs().AppendEmpty()
		rlogs.Resource().CopyTo(f.dst.Resource())
		f.dst.SetSchemaUrl(rlogs.SchemaUrl())
	}
	if f.n == 0 || f.from != sl {
		f.to = f.dst.ScopeLogs().AppendEmpty()
		f.from = sl
		sl.Scope().CopyTo(f.to.Scope())
		f.to.SetSchemaUrl(sl.SchemaUrl())
	}
	lr.CopyTo(f.to.LogRecords().AppendEmpty())
	f.n++
}

func (f *foreignLogs) store(s *state, req *request, rs *runtimeState) {
	if f.n == 0 {
		return
	}
	payload, err := plogotlp.NewExportRequestFromLogs(f.logs).MarshalProto()
	s.passthrough(req, rs, "logs", otlprows.SignalLog, f.n, payload, err)
}
