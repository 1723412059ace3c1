package sdk

import "context"

// builder is the shared body of Dispatch, CommandBuffer and Wait: a record under construction, by value. rt == nil
// makes it inert.
type builder struct {
	rt      *Runtime
	x       *extras // only when the record has side bytes; owned while x.owner == rec.id
	origins OriginMode
	rec     record
}

// begin fills an inert builder. Callers have tested that the lane is active.
func (b *builder) begin(l *Lane, kind recordKind, n Name) {
	b.rt, b.origins = l.rt, l.origins
	b.rec.id, b.rec.kind = l.rt.reserveID(), kind
	b.rec.lane, b.rec.name, b.rec.queue = l.index, n.id, l.queue
}

// side returns the buffer for side bytes, or nil for a builder whose record was already reported through a copy.
func (b *builder) side() *extras {
	if b.x == nil {
		b.x = newExtras(b.rec.id)
	}
	if b.x.owner != b.rec.id {
		return nil
	}
	return b.x
}

func (b *builder) setOrigin(o Origin) {
	if b.rt != nil {
		b.rec.setOrigin(&o)
	}
}

// capture needs b.rt != nil.
func (b *builder) capture(ctx context.Context, skip int) {
	m := OriginMode(b.rt.active.Load())
	if b.origins != OriginDefault {
		m = min(m, b.origins)
	}
	if m > OriginOff {
		o := b.rt.capture(ctx, m, skip+1)
		b.rec.setOrigin(&o)
	}
}

// lost counts an attribute that did not fit; the span says how many.
func (b *builder) lost(n int) {
	if n > 0 {
		b.rec.dropped += uint16(min(n, 0xffff-int(b.rec.dropped)))
		diagAttributesDropped.addN(uint64(n))
	}
}

func (b *builder) tag(k Key, v string) {
	if b.rt == nil {
		return
	}
	if x := b.side(); x != nil && !x.tagString(k.id, v) {
		b.lost(1)
	}
}

func (b *builder) tagNumber(t sideItem, k Key, bits uint64) {
	if b.rt == nil {
		return
	}
	if x := b.side(); x != nil && !x.tagNumber(t, k.id, bits) {
		b.lost(1)
	}
}

func (b *builder) counters(set *CounterSet, point SamplePoint, values []Value) {
	if b.rt == nil || set == nil {
		return
	}
	x := b.side()
	if x == nil {
		return
	}
	p, ok := points.number(point)
	if set.index == 0 || !ok {
		b.lost(len(values))
		return
	}
	take := values[:min(len(values), len(set.counters))]
	b.lost(len(values) - x.counters(set, p, take))
}

func (b *builder) fault(msg string) {
	if b.rt == nil {
		return
	}
	b.rec.flags |= flagFaulted
	if x := b.side(); x != nil && msg != "" && !x.status(msg) {
		b.lost(1)
	}
}

func (b *builder) extraOrigin(t sideItem, o *Origin) {
	if b.rt == nil || o.IsZero() {
		return
	}
	if x := b.side(); x != nil && !x.origin(t, o) {
		b.lost(1)
	}
}

// end reports a record that began at b.rec.start and ends now. It needs b.rt != nil.
func (b *builder) end() { b.report(b.rec.start, int64(Now())) }

// report pushes the record and makes b inert. It needs b.rt != nil.
func (b *builder) report(start, end int64) {
	rt := b.rt
	b.rt = nil
	b.rec.start, b.rec.end = start, end
	if x := b.x; x != nil && x.owner == b.rec.id {
		rt.push(&b.rec, x.buf)
		x.release()
	} else {
		rt.push(&b.rec, nil)
	}
	b.x = nil
}
