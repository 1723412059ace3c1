package otlprows

import (
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Reasons why a record, or a part of one, becomes no row.
const (
	ReasonBadAttribute = "bad_attribute"     // a stax attribute has the wrong type or form
	ReasonBadCounter   = "bad_counter"       // the counter's key or value has the wrong form
	ReasonZeroID       = "zero_id"           // a dispatch, command buffer or wait without a span id
	ReasonUnknownType  = "unknown_span_type" // stax.span.type has a value of another version
	ReasonNotStored    = "not_stored"        // span events and links that the model has no place for
)

// Signals, as drop rows name them.
const (
	SignalDispatch      = "dispatch"
	SignalCommandBuffer = "command_buffer"
	SignalWait          = "wait"
	SignalSpan          = "span"
	SignalCounter       = "counter"
	SignalHeartbeat     = "heartbeat"
	SignalEvent         = "event"
	SignalLog           = "log"
)

// Hooks is what a conversion asks its user about the runtime that is being converted. Calls come from the goroutine that
// converts, in the order of the data.
type Hooks interface {
	// Lane takes a registration of a lane, from a scope with spans or from a log record. Empty fields were not sent.
	Lane(Lane)
	// Thread takes a CPU thread that some origin names; id 0 is none and must be ignored, name "" is unknown.
	Thread(id int64, name string)
	// Intern returns json as a string; equal ones may share memory. json is valid until the call returns.
	Intern(json []byte) string
	// HoldsStack reports whether the stack's frames need not become rows again.
	HoldsStack(archive.StackID) bool
	// HoldsCounters reports whether the definition of a counter set need not become rows again.
	HoldsCounters(id archive.CounterSetID, rows []archive.Counter) bool
	// Drop counts records that become no rows. seq is that of the record, or zero.
	Drop(seq archive.Seq, signal, reason string, n int)
	// ForeignSpan takes a span that is not part of the model.
	ForeignSpan(ptrace.ResourceSpans, ptrace.ScopeSpans, ptrace.Span)
	// ForeignLog takes a log record that is not a registration.
	ForeignLog(plog.ResourceLogs, plog.ScopeLogs, plog.LogRecord)
}

// Converter turns the records of one runtime at a time into rows. It owns scratch memory and is meant to be reused; it must
// not be used concurrently. The zero value is ready after [Converter.Begin].
type Converter struct {
	batch   *archive.Batch
	hooks   Hooks
	runtime archive.RuntimeID

	span      spanAttrs
	tags      []tag
	counters  []counterAttr
	json      []byte
	sequenced bool
	final     bool
}

// Begin makes the converter append rows of a runtime to batch, until the next Begin or Release.
func (c *Converter) Begin(batch *archive.Batch, runtime archive.RuntimeID, hooks Hooks) {
	c.batch, c.runtime, c.hooks = batch, runtime, hooks
	c.sequenced, c.final = false, false
}

// Runtime returns the runtime that Begin was called with.
func (c *Converter) Runtime() archive.RuntimeID { return c.runtime }

// Sequenced reports whether a record since Begin carried a sequence number, or there was a heartbeat.
func (c *Converter) Sequenced() bool { return c.sequenced }

// Final reports whether a heartbeat since Begin said that nothing follows.
func (c *Converter) Final() bool { return c.final }

// Release lets go of everything that belongs to the data and keeps the scratch memory.
func (c *Converter) Release() {
	c.batch, c.hooks, c.runtime = nil, nil, ""
	c.span = spanAttrs{}
	clear(c.tags[:cap(c.tags)])
	clear(c.counters[:cap(c.counters)])
}

// RuntimeID returns the runtime that a resource is. The receiver sets it; without a receiver the pid has to do.
func RuntimeID(resource pcommon.Map) archive.RuntimeID {
	if id := Str(resource, semconv.RuntimeIDKey); id != "" {
		return archive.RuntimeID(id)
	}
	pid, _ := Int(resource, semconv.ProcessPIDKey)
	return archive.RuntimeID("pid-" + strconv.FormatInt(pid, 10))
}

// ReadRuntime notes in row what a resource says about its runtime; what it does not say stays. PID becomes what the target
// says: the caller knows better when the target lives in another PID namespace.
func ReadRuntime(row *archive.Runtime, resource pcommon.Map) {
	for k, v := range resource.All() {
		switch v.Type() {
		case pcommon.ValueTypeInt:
			switch k {
			case semconv.ProcessPIDKey:
				row.TargetPID, row.PID = v.Int(), v.Int()
			case semconv.ProcessParentPIDKey:
				row.ParentPID = v.Int()
			case semconv.ClockErrorNanosKey:
				row.ClockErrorNanos = v.Int()
			}
		case pcommon.ValueTypeStr:
			to := (*string)(nil)
			switch k {
			case semconv.ServiceNameKey:
				to = &row.ServiceName
			case semconv.ProcessExecutableNameKey:
				to = &row.Executable
			case semconv.ProcessCommandLineKey:
				to = &row.CommandLine
			case semconv.TelemetrySDKNameKey:
				to = &row.SDKName
			case semconv.TelemetrySDKVersionKey:
				to = &row.SDKVersion
			case semconv.TelemetrySDKLanguageKey:
				to = &row.SDKLanguage
			}
			if to != nil && v.Str() != "" {
				*to = v.Str()
			}
		default: // no attribute of the runtime has another type
		}
	}
	if row.SDKName == "stax" {
		row.Sequenced = true
	}
}

// Lane is what the attributes of a lane say, on a scope or on a registration.
type Lane struct {
	ID              archive.LaneID
	Name, Kind      string // empty: not sent
	ClockErrorNanos int64
	Segment         uint64 // span id of the segment's root; 0: not sent
}

// parseLane reads the lane group. isLane is false when there is no lane id; bad is set when an attribute is malformed.
func parseLane(m pcommon.Map) (l Lane, isLane, bad bool) {
	for k, v := range m.All() {
		ok := true
		var s string
		switch k {
		case semconv.LaneIDKey:
			s, ok = strOf(v)
			l.ID = archive.LaneID(s)
			isLane = true
		case semconv.LaneNameKey:
			l.Name, ok = strOf(v)
		case semconv.LaneKindKey:
			l.Kind, ok = strOf(v)
		case semconv.LaneClockErrorNanosKey:
			l.ClockErrorNanos, ok = intOf(v)
		case semconv.SegmentIDKey:
			if s, ok = strOf(v); ok && s != "" {
				l.Segment, ok = parseHex64(s)
			}
		}
		bad = bad || !ok
	}
	return l, isLane, bad || (isLane && l.ID == "")
}

// Scope is what the attributes of a span's instrumentation scope say.
type Scope struct {
	Lane
	IsLane bool
	bad    bool // some attribute of the lane group is malformed
}

// ReadScope reads a scope's lane, without telling the hooks.
func ReadScope(scope pcommon.InstrumentationScope) Scope {
	lane, isLane, bad := parseLane(scope.Attributes())
	return Scope{Lane: lane, IsLane: isLane, bad: bad}
}

// Kind is what a span is to the model.
type Kind uint8

// The kinds of a span. The rows of a kind have been appended when Span returns it.
const (
	KindForeign       Kind = iota // not part of the model; no row
	KindSegment                   // root of a lane segment, a container for viewers; no row
	KindDropped                   // part of the model and unusable; counted, no row
	KindDispatch                  // the last row of Batch.Dispatches
	KindCommandBuffer             // the last row of Batch.CommandBuffers
	KindWait                      // the last row of Batch.Waits, and its Awaits
)

// Spans converts one resource of a traces request, with its heartbeats and the registrations of its lanes.
func (c *Converter) Spans(rspans ptrace.ResourceSpans) {
	for _, ss := range rspans.ScopeSpans().All() {
		scope := ss.Scope()
		if scope.Name() == semconv.ScopeHeartbeat {
			c.heartbeat(scope.Attributes())
			if ss.Spans().Len() == 0 {
				continue
			}
		}
		sc := ReadScope(scope)
		if sc.IsLane && !sc.bad && ss.Spans().Len() > 0 {
			c.hooks.Lane(sc.Lane)
		}
		for _, span := range ss.Spans().All() {
			if c.Span(&sc, span) == KindForeign {
				c.hooks.ForeignSpan(rspans, ss, span)
			}
		}
	}
}

// Span converts one span of a scope. Of the hooks it calls Thread, Intern and Drop.
func (c *Converter) Span(sc *Scope, span ptrace.Span) Kind {
	c.parseSpan(span)
	a := &c.span
	id := spanID(span.SpanID())
	if a.seq.N != 0 {
		c.sequenced = true
	}
	kind := a.kind(sc.IsLane)
	switch {
	case kind == "":
		return KindForeign
	case kind == semconv.SpanTypeSegment:
		return KindSegment
	case kind == SignalSpan:
		c.hooks.Drop(a.seq, SignalSpan, ReasonUnknownType, 1)
		return KindDropped
	case a.bad || (sc.bad && sc.IsLane):
		c.hooks.Drop(a.seq, kind, ReasonBadAttribute, 1)
		return KindDropped
	case id == 0:
		c.hooks.Drop(a.seq, kind, ReasonZeroID, 1)
		return KindDropped
	}
	switch kind {
	case semconv.SpanTypeDispatch:
		c.dispatch(&sc.Lane, span, id)
		return KindDispatch
	case semconv.SpanTypeCommandBuffer:
		c.commandBuffer(&sc.Lane, span, id)
		return KindCommandBuffer
	}
	if !c.wait(sc.ID, span, id) {
		return KindDropped
	}
	return KindWait
}

// Logs converts one resource of a logs request: registrations become rows. nowNanos dates diagnostics without a time.
func (c *Converter) Logs(rlogs plog.ResourceLogs, nowNanos int64) {
	for _, sl := range rlogs.ScopeLogs().All() {
		for _, lr := range sl.LogRecords().All() {
			m := lr.Attributes()
			ok := true
			switch lr.EventName() {
			case semconv.EventLane:
				lane, isLane, bad := parseLane(m)
				if ok = isLane && !bad; ok {
					c.hooks.Lane(lane)
				}
			case semconv.EventStack:
				ok = c.stack(m)
			case semconv.EventCounterSet:
				ok = c.counterSet(m)
			case semconv.EventClockSample:
				ok = c.clockSample(m)
			case semconv.EventDiagnostic:
				ok = c.diagnostic(lr, nowNanos)
			default:
				c.hooks.ForeignLog(rlogs, sl, lr)
			}
			if !ok {
				c.hooks.Drop(archive.Seq{}, SignalLog, ReasonBadAttribute, 1)
			}
		}
	}
}

// intern returns the canonical JSON of the span's free tags.
func (c *Converter) intern() string {
	if len(c.tags) == 0 {
		return ""
	}
	c.json = appendTags(c.json[:0], c.tags, 0)
	return c.hooks.Intern(c.json)
}
