package otlprows

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

func (c *Converter) stack(m pcommon.Map) bool {
	id, ok := parseHex64(Str(m, semconv.StackIDKey))
	functions, ok1 := strs(m, semconv.StackFunctionsKey)
	files, ok2 := strs(m, semconv.StackFilesKey)
	lines, ok3 := ints(m, semconv.StackLinesKey)
	if !ok || id == 0 || !ok1 || !ok2 || !ok3 || len(files) != len(functions) || len(lines) != len(functions) || len(functions) == 0 {
		return false
	}
	stack := archive.StackID(id)
	if c.hooks.HoldsStack(stack) {
		return true
	}
	if slices.ContainsFunc(c.batch.StackFrames, func(f archive.StackFrame) bool {
		return f.Depth == 0 && f.Stack == stack && f.Runtime == c.runtime
	}) {
		return true
	}
	for i, fn := range functions {
		c.batch.StackFrames = append(c.batch.StackFrames, archive.StackFrame{
			Runtime: c.runtime, Stack: stack, Depth: uint32(i), Function: fn, File: files[i], Line: lines[i],
		})
	}
	return true
}

func (c *Converter) counterSet(m pcommon.Map) bool {
	id := archive.CounterSetID(Str(m, semconv.CounterSetIDKey))
	names, ok1 := strs(m, semconv.CounterSetNamesKey)
	units, ok2 := strs(m, semconv.CounterSetUnitsKey)
	if id == "" || !ok1 || !ok2 || len(units) != len(names) || len(names) == 0 {
		return false
	}
	setName := Str(m, semconv.CounterSetNameKey)
	rows := make([]archive.Counter, len(names))
	for i, name := range names {
		rows[i] = archive.Counter{Runtime: c.runtime, Set: id, SetName: setName, Index: uint32(i), Name: name, Unit: units[i]}
	}
	if !c.hooks.HoldsCounters(id, rows) {
		c.batch.Counters = append(c.batch.Counters, rows...)
	}
	return true
}

func (c *Converter) clockSample(m pcommon.Map) bool {
	name := Str(m, semconv.ClockNameKey)
	ticks, ok1 := Int(m, semconv.ClockRawTicksKey)
	unix, ok2 := Int(m, semconv.ClockUnixNanosKey)
	bracket, ok3 := Int(m, semconv.ClockBracketNanosKey)
	if name == "" || !ok1 || !ok2 || !ok3 {
		return false
	}
	c.batch.ClockSamples = append(c.batch.ClockSamples, archive.ClockSample{
		Runtime: c.runtime, Clock: name, RawTicks: ticks, UnixNanos: unix, ErrorNanos: bracket,
	})
	return true
}

func (c *Converter) diagnostic(lr plog.LogRecord, now int64) bool {
	m := lr.Attributes()
	code := Str(m, semconv.DiagnosticCodeKey)
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
	c.batch.Diagnostics = append(c.batch.Diagnostics, archive.Diagnostic{
		Runtime: c.runtime, TimeNanos: at, Source: "sdk", Code: code, Text: Str(m, semconv.DiagnosticTextKey), Count: uint64(count),
	})
	return true
}
