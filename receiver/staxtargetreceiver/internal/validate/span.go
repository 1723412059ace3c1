package validate

import (
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Code names what is odd about a record that was kept.
type Code uint8

// The codes.
const (
	TimeZero         Code = iota // start or end is 0
	TimeAllOnes                  // start or end is 2^64-1
	EndBeforeStart               // end < start
	OutsideRecording             // start or end lies far outside the recording
	MissingLaneName              // the lane has an id, but no name
	Codes                        // how many there are
)

var codeNames = [Codes]string{"time_zero", "time_all_ones", "end_before_start", "outside_recording", "missing_lane_name"}

// String returns the stable name of the code.
func (c Code) String() string { return codeNames[c] }

// Diagnostics counts odd records by [Code].
type Diagnostics [Codes]uint64

// Window is the span of time that data of a recording is expected in. The zero value expects nothing.
type Window struct {
	From, To uint64 // Unix nanoseconds
}

// Slack is how far outside a live recording a time may lie before it is called odd.
const Slack = time.Hour

// LiveWindow returns the window of a recording that began at started, in Unix nanoseconds, and still runs at now.
func LiveWindow(started, now int64) Window {
	return Window{From: uint64(max(0, started-int64(Slack))), To: uint64(now + int64(Slack))}
}

// Counter is one typed counter value of a span.
type Counter struct {
	Key     string // attribute key without the prefix stax.counter.: <set>/<point>/<name>
	State   archive.CounterState
	IsFloat bool
	Int     int64
	Float   float64
}

// Facts is what one pass over a span found. It is reused from span to span.
type Facts struct {
	Type     string // semconv.SpanType*; empty for a span that is none of stax's
	Seq      archive.Seq
	Counters []Counter // valid until the next Span
}

// Signal names the kind of record for drop rows and metrics.
func (f *Facts) Signal() string {
	switch f.Type {
	case semconv.SpanTypeDispatch, semconv.SpanTypeCommandBuffer, semconv.SpanTypeWait:
		return f.Type
	}
	return "span"
}

// Span checks one span. inLane says that its scope is a lane's. Facts are filled in also when the span is refused, as far
// as they are known; odd times of a span that is kept are counted in diag.
func (f *Facts) Span(s ptrace.Span, inLane bool, w Window, diag *Diagnostics) Reason {
	f.Type, f.Seq, f.Counters = "", archive.Seq{}, f.Counters[:0]
	reason := f.attributes(s.Attributes())
	if f.Type == "" && inLane {
		f.Type = semconv.SpanTypeDispatch
	}
	switch {
	case reason != OK:
		return reason
	case s.SpanID().IsEmpty():
		return ZeroSpanID
	case s.TraceID().IsEmpty():
		return ZeroTraceID
	case !inLane && (f.Type == semconv.SpanTypeDispatch || f.Type == semconv.SpanTypeCommandBuffer || f.Type == semconv.SpanTypeSegment):
		return MissingLane
	case len(s.Name()) > MaxName || len(s.Status().Message()) > MaxValue || len(s.TraceState().AsRaw()) > MaxValue:
		return StringTooLong
	}
	for _, l := range s.Links().All() {
		if r := Attributes(l.Attributes()); r != OK {
			return r
		}
		if len(l.TraceState().AsRaw()) > MaxValue {
			return StringTooLong
		}
	}
	for _, e := range s.Events().All() {
		if len(e.Name()) > MaxName {
			return StringTooLong
		}
		if r := Attributes(e.Attributes()); r != OK {
			return r
		}
	}
	if f.Type != "" && f.Type != semconv.SpanTypeSegment {
		times(uint64(s.StartTimestamp()), uint64(s.EndTimestamp()), w, diag)
	}
	return OK
}

// attributes checks the span's attributes and collects what stax's say.
func (f *Facts) attributes(m pcommon.Map) Reason {
	reason := OK
	if m.Len() > MaxAttributes {
		reason = TooManyAttributes
	}
	for k, v := range m.All() {
		if reason != OK { // only the facts that a drop row needs
			switch k {
			case semconv.SpanTypeKey:
				if staxAttribute(k, v) == OK {
					f.Type = v.Str()
				}
			case semconv.SeqKey:
				if v.Type() == pcommon.ValueTypeInt {
					f.setSeq(v.Int())
				}
			case semconv.WaitAwaitsKey:
				if f.Type == "" {
					f.Type = semconv.SpanTypeWait
				}
			}
			continue
		}
		if len(k) > len(semconv.CounterPrefix) && k[:len(semconv.CounterPrefix)] == semconv.CounterPrefix {
			reason = f.counter(k, v)
			continue
		}
		if reason = attribute(k, v); reason != OK {
			if k == semconv.WaitAwaitsKey && f.Type == "" {
				f.Type = semconv.SpanTypeWait
			}
			continue
		}
		switch k {
		case semconv.SpanTypeKey:
			f.Type = v.Str()
		case semconv.SeqKey:
			f.setSeq(v.Int())
		case semconv.WaitAwaitsKey:
			if f.Type == "" {
				f.Type = semconv.SpanTypeWait
			}
		}
	}
	return reason
}

func (f *Facts) setSeq(v int64) {
	if seq, ok := ParseSeq(v); ok {
		f.Seq = seq
	}
}

func (f *Facts) counter(k string, v pcommon.Value) Reason {
	if len(k) > MaxKey {
		return StringTooLong
	}
	set, _, _, ok := ParseCounterKey(k)
	if !ok || len(set) > MaxID {
		return BadCounterKey
	}
	c := Counter{Key: k[len(semconv.CounterPrefix):], State: archive.CounterOK}
	switch v.Type() {
	case pcommon.ValueTypeInt:
		c.Int = v.Int()
	case pcommon.ValueTypeDouble:
		c.IsFloat, c.Float = true, v.Double()
	case pcommon.ValueTypeStr:
		switch v.Str() {
		case semconv.CounterStateError:
			c.State = archive.CounterError
		case semconv.CounterStateUnresolved:
			c.State = archive.CounterUnresolved
		default:
			return WrongType
		}
	default:
		return WrongType
	}
	f.Counters = append(f.Counters, c)
	return OK
}

// times counts what is odd about an interval: each thing once per span.
func times(start, end uint64, w Window, diag *Diagnostics) {
	odd := false
	if start == 0 || end == 0 {
		diag[TimeZero]++
		odd = true
	}
	if start == AllOnes || end == AllOnes {
		diag[TimeAllOnes]++
		odd = true
	}
	if end < start {
		diag[EndBeforeStart]++
	}
	if w.To != 0 && !odd && (start < w.From || start > w.To || end < w.From || end > w.To) {
		diag[OutsideRecording]++
	}
}
