package sdk

import (
	"runtime"
	"time"

	"github.com/stax-otel/stax/sdk/internal/wire"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Registrations are log records with an event name: they define what spans refer to, so a request's logs are sent
// before its traces. Each recording is told everything anew.

// event opens a log record; attributes follow, and wire.Close ends it.
func (e *encoder) event(name string, severity uint64) wire.Mark {
	var m wire.Mark
	e.records, m = wire.Open(e.records, scopeItems, 2)
	e.records = wire.Fixed64(e.records, logTime, e.nowUnix)
	e.records = wire.Varint(e.records, logSeverity, severity)
	e.records = wire.Fixed64(e.records, logObserved, e.nowUnix)
	e.records = wire.Text(e.records, logEventName, name)
	return m
}

// registrations tells what the recording does not know yet. news adds what is told about once a second.
func (e *encoder) registrations(news bool) {
	e.rt.mu.Lock()
	lanes, defs := e.rt.lanes, e.rt.defs
	e.rt.mu.Unlock()
	for _, s := range defs[min(e.defsTold, len(defs)):] {
		e.define(s)
	}
	e.defsTold = len(defs)
	for _, l := range lanes[min(e.lanesTold, len(lanes)):] {
		m := e.event(semconv.EventLane, severityInfo)
		e.records = wire.Close(appendLane(e.records, logAttributes, l), m)
	}
	e.lanesTold = len(lanes)
	sets := snapshotCounterSets()
	for _, s := range sets[min(e.setsTold, len(sets)):] {
		m := e.event(semconv.EventCounterSet, severityInfo)
		e.records = wire.Close(appendCounterSet(e.records, s), m)
	}
	e.setsTold = len(sets)
	if news {
		e.clockSample()
		e.diagnostics()
	}
}

func appendCounterSet(b []byte, s *CounterSet) []byte {
	b = wire.String(b, logAttributes, semconv.CounterSetIDKey, s.id)
	b = wire.String(b, logAttributes, semconv.CounterSetNameKey, s.name)
	b, a := wire.OpenArray(b, logAttributes, semconv.CounterSetNamesKey)
	for _, c := range s.counters {
		b = wire.ElementString(b, c.Name)
	}
	b = wire.CloseArray(b, a)
	b, a = wire.OpenArray(b, logAttributes, semconv.CounterSetUnitsKey)
	for _, c := range s.counters {
		b = wire.ElementString(b, string(c.Unit))
	}
	return wire.CloseArray(b, a)
}

func (e *encoder) clockSample() {
	c := clock.read()
	m := e.event(semconv.EventClockSample, severityInfo)
	b := wire.String(e.records, logAttributes, semconv.ClockNameKey, "monotonic")
	b = wire.Int(b, logAttributes, semconv.ClockRawTicksKey, c.mono)
	b = wire.Int(b, logAttributes, semconv.ClockUnixNanosKey, c.unix)
	b = wire.Int(b, logAttributes, semconv.ClockBracketNanosKey, c.bracket)
	e.records = wire.Close(b, m)
}

// diagnostics tells each diagnostic whose count grew.
func (e *encoder) diagnostics() {
	if n := e.rt.contended.Load(); n > diagContended.count.Load() {
		diagContended.count.Store(n)
	}
	for i, d := range diagCounters {
		n := d.count.Load()
		if n == e.diagTold[i] {
			continue
		}
		e.diagTold[i] = n
		m := e.event(semconv.EventDiagnostic, severityWarn)
		b := wire.String(e.records, logAttributes, semconv.DiagnosticCodeKey, d.code)
		b = wire.String(b, logAttributes, semconv.DiagnosticTextKey, d.text)
		b = wire.Int(b, logAttributes, semconv.DiagnosticCountKey, int64(n))
		e.records = wire.Close(b, m)
	}
}

// stack returns the wire id of a captured stack, defining it first. 0: it cannot be named.
func (e *encoder) stack(hash uint64) uint64 {
	s, ok := e.stacks[hash]
	if !ok {
		pcs, known := e.s.stacks.await(hash)
		if !known {
			diagStackUnknown.add()
			return 0
		}
		s = &stackEntry{frames: symbolize(pcs)}
		s.id = StackID(s.frames)
		e.stacks[hash] = s
	}
	e.define(s)
	return s.id
}

// define tells the recording a stack, once.
func (e *encoder) define(s *stackEntry) {
	if e.stacksTold[s.id] {
		return
	}
	e.stacksTold[s.id] = true
	m := e.event(semconv.EventStack, severityInfo)
	e.records = wire.Close(appendStack(e.records, s), m)
}

// maxDefined bounds the stacks that others than the worker name in one session.
const maxDefined = 4096

// define makes the current session tell a stack. It reports false when nothing records or there are too many.
func (rt *Runtime) define(s *stackEntry) bool {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.cur == nil || rt.active.Load() == 0 {
		return false
	}
	if rt.defined[s.id] {
		return true
	}
	if len(rt.defs) >= maxDefined {
		diagStackTableFull.add()
		return false
	}
	if rt.defined == nil {
		rt.defined = map[uint64]bool{}
	}
	rt.defined[s.id] = true
	rt.defs = append(rt.defs, s)
	return true
}

// wireStack returns the wire id of a stack that was captured just now and makes the session tell it. 0: it cannot be
// named.
func (rt *Runtime) wireStack(hash uint64) uint64 {
	t := rt.stacks.Load()
	if hash == 0 || t == nil {
		return 0
	}
	slot := t.slot(hash)
	if slot == nil {
		return 0
	}
	if id := slot.wire.Load(); id != 0 {
		return id
	}
	pcs, known := t.await(hash)
	if !known {
		return 0
	}
	s := &stackEntry{frames: symbolize(pcs)}
	s.id = StackID(s.frames)
	if !rt.define(s) {
		return 0
	}
	slot.wire.Store(s.id)
	return s.id
}

func appendStack(b []byte, s *stackEntry) []byte {
	b = wire.Hex64(b, logAttributes, semconv.StackIDKey, s.id)
	b, a := wire.OpenArray(b, logAttributes, semconv.StackFunctionsKey)
	for _, f := range s.frames {
		b = wire.ElementString(b, f.Function)
	}
	b = wire.CloseArray(b, a)
	b, a = wire.OpenArray(b, logAttributes, semconv.StackFilesKey)
	for _, f := range s.frames {
		b = wire.ElementString(b, f.File)
	}
	b = wire.CloseArray(b, a)
	b, a = wire.OpenArray(b, logAttributes, semconv.StackLinesKey)
	for _, f := range s.frames {
		b = wire.ElementInt(b, int64(f.Line))
	}
	return wire.CloseArray(b, a)
}

// await looks a stack up. A caller that was interrupted between claiming the slot and filling it is given a moment.
func (t *stackTable) await(hash uint64) (pcs []uintptr, known bool) {
	for i := range 100 {
		pcs, known, ready := t.lookup(hash)
		if !known || ready {
			return pcs, known
		}
		if i < 80 {
			runtime.Gosched()
		} else {
			time.Sleep(100 * time.Microsecond)
		}
	}
	return nil, false
}

// finishLogs assembles the logs request, or nil when there is nothing to tell. The bytes are valid until the next
// request.
func (e *encoder) finishLogs() []byte {
	if len(e.records) == 0 {
		return nil
	}
	b := e.out[1][:0]
	b, request := wire.Open(b, requestResource, wire.SizeVarint(uint64(len(e.records)+len(e.resource)+128)))
	b = wire.Bytes(b, resourceResource, e.resource)
	b, scope := wire.Open(b, resourceScope, wire.SizeVarint(uint64(len(e.records)+8)))
	b = wire.Header(b, scopeScope, wire.SizeBytes(len(scopeStax)))
	b = wire.Text(b, scopeName, scopeStax)
	b = append(b, e.records...)
	b = wire.Close(b, scope)
	b = wire.Text(b, resourceSchema, semconv.SchemaURL)
	b = wire.Close(b, request)
	e.out[1] = b
	return b
}
