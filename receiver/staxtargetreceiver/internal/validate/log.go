package validate

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/stax-otel/stax/sdk/semconv"
)

// Log checks one log record. Records that are no events of stax's are only held to the caps on attributes.
func Log(r plog.LogRecord) Reason {
	if len(r.EventName()) > MaxName {
		return StringTooLong
	}
	attrs := r.Attributes()
	if reason := Attributes(attrs); reason != OK {
		return reason
	}
	switch r.EventName() {
	case semconv.EventLane:
		if v, ok := attrs.Get(semconv.LaneIDKey); !ok || v.Str() == "" {
			return MissingLane
		}
		if _, ok := attrs.Get(semconv.LaneKindKey); !ok {
			return BadLaneKind
		}
	case semconv.EventStack:
		return stack(attrs)
	case semconv.EventCounterSet:
		return counterSet(attrs)
	case semconv.EventClockSample:
		for _, key := range [...]string{semconv.ClockNameKey, semconv.ClockRawTicksKey, semconv.ClockUnixNanosKey} {
			if _, ok := attrs.Get(key); !ok {
				return BadDefinition
			}
		}
	case semconv.EventDiagnostic:
		if _, ok := attrs.Get(semconv.DiagnosticCodeKey); !ok {
			return BadDefinition
		}
	}
	return OK
}

func stack(attrs pcommon.Map) Reason {
	if _, ok := attrs.Get(semconv.StackIDKey); !ok {
		return BadID
	}
	functions, ok1 := attrs.Get(semconv.StackFunctionsKey)
	files, ok2 := attrs.Get(semconv.StackFilesKey)
	lines, ok3 := attrs.Get(semconv.StackLinesKey)
	if !ok1 || !ok2 || !ok3 {
		return BadDefinition
	}
	n := functions.Slice().Len()
	if n > MaxFrames || files.Slice().Len() != n || lines.Slice().Len() != n {
		return BadDefinition
	}
	return OK
}

func counterSet(attrs pcommon.Map) Reason {
	set, ok := attrs.Get(semconv.CounterSetIDKey)
	if !ok {
		return BadID
	}
	for _, c := range []byte(set.Str()) {
		if c == '/' {
			return BadID
		}
	}
	names, ok1 := attrs.Get(semconv.CounterSetNamesKey)
	units, ok2 := attrs.Get(semconv.CounterSetUnitsKey)
	if !ok1 || !ok2 || names.Slice().Len() != units.Slice().Len() || names.Slice().Len() > MaxCounters {
		return BadDefinition
	}
	for _, u := range units.Slice().All() {
		if !knownUnit(u.Str()) {
			return BadDefinition
		}
	}
	return OK
}
