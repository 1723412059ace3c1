package staxarchiveexporter

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// logs converts one resource of a logs request: registrations become rows, other records pass through.
func (s *state) logs(req *request, rlogs plog.ResourceLogs) {
	rs := s.begin(rlogs.Resource())
	defer s.end(req, rs)
	var foreign foreignLogs
	for _, sl := range rlogs.ScopeLogs().All() {
		for _, lr := range sl.LogRecords().All() {
			m := lr.Attributes()
			ok := true
			switch lr.EventName() {
			case semconv.EventLane:
				lane, isLane, bad := parseLane(m)
				if ok = isLane && !bad; ok {
					s.lane(req, rs, lane)
				}
			case semconv.EventStack:
				ok = req.stack(rs, m)
			case semconv.EventCounterSet:
				ok = req.counterSet(rs, m)
			case semconv.EventClockSample:
				ok = req.clockSample(rs, m)
			case semconv.EventDiagnostic:
				ok = req.diagnostic(rs, lr, s.now().UnixNano())
			default:
				foreign.add(rlogs, sl, lr)
			}
			if !ok {
				req.drop(rs.id, archive.Seq{}, signalLog, reasonBadAttribute, 1)
			}
		}
	}
	foreign.store(s, req, rs)
}

func (q *request) stack(rs *runtimeState, m pcommon.Map) bool {
	id, ok := parseHex64(str(m, semconv.StackIDKey))
	functions, ok1 := strs(m, semconv.StackFunctionsKey)
	files, ok2 := strs(m, semconv.StackFilesKey)
	lines, ok3 := ints(m, semconv.StackLinesKey)
	if !ok || id == 0 || !ok1 || !ok2 || !ok3 || len(files) != len(functions) || len(lines) != len(functions) || len(functions) == 0 {
		return false
	}
	stack := archive.StackID(id)
	if _, held := rs.stacks[stack]; held {
		return true
	}
	if slices.ContainsFunc(q.batch.StackFrames, func(f archive.StackFrame) bool {
		return f.Depth == 0 && f.Stack == stack && f.Runtime == rs.id
	}) {
		return true
	}
	for i, fn := range functions {
		q.batch.StackFrames = append(q.batch.StackFrames, archive.StackFrame{
			Runtime: rs.id, Stack: stack, Depth: uint32(i), Function: fn, File: files[i], Line: lines[i],
		})
	}
	return true
}

func (q *request) counterSet(rs *runtimeState, m pcommon.Map) bool {
	id := archive.CounterSetID(str(m, semconv.CounterSetIDKey))
	names, ok1 := strs(m, semconv.CounterSetNamesKey)
	units, ok2 := strs(m, semconv.CounterSetUnitsKey)
	if id == "" || !ok1 || !ok2 || len(units) != len(names) || len(names) == 0 {
		return false
	}
	setName := str(m, semconv.CounterSetNameKey)
	rows := make([]archive.Counter, len(names))
	for i, name := range names {
		rows[i] = archive.Counter{Runtime: rs.id, Set: id, SetName: setName, Index: uint32(i), Name: name, Unit: units[i]}
	}
	if !slices.Equal(rs.counters[id], rows) {
		q.batch.Counters = append(q.batch.Counters, rows...)
	}
	return true
}

func (q *request) clockSample(rs *runtimeState, m pcommon.Map) bool {
	name := str(m, semconv.ClockNameKey)
	ticks, ok1 := integer(m, semconv.ClockRawTicksKey)
	unix, ok2 := integer(m, semconv.ClockUnixNanosKey)
	bracket, ok3 := integer(m, semconv.ClockBracketNanosKey)
	if name == "" || !ok1 || !ok2 || !ok3 {
		return false
	}
	q.batch.ClockSamples = append(q.batch.ClockSamples, archive.ClockSample{
		Runtime: rs.id, Clock: name, RawTicks: ticks, UnixNanos: unix, ErrorNanos: bracket,
	})
	return true
}

func (q *request) diagnostic(rs *runtimeState, lr plog.LogRecord, now int64) bool {
	m := lr.Attributes()
	code := str(m, semconv.DiagnosticCodeKey)
	count, ok := int64(1), true
	if v, has := m.Get(semconv.DiagnosticCountKey); has {
		count, ok = intOf(v)
	}
	if code == "" || !ok || count < 0 {
		return false
	}
	at := int64(lr.Timestamp())
	if at == 0 {
		at = now
	}
	q.batch.Diagnostics = append(q.batch.Diagnostics, archive.Diagnostic{
		Runtime: rs.id, TimeNanos: at, Source: "sdk", Code: code, Text: str(m, semconv.DiagnosticTextKey), Count: uint64(count),
	})
	return true
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
	s.passthrough(req, rs, "logs", signalLog, f.n, payload, err)
}
