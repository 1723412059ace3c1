package validate

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/stax-otel/stax/sdk/semconv"
)

// Attributes checks the caps of a set of attributes, and the types of the stax attributes among them.
func Attributes(m pcommon.Map) Reason {
	if m.Len() > MaxAttributes {
		return TooManyAttributes
	}
	for k, v := range m.All() {
		if r := attribute(k, v); r != OK {
			return r
		}
	}
	return OK
}

// attribute checks one attribute, wherever it is. What depends on the place is checked by the callers.
func attribute(k string, v pcommon.Value) Reason {
	if len(k) > MaxKey {
		return StringTooLong
	}
	switch v.Type() {
	case pcommon.ValueTypeStr:
		if len(v.Str()) > MaxValue {
			return StringTooLong
		}
	case pcommon.ValueTypeBytes, pcommon.ValueTypeMap, pcommon.ValueTypeSlice:
		left := MaxValue
		if !fits(v, &left, 0) {
			return StringTooLong
		}
	}
	if len(k) > len(staxPrefix) && k[:len(staxPrefix)] == staxPrefix {
		return staxAttribute(k, v)
	}
	return OK
}

const staxPrefix = "stax."

// fits takes the size of v from left and reports whether there was enough.
func fits(v pcommon.Value, left *int, depth int) bool {
	*left -= 8
	switch v.Type() {
	case pcommon.ValueTypeStr:
		*left -= len(v.Str())
	case pcommon.ValueTypeBytes:
		*left -= v.Bytes().Len()
	case pcommon.ValueTypeSlice:
		if depth >= MaxDepth {
			return false
		}
		for _, e := range v.Slice().All() {
			if !fits(e, left, depth+1) {
				return false
			}
		}
	case pcommon.ValueTypeMap:
		if depth >= MaxDepth {
			return false
		}
		for k, e := range v.Map().All() {
			if *left -= len(k); !fits(e, left, depth+1) {
				return false
			}
		}
	}
	return *left >= 0
}

// staxAttribute checks the attributes of the model. Others that begin with "stax." are tags of a newer version or of
// the user: they pass.
func staxAttribute(k string, v pcommon.Value) Reason {
	switch k {
	case semconv.SpanTypeKey:
		switch str(v) {
		case semconv.SpanTypeDispatch, semconv.SpanTypeCommandBuffer, semconv.SpanTypeWait, semconv.SpanTypeSegment:
			return OK
		}
		return BadSpanType
	case semconv.SeqKey:
		if v.Type() != pcommon.ValueTypeInt {
			return BadSeq
		}
		if _, ok := ParseSeq(v.Int()); !ok {
			return BadSeq
		}
	case semconv.WaitAwaitsKey:
		return awaits(v)
	case semconv.RuntimeIDKey, semconv.LaneIDKey, semconv.QueueIDKey, semconv.ShaderIDKey, semconv.CounterSetIDKey:
		return id(v)
	case semconv.SegmentIDKey, semconv.CommandBufferIDKey, semconv.OriginStackIDKey, semconv.OriginSpanIDKey,
		semconv.StackIDKey, semconv.DetachedParentSpanIDKey:
		if v.Type() != pcommon.ValueTypeStr {
			return WrongType
		}
		if _, err := ParseID(v.Str()); err != nil {
			return BadID
		}
	case semconv.OriginTraceIDKey, semconv.DetachedTraceIDKey:
		if v.Type() != pcommon.ValueTypeStr {
			return WrongType
		}
		if !isTraceID(v.Str()) {
			return BadID
		}
	case semconv.LaneKindKey:
		if !KnownLaneKind(str(v)) {
			return BadLaneKind
		}
	case semconv.LaneNameKey, semconv.DispatchNameKey, semconv.CounterSetNameKey, semconv.ClockNameKey:
		return name(v)
	case semconv.OriginKindKey:
		if !knownOriginKind(str(v)) {
			return WrongType
		}
	case semconv.RecordingIDKey, semconv.OriginStatusKey, semconv.OriginGradeKey, semconv.ContainmentClassKey,
		semconv.CounterNameKey, semconv.CounterSetKey, semconv.CounterPointKey, semconv.CounterStateKey,
		semconv.DiagnosticCodeKey, semconv.DiagnosticTextKey:
		return typed(v, pcommon.ValueTypeStr)
	case semconv.WaitTimedOutKey, semconv.HeartbeatFinalKey:
		return typed(v, pcommon.ValueTypeBool)
	case semconv.PIDNamespaceKey, semconv.ClockErrorNanosKey, semconv.LaneClockErrorNanosKey, semconv.HeartbeatTimeKey,
		semconv.QueueSeqKey, semconv.OriginThreadIDKey, semconv.OriginGoroutineIDKey, semconv.OriginTimeKey,
		semconv.OriginDistanceNanosKey, semconv.ClockRawTicksKey, semconv.ClockUnixNanosKey, semconv.ClockBracketNanosKey,
		semconv.DiagnosticCountKey:
		return typed(v, pcommon.ValueTypeInt)
	case semconv.HeartbeatShardsKey, semconv.HeartbeatEmittedKey, semconv.HeartbeatBaseKey, semconv.HeartbeatDroppedFullKey,
		semconv.HeartbeatDroppedSendKey, semconv.HeartbeatDroppedOtherKey, semconv.StackLinesKey:
		return array(v, pcommon.ValueTypeInt)
	case semconv.StackFunctionsKey, semconv.StackFilesKey, semconv.CounterSetNamesKey, semconv.CounterSetUnitsKey:
		return array(v, pcommon.ValueTypeStr)
	}
	return OK
}

// str returns the string of v, or "" when it is not one: no enum has an empty value.
func str(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeStr {
		return ""
	}
	return v.Str()
}

func typed(v pcommon.Value, t pcommon.ValueType) Reason {
	if v.Type() != t {
		return WrongType
	}
	return OK
}

func array(v pcommon.Value, t pcommon.ValueType) Reason {
	if v.Type() != pcommon.ValueTypeSlice {
		return WrongType
	}
	for _, e := range v.Slice().All() {
		if e.Type() != t {
			return WrongType
		}
	}
	return OK
}

func id(v pcommon.Value) Reason {
	if v.Type() != pcommon.ValueTypeStr {
		return WrongType
	}
	if n := len(v.Str()); n == 0 || n > MaxID {
		return BadID
	}
	return OK
}

func name(v pcommon.Value) Reason {
	if v.Type() != pcommon.ValueTypeStr {
		return WrongType
	}
	if len(v.Str()) > MaxName {
		return StringTooLong
	}
	return OK
}

func awaits(v pcommon.Value) Reason {
	if v.Type() != pcommon.ValueTypeSlice {
		return BadAwaits
	}
	for _, e := range v.Slice().All() {
		if e.Type() != pcommon.ValueTypeStr {
			return BadAwaits
		}
		if _, err := ParseAwait(e.Str()); err != nil {
			return BadAwaits
		}
	}
	return OK
}
