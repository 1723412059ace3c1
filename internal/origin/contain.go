package origin

import (
	"github.com/stax-otel/stax/archive"
)

// The three-valued logic of the package doc, made fast. A condition such as "begin <= e" compares two
// instants whose clocks differ by at most err, so for each wait it is
//
//	proven     begin <= e - err
//	refuted    begin >  e + err
//	undecided  otherwise
//
// For a class to be given, its condition must be proven for some wait (or for all, waited_late) and
// every class above it refuted for all. That is a sequence of questions of one form: "which is the
// first wait, in the order of compareWaits, whose begin and end lie in these bounds?". A group
// answers it without looking at every wait. The questions, in order, and what a hit means:
//
//	1. t0 <= begin <= e-err, end >= e+err                     synchronous
//	2. the same with undecided counting as proven             unproven
//	3. end < e-err (then begin < e-err too)                   timed_out
//	4. the same with undecided counting as proven             unproven
//	5. begin < t0, begin <= e+err, end >= e+err               unproven: began before the work was caused
//	6. begin > e+err (nothing else is left)                   waited_late
//	7. no wait covers it                                      asynchronous, or unproven: no_waits
//
// Whether a wait covers the dispatch can be undecided as well: the dispatch's submission number or
// origin instant is missing, or the wait's own times are not usable. Such a wait can only undecide.
//
// The deciding wait is the first hit. The target's own timed_out mark does not enter: a wait for two
// dispatches can time out on one of them, and the instants say on which.

// clockError bounds the difference between an instant of the lane and one of the runtime's threads.
// A lane that shares the runtime's clock (error 0) has none: both are readings of one clock, and the
// bound of that clock against Unix time shifts them alike. For a lane with a clock of its own the
// runtime's bound is added, because such clocks are usually calibrated against Unix time. -1: unknown.
func clockError(lane, runtime int64) int64 {
	switch {
	case lane == 0:
		return 0
	case lane < 0:
		return -1
	}
	return min(min(lane, timeLimit/2)+min(max(runtime, 0), timeLimit/2), timeLimit)
}

// part is the part of a group that concerns one dispatch.
type part struct {
	g    *group
	seq  uint64 // waits with a lower submission do not cover the dispatch
	from int    // waits from here on cover it for certain
	// maybe is the end of the waits, from the first, that may cover it, and reason why that is not certain.
	maybe  int
	reason string
	drain  bool // covering depends on when the wait began
}

// question bounds what the deciding wait of one step looks like.
type question struct {
	beginFrom, beginTo int64 // inclusive
	bounds
}

// inquiry is the state of one classification.
type inquiry struct {
	rt    *runtimeIndex
	parts [4]part
	n     int
}

// Certificate classifies a dispatch. Classes, flags and reasons: see the package doc.
func (ix *Index) Certificate(d *archive.Dispatch) archive.Certificate {
	c := archive.Certificate{
		Runtime: d.Runtime, Dispatch: d.ID, Class: ClassUnproven, Faulted: d.Faulted,
	}
	rt := ix.runtimes[d.Runtime]
	if rt == nil {
		c.Reason = ReasonNoWaits
		return c
	}
	lane := rt.lanes[d.Lane]
	if lane == nil {
		lane = &laneIndex{}
	}
	c.ClockErrorNanos = clockError(lane.clockError, rt.row.ClockErrorNanos)
	if !usableInterval(d.StartNanos, d.EndNanos) {
		c.Reason = ReasonBadTimes
		return c
	}
	q := inquiry{rt: rt}
	q.collect(d, c.ClockErrorNanos)
	class, reason, wait := q.decide(d, c.ClockErrorNanos)
	switch {
	case wait >= 0:
		c.Class, c.Reason = class, reason
		rt.fill(&c, d, &rt.waits[wait])
	case lane.waits:
		c.Class = ClassAsynchronous
	default:
		c.Reason = ReasonNoWaits
	}
	return c
}

// decide asks the questions above. A wait of -1 says that no wait covers the dispatch.
func (q *inquiry) decide(d *archive.Dispatch, err int64) (class, reason string, wait int32) {
	if q.n == 0 {
		return "", "", -1
	}
	if err < 0 {
		err = timeLimit // nothing that involves the lane's clock can be ordered
	}
	e, t0 := d.EndNanos, d.Origin.TimeNanos
	caused := usable(t0)
	if caused {
		if w, _ := q.ask(question{t0, e - err, bounds{minEnd: e + err, maxEnd: timeLimit}}, false); w >= 0 {
			return ClassSynchronous, "", w
		}
	}
	undecided := question{1, e + err, bounds{minEnd: e - err, maxEnd: timeLimit}}
	reason = ReasonNoOrigin
	if caused {
		undecided.beginFrom, reason = t0, ReasonClockError
	}
	if w, reason := q.first(undecided, reason); w >= 0 {
		return ClassUnproven, reason, w
	}
	if w := q.badWait(); w >= 0 {
		if q.rt.waits[w].missing {
			return ClassUnproven, ReasonWaitMissing, w
		}
		return ClassUnproven, ReasonBadTimes, w
	}

	if w, _ := q.ask(question{1, timeLimit, bounds{minEnd: 1, maxEnd: e - err - 1}}, false); w >= 0 {
		return ClassTimedOut, "", w
	}
	if w, reason := q.ask(question{1, timeLimit, bounds{minEnd: 1, maxEnd: e + err - 1}}, true); w >= 0 {
		return ClassUnproven, reason, w
	}
	if caused { // otherwise nothing that began before e+err is left
		if w, _ := q.ask(question{1, t0 - 1, bounds{minEnd: e - err, maxEnd: e + err - 1}}, false); w >= 0 {
			return ClassUnproven, ReasonClockError, w
		}
		early := question{1, min(t0-1, e+err), bounds{minEnd: e + err, maxEnd: timeLimit}}
		if w, reason := q.first(early, ReasonOriginAfterBegin); w >= 0 {
			if reason == ReasonOriginAfterBegin && q.rt.waits[w].begin > e-err {
				reason = ReasonClockError
			}
			return ClassUnproven, reason, w
		}
	}

	late := question{e + err + 1, timeLimit, bounds{minEnd: 1, maxEnd: timeLimit}}
	if w, _ := q.ask(late, false); w >= 0 {
		return ClassWaitedLate, "", w
	}
	if w, reason := q.ask(late, true); w >= 0 {
		return ClassUnproven, reason, w
	}
	return "", "", -1
}

// fill writes the deciding wait and everything that follows from it. Without one nothing was compared,
// and the numbers stay zero.
func (rt *runtimeIndex) fill(c *archive.Certificate, d *archive.Dispatch, w *waitRow) {
	c.Wait, c.OriginNanos, c.BeginNanos, c.EndNanos = w.id, d.Origin.TimeNanos, w.begin, w.end
	c.Corroboration = CorroborationClaimed
	c.CrossThread = crossThread(d.Origin, w.thread, w.goroutine)
	if rt.stacks.defined(d.Origin.Stack) && rt.stacks.defined(w.stack) {
		c.DifferentStack = !rt.stacks.common(d.Origin.Stack, w.stack)
	}
	if c.Class == ClassSynchronous {
		c.OwnedNanos = overlap(d.StartNanos, d.EndNanos, w.begin, w.end)
	}
}

// crossThread reports whether two origins are known to lie on different threads of execution: on
// different goroutines where both are known, whatever threads those ran on, else on different threads.
func crossThread(o archive.Origin, thread, goroutine int64) bool {
	if o.GoroutineID != 0 && goroutine != 0 {
		return o.GoroutineID != goroutine
	}
	return o.ThreadID > 0 && thread > 0 && o.ThreadID != thread
}

func overlap(aStart, aEnd, bStart, bEnd int64) int64 {
	return max(min(aEnd, bEnd)-max(aStart, bStart), 0)
}

func (q *inquiry) add(p part) {
	if len(p.g.waits)+len(p.g.bad) > 0 {
		q.parts[q.n] = p
		q.n++
	}
}

// collectNamed finds the groups that name the dispatch or its command buffer.
func (q *inquiry) collectNamed(d *archive.Dispatch) {
	rt := q.rt
	if g := rt.dispatch[d.ID]; g != nil {
		q.add(part{g: g})
	}
	if d.CommandBuffer != 0 && len(rt.buffer) > 0 {
		if g := rt.buffer[d.CommandBuffer]; g != nil {
			q.add(part{g: g})
		}
	}
}

// collect finds the groups that concern the dispatch.
func (q *inquiry) collect(d *archive.Dispatch, err int64) {
	q.collectNamed(d)
	rt := q.rt
	if len(rt.queues) == 0 {
		return
	}
	id, seq := rt.place(d)
	queue := rt.queues[id]
	if queue == nil {
		return
	}
	up := part{g: &queue.upTo, seq: seq}
	if seq == 0 {
		up.from, up.maybe, up.reason = len(up.g.waits), len(up.g.waits), ReasonNoQueueSeq
	}
	q.add(up)
	drain := part{g: &queue.drain, drain: true}
	if usable(d.Origin.TimeNanos) {
		drain.from = drain.g.notBefore(rt.waits, d.Origin.TimeNanos)
	} else {
		// Without an origin instant, work that had started when the wait began was dispatched before it.
		drain.from = len(drain.g.waits)
		if err >= 0 {
			drain.from = drain.g.notBefore(rt.waits, d.StartNanos+err)
		}
		drain.maybe, drain.reason = drain.from, ReasonNoOrigin
	}
	q.add(drain)
}

// ask returns the first wait, as an index into the runtime's waits, that answers the question among
// those that cover the dispatch for certain or, with maybe, those that may; -1: none.
func (q *inquiry) ask(x question, maybe bool) (wait int32, reason string) {
	wait = -1
	for i := range q.parts[:q.n] {
		p := &q.parts[i]
		if p.from == 0 && maybe || len(p.g.waits) == 0 {
			continue
		}
		lo, hi := p.g.notBefore(q.rt.waits, x.beginFrom), p.g.after(q.rt.waits, x.beginTo)
		if maybe {
			hi = min(hi, p.maybe)
		} else {
			lo = max(lo, p.from)
		}
		x.seq = p.seq
		if at := p.g.find(q.rt.waits, lo, hi, x.bounds); at >= 0 {
			if w := p.g.waits[at]; wait < 0 || w < wait {
				wait, reason = w, p.reason
			}
		}
	}
	return wait, reason
}

// first asks for certain and for possible waits and returns the first of both, with the given reason
// if its covering is certain.
func (q *inquiry) first(x question, reason string) (int32, string) {
	w, _ := q.ask(x, false)
	if m, why := q.ask(x, true); m >= 0 && (w < 0 || m < w) {
		return m, why
	}
	return w, reason
}

// badWait returns the first wait without usable times that may cover the dispatch.
func (q *inquiry) badWait() int32 {
	wait := int32(-1)
	for i := range q.parts[:q.n] {
		p := &q.parts[i]
		for j, w := range p.g.bad {
			if p.g.badTo != nil && p.g.badTo[j] < p.seq {
				continue
			}
			if wait < 0 || w < wait {
				wait = w
			}
			break
		}
	}
	return wait
}
