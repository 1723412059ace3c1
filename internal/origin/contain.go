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
//	1. t0 <= begin <= e-err, end >= e+err                     synchronous (unproven: all such waits are contradicted)
//	2. the same with undecided counting as proven             unproven
//	3. end < e-err (then begin < e-err too)                   timed_out (likewise)
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
	ix    *Index // for what evidence says about waits
	rt    *runtimeIndex
	parts [4]part
	n     int
	x     *CertificateExplanation // nil: nobody asks
}

// Certificate classifies a dispatch. Classes, flags and reasons: see the package doc.
func (ix *Index) Certificate(d *archive.Dispatch) archive.Certificate { return ix.certificate(d, nil) }

func (ix *Index) certificate(d *archive.Dispatch, x *CertificateExplanation) archive.Certificate {
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
	if x != nil {
		x.ClockErrorNanos, x.LaneReports, x.Covering = c.ClockErrorNanos, lane.waits, len(ix.Covering(d))
	}
	if !usableInterval(d.StartNanos, d.EndNanos) {
		c.Reason = ReasonBadTimes
		return c
	}
	q := inquiry{ix: ix, rt: rt, x: x}
	q.collect(d, c.ClockErrorNanos)
	class, reason, wait := q.decide(d, c.ClockErrorNanos)
	switch {
	case wait >= 0:
		c.Class, c.Reason = class, reason
		ix.fill(&c, d, rt, wait, x)
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
		if w, reason := q.proven(question{t0, e - err, bounds{minEnd: e + err, maxEnd: timeLimit}}); w >= 0 {
			return unless(reason, ClassSynchronous), reason, w
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

	if w, reason := q.proven(question{1, timeLimit, bounds{minEnd: 1, maxEnd: e - err - 1}}); w >= 0 {
		return unless(reason, ClassTimedOut), reason, w
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

// unless is a class that is given unless there is a reason against it.
func unless(reason, class string) string {
	if reason != "" {
		return ClassUnproven
	}
	return class
}

// proven returns the first wait that answers the question, covers the dispatch for certain and is not contradicted by
// samples. If all are contradicted it is the first of these, with the reason.
func (q *inquiry) proven(x question) (wait int32, reason string) {
	wait, _ = q.ask(x, false)
	if wait < 0 || q.ix.corroboration(q.rt, wait) != CorroborationContradicted {
		return wait, ""
	}
	first := wait // the rare case: look at all of them, in order
	for next := wait; next >= 0; {
		if q.x != nil {
			q.x.Contradicted = append(q.x.Contradicted, q.rt.waits[next].id)
		}
		if next = q.askAfter(x, next); next >= 0 && q.ix.corroboration(q.rt, next) != CorroborationContradicted {
			return next, ""
		}
	}
	return first, ReasonContradicted
}

// askAfter is ask for certain waits that come after one.
func (q *inquiry) askAfter(x question, wait int32) int32 {
	next := int32(-1)
	for i := range q.parts[:q.n] {
		p := &q.parts[i]
		waits := q.rt.waits
		lo, hi := max(p.g.notBefore(waits, max(x.beginFrom, waits[wait].begin)), p.from), p.g.after(waits, x.beginTo)
		x.seq = p.seq
		for lo < hi {
			at := p.g.find(waits, lo, hi, x.bounds)
			if at < 0 {
				break
			}
			if w := p.g.waits[at]; q.rt.compare(w, wait) > 0 {
				if next < 0 || q.rt.compare(w, next) < 0 {
					next = w
				}
				break
			}
			lo = at + 1
		}
	}
	return next
}

// fill writes the deciding wait and everything that follows from it. Without one nothing was compared,
// and the numbers stay zero.
func (ix *Index) fill(c *archive.Certificate, d *archive.Dispatch, rt *runtimeIndex, wait int32, x *CertificateExplanation) {
	w := &rt.waits[wait]
	c.Wait, c.OriginNanos, c.BeginNanos, c.EndNanos = w.id, d.Origin.TimeNanos, w.begin, w.end
	c.Corroboration = ix.corroboration(rt, wait)

	cause, begun := ix.event(rt, d.Origin.ThreadID, d.Origin.TimeNanos), ix.event(rt, w.thread, w.at)
	goroutine, waiting := or(d.Origin.GoroutineID, cause.goroutine), or(w.goroutine, begun.goroutine)
	c.CrossThread = crossThread(d.Origin.ThreadID, goroutine, w.thread, waiting)
	a, b := ix.exactStack(rt, d.Origin.Stack, cause), ix.exactStack(rt, w.stack, begun)
	if a != nil && b != nil {
		c.DifferentStack = !ix.frames.common(a, b)
	}
	if c.Class == ClassSynchronous {
		c.OwnedNanos = overlap(d.StartNanos, d.EndNanos, w.begin, w.end)
	}
	if x != nil {
		x.DispatchGoroutine, x.WaitGoroutine = goroutine, waiting
		x.Comparisons = []Comparison{
			compare("origin", "begin", d.Origin.TimeNanos, w.begin, 0),
			compare("begin", "work_end", w.begin, d.EndNanos, c.ClockErrorNanos),
			compare("work_end", "end", d.EndNanos, w.end, c.ClockErrorNanos),
		}
		x.Corroboration = &CorroborationExplanation{}
		ix.corroborate(rt, w, x.Corroboration)
	}
}

// exactStack is the stack that an origin has from the target, or else from the execution trace; nil: neither.
func (ix *Index) exactStack(rt *runtimeIndex, id archive.StackID, event exactEvent) *stack {
	if s := ix.stack(rt, id); s != nil {
		return s
	}
	return ix.stack(rt, event.stack)
}

func or(a, b int64) int64 {
	if a != 0 {
		return a
	}
	return b
}

// crossThread reports whether two origins are known to lie on different threads of execution: on
// different goroutines where both are known, whatever threads those ran on, else on different threads.
func crossThread(thread, goroutine, otherThread, otherGoroutine int64) bool {
	if goroutine != 0 && otherGoroutine != 0 {
		return goroutine != otherGoroutine
	}
	return thread > 0 && otherThread > 0 && thread != otherThread
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
			if w := p.g.waits[at]; wait < 0 || q.rt.compare(w, wait) < 0 {
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
	if m, why := q.ask(x, true); m >= 0 && (w < 0 || q.rt.compare(m, w) < 0) {
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
			if wait < 0 || q.rt.compare(w, wait) < 0 {
				wait = w
			}
			break
		}
	}
	return wait
}
