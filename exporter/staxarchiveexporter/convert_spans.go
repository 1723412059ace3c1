package staxarchiveexporter

import (
	"encoding/binary"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

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

const seqBits = 48

// spans converts one resource of a traces request.
func (s *state) spans(req *request, rspans ptrace.ResourceSpans) {
	rs := s.begin(rspans.Resource())
	defer s.end(req, rs)
	var foreign foreignSpans
	for _, ss := range rspans.ScopeSpans().All() {
		scope := ss.Scope()
		if scope.Name() == semconv.ScopeHeartbeat {
			s.heartbeat(req, rs, scope.Attributes())
			if ss.Spans().Len() == 0 {
				continue
			}
		}
		lane, isLane, bad := parseLane(scope.Attributes())
		if isLane && !bad && ss.Spans().Len() > 0 {
			s.lane(req, rs, lane)
		}
		for _, span := range ss.Spans().All() {
			req.parseSpan(span)
			a := &req.span
			id := spanID(span.SpanID())
			if a.seq.N != 0 {
				rs.row.Sequenced = true
			}
			kind := a.kind(isLane)
			switch {
			case kind == "":
				foreign.add(rspans, ss, span)
				continue
			case kind == semconv.SpanTypeSegment:
				continue // a container for viewers, no work
			case kind == signalSpan:
				req.drop(rs.id, a.seq, signalSpan, reasonUnknownType, 1)
				continue
			case a.bad || (bad && isLane):
				req.drop(rs.id, a.seq, kind, reasonBadAttribute, 1)
				continue
			case id == 0:
				req.drop(rs.id, a.seq, kind, reasonZeroID, 1)
				continue
			}
			switch kind {
			case semconv.SpanTypeDispatch:
				req.dispatch(rs, lane, span, id)
			case semconv.SpanTypeCommandBuffer:
				req.commandBuffer(rs, lane, span, id)
			case semconv.SpanTypeWait:
				req.wait(rs, lane, span, id)
			}
		}
	}
	foreign.store(s, req, rs)
}

// kind returns what a span is: a span type, "" for a span that is not part of the model, signalSpan for one of an unknown
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
		return signalSpan
	case a.typ == "":
		return semconv.SpanTypeDispatch
	case a.typ == semconv.SpanTypeDispatch, a.typ == semconv.SpanTypeCommandBuffer:
		return a.typ
	}
	return signalSpan
}

// parseSpan reads the attributes of a span into req.span, req.counters and req.tags.
func (q *request) parseSpan(span ptrace.Span) {
	q.span = spanAttrs{}
	q.tags, q.counters = q.tags[:0], q.counters[:0]
	a := &q.span
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
			q.tags = append(q.tags, tag{k, v}) // the wait takes them out again; on a dispatch they are free
		case semconv.OriginStatusKey, semconv.OriginGradeKey, semconv.OriginDistanceNanosKey, semconv.ContainmentClassKey,
			semconv.OriginKindKey:
			// verdicts of the streaming linker: the archive derives its own over the whole recording
		default:
			var mine bool
			if mine, ok = originAttr(&a.origin, k, v); mine {
				break
			}
			if strings.HasPrefix(k, semconv.CounterPrefix) {
				q.counters = append(q.counters, counterAttr{k, v})
				break
			}
			q.tags = append(q.tags, tag{k, v})
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

func (q *request) dispatch(rs *runtimeState, lane laneAttrs, span ptrace.Span, id uint64) {
	a := &q.span
	cb := a.commandBuffer
	if parent := spanID(span.ParentSpanID()); cb == 0 && lane.segment != 0 && parent != lane.segment {
		cb = parent
	}
	q.originFromLinks(rs, span, signalDispatch)
	rs.thread(q, a.origin.ThreadID, "")
	q.batch.Dispatches = append(q.batch.Dispatches, archive.Dispatch{
		Runtime: rs.id, Lane: lane.id, ID: archive.DispatchID(id), CommandBuffer: archive.CommandBufferID(cb),
		Queue: archive.QueueID(a.queue), QueueSeq: uint64(a.queueSeq), Name: span.Name(), Shader: archive.ShaderID(a.shader),
		StartNanos: int64(span.StartTimestamp()), EndNanos: int64(span.EndTimestamp()),
		Faulted: span.Status().Code() == ptrace.StatusCodeError, StatusMessage: span.Status().Message(),
		Origin: a.origin, Trace: archive.TraceID(span.TraceID()), Tags: rs.intern(q, q.tags), Seq: a.seq,
	})
	q.counterSamples(rs, archive.OwnerDispatch, id, lane.id)
	q.spanEvents(rs, archive.OwnerDispatch, id, span)
}

func (q *request) commandBuffer(rs *runtimeState, lane laneAttrs, span ptrace.Span, id uint64) {
	a := &q.span
	q.originFromLinks(rs, span, signalCommandBuffer)
	rs.thread(q, a.origin.ThreadID, "")
	q.batch.CommandBuffers = append(q.batch.CommandBuffers, archive.CommandBuffer{
		Runtime: rs.id, Lane: lane.id, ID: archive.CommandBufferID(id), Queue: archive.QueueID(a.queue), QueueSeq: uint64(a.queueSeq),
		Name: span.Name(), StartNanos: int64(span.StartTimestamp()), EndNanos: int64(span.EndTimestamp()),
		Faulted: span.Status().Code() == ptrace.StatusCodeError, StatusMessage: span.Status().Message(),
		Origin: a.origin, Trace: archive.TraceID(span.TraceID()), Tags: rs.intern(q, q.tags), Seq: a.seq,
	})
	q.counterSamples(rs, archive.OwnerCommandBuffer, id, lane.id)
	q.spanEvents(rs, archive.OwnerCommandBuffer, id, span)
}

func (q *request) wait(rs *runtimeState, lane laneAttrs, span ptrace.Span, id uint64) {
	a := &q.span
	name, ok := "", true
	kept := q.tags[:0]
	for _, t := range q.tags {
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
	q.tags = kept
	first := len(q.batch.Awaits)
	if a.hasAwaits {
		for _, v := range a.awaits.All() {
			w, good := parseAwait(v)
			ok = ok && good
			w.Runtime, w.Wait = rs.id, archive.WaitID(id)
			q.batch.Awaits = append(q.batch.Awaits, w)
		}
	}
	if !ok {
		clear(q.batch.Awaits[first:])
		q.batch.Awaits = q.batch.Awaits[:first]
		q.drop(rs.id, a.seq, signalWait, reasonBadAttribute, 1)
		return
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
	rs.thread(q, o.ThreadID, name)
	q.batch.Waits = append(q.batch.Waits, archive.Wait{
		Runtime: rs.id, ID: archive.WaitID(id), Name: span.Name(),
		BeginNanos: int64(span.StartTimestamp()), EndNanos: int64(span.EndTimestamp()), TimedOut: a.timedOut,
		Origin: *o, Trace: archive.TraceID(span.TraceID()), Tags: rs.intern(q, q.tags), Seq: a.seq,
	})
	q.counterSamples(rs, archive.OwnerWait, id, lane.id)
	q.spanEvents(rs, archive.OwnerWait, id, span)
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

// counterSamples stores req.counters, whose keys are stax.counter.<set>/<point>/<name>.
func (q *request) counterSamples(rs *runtimeState, owner archive.OwnerKind, id uint64, lane archive.LaneID) {
	for _, c := range q.counters {
		set, rest, ok1 := strings.Cut(c.key[len(semconv.CounterPrefix):], "/")
		point, name, ok2 := strings.Cut(rest, "/")
		row := archive.CounterSample{
			Runtime: rs.id, OwnerKind: owner, Owner: id, Lane: lane, Set: archive.CounterSetID(set), Name: name, Point: point,
			State: archive.CounterOK,
		}
		ok := ok1 && ok2 && set != "" && point != "" && name != ""
		switch c.value.Type() {
		case pcommon.ValueTypeInt:
			row.Int = c.value.Int()
		case pcommon.ValueTypeDouble:
			row.IsFloat, row.Float = true, c.value.Double()
		case pcommon.ValueTypeStr:
			switch st := archive.CounterState(c.value.Str()); st {
			case archive.CounterError, archive.CounterUnresolved:
				row.State = st
			default:
				ok = false
			}
		default:
			ok = false
		}
		if !ok {
			q.drop(rs.id, archive.Seq{}, signalCounter, reasonBadCounter, 1)
			continue
		}
		q.batch.CounterSamples = append(q.batch.CounterSamples, row)
	}
}

// originFromLinks fills what the span's attributes leave open from a link with the origin kind dispatch, or without a kind
// (a plain OTel program that links its dispatch to the CPU span). Links of the kinds completion and fault are origins of
// their own, like span events.
func (q *request) originFromLinks(rs *runtimeState, span ptrace.Span, signal string) {
	a := &q.span
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
			q.drop(rs.id, archive.Seq{}, signalEvent, reasonBadAttribute, 1)
		case kind == semconv.OriginKindDispatch, kind == "":
			mergeOrigin(&a.origin, o)
			if a.origin.CPUSpan != o.CPUSpan { // a second cause: the model has one
				q.drop(rs.id, archive.Seq{}, signalEvent, reasonNotStored, 1)
			}
		case kind == semconv.OriginKindCompletion, kind == semconv.OriginKindFault:
			owner := archive.OwnerDispatch
			if signal == signalCommandBuffer {
				owner = archive.OwnerCommandBuffer
			}
			q.extraOrigin(rs, owner, spanID(span.SpanID()), archive.OriginKind(kind), o)
		default:
			q.drop(rs.id, archive.Seq{}, signalEvent, reasonNotStored, 1)
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
func (q *request) spanEvents(rs *runtimeState, owner archive.OwnerKind, id uint64, span ptrace.Span) {
	for _, ev := range span.Events().All() {
		var kind archive.OriginKind
		switch ev.Name() {
		case semconv.EventCompletion:
			kind = archive.OriginCompletion
		case semconv.EventFault:
			kind = archive.OriginFault
		default:
			q.drop(rs.id, archive.Seq{}, signalEvent, reasonNotStored, 1)
			continue
		}
		var o archive.Origin
		bad := false
		for k, v := range ev.Attributes().All() {
			_, ok := originAttr(&o, k, v)
			bad = bad || !ok
		}
		if bad {
			q.drop(rs.id, archive.Seq{}, signalEvent, reasonBadAttribute, 1)
			continue
		}
		if o.TimeNanos == 0 {
			o.TimeNanos = int64(ev.Timestamp())
		}
		q.extraOrigin(rs, owner, id, kind, o)
	}
}

func (q *request) extraOrigin(rs *runtimeState, owner archive.OwnerKind, id uint64, kind archive.OriginKind, o archive.Origin) {
	rs.thread(q, o.ThreadID, "")
	q.batch.ExtraOrigins = append(q.batch.ExtraOrigins, archive.ExtraOrigin{
		Runtime: rs.id, OwnerKind: owner, Owner: id, Kind: kind, Origin: o,
	})
}

// heartbeat stores the parallel arrays of a heartbeat scope, one row per shard.
func (s *state) heartbeat(req *request, rs *runtimeState, m pcommon.Map) {
	bad := func() { req.drop(rs.id, archive.Seq{}, signalHeartbeat, reasonBadAttribute, 1) }
	at, ok := integer(m, semconv.HeartbeatTimeKey)
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
	rs.row.Sequenced = true
	for i, shard := range shards {
		req.batch.Heartbeats = append(req.batch.Heartbeats, archive.Heartbeat{
			Runtime: rs.id, Shard: uint32(shard), TimeNanos: at, Base: uint64(cols[0][i]), Emitted: uint64(cols[1][i]),
			DroppedFull: uint64(cols[2][i]), DroppedSend: uint64(cols[3][i]), DroppedOther: uint64(cols[4][i]), Final: final,
		})
	}
	if final {
		req.finals = append(req.finals, rs.id)
	}
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
	s.passthrough(req, rs, "traces", signalSpan, f.n, payload, err)
}

func spanID(id pcommon.SpanID) uint64 { return binary.BigEndian.Uint64(id[:]) }
