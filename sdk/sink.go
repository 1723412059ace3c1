package sdk

import (
	"math"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/stax-otel/stax/sdk/internal/link"
	"github.com/stax-otel/stax/sdk/semconv"
)

// A runtime with a sink has no receiver: it is always active, and its worker decodes records and hands them to the sink.
// It tells no registrations and counts no sequence; stacks are told to the default runtime's recording, if there is one.

// launchSink starts it. rt.mu is held.
func (rt *Runtime) launchSink() {
	v := verdict{state: StateRecording}
	v.reply.RecordingID = "sink"
	rt.want = v
	rt.done = make(chan struct{})
	rt.mu.Unlock()
	rt.begin(v)
	rt.mu.Lock()
	go func() {
		defer close(rt.done)
		defer rt.cancel()
		rt.protect(rt.runSink)
	}()
}

func (rt *Runtime) runSink() {
	s := rt.cur
	d := &sinkDecoder{e: s.enc, lanes: map[uint32]*link.Lane{}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var waiter *flushRequest
	for {
		rt.mu.Lock()
		closing := rt.closing
		rt.mu.Unlock()
		if closing {
			rt.detach(s)
		}
		rt.waking.Store(false)
		rt.snapshot(s)
		d.drain(s)
		rt.sink.Drained(closing || waiter != nil)
		if waiter != nil {
			waiter.done <- nil
			waiter = nil
		}
		if closing {
			w := &worker{rt: rt, s: s}
			w.finish()
			return
		}
		timer.Reset(rt.cfg.timing.drain)
		select {
		case <-timer.C:
		case <-rt.wakeup:
		case <-rt.changed:
		case <-rt.ctx.Done():
		case waiter = <-rt.flushes:
		}
	}
}

// sinkDecoder turns records into what a sink takes: the same facts as the encoder writes.
type sinkDecoder struct {
	e     *encoder
	lanes map[uint32]*link.Lane
	span  link.Span
}

// drain hands over everything of the last snapshot.
func (d *sinkDecoder) drain(s *session) {
	rt := d.e.rt
	d.e.names = names.snapshot()
	for k := range s.shards {
		a := &s.shards[k]
		if a.ring == nil {
			continue
		}
		tail, side := a.ring.tail.Load(), a.ring.sideTail.Load()
		for tail != a.head {
			r := &a.ring.recs[int(tail)&(len(a.ring.recs)-1)]
			if d.decode(r, a.ring.sideBytes(side, int(r.side), &d.e.scratch)) {
				rt.sink.Take(&d.span)
				rt.counts.sent.Add(1)
			} else {
				rt.counts.droppedSend.Add(1)
			}
			side += uint64(r.side)
			tail++
		}
		a.ring.sideTail.Store(side)
		a.ring.tail.Store(tail)
	}
}

func (d *sinkDecoder) lane(index uint32) *link.Lane {
	if l := d.lanes[index]; l != nil {
		return l
	}
	e := d.e.laneOf(index)
	if e == nil {
		return nil
	}
	l := &link.Lane{Index: index, Name: e.lane.name, Attributes: []attribute.KeyValue{
		attribute.String(semconv.LaneIDKey, e.lane.wireID()),
		attribute.String(semconv.LaneNameKey, e.lane.name),
		attribute.String(semconv.LaneKindKey, string(e.lane.kind)),
	}}
	if e.lane.clockError > 0 {
		l.Attributes = append(l.Attributes, attribute.Int64(semconv.LaneClockErrorNanosKey, int64(e.lane.clockError)))
	}
	d.lanes[index] = l
	return l
}

// decode fills d.span with a record. It reports false for a record of a lane that does not exist.
func (d *sinkDecoder) decode(r *record, side []byte) bool {
	s := &d.span
	*s = link.Span{
		ID: r.id, CommandBuffer: r.parent, IsBuffer: r.kind == kindCommandBuffer, Name: d.e.name(r.name), Start: r.start, End: r.end,
		Faulted: r.flags&flagFaulted != 0, Attributes: s.Attributes[:0], Events: s.Events[:0], Awaits: s.Awaits[:0],
	}
	o := r.origin()
	if o.cpuSpan.IsValid() && o.cpuTrace.IsValid() {
		s.Trace, s.Parent = o.cpuTrace, o.cpuSpan
	}
	text := func(k, v string) { s.Attributes = append(s.Attributes, attribute.String(k, v)) }
	number := func(k string, v int64) { s.Attributes = append(s.Attributes, attribute.Int64(k, v)) }
	if r.kind == kindWait {
		text(semconv.SpanTypeKey, semconv.SpanTypeWait)
		if o.thread != 0 {
			number(semconv.ThreadIDKey, o.thread)
		}
		if r.flags&flagTimedOut != 0 {
			s.Attributes = append(s.Attributes, attribute.Bool(semconv.WaitTimedOutKey, true))
		}
	} else {
		if s.Lane = d.lane(r.lane); s.Lane == nil {
			return false
		}
		if s.IsBuffer {
			text(semconv.SpanTypeKey, semconv.SpanTypeCommandBuffer)
		}
		if r.queue != 0 {
			text(semconv.QueueIDKey, d.e.name(r.queue))
		}
		if r.queueSeq != 0 {
			number(semconv.QueueSeqKey, int64(r.queueSeq))
		}
		if r.shader != 0 {
			text(semconv.ShaderIDKey, d.e.name(r.shader))
		}
	}
	s.Attributes = d.origin(s.Attributes, &o)
	d.side(s, side)
	return true
}

// origin appends an origin's attributes.
func (d *sinkDecoder) origin(a []attribute.KeyValue, o *Origin) []attribute.KeyValue {
	if o.thread != 0 {
		a = append(a, attribute.Int64(semconv.OriginThreadIDKey, o.thread))
	}
	if o.goroutine != 0 {
		a = append(a, attribute.Int64(semconv.OriginGoroutineIDKey, o.goroutine))
	}
	if o.locked {
		a = append(a, attribute.Bool(semconv.OriginThreadLockedKey, true))
	}
	if o.time != 0 {
		a = append(a, attribute.Int64(semconv.OriginTimeKey, o.time))
	}
	if s := d.stack(o.stack); s != nil {
		a = append(a, attribute.String(semconv.OriginStackIDKey, DispatchID(s.id).String()))
	}
	if o.cpuSpan.IsValid() && o.cpuTrace.IsValid() {
		a = append(a, attribute.String(semconv.OriginTraceIDKey, o.cpuTrace.String()), attribute.String(semconv.OriginSpanIDKey, o.cpuSpan.String()))
	}
	return a
}

// stack names a stack if somebody can be told what it is.
func (d *sinkDecoder) stack(hash uint64) *stackEntry {
	if hash == 0 || std.active.Load() == 0 {
		return nil
	}
	s, ok := d.e.stacks[hash]
	if !ok {
		pcs, known := d.e.s.stacks.await(hash)
		if !known {
			return nil
		}
		s = &stackEntry{frames: symbolize(pcs)}
		s.id = StackID(s.frames)
		d.e.stacks[hash] = s
	}
	if !std.define(s) {
		return nil
	}
	return s
}

// side decodes the side bytes.
func (d *sinkDecoder) side(s *link.Span, side []byte) {
	e := d.e
	e.seen = e.seen[:0]
	for r := readSide(side); r.more(); {
		switch item := sideItem(r.u8()); item {
		case sideTagString:
			if k, v := r.u32(), r.str(); !e.duplicate(uint64(k)) {
				s.Attributes = append(s.Attributes, attribute.String(e.name(k), string(validUTF8(v))))
			}
		case sideTagInt:
			if k, v := r.u32(), r.u64(); !e.duplicate(uint64(k)) {
				s.Attributes = append(s.Attributes, attribute.Int64(e.name(k), int64(v)))
			}
		case sideTagFloat:
			if k, v := r.u32(), r.u64(); !e.duplicate(uint64(k)) {
				s.Attributes = append(s.Attributes, attribute.Float64(e.name(k), math.Float64frombits(v)))
			}
		case sideCounters:
			set, point, n := r.u32(), r.u32(), int(r.u8())
			keys := e.key(set, point)
			if e.duplicate(uint64(set)<<32 | uint64(point)) {
				keys = nil
			}
			for i := range n {
				if v := r.value(); i < len(keys) {
					s.Attributes = append(s.Attributes, v.attribute(keys[i]))
				}
			}
		case sideStatus:
			s.Message = string(validUTF8(r.str()))
		case sideCompletion, sideFault:
			name := semconv.EventCompletion
			if item == sideFault {
				name = semconv.EventFault
			}
			o := r.origin()
			s.Events = append(s.Events, link.Event{Name: name, Time: o.time, Attributes: d.origin(nil, &o)})
		case sideAwait:
			s.Awaits = append(s.Awaits, link.Await{Prefix: semconv.AwaitDispatchPrefix, ID: r.u64()})
		case sideAwaitBuf:
			s.Awaits = append(s.Awaits, link.Await{Prefix: semconv.AwaitCommandBufferPrefix, ID: r.u64()})
		case sideAwaitQueue:
			queue := e.name(r.u32())
			if upTo := r.u64(); upTo != 0 {
				queue += "@" + strconv.FormatUint(upTo, 10)
			}
			s.Awaits = append(s.Awaits, link.Await{Prefix: semconv.AwaitQueuePrefix, Queue: queue})
		default:
			r.skip(item)
		}
	}
}

// attribute is the value as it stands on a span.
func (v Value) attribute(key string) attribute.KeyValue {
	switch v.state {
	case valueInt:
		return attribute.Int64(key, int64(v.bits))
	case valueFloat:
		return attribute.Float64(key, math.Float64frombits(v.bits))
	case valueError:
		return attribute.String(key, semconv.CounterStateError)
	}
	return attribute.String(key, semconv.CounterStateUnresolved)
}
