package origin

import (
	"cmp"
	"maps"
	"slices"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// The oracle says the same as the package, from the words of the tables: it looks at every wait of
// every dispatch, one condition at a time, and at every nanosecond of a wait. It shares nothing with
// the package but the names of the classes.

// truth is a truth value: no < maybe < yes, so that "and" is min and "or" is max.
type truth int

const (
	no truth = iota
	maybe
	yes
)

func not(a truth) truth { return yes - a }

func is(b bool) truth {
	if b {
		return yes
	}
	return no
}

// atMost compares two instants whose clocks differ by at most e; e < 0: by nobody knows how much.
func atMost(a, b, e int64) truth {
	switch {
	case e < 0:
		return maybe
	case a <= b-e:
		return yes
	case a > b+e:
		return no
	}
	return maybe
}

func isTime(t int64) bool            { return t > 0 && t < 1<<62 }
func areTimes(start, end int64) bool { return isTime(start) && isTime(end) && start <= end }

type oracle struct{ *scenario }

// laneError bounds the difference of the lane's clock and the clock of the threads.
func (o oracle) laneError(d *archive.Dispatch) int64 {
	e, r := int64(0), int64(0)
	for _, l := range o.Lanes {
		if l.Runtime == d.Runtime && l.ID == d.Lane {
			e = l.ClockErrorNanos
		}
	}
	for _, rt := range o.Runtimes {
		if rt.ID == d.Runtime {
			r = max(rt.ClockErrorNanos, 0)
		}
	}
	if e > 0 {
		e += r
	}
	return e
}

// place returns the dispatch's queue and submission.
func (o oracle) place(d *archive.Dispatch) (archive.QueueID, uint64) {
	queue, seq := d.Queue, d.QueueSeq
	for _, b := range o.CommandBuffers {
		if b.Runtime == d.Runtime && b.ID == d.CommandBuffer && b.ID != 0 && o.queueAwaited(b.Runtime, b.Queue) {
			if queue == "" {
				queue = b.Queue
			}
			if queue == b.Queue && seq == 0 {
				seq = b.QueueSeq
			}
		}
	}
	return queue, seq
}

func (o oracle) queueAwaited(rt archive.RuntimeID, q archive.QueueID) bool {
	return slices.ContainsFunc(o.Awaits, func(a archive.Await) bool {
		return q != "" && a.Runtime == rt && a.Kind == archive.AwaitQueue && a.Queue == q
	})
}

// covers says whether what an await names includes the dispatch.
func (o oracle) covers(a *archive.Await, w *archive.Wait, d *archive.Dispatch) truth {
	if a.Runtime != d.Runtime || a.Kind == archive.AwaitQueue && a.Queue == "" {
		return no
	}
	switch a.Kind {
	case archive.AwaitDispatch:
		return is(a.Ref == uint64(d.ID))
	case archive.AwaitCommandBuffer:
		return is(d.CommandBuffer != 0 && a.Ref == uint64(d.CommandBuffer))
	}
	queue, seq := o.place(d)
	switch {
	case queue != a.Queue:
		return no
	case a.UpTo != 0 && seq == 0:
		return maybe
	case a.UpTo != 0:
		return is(seq <= a.UpTo)
	case w == nil || !areTimes(w.BeginNanos, w.EndNanos):
		return maybe
	case isTime(d.Origin.TimeNanos):
		return is(d.Origin.TimeNanos <= w.BeginNanos)
	}
	return max(maybe, atMost(d.StartNanos, w.BeginNanos, o.laneError(d)))
}

type oracleWait struct {
	id     archive.WaitID
	row    *archive.Wait // nil: not in the archive
	covers truth
}

// awaiting returns the waits that cover the dispatch or may.
func (o oracle) awaiting(d *archive.Dispatch) []oracleWait {
	found := map[archive.WaitID]oracleWait{}
	for i := range o.Awaits {
		a := &o.Awaits[i]
		var row *archive.Wait
		for j := range o.Waits {
			if w := &o.Waits[j]; w.Runtime == d.Runtime && w.ID == a.Wait {
				row = w
			}
		}
		if c := o.covers(a, row, d); c > found[a.Wait].covers {
			found[a.Wait] = oracleWait{a.Wait, row, c}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b oracleWait) int {
		if a.row == nil || b.row == nil {
			return cmp.Or(cmp.Compare(is(a.row == nil), is(b.row == nil)), cmp.Compare(a.id, b.id))
		}
		return cmp.Or(cmp.Compare(a.row.BeginNanos, b.row.BeginNanos), cmp.Compare(a.row.EndNanos, b.row.EndNanos), cmp.Compare(a.id, b.id))
	})
}

// class returns the containment class and, where a single wait decides it, that wait.
func (o oracle) class(d *archive.Dispatch) (string, archive.WaitID) {
	if !areTimes(d.StartNanos, d.EndNanos) {
		return ClassUnproven, 0
	}
	e, err, t0 := d.EndNanos, o.laneError(d), d.Origin.TimeNanos
	synchronous, timedOut, late, covered := no, no, yes, no
	var first [2]archive.WaitID // that proves: synchronous, timed_out
	note := func(i int, t truth, id archive.WaitID) truth {
		if t == yes && first[i] == 0 {
			first[i] = id
		}
		return t
	}
	for _, w := range o.awaiting(d) {
		afterCause, beginsBefore, endsAfter := maybe, maybe, maybe
		ends := maybe // before e, and began before it
		if w.row != nil && areTimes(w.row.BeginNanos, w.row.EndNanos) {
			if isTime(t0) {
				afterCause = is(t0 <= w.row.BeginNanos)
			}
			beginsBefore = atMost(w.row.BeginNanos, e, err)
			endsAfter = atMost(e, w.row.EndNanos, err)
			ends = min(not(atMost(e, w.row.BeginNanos, err)), not(endsAfter))
		}
		sure := yes // a contradicted wait proves nothing
		if o.corroboration(d.Runtime, w.id) == CorroborationContradicted {
			sure = maybe
		}
		timedOut = max(timedOut, note(1, min(w.covers, ends, sure), w.id))
		synchronous = max(synchronous, note(0, min(w.covers, afterCause, beginsBefore, endsAfter, sure), w.id))
		late = min(late, max(not(w.covers), not(beginsBefore)))
		covered = max(covered, w.covers)
	}
	late = min(late, covered)
	for _, x := range []struct {
		t     truth
		class string
		wait  archive.WaitID
	}{{synchronous, ClassSynchronous, first[0]}, {timedOut, ClassTimedOut, first[1]}, {late, ClassWaitedLate, 0}} {
		switch x.t {
		case yes:
			return x.class, x.wait
		case maybe:
			return ClassUnproven, 0
		}
	}
	if covered == no && o.laneReportsWaits(d) {
		return ClassAsynchronous, 0
	}
	return ClassUnproven, 0
}

func (o oracle) laneReportsWaits(d *archive.Dispatch) bool {
	awaits := func(f func(a archive.Await) bool) bool {
		return slices.ContainsFunc(o.Awaits, func(a archive.Await) bool { return a.Runtime == d.Runtime && f(a) })
	}
	for i := range o.Dispatches {
		x := &o.Dispatches[i]
		queue, _ := o.place(x)
		if x.Runtime == d.Runtime && x.Lane == d.Lane && awaits(func(a archive.Await) bool {
			return a.Kind == archive.AwaitDispatch && a.Ref == uint64(x.ID) ||
				a.Kind == archive.AwaitCommandBuffer && x.CommandBuffer != 0 && a.Ref == uint64(x.CommandBuffer) ||
				a.Kind == archive.AwaitQueue && queue != "" && a.Queue == queue
		}) {
			return true
		}
	}
	for _, b := range o.CommandBuffers {
		if b.Runtime == d.Runtime && b.Lane == d.Lane && awaits(func(a archive.Await) bool {
			return a.Kind == archive.AwaitCommandBuffer && a.Ref == uint64(b.ID) || a.Kind == archive.AwaitQueue && b.Queue != "" && a.Queue == b.Queue
		}) {
			return true
		}
	}
	return false
}

// parts looks at each nanosecond of a wait.
func (o oracle) parts(w *archive.Wait) (p WaitParts) {
	var covered, others []*archive.Dispatch
	for i := range o.Dispatches {
		d := &o.Dispatches[i]
		if d.Runtime != w.Runtime {
			continue
		}
		c := no
		for j := range o.Awaits {
			if o.Awaits[j].Wait == w.ID {
				c = max(c, o.covers(&o.Awaits[j], w, d))
			}
		}
		switch {
		case !areTimes(d.StartNanos, d.EndNanos):
		case c == yes:
			covered = append(covered, d)
			if d.EndNanos > w.BeginNanos {
				p.Pending++
			}
		default:
			others = append(others, d)
		}
	}
	executes := func(ds []*archive.Dispatch, t int64, on func(archive.LaneID) bool) bool {
		return slices.ContainsFunc(ds, func(d *archive.Dispatch) bool { return d.StartNanos <= t && t < d.EndNanos && on(d.Lane) })
	}
	for t := w.BeginNanos; t < w.EndNanos; t++ {
		unfinished := map[archive.LaneID]bool{}
		for _, d := range covered {
			if d.EndNanos > t {
				unfinished[d.Lane] = true
			}
		}
		switch {
		case len(covered) == 0:
			p.UnknownNanos++
		case executes(covered, t, func(archive.LaneID) bool { return true }):
			p.ExecutingNanos++
		case len(unfinished) == 0:
			p.WakeUpNanos++
		case executes(others, t, func(l archive.LaneID) bool { return unfinished[l] }):
			p.QueuedNanos++
		default:
			p.IdleNanos++
		}
	}
	return p
}

// wakeUp looks for the interval off the CPU that lasted longest beyond the end of the work.
func (o oracle) wakeUp(w *archive.Wait, p WaitParts) (signal, schedule, back int64, ok bool) {
	goroutine, thread := o.runner(w)
	done := w.EndNanos - p.WakeUpNanos
	var found []archive.OffCPU
	for _, x := range o.OffCPU {
		mine := x.GoroutineID != 0 && x.GoroutineID == goroutine || x.GoroutineID == 0 && x.ThreadID > 0 && x.ThreadID == thread
		if mine && slices.Contains(o.kin(w.Runtime), x.Runtime) && areTimes(x.BeginNanos, x.EndNanos) && x.BeginNanos <= done && done < x.EndNanos {
			if x.WakeNanos < x.BeginNanos || x.WakeNanos > x.EndNanos {
				x.WakeNanos = x.EndNanos
			}
			x.EndNanos = min(x.EndNanos, w.EndNanos)
			x.WakeNanos = min(max(x.WakeNanos, done), x.EndNanos)
			found = append(found, x)
		}
	}
	if p.WakeUpNanos <= 0 || len(found) == 0 {
		return 0, 0, 0, false
	}
	x := slices.MinFunc(found, func(a, b archive.OffCPU) int {
		return cmp.Or(cmp.Compare(b.EndNanos, a.EndNanos), cmp.Compare(a.WakeNanos, b.WakeNanos))
	})
	return x.WakeNanos - done, x.EndNanos - x.WakeNanos, w.EndNanos - x.EndNanos, true
}

// runner returns whose evidence is about a wait; a thread of 0: none.
func (o oracle) runner(w *archive.Wait) (goroutine, thread int64) {
	isGo := o.runtime(w.Runtime).SDKLanguage == "go"
	about := func(rt archive.RuntimeID) bool { return slices.Contains(o.kin(w.Runtime), rt) }
	for _, x := range o.ProfileSources {
		isGo = isGo || about(x.Runtime) && goSource(x.Source)
	}
	for _, x := range o.Samples {
		isGo = isGo || about(x.Runtime) && goSource(x.Source)
	}
	for _, x := range o.OffCPU {
		isGo = isGo || about(x.Runtime) && goSource(x.Source)
	}
	goroutine, _ = o.exact(w.Runtime, &w.Origin)
	if w.Origin.GoroutineID != 0 {
		goroutine = w.Origin.GoroutineID
	}
	thread = w.Origin.ThreadID
	if isGo && !w.Origin.ThreadLocked {
		thread = 0
	}
	return goroutine, thread
}

// raw returns the rows that a certificate with the given deciding wait is about.
func (o oracle) raw(d *archive.Dispatch, wait archive.WaitID) Raw {
	raw := Raw{Dispatch: *d}
	raw.DispatchGoroutine, raw.DispatchStack = o.exact(d.Runtime, &d.Origin)
	for _, l := range o.Lanes {
		if l.Runtime == d.Runtime && l.ID == d.Lane {
			raw.LaneErrorNanos = l.ClockErrorNanos
		}
	}
	for _, rt := range o.Runtimes {
		if rt.ID == d.Runtime {
			raw.RuntimeErrorNanos = rt.ClockErrorNanos
		}
	}
	for i := range o.CommandBuffers {
		if b := &o.CommandBuffers[i]; b.Runtime == d.Runtime && b.ID == d.CommandBuffer {
			raw.CommandBuffer = b
		}
	}
	for i := range o.Waits {
		if w := &o.Waits[i]; w.Runtime == d.Runtime && w.ID == wait {
			raw.Wait = w
			raw.WaitGoroutine, raw.WaitStack = o.exact(w.Runtime, &w.Origin)
		}
	}
	for _, a := range o.Awaits {
		if a.Runtime == d.Runtime && a.Wait == wait {
			raw.Awaits = append(raw.Awaits, a)
		}
	}
	return raw
}

// kin returns the runtimes of the same process, the given one first.
func (o oracle) kin(id archive.RuntimeID) []archive.RuntimeID {
	kin, pid := []archive.RuntimeID{id}, o.runtime(id).PID
	for _, rt := range o.Runtimes {
		if pid > 0 && rt.PID == pid && rt.ID != id {
			kin = append(kin, rt.ID)
		}
	}
	return kin
}

func (o oracle) runtime(id archive.RuntimeID) archive.Runtime {
	for _, rt := range o.Runtimes {
		if rt.ID == id {
			return rt
		}
	}
	return archive.Runtime{}
}

// stack returns the frames of a stack, leaf first, from the runtime or another one of its process.
func (o oracle) stack(rt archive.RuntimeID, id archive.StackID) (frames []archive.StackFrame) {
	for _, rt := range o.kin(rt) {
		for _, f := range o.StackFrames {
			if f.Runtime == rt && f.Stack == id {
				frames = append(frames, f)
			}
		}
		if frames != nil {
			break
		}
	}
	slices.SortFunc(frames, func(a, b archive.StackFrame) int { return cmp.Compare(a.Depth, b.Depth) })
	return frames
}

// exact returns what the execution trace says about an origin: its goroutine, and the exact stack, which the target may
// have sent itself.
func (o oracle) exact(rt archive.RuntimeID, origin *archive.Origin) (goroutine int64, frames []archive.StackFrame) {
	var events []archive.OriginEvent
	for _, e := range o.OriginEvents {
		if e.Runtime == rt && e.ThreadID == origin.ThreadID && e.ThreadID > 0 && e.TimeNanos == origin.TimeNanos && isTime(e.TimeNanos) {
			events = append(events, e)
		}
	}
	frames = o.stack(rt, origin.Stack)
	if len(events) > 0 {
		event := slices.MinFunc(events, func(a, b archive.OriginEvent) int {
			return cmp.Or(cmp.Compare(is(a.Stack == 0), is(b.Stack == 0)), cmp.Compare(a.GoroutineID, b.GoroutineID), cmp.Compare(a.Stack, b.Stack))
		})
		goroutine = event.GoroutineID
		if frames == nil {
			frames = o.stack(rt, event.Stack)
		}
	}
	return goroutine, frames
}

// corroboration says what evidence says about a wait, one nanosecond and one sample at a time.
func (o oracle) corroboration(rt archive.RuntimeID, id archive.WaitID) string {
	i := slices.IndexFunc(o.Waits, func(w archive.Wait) bool { return w.Runtime == rt && w.ID == id })
	if i < 0 || !areTimes(o.Waits[i].BeginNanos, o.Waits[i].EndNanos) {
		return CorroborationClaimed
	}
	w, kin := &o.Waits[i], o.kin(rt)
	about := func(rt archive.RuntimeID) bool { return slices.Contains(kin, rt) }

	// Whose evidence is it?
	edge, period, known, heard := int64(2), int64(0), yes, no
	for _, x := range o.ProfileSources {
		if about(x.Runtime) {
			edge, period, heard = max(edge, x.ClockErrorNanos), max(period, x.PeriodNanos), yes
			known = min(known, is(x.ClockErrorNanos >= 0))
		}
	}
	if heard == no || known == no {
		edge = max(edge, 20)
	}
	goroutine, thread := o.runner(w)
	_, frames := o.exact(rt, &w.Origin)
	if goroutine == 0 && thread <= 0 || w.EndNanos-w.BeginNanos <= 2*edge {
		return CorroborationClaimed
	}

	// Where is a stack, seen from the wait?
	where := func(id archive.StackID, source string) truth { // inside
		s := o.stack(rt, id)
		program := func(s []archive.StackFrame) []archive.StackFrame { // without what starts the thread
			for len(s) > 0 && startsThreads(s[len(s)-1].Function) {
				s = s[:len(s)-1]
			}
			return s
		}
		own := program(frames)
		switch {
		case len(frames) == 0 || id == 0 || len(s) == 0:
			return maybe
		case len(own) < 4: // the wait's function is the entry of the thread
			return yes
		}
		for _, f := range s {
			for _, g := range own[:3] {
				if f.Function == g.Function {
					return yes
				}
			}
		}
		theirs := program(s)
		if source != semconv.ProfileSourceGoExecTrace || len(theirs) == 0 || theirs[len(theirs)-1].Function != own[len(own)-1].Function {
			return maybe
		}
		return no
	}

	asleep := int64(0)
	for t := w.BeginNanos; t < w.EndNanos; t++ {
		if slices.ContainsFunc(o.OffCPU, func(x archive.OffCPU) bool {
			mine := x.GoroutineID != 0 && x.GoroutineID == goroutine || x.GoroutineID == 0 && x.ThreadID > 0 && x.ThreadID == thread
			return mine && about(x.Runtime) && areTimes(x.BeginNanos, x.EndNanos) && x.BeginNanos <= t && t < x.EndNanos && where(x.Stack, x.Source) != no
		}) {
			asleep++
		}
	}
	rest := w.EndNanos - w.BeginNanos - asleep
	if asleep >= rest && rest <= max(10, period, (w.EndNanos-w.BeginNanos)/10) {
		return CorroborationSlept
	}

	var count [3]int
	first, last := int64(0), int64(0)
	seen := map[archive.Sample]bool{}
	for _, x := range o.Samples {
		mine := x.GoroutineID != 0 && x.GoroutineID == goroutine
		if thread > 0 && x.ThreadID == thread && (goroutine == 0 || x.GoroutineID == 0) {
			mine = true
		}
		if !mine || !about(x.Runtime) || x.TimeNanos <= w.BeginNanos+edge || x.TimeNanos >= w.EndNanos-edge || seen[x] {
			continue
		}
		seen[x] = true // what comes twice is one sample
		at := where(x.Stack, x.Source)
		count[at]++
		if at != maybe {
			if first == 0 {
				first = x.TimeNanos
			}
			first, last = min(first, x.TimeNanos), max(last, x.TimeNanos)
		}
	}
	enough := func(n int) bool {
		if period == 0 {
			return n > 0 && last-first >= rest/2
		}
		return n > 0 && int64(n)*period >= rest/4
	}
	switch {
	case count[no] >= 2 && count[no] > count[yes]+count[maybe] && asleep < rest && enough(count[no]):
		return CorroborationContradicted
	case count[no]+count[maybe] == 0 && enough(count[yes]):
		return CorroborationSpun
	}
	return CorroborationClaimed
}
