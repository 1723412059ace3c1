package origin

import (
	"sync/atomic"

	"github.com/stax-otel/stax/archive"
)

// What CPU evidence says about a wait. The rules are in the package doc; this is how they are counted.
const (
	// helperFrames is how many of the innermost functions of a wait's stack may have returned while it lasts: a wait may be
	// begun by a helper, and that by another one.
	helperFrames = 2
	// wholeFrames is the number of frames from which on a stack may have been cut off: the smallest limit of any source. Inlined
	// functions only add to the frames, so a stack with fewer is complete.
	wholeFrames = 32
	// minRestNanos is what may be left of a wait that was slept, however short it was: intervals below 20 µs are not stored.
	minRestNanos = 100_000
	// minOutside is how many samples contradict a wait: a single one may have an instant that is wrong.
	minOutside = 2
)

// tolerances are the lengths that the rules are made of. Tests use small ones.
type tolerances struct{ edge, unknownEdge, rest int64 }

var usualTolerances = tolerances{edge: minEdgeNanos, unknownEdge: unknownEdgeNanos, rest: minRestNanos}

// edge is how near to the ends of a wait evidence does not count: the instants of a source and of the target may be off by
// that much.
func (k kin) edge(t tolerances) int64 {
	known, unknown, edge := false, false, t.edge
	for _, p := range k {
		known, unknown, edge = known || p.clockKnown, unknown || p.clockUnknown, max(edge, p.clockError)
	}
	if unknown || !known {
		return max(edge, t.unknownEdge)
	}
	return edge
}

// runner is whose evidence is looked at: a goroutine, a thread, or both when they belong together.
type runner struct {
	thread, goroutine int64
	threadToo         bool
}

// runner says whose evidence is about the wait. Goroutines share threads, so evidence about the thread of a Go target says
// nothing, unless the goroutine is locked to it.
func (rt *runtimeIndex) runner(w *waitRow, event exactEvent) runner {
	r := runner{thread: w.thread, goroutine: w.goroutine, threadToo: w.thread > 0 && (!rt.goTarget() || w.locked)}
	if r.goroutine == 0 {
		r.goroutine = event.goroutine
	}
	return r
}

// samples calls f with each sample of the runner strictly between two instants. Samples that name a goroutine are taken
// from that goroutine, and those of the thread only when they name none.
func (k kin) samples(names *names, r runner, from, to int64, f func(nanos int64, stack uint32)) {
	for _, p := range k {
		if s := p.goroutines[r.goroutine]; s != nil && r.goroutine != 0 {
			for i := gallop(s.nanos, 0, from+1); i < len(s.nanos) && s.nanos[i] < to; i++ {
				f(s.nanos[i], s.stack[i])
			}
		}
		if !r.threadToo {
			continue
		}
		if s := p.threads[r.thread]; s != nil {
			for i := gallop(s.nanos, 0, from+1); i < len(s.nanos) && s.nanos[i] < to; i++ {
				if r.goroutine == 0 || names.ids.values[s.other[i]] == 0 {
					f(s.nanos[i], s.stack[i])
				}
			}
		}
	}
}

// offCPU calls f with each interval in which the runner did not run that touches [from, to).
func (k kin) offCPU(r runner, from, to int64, f func(s *intervals, i int)) {
	for _, p := range k {
		if s := p.offRoutines[r.goroutine]; s != nil && r.goroutine != 0 {
			s.each(from, to, func(i int) { f(s, i) })
		}
		if s := p.offThreads[r.thread]; s != nil && r.threadToo {
			s.each(from, to, func(i int) { f(s, i) })
		}
	}
}

// The codes of verdicts that are remembered per wait.
const (
	codeUnknown = iota
	codeClaimed
	codeSlept
	codeSpun
	codeContradicted
	codeBits = 3
)

var corroborations = [...]string{"", CorroborationClaimed, CorroborationSlept, CorroborationSpun, CorroborationContradicted}

// corroboration returns what evidence says about a wait. It is remembered until there is more evidence.
func (ix *Index) corroboration(rt *runtimeIndex, w int32) string {
	if v := atomic.LoadUint64(&rt.judged[w]); v>>codeBits == ix.epoch {
		return corroborations[v&(1<<codeBits-1)]
	}
	code := ix.corroborate(rt, &rt.waits[w], nil)
	atomic.StoreUint64(&rt.judged[w], ix.epoch<<codeBits|code)
	return corroborations[code]
}

// tally counts samples within a wait.
type tally struct {
	inside, outside, undecided int
	first, last                int64 // of those that count
}

func (t *tally) count(nanos int64) {
	if t.first == 0 {
		t.first = nanos
	}
	t.first, t.last = min(t.first, nanos), max(t.last, nanos)
}

// fills reports whether samples are enough to stand for the time that a thread was not off the CPU: a quarter of it, since
// other programs may have had the processor for some of it.
func fills(samples int, first, last, rest, period int64) bool {
	if samples == 0 {
		return false
	}
	if period > 0 {
		return int64(samples) >= (rest/4+period-1)/period
	}
	return last-first >= rest/2
}

// corroborate applies the rules to a wait, and tells the numbers to a recorder if there is one.
func (ix *Index) corroborate(rt *runtimeIndex, w *waitRow, x *CorroborationExplanation) uint64 {
	if x == nil {
		x = &CorroborationExplanation{}
	}
	code := ix.weigh(rt, w, x)
	x.Verdict = corroborations[code]
	return code
}

func (ix *Index) weigh(rt *runtimeIndex, w *waitRow, x *CorroborationExplanation) uint64 {
	if !w.usable() || len(rt.kin) == 0 {
		return codeClaimed
	}
	event := ix.event(rt, w.thread, w.at)
	r := rt.runner(w, event)
	x.Goroutine, x.WaitNanos, x.WaitStack = r.goroutine, w.end-w.begin, w.stack
	if r.threadToo {
		x.Thread = r.thread
	}
	edge := rt.kin.edge(ix.evidence.tolerances)
	x.EdgeNanos = edge
	_, _, x.PeriodNanos = rt.kin.kinds()
	if r.goroutine == 0 && !r.threadToo || w.end-w.begin <= 2*edge {
		return codeClaimed
	}
	begun := ix.stack(rt, w.stack)
	if begun == nil {
		begun, x.WaitStack = ix.stack(rt, event.stack), event.stack
	}
	frames := ix.frames.waitFrames(begun)
	x.Frames = ix.frames.functions(frames)

	var off spans
	rt.kin.offCPU(r, w.begin, w.end, func(s *intervals, i int) {
		if ix.judge(rt, begun, frames, s.stack[i]) != placeOutside {
			off.add(max(s.begin[i], w.begin), min(s.end[i], w.end))
		}
	})
	off.finish()
	x.OffCPUNanos = off.measure(w.begin, w.end)
	x.RestNanos = x.WaitNanos - x.OffCPUNanos
	x.AllowedNanos = max(x.WaitNanos/10, x.PeriodNanos, ix.evidence.rest)

	var t tally
	rt.kin.samples(&ix.evidence.names, r, w.begin+edge, w.end-edge, func(nanos int64, stack uint32) {
		switch ix.judge(rt, begun, frames, stack) {
		case placeInside:
			t.inside++
		case placeOutside:
			if t.outside == 0 || nanos < x.OutsideNanos {
				x.OutsideNanos, x.OutsideStack = nanos, ix.evidence.names.stack(stack)
			}
			t.outside++
		default:
			t.undecided++
			return
		}
		t.count(nanos)
	})
	x.Inside, x.Outside, x.Undecided = t.inside, t.outside, t.undecided

	switch {
	case x.OffCPUNanos >= x.RestNanos && x.RestNanos <= x.AllowedNanos:
		return codeSlept
	case t.outside >= minOutside && t.outside > t.inside+t.undecided && x.OffCPUNanos < x.RestNanos &&
		fills(t.outside, t.first, t.last, x.RestNanos, x.PeriodNanos):
		return codeContradicted
	case t.outside == 0 && t.undecided == 0 && fills(t.inside, t.first, t.last, x.RestNanos, x.PeriodNanos):
		return codeSpun
	}
	return codeClaimed
}

// place is where the stack of a sample lies, seen from a wait.
type place int

const (
	placeUnknown place = iota
	placeInside
	placeOutside
)

// judge says whether a sample was taken within the frames of a wait: begun is the wait's stack, nil if it is not known, and
// frames the functions of which one must be found.
//
// It says outside only of stacks that reach down to the same entry function as the wait's, and only of a source that sees
// inlined functions: elsewhere a function that is missing may have been cut off or inlined into another, and some stacks of
// Go's profiler only say that the runtime was busy.
func (ix *Index) judge(rt *runtimeIndex, begun *stack, frames []frame, column uint32) place {
	id := ix.evidence.names.stack(column)
	if begun == nil || id == 0 {
		return placeUnknown
	}
	s := ix.stack(rt, id)
	switch {
	case s == nil:
		return placeUnknown
	case len(frames) == 0 || ix.frames.holds(s, frames):
		return placeInside
	case column&inlinesBit == 0 || !ix.frames.sameEntry(s, begun):
		return placeUnknown
	}
	return placeOutside
}

// stack returns a stack that a runtime names: its own, or that of another runtime of the same process; nil: not defined.
// Ids are hashes of the content, so equal ids are equal stacks.
func (ix *Index) stack(rt *runtimeIndex, id archive.StackID) *stack {
	if id == 0 {
		return nil
	}
	if s := rt.stacks[id]; s != nil {
		return s
	}
	for _, other := range ix.pids[rt.row.PID] {
		if s := other.stacks[id]; s != nil {
			return s
		}
	}
	return nil
}

// event returns the exact event of an origin, with a stack only if its frames are known.
func (ix *Index) event(rt *runtimeIndex, thread, nanos int64) exactEvent {
	if rt.own == nil {
		return exactEvent{}
	}
	e := rt.own.event(&ix.evidence.names, thread, nanos)
	if e.stack != 0 && ix.stack(rt, e.stack) == nil {
		e.stack = 0
	}
	return e
}
