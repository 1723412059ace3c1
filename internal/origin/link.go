package origin

import (
	"time"

	"github.com/stax-otel/stax/archive"
)

// linker is what the table below needs to know beside the origin itself.
type linker struct {
	limit          int64
	imported       bool  // recordings of mode import: no checks against now or process ids
	started, ended int64 // of the recording; 0: unknown
	names          *names
}

func newLinker(cfg Config, info archive.RecordingInfo) linker {
	l := linker{
		limit: int64(DefaultLimit), imported: info.Mode == modeImport,
		started: info.StartedNanos, ended: info.StoppedNanos,
	}
	if cfg.Limit > 0 {
		l.limit = int64(min(cfg.Limit, time.Hour))
	}
	return l
}

const modeImport = "import"

// subject is one origin with what is known about the runtime that reported it.
type subject struct {
	pid       int64
	stranger, // the process is known not to be in the recording's tree
	goTarget, // goroutines share threads
	stackDefined bool
	event    exactEvent // of the origin; a stack only if it is defined
	evidence kin
	archive.Origin
}

// kin is the evidence of all runtimes of one process, that of the origin's own first.
type kin []*process

// exactEvent is what an execution trace knows of an origin.
type exactEvent struct {
	found     bool
	goroutine int64
	stack     archive.StackID
}

// verdict is the derived part of an archive.Link.
type verdict struct {
	status, grade string
	weak          bool
	distance      int64 // -1: none
	stack         archive.StackID
}

// decide is the status table of the package: the first row that matches is the verdict. With a recorder, it is told the
// numbers on the way.
//
// Where the table's words leave a choice: an instant of zero was not reported, so the first row
// passes over it, and an exact stack alone still links; an origin with neither instant nor exact
// stack cannot be compared with a sample and counts as outside the recording. A nearest sample
// without a stack gives no_stack only within the limit; beyond it the distance is what is wrong.
// A thread whose samples all lie after the origin is too_far, not stale.
//
// An origin has its exact stack from the target, or else from the execution trace: an event of the same runtime, thread
// and instant. The event also names the goroutine when the target does not.
func (l *linker) decide(s *subject, x *LinkExplanation) verdict {
	is := func(status string) verdict { return verdict{status: status, distance: -1} }
	switch {
	case s.TimeNanos != 0 && l.outside(s.TimeNanos):
		return is(StatusOutsideRecording)
	case s.stranger && !l.imported:
		return is(StatusWrongPID)
	case s.ThreadID >= firstPseudoThread && s.ThreadID <= lastPseudoThread:
		return is(StatusSyntheticThread)
	case s.ThreadID <= 0:
		return is(StatusBadThread)
	case s.Stack != 0 && s.stackDefined:
		return verdict{status: StatusLinked, grade: GradeA, distance: -1, stack: s.Stack}
	case s.event.stack != 0:
		return verdict{status: StatusLinked, grade: GradeA, distance: -1, stack: s.event.stack}
	case s.TimeNanos == 0:
		return is(StatusOutsideRecording)
	}
	if step, ok := s.evidence.clockStep(s.TimeNanos); ok {
		x.step(step)
		return is(StatusClockStep)
	}
	return l.borrow(s, x)
}

// outside reports whether an instant lies outside the recording.
func (l *linker) outside(nanos int64) bool {
	if !usable(nanos) {
		return true
	}
	if l.imported {
		return false // the recording's own times are those of the import, not of the work
	}
	return usable(l.started) && nanos < l.started-l.limit || usable(l.ended) && nanos > l.ended+l.limit
}

// borrow is the part of the table that looks for a CPU sample near the origin.
func (l *linker) borrow(s *subject, x *LinkExplanation) verdict {
	timed, untimed, period := s.evidence.kinds()
	x.sampler(timed, untimed, period)
	if !timed && untimed {
		return verdict{status: StatusNoTimestamps, distance: -1}
	}
	near := s.evidence.ofThread(l.names, s.ThreadID, s.TimeNanos)
	x.thread(&near)
	if !near.found() {
		return verdict{status: StatusMissingThread, distance: -1}
	}
	link := func(sample Sample, status, grade string) verdict {
		d := distance(sample.Nanos, s.TimeNanos)
		v := verdict{status: status, grade: grade, distance: d, stack: sample.Stack}
		v.weak = grade != GradeD && period > 0 && d > 2*period
		return v
	}
	if goroutine := s.goroutine(); goroutine != 0 {
		both := s.evidence.ofRoutine(l.names, s.ThreadID, goroutine, s.TimeNanos, l.limit)
		x.goroutine(&both)
		if own, ok := both.nearest(s.TimeNanos); ok {
			if own.Stack == 0 {
				return verdict{status: StatusNoStack, distance: distance(own.Nanos, s.TimeNanos)}
			}
			return link(own, StatusLinked, GradeB)
		}
	}
	nearest, _ := near.nearest(s.TimeNanos)
	d := distance(nearest.Nanos, s.TimeNanos)
	switch {
	case d <= l.limit && s.goTarget && !s.ThreadLocked:
		return link(nearest, StatusAmbiguousGoroutine, GradeD)
	case d <= l.limit && nearest.Stack == 0:
		return verdict{status: StatusNoStack, distance: d}
	case d <= l.limit:
		return link(nearest, StatusLinked, GradeC)
	case near.last < s.TimeNanos-l.limit:
		return verdict{status: StatusStale, distance: d}
	}
	return verdict{status: StatusTooFar, distance: d}
}

// goroutine is that of the origin: as the target says, or else as the execution trace does.
func (s *subject) goroutine() int64 {
	if s.GoroutineID != 0 {
		return s.GoroutineID
	}
	return s.event.goroutine
}

// Sample is one CPU sample near an origin.
type Sample struct {
	Nanos     int64           `json:"time_ns"`
	Thread    int64           `json:"thread"`
	Goroutine int64           `json:"goroutine,omitempty"` // 0: unknown
	Stack     archive.StackID `json:"-"`                   // 0: the sample has no stack
}

// neighbours are the samples next to an instant, on either side, and where the samples begin and end.
type neighbours struct {
	before, after       Sample // Nanos 0: none
	first, last         int64
	samples             int
	hasBefore, hasAfter bool
}

func (n *neighbours) found() bool { return n.hasBefore || n.hasAfter }

// nearest returns the nearer one; of two at the same distance the earlier.
func (n *neighbours) nearest(nanos int64) (Sample, bool) {
	if n.hasBefore && (!n.hasAfter || nanos-n.before.Nanos <= n.after.Nanos-nanos) {
		return n.before, true
	}
	return n.after, n.hasAfter
}

// beforeIs takes a sample before the instant if it is nearer than the one known.
func (n *neighbours) beforeIs(x Sample) {
	if !n.hasBefore || x.Nanos > n.before.Nanos || x.Nanos == n.before.Nanos && x.Stack > n.before.Stack {
		n.before, n.hasBefore = x, true
	}
}

func (n *neighbours) afterIs(x Sample) {
	if !n.hasAfter || x.Nanos < n.after.Nanos || x.Nanos == n.after.Nanos && x.Stack < n.after.Stack {
		n.after, n.hasAfter = x, true
	}
}

func (k kin) clockStep(nanos int64) (ClockStep, bool) {
	for _, p := range k {
		for _, c := range p.clocks {
			if s, ok := c.near(nanos); ok {
				return s, true
			}
		}
	}
	return ClockStep{}, false
}

// kinds says what samples exist for the process, and their period.
func (k kin) kinds() (timed, untimed bool, period int64) {
	for _, p := range k {
		timed, untimed, period = timed || p.timed, untimed || p.untimed, max(period, p.period)
	}
	return timed, untimed, period
}

// ofThread returns the samples of a thread next to an instant.
func (k kin) ofThread(names *names, thread, nanos int64) (n neighbours) {
	for _, p := range k {
		s := p.threads[thread]
		if s == nil {
			continue
		}
		if n.samples == 0 || s.nanos[0] < n.first {
			n.first = s.nanos[0]
		}
		n.samples, n.last = n.samples+len(s.nanos), max(n.last, s.nanos[len(s.nanos)-1])
		at := s.notBefore(nanos)
		sample := func(i int) Sample {
			return Sample{Nanos: s.nanos[i], Thread: thread, Goroutine: names.ids.values[s.other[i]], Stack: names.stack(s.stack[i])}
		}
		if at > 0 {
			n.beforeIs(sample(at - 1))
		}
		if at < len(s.nanos) {
			n.afterIs(sample(at))
		}
	}
	return n
}

// ofRoutine returns the samples of a goroutine on a thread next to an instant, within the limit. A goroutine moves between
// threads, and its samples on others in between do not count.
func (k kin) ofRoutine(names *names, thread, goroutine, nanos, limit int64) (n neighbours) {
	for _, p := range k {
		s := p.goroutines[goroutine]
		if s == nil {
			continue
		}
		n.samples += len(s.nanos)
		sample := func(i int) (Sample, bool) {
			id := names.ids.values[s.other[i]]
			return Sample{Nanos: s.nanos[i], Thread: id, Goroutine: goroutine, Stack: names.stack(s.stack[i])}, id == thread
		}
		at := s.notBefore(nanos)
		for i := at - 1; i >= 0 && nanos-s.nanos[i] <= limit; i-- {
			if x, ok := sample(i); ok {
				n.beforeIs(x)
				break
			}
		}
		for i := at; i < len(s.nanos) && s.nanos[i]-nanos <= limit; i++ {
			if x, ok := sample(i); ok {
				n.afterIs(x)
				break
			}
		}
	}
	return n
}

// event returns the exact event of an origin.
func (p *process) event(names *names, thread, nanos int64) exactEvent {
	s := p.events[thread]
	if s == nil || !usable(nanos) {
		return exactEvent{}
	}
	i := s.notBefore(nanos)
	if i == len(s.nanos) || s.nanos[i] != nanos {
		return exactEvent{}
	}
	for j := i; j < len(s.nanos) && s.nanos[j] == nanos; j++ {
		if names.stack(s.stack[j]) != 0 { // of several, the first that has a stack
			i = j
			break
		}
	}
	return exactEvent{true, names.ids.values[s.other[i]], names.stack(s.stack[i])}
}

func distance(a, b int64) int64 {
	if a < b {
		return b - a
	}
	return a - b
}
