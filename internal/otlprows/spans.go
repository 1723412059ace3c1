package otlprows

import (
	"encoding/binary"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// spanAttrs is what the attributes of one span say, apart from counters and free tags.
type spanAttrs struct {
	typ           string
	seq           archive.Seq
	commandBuffer uint64
	queue         string
	queueSeq      int64
	shader        string
	threadID      int64
	awaits        pcommon.Slice
	hasAwaits     bool
	timedOut      bool
	origin        archive.Origin
	bad           bool // an attribute is malformed
}

type counterAttr struct {
	key   string
	value pcommon.Value
}

const (
	seqBits           = 48
	containmentPrefix = "stax.containment."
)

// kind returns what a span is: a span type, "" for a span that is not part of the model, SignalSpan for one of an unknown
// type. Dispatches and command buffers need a lane.
func (a *spanAttrs) kind(isLane bool) string {
	switch {
	case a.typ == semconv.SpanTypeWait, a.typ == "" && a.hasAwaits:
		return semconv.SpanTypeWait
	case a.typ == semconv.SpanTypeSegment:
		return semconv.SpanTypeSegment
	case !isLane && a.typ == "":
		return ""
	case !isLane:
		return SignalSpan
	case a.typ == "":
		return semconv.SpanTypeDispatch
	case a.typ == semconv.SpanTypeDispatch, a.typ == semconv.SpanTypeCommandBuffer:
		return a.typ
	}
	return SignalSpan
}

// parseSpan reads the attributes of a span into c.span, c.counters and c.tags.
func (c *Converter) parseSpan(span ptrace.Span) {
	c.span = spanAttrs{}
	c.tags, c.counters = c.tags[:0], c.counters[:0]
	a := &c.span
	for k, v := range span.Attributes().All() {
		ok := true
		var n int64
		var s string
		switch k {
		case semconv.SpanTypeKey:
			a.typ, ok = strOf(v)
			if a.typ == "" {
				a.typ = "?"
			}
		case semconv.SeqKey:
			n, ok = intOf(v)
			a.seq = archive.Seq{Shard: uint32(uint64(n) >> seqBits), N: uint64(n) & (1<<seqBits - 1)}
		case semconv.CommandBufferIDKey:
			if s, ok = strOf(v); ok {
				a.commandBuffer, ok = parseHex64(s)
			}
		case semconv.QueueIDKey:
			a.queue, ok = strOf(v)
		case semconv.QueueSeqKey:
			a.queueSeq, ok = intOf(v)
			ok = ok && a.queueSeq >= 0
		case semconv.ShaderIDKey:
			a.shader, ok = strOf(v)
		case semconv.WaitAwaitsKey:
			a.hasAwaits = true
			if ok = v.Type() == pcommon.ValueTypeSlice; ok {
				a.awaits = v.Slice()
			}
		case semconv.WaitTimedOutKey:
			a.timedOut, ok = boolOf(v)
		case semconv.ThreadIDKey, semconv.ThreadNameKey:
			c.tags = append(c.tags, tag{k, v}) // the wait takes them out again; on a dispatch they are free
		case semconv.OriginStatusKey, semconv.OriginGradeKey, semconv.OriginDistanceNanosKey, semconv.OriginWeakKey,
			semconv.OriginKindKey:
			// verdicts of the streaming linker: the archive derives its own over the whole recording
		default:
			var mine bool
			if mine, ok = originAttr(&a.origin, k, v); mine {
				break
			}
			if strings.HasPrefix(k, containmentPrefix) {
				break // verdicts as well
			}
			if strings.HasPrefix(k, semconv.CounterPrefix) {
				c.counters = append(c.counters, counterAttr{k, v})
				break
			}
			c.tags = append(c.tags, tag{k, v})
		}
		a.bad = a.bad || !ok
	}
}

// originAttr reads one attribute of the origin group into o. mine is false for other attributes, ok for malformed ones.
func originAttr(o *archive.Origin, key string, v pcommon.Value) (mine, ok bool) {
	var s string
	switch key {
	case semconv.OriginThreadIDKey:
		o.ThreadID, ok = intOf(v)
	case semconv.OriginGoroutineIDKey:
		o.GoroutineID, ok = intOf(v)
	case semconv.OriginThreadLockedKey:
		o.ThreadLocked, ok = boolOf(v)
	case semconv.OriginTimeKey:
		o.TimeNanos, ok = intOf(v)
	case semconv.OriginStackIDKey:
		if s, ok = strOf(v); ok {
			var id uint64
			id, ok = parseHex64(s)
			o.Stack = archive.StackID(id)
		}
	case semconv.OriginTraceIDKey:
		if s, ok = strOf(v); ok {
			o.CPUTrace, ok = parseHex128(s)
		}
	case semconv.OriginSpanIDKey:
		if s, ok = strOf(v); ok {
			o.CPUSpan, ok = parseHex64(s)
		}
	default:
		return false, true
	}
	return true, ok
}

func (c *Converter) dispatch(lane *Lane, span ptrace.Span, id uint64) {
	a := &c.span
	cb := a.commandBuffer
	if parent := spanID(span.ParentSpanID()); cb == 0 && lane.Segment != 0 && parent != lane.Segment {
		cb = parent
	}
	c.originFromLinks(span, SignalDispatch)
	c.hooks.Thread(a.origin.ThreadID, "")
	c.batch.Dispatches = append(c.batch.Dispatches, archive.Dispatch{
		Runtime: c.runtime, Lane: lane.ID, ID: archive.DispatchID(id), CommandBuffer: archive.CommandBufferID(cb),
		Queue: archive.QueueID(a.queue), QueueSeq: uint64(a.queueSeq), Name: span.Name(), Shader: archive.ShaderID(a.shader),
		StartNanos: int64(span.StartTimestamp()), EndNanos: int64(span.EndTimestamp()),
		Faulted: span.Status().Code() == ptrace.StatusCodeError, StatusMessage: span.Status().Message(),
		Origin: a.origin, Trace: archive.TraceID(span.TraceID()), Tags: c.intern(), Seq: a.seq,
	})
	c.counterSamples(archive.OwnerDispatch, id, lane.ID)
	c.spanEvents(archive.OwnerDispatch, id, span)
}

func (c *Converter) commandBuffer(lane *Lane, span ptrace.Span, id uint64) {
	a := &c.span
	c.originFromLinks(span, SignalCommandBuffer)
	c.hooks.Thread(a.origin.ThreadID, "")
	c.batch.CommandBuffers = append(c.batch.CommandBuffers, archive.CommandBuffer{
		Runtime: c.runtime, Lane: lane.ID, ID: archive.CommandBufferID(id), Queue: archive.QueueID(a.queue), QueueSeq: uint64(a.queueSeq),
		Name: span.Name(), StartNanos: int64(span.StartTimestamp()), EndNanos: int64(span.EndTimestamp()),
		Faulted: span.Status().Code() == ptrace.StatusCodeError, StatusMessage: span.Status().Message(),
		Origin: a.origin, Trace: archive.TraceID(span.TraceID()), Tags: c.intern(), Seq: a.seq,
	})
	c.counterSamples(archive.OwnerCommandBuffer, id, lane.ID)
	c.spanEvents(archive.OwnerCommandBuffer, id, span)
}

func (c *Converter) wait(lane archive.LaneID, span ptrace.Span, id uint64) bool {
	a := &c.span
	name, ok := "", true
	kept := c.tags[:0]
	for _, t := range c.tags {
		var good bool
		switch t.key {
		case semconv.ThreadIDKey:
			a.threadID, good = intOf(t.value)
		case semconv.ThreadNameKey:
			name, good = strOf(t.value)
		default:
			kept = append(kept, t)
			continue
		}
		ok = ok && good
	}
	c.tags = kept
	first := len(c.batch.Awaits)
	if a.hasAwaits {
		for _, v := range a.awaits.All() {
			w, good := parseAwait(v)
			ok = ok && good
			w.Runtime, w.Wait = c.runtime, archive.WaitID(id)
			c.batch.Awaits = append(c.batch.Awaits, w)
		}
	}
	if !ok {
		clear(c.batch.Awaits[first:])
		c.batch.Awaits = c.batch.Awaits[:first]
		c.hooks.Drop(a.seq, SignalWait, ReasonBadAttribute, 1)
		return false
	}
	o := &a.origin
	if o.ThreadID == 0 {
		o.ThreadID = a.threadID
	}
	if o.TimeNanos == 0 {
		o.TimeNanos = int64(span.StartTimestamp())
	}
	if parent := spanID(span.ParentSpanID()); o.CPUSpan == 0 && parent != 0 { // a wait is a child of the active CPU span
		o.CPUSpan, o.CPUTrace = parent, archive.TraceID(span.TraceID())
	}
	c.hooks.Thread(o.ThreadID, name)
	c.batch.Waits = append(c.batch.Waits, archive.Wait{
		Runtime: c.runtime, ID: archive.WaitID(id), Name: span.Name(),
		BeginNanos: int64(span.StartTimestamp()), EndNanos: int64(span.EndTimestamp()), TimedOut: a.timedOut,
		Origin: *o, Trace: archive.TraceID(span.TraceID()), Tags: c.intern(), Seq: a.seq,
	})
	c.counterSamples(archive.OwnerWait, id, lane)
	c.spanEvents(archive.OwnerWait, id, span)
	return true
}

// parseAwait reads one element of stax.wait.awaits.
func parseAwait(v pcommon.Value) (archive.Await, bool) {
	s, ok := strOf(v)
	if !ok {
		return archive.Await{}, false
	}
	if hex, found := strings.CutPrefix(s, semconv.AwaitDispatchPrefix); found {
		id, ok := parseHex64(hex)
		return archive.Await{Kind: archive.AwaitDispatch, Ref: id}, ok
	}
	if hex, found := strings.CutPrefix(s, semconv.AwaitCommandBufferPrefix); found {
		id, ok := parseHex64(hex)
		return archive.Await{Kind: archive.AwaitCommandBuffer, Ref: id}, ok
	}
	queue, found := strings.CutPrefix(s, semconv.AwaitQueuePrefix)
	if !found || queue == "" {
		return archive.Await{}, false
	}
	w := archive.Await{Kind: archive.AwaitQueue, Queue: archive.QueueID(queue)}
	if i := strings.LastIndexByte(queue, '@'); i > 0 {
		if n, err := strconv.ParseUint(queue[i+1:], 10, 64); err == nil { // else the @ belongs to the queue's id
			w.Queue, w.UpTo = archive.QueueID(queue[:i]), n
		}
	}
	return w, true
}

// counterSamples stores c.counters, whose keys are stax.counter.<set>/<point>/<name>.
func (c *Converter) counterSamples(owner archive.OwnerKind, id uint64, lane archive.LaneID) {
	for _, sample := range c.counters {
		set, rest, ok1 := strings.Cut(sample.key[len(semconv.CounterPrefix):], "/")
		point, name, ok2 := strings.Cut(rest, "/")
		row := archive.CounterSample{
			Runtime: c.runtime, OwnerKind: owner, Owner: id, Lane: lane, Set: archive.CounterSetID(set), Name: name, Point: point,
			State: archive.CounterOK,
		}
		ok := ok1 && ok2 && set != "" && point != "" && name != ""
		switch sample.value.Type() {
		case pcommon.ValueTypeInt:
			row.Int = sample.value.Int()
		case pcommon.ValueTypeDouble:
			row.IsFloat, row.Float = true, sample.value.Double()
		case pcommon.ValueTypeStr:
			switch st := archive.CounterState(sample.value.Str()); st {
			case archive.CounterError, archive.CounterUnresolved:
				row.State = st
			default:
				ok = false
			}
		default:
			ok = false
		}
		if !ok {
			c.hooks.Drop(archive.Seq{}, SignalCounter, ReasonBadCounter, 1)
			continue
		}
		c.batch.CounterSamples = append(c.batch.CounterSamples, row)
	}
}

// originFromLinks fills what the span's attributes leave open from a link with the origin kind dispatch, or without a kind
// (a plain OTel program that links its dispatch to the CPU span). Links of the kinds completion and fault are origins of
// their own, like span events.
func (c *Converter) originFromLinks(span ptrace.Span, signal string) {
	a := &c.span
	for _, link := range span.Links().All() {
		var o archive.Origin
		kind, bad := "", false
		for k, v := range link.Attributes().All() {
			var ok bool
			if k == semconv.OriginKindKey {
				kind, ok = strOf(v)
			} else {
				_, ok = originAttr(&o, k, v)
			}
			bad = bad || !ok
		}
		o.CPUTrace, o.CPUSpan = archive.TraceID(link.TraceID()), spanID(link.SpanID())
		switch {
		case bad:
			c.hooks.Drop(archive.Seq{}, SignalEvent, ReasonBadAttribute, 1)
		case kind == semconv.OriginKindDispatch, kind == "":
			mergeOrigin(&a.origin, o)
			if a.origin.CPUSpan != o.CPUSpan { // a second cause: the model has one
				c.hooks.Drop(archive.Seq{}, SignalEvent, ReasonNotStored, 1)
			}
		case kind == semconv.OriginKindCompletion, kind == semconv.OriginKindFault:
			owner := archive.OwnerDispatch
			if signal == SignalCommandBuffer {
				owner = archive.OwnerCommandBuffer
			}
			c.extraOrigin(owner, spanID(span.SpanID()), archive.OriginKind(kind), o)
		default:
			c.hooks.Drop(archive.Seq{}, SignalEvent, ReasonNotStored, 1)
		}
	}
}

// mergeOrigin fills the zero fields of dst. A CPU span goes with its trace.
func mergeOrigin(dst *archive.Origin, src archive.Origin) {
	if dst.ThreadID == 0 {
		dst.ThreadID = src.ThreadID
	}
	if dst.GoroutineID == 0 {
		dst.GoroutineID = src.GoroutineID
	}
	if dst.ThreadID == src.ThreadID {
		dst.ThreadLocked = dst.ThreadLocked || src.ThreadLocked
	}
	if dst.TimeNanos == 0 {
		dst.TimeNanos = src.TimeNanos
	}
	if dst.Stack == 0 {
		dst.Stack = src.Stack
	}
	if dst.CPUSpan == 0 {
		dst.CPUSpan, dst.CPUTrace = src.CPUSpan, src.CPUTrace
	}
}

// spanEvents stores completion and fault origins. Other events have no place in the model.
func (c *Converter) spanEvents(owner archive.OwnerKind, id uint64, span ptrace.Span) {
	for _, ev := range span.Events().All() {
		var kind archive.OriginKind
		switch ev.Name() {
		case semconv.EventCompletion:
			kind = archive.OriginCompletion
		case semconv.EventFault:
			kind = archive.OriginFault
		default:
			c.hooks.Drop(archive.Seq{}, SignalEvent, ReasonNotStored, 1)
			continue
		}
		var o archive.Origin
		bad := false
		for k, v := range ev.Attributes().All() {
			_, ok := originAttr(&o, k, v)
			bad = bad || !ok
		}
		if bad {
			c.hooks.Drop(archive.Seq{}, SignalEvent, ReasonBadAttribute, 1)
			continue
		}
		if o.TimeNanos == 0 {
			o.TimeNanos = int64(ev.Timestamp())
		}
		c.extraOrigin(owner, id, kind, o)
	}
}

func (c *Converter) extraOrigin(owner archive.OwnerKind, id uint64, kind archive.OriginKind, o archive.Origin) {
	c.hooks.Thread(o.ThreadID, "")
	c.batch.ExtraOrigins = append(c.batch.ExtraOrigins, archive.ExtraOrigin{
		Runtime: c.runtime, OwnerKind: owner, Owner: id, Kind: kind, Origin: o,
	})
}

// heartbeat stores the parallel arrays of a heartbeat scope, one row per shard.
func (c *Converter) heartbeat(m pcommon.Map) {
	bad := func() { c.hooks.Drop(archive.Seq{}, SignalHeartbeat, ReasonBadAttribute, 1) }
	at, ok := Int(m, semconv.HeartbeatTimeKey)
	final := false
	if v, has := m.Get(semconv.HeartbeatFinalKey); has {
		var good bool
		final, good = boolOf(v)
		ok = ok && good
	}
	shards, good := ints(m, semconv.HeartbeatShardsKey)
	if !ok || !good {
		bad()
		return
	}
	var cols [5][]int64
	for i, key := range [...]string{
		semconv.HeartbeatBaseKey, semconv.HeartbeatEmittedKey, semconv.HeartbeatDroppedFullKey,
		semconv.HeartbeatDroppedSendKey, semconv.HeartbeatDroppedOtherKey,
	} {
		col, good := ints(m, key)
		if !good || len(col) != len(shards) {
			bad()
			return
		}
		for _, n := range col {
			if n < 0 {
				bad()
				return
			}
		}
		cols[i] = col
	}
	for _, shard := range shards {
		if shard < 0 || shard > 1<<16-1 { // a sequence number has 16 bits for it
			bad()
			return
		}
	}
	c.sequenced = true
	for i, shard := range shards {
		c.batch.Heartbeats = append(c.batch.Heartbeats, archive.Heartbeat{
			Runtime: c.runtime, Shard: uint32(shard), TimeNanos: at, Base: uint64(cols[0][i]), Emitted: uint64(cols[1][i]),
			DroppedFull: uint64(cols[2][i]), DroppedSend: uint64(cols[3][i]), DroppedOther: uint64(cols[4][i]), Final: final,
		})
	}
	c.final = c.final || final
}

func spanID(id pcommon.SpanID) uint64 { return binary.BigEndian.Uint64(id[:]) }
