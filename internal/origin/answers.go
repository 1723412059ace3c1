package origin

import (
	"slices"

	"github.com/stax-otel/stax/archive"
)

// Link decides what CPU stack an origin stands for. It is meaningful only for origins that were reported.
func (ix *Index) Link(rt archive.RuntimeID, owner archive.OwnerKind, id uint64, kind archive.OriginKind, o *archive.Origin) archive.Link {
	s := ix.subject(rt, o)
	return ix.linked(&s, rt, owner, id, kind, nil)
}

func (ix *Index) subject(rt archive.RuntimeID, o *archive.Origin) subject {
	s := subject{Origin: *o}
	if r := ix.runtimes[rt]; r != nil {
		s.pid, s.stranger, s.goTarget, s.evidence = r.row.PID, r.stranger, r.goTarget(), r.kin
		s.stackDefined = ix.stack(r, o.Stack) != nil
		s.event = ix.event(r, o.ThreadID, o.TimeNanos)
	}
	return s
}

func (ix *Index) linked(
	s *subject, rt archive.RuntimeID, owner archive.OwnerKind, id uint64, kind archive.OriginKind, x *LinkExplanation,
) archive.Link {
	v := ix.linker.decide(s, x)
	return archive.Link{
		Runtime: rt, OwnerKind: owner, Owner: id, Kind: kind,
		Status: v.status, Grade: v.grade, Weak: v.weak, DistanceNanos: v.distance, Stack: v.stack,
	}
}

// Covering returns the waits that cover the dispatch for certain, in the order in which they are
// considered. Waits without usable times are among them, at the end, when they name the dispatch.
func (ix *Index) Covering(d *archive.Dispatch) []archive.WaitID {
	rt := ix.runtimes[d.Runtime]
	if rt == nil {
		return nil
	}
	q := inquiry{rt: rt}
	err := int64(0)
	if l := rt.lanes[d.Lane]; l != nil {
		err = clockError(l.clockError, rt.row.ClockErrorNanos)
	}
	q.collect(d, err)
	var ids []archive.WaitID
	for _, w := range q.covering(nil, timeLimit) {
		ids = append(ids, rt.waits[w].id)
	}
	return ids
}

// covering appends to dst the waits that cover the dispatch for certain and, where a queue is
// awaited, began no later than the given instant. They are in order, each once.
func (q *inquiry) covering(dst []int32, beginTo int64) []int32 {
	for i := range q.parts[:q.n] {
		p := &q.parts[i]
		lo, hi := p.from, len(p.g.waits)
		if p.queue() {
			hi = p.g.after(q.rt.waits, beginTo)
		}
		p.g.each(q.rt.waits, lo, hi, bounds{minEnd: 1, maxEnd: timeLimit, seq: p.seq}, func(at int) {
			dst = append(dst, p.g.waits[at])
		})
		for j, w := range p.g.bad {
			if !p.drain && p.reason == "" && (p.g.badTo == nil || p.g.badTo[j] >= p.seq) {
				dst = append(dst, w)
			}
		}
	}
	slices.SortFunc(dst, q.rt.compare)
	return slices.Compact(dst)
}

// queue reports whether the part's waits await a queue.
func (p *part) queue() bool { return p.drain || p.g.upTo != nil }
