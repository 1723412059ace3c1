package sdk

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/stax-otel/stax/sdk/internal/wire"
	"github.com/stax-otel/stax/sdk/semconv"
)

// record encodes one record of a shard into its group. It reports false for a record of a lane that does not exist.
func (e *encoder) record(shard uint64, r *record, side []byte) bool {
	if r.kind == kindWait {
		e.waits = e.wait(e.waits, shard, r, side)
		e.waitN++
		return true
	}
	l := e.laneOf(r.lane)
	if l == nil {
		return false
	}
	seg := e.segmentOf(l, r)
	seg.spans++
	g := e.groupOf(l, seg)
	before := len(g.spans)
	g.spans = e.laneSpan(g.spans, seg, shard, r, side)
	e.spans += len(g.spans) - before
	return true
}

// laneSpan appends a dispatch or command buffer.
func (e *encoder) laneSpan(b []byte, seg *segment, shard uint64, r *record, side []byte) []byte {
	parent := seg.root
	if r.parent != 0 {
		parent = r.parent
	}
	b, m := wire.Open(b, scopeItems, 2)
	b = wire.Bytes(b, spanTraceID, seg.trace[:])
	b = wire.ID(b, spanID, r.id)
	b = wire.ID(b, spanParent, parent)
	b = wire.Text(b, spanName, e.name(r.name))
	b = wire.Varint(b, spanKind, kindConsumer)
	b = wire.Fixed64(b, spanStart, uint64(r.start))
	b = wire.Fixed64(b, spanEnd, uint64(r.end))
	b = appendSeq(b, shard, r.n)
	if r.kind == kindCommandBuffer {
		b = wire.String(b, spanAttributes, semconv.SpanTypeKey, semconv.SpanTypeCommandBuffer)
	}
	if r.queue != 0 {
		b = wire.String(b, spanAttributes, semconv.QueueIDKey, e.name(r.queue))
	}
	if r.queueSeq != 0 {
		b = wire.Int(b, spanAttributes, semconv.QueueSeqKey, int64(r.queueSeq))
	}
	if r.shader != 0 {
		b = wire.String(b, spanAttributes, semconv.ShaderIDKey, e.name(r.shader))
	}
	o := r.origin()
	b = e.origin(b, spanAttributes, &o)
	b = e.side(b, r, side)
	if o.cpuSpan.IsValid() && o.cpuTrace.IsValid() {
		var link wire.Mark
		b, link = wire.Open(b, spanLinks, 1)
		b = wire.Bytes(b, linkTraceID, o.cpuTrace[:])
		b = wire.Bytes(b, linkSpanID, o.cpuSpan[:])
		b = wire.String(b, linkAttributes, semconv.OriginKindKey, semconv.OriginKindDispatch)
		b = wire.Close(b, link)
	}
	return wire.Close(b, m)
}

// wait appends a wait: a child of the CPU span that was active, else a trace of its own per thread.
func (e *encoder) wait(b []byte, shard uint64, r *record, side []byte) []byte {
	o := r.origin()
	b, m := wire.Open(b, scopeItems, 2)
	if o.cpuSpan.IsValid() && o.cpuTrace.IsValid() {
		b = wire.Bytes(b, spanTraceID, o.cpuTrace[:])
		b = wire.ID(b, spanID, r.id)
		b = wire.Bytes(b, spanParent, o.cpuSpan[:])
	} else {
		trace := e.traceID(math.MaxUint32, uint32(o.thread))
		b = wire.Bytes(b, spanTraceID, trace[:])
		b = wire.ID(b, spanID, r.id)
	}
	b = wire.Text(b, spanName, e.name(r.name))
	b = wire.Varint(b, spanKind, kindInternal)
	b = wire.Fixed64(b, spanStart, uint64(r.start))
	b = wire.Fixed64(b, spanEnd, uint64(r.end))
	b = appendSeq(b, shard, r.n)
	b = wire.String(b, spanAttributes, semconv.SpanTypeKey, semconv.SpanTypeWait)
	if o.thread != 0 {
		b = wire.Int(b, spanAttributes, semconv.ThreadIDKey, o.thread)
	}
	b = e.origin(b, spanAttributes, &o)
	if r.flags&flagTimedOut != 0 {
		b = wire.Bool(b, spanAttributes, semconv.WaitTimedOutKey, true)
	}
	b = e.awaits(b, r, side)
	b = e.side(b, r, side)
	return wire.Close(b, m)
}

// maxAwaitBytes keeps stax.wait.awaits under what a receiver takes as one attribute value.
const maxAwaitBytes = 48 << 10

// awaits appends stax.wait.awaits, which a wait has even when it names nothing.
func (e *encoder) awaits(b []byte, r *record, side []byte) []byte {
	b, a := wire.OpenArray(b, spanAttributes, semconv.WaitAwaitsKey)
	begin := len(b)
	for s := readSide(side); s.more(); {
		text := e.body[:0]
		switch item := sideItem(s.u8()); item {
		case sideAwait:
			text = wire.AppendHex64(append(text, semconv.AwaitDispatchPrefix...), s.u64())
		case sideAwaitBuf:
			text = wire.AppendHex64(append(text, semconv.AwaitCommandBufferPrefix...), s.u64())
		case sideAwaitQueue:
			text = append(append(text, semconv.AwaitQueuePrefix...), e.name(s.u32())...)
			if upTo := s.u64(); upTo != 0 {
				text = strconv.AppendUint(append(text, '@'), upTo, 10)
			}
		default:
			s.skip(item)
			continue
		}
		e.body = text
		if len(b)-begin > maxAwaitBytes {
			r.dropped++
			diagAwaitsDropped.add()
			continue
		}
		b = wire.ElementBytes(b, text)
	}
	return wire.CloseArray(b, a)
}

func appendSeq(b []byte, shard, n uint64) []byte {
	return wire.Int(b, spanAttributes, semconv.SeqKey, int64(shard<<48|n&(1<<48-1)))
}

// origin appends an origin as attributes; an origin without facts appends nothing.
func (e *encoder) origin(b []byte, field int, o *Origin) []byte {
	if o.thread != 0 {
		b = wire.Int(b, field, semconv.OriginThreadIDKey, o.thread)
	}
	if o.goroutine != 0 {
		b = wire.Int(b, field, semconv.OriginGoroutineIDKey, o.goroutine)
	}
	if o.locked {
		b = wire.Bool(b, field, semconv.OriginThreadLockedKey, true)
	}
	if o.time != 0 {
		b = wire.Int(b, field, semconv.OriginTimeKey, o.time)
	}
	if o.stack != 0 {
		if id := e.stack(o.stack); id != 0 {
			b = wire.Hex64(b, field, semconv.OriginStackIDKey, id)
		}
	}
	if o.cpuSpan.IsValid() && o.cpuTrace.IsValid() {
		b = wire.HexBytes(b, field, semconv.OriginTraceIDKey, o.cpuTrace[:])
		b = wire.HexBytes(b, field, semconv.OriginSpanIDKey, o.cpuSpan[:])
	}
	return b
}

// side appends everything of the side bytes but awaits, and the status.
func (e *encoder) side(b []byte, r *record, side []byte) []byte {
	e.seen = e.seen[:0]
	dropped := uint64(r.dropped)
	var message []byte
	for s := readSide(side); s.more(); {
		switch item := sideItem(s.u8()); item {
		case sideTagString:
			k, v := s.u32(), s.str()
			if e.duplicate(uint64(k)) {
				dropped++
				continue
			}
			b = wire.StringBytes(b, spanAttributes, e.name(k), validUTF8(v))
		case sideTagInt, sideTagFloat:
			k, v := s.u32(), s.u64()
			switch {
			case e.duplicate(uint64(k)):
				dropped++
			case item == sideTagInt:
				b = wire.Int(b, spanAttributes, e.name(k), int64(v))
			default:
				b = wire.Double(b, spanAttributes, e.name(k), math.Float64frombits(v))
			}
		case sideCounters:
			set, point, n := s.u32(), s.u32(), int(s.u8())
			keys := e.key(set, point)
			if e.duplicate(uint64(set)<<32 | uint64(point)) { // set is never 0, so this is no tag key
				keys = nil
			}
			for i := range n {
				if v := s.value(); i < len(keys) {
					b = appendValue(b, keys[i], v)
				} else {
					dropped++
				}
			}
		case sideStatus:
			message = s.str()
		case sideCompletion, sideFault:
			name := semconv.EventCompletion
			if item == sideFault {
				name = semconv.EventFault
			}
			o := s.origin()
			var event wire.Mark
			b, event = wire.Open(b, spanEvents, 1)
			b = wire.Fixed64(b, eventTime, uint64(o.time))
			b = wire.Text(b, eventName, name)
			b = e.origin(b, eventAttributes, &o)
			b = wire.Close(b, event)
		default:
			s.skip(item)
		}
	}
	if dropped > 0 {
		b = wire.Varint(b, spanDropped, dropped)
	}
	if r.flags&flagFaulted != 0 {
		var status wire.Mark
		b, status = wire.Open(b, spanStatus, 1)
		if len(message) > 0 {
			b = wire.Bytes(b, statusMessage, validUTF8(message))
		}
		b = wire.Varint(b, statusCode, codeError)
		b = wire.Close(b, status)
	}
	return b
}

func appendValue(b []byte, key string, v Value) []byte {
	switch v.state {
	case valueInt:
		return wire.Int(b, spanAttributes, key, int64(v.bits))
	case valueFloat:
		return wire.Double(b, spanAttributes, key, math.Float64frombits(v.bits))
	case valueError:
		return wire.String(b, spanAttributes, key, semconv.CounterStateError)
	}
	return wire.String(b, spanAttributes, key, semconv.CounterStateUnresolved)
}

func validUTF8(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return []byte(clip(string(b)))
}
