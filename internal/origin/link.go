package origin

import (
	"time"

	"github.com/stax-otel/stax/archive"
)

// Evidence is what a recording knows about CPU threads: the samples, and the health of their clocks.
// Implementations need not be safe for concurrent use.
type Evidence interface {
	// ClockStep reports whether the runtime's clock stepped within a second of the instant.
	ClockStep(rt archive.RuntimeID, nanos int64) bool
	// Process says what kinds of samples exist for a process.
	Process(pid int64) ProcessEvidence
	// Nearest returns the sample of the thread that is nearest to the instant; of two at the same
	// distance the earlier one. With a goroutine other than 0 only samples of that goroutine count.
	Nearest(pid, thread, goroutine, nanos int64) (Sample, bool)
	// Span returns the instants of the first and last sample of the thread.
	Span(pid, thread int64) (first, last int64, ok bool)
}

// ProcessEvidence says what kinds of samples exist for a process.
type ProcessEvidence struct {
	Timed, Untimed bool
	// PeriodNanos is the sampling period; 0: unknown.
	PeriodNanos int64
}

// Sample is one CPU sample of a thread.
type Sample struct {
	Nanos     int64
	Goroutine int64           // 0: unknown
	Stack     archive.StackID // 0: the sample has no stack
}

// noEvidence is the Evidence of a recording without CPU samples.
type noEvidence struct{}

func (noEvidence) ClockStep(archive.RuntimeID, int64) bool                { return false }
func (noEvidence) Process(int64) ProcessEvidence                          { return ProcessEvidence{} }
func (noEvidence) Nearest(int64, int64, int64, int64) (s Sample, ok bool) { return s, false }
func (noEvidence) Span(int64, int64) (first, last int64, ok bool)         { return 0, 0, false }

// linker is what the table below needs to know beside the origin itself.
type linker struct {
	limit          int64
	imported       bool  // recordings of mode import: no checks against now or process ids
	started, ended int64 // of the recording; 0: unknown
	evidence       Evidence
}

func newLinker(cfg Config, info archive.RecordingInfo) linker {
	l := linker{
		limit: int64(DefaultLimit), imported: info.Mode == modeImport,
		started: info.StartedNanos, ended: info.StoppedNanos, evidence: cfg.Evidence,
	}
	if cfg.Limit > 0 {
		l.limit = int64(min(cfg.Limit, time.Hour))
	}
	if l.evidence == nil {
		l.evidence = noEvidence{}
	}
	return l
}

const modeImport = "import"

// subject is one origin with what is known about the runtime that reported it.
type subject struct {
	runtime   archive.RuntimeID
	pid       int64
	stranger, // the process is known not to be in the recording's tree
	goTarget, // goroutines share threads
	stackDefined bool
	archive.Origin
}

// verdict is the derived part of an archive.Link.
type verdict struct {
	status, grade string
	weak          bool
	distance      int64 // -1: none
	stack         archive.StackID
}

// decide is the status table of the package: the first row that matches is the verdict.
//
// Where the table's words leave a choice: an instant of zero was not reported, so the first row
// passes over it, and an exact stack alone still links; an origin with neither instant nor exact
// stack cannot be compared with a sample and counts as outside the recording. A nearest sample
// without a stack gives no_stack only within the limit; beyond it the distance is what is wrong.
// A thread whose samples all lie after the origin is too_far, not stale.
func (l *linker) decide(s subject) verdict {
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
	case s.TimeNanos == 0:
		return is(StatusOutsideRecording)
	case l.evidence.ClockStep(s.runtime, s.TimeNanos):
		return is(StatusClockStep)
	}
	return l.borrow(s)
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
func (l *linker) borrow(s subject) verdict {
	process := l.evidence.Process(s.pid)
	if !process.Timed && process.Untimed {
		return verdict{status: StatusNoTimestamps, distance: -1}
	}
	near, ok := l.evidence.Nearest(s.pid, s.ThreadID, 0, s.TimeNanos)
	if !ok {
		return verdict{status: StatusMissingThread, distance: -1}
	}
	link := func(sample Sample, status, grade string) verdict {
		d := distance(sample.Nanos, s.TimeNanos)
		v := verdict{status: status, grade: grade, distance: d, stack: sample.Stack}
		v.weak = grade != GradeD && process.PeriodNanos > 0 && d > 2*process.PeriodNanos
		return v
	}
	if s.GoroutineID != 0 {
		own, ok := l.evidence.Nearest(s.pid, s.ThreadID, s.GoroutineID, s.TimeNanos)
		if ok && distance(own.Nanos, s.TimeNanos) <= l.limit {
			if own.Stack == 0 {
				return verdict{status: StatusNoStack, distance: distance(own.Nanos, s.TimeNanos)}
			}
			return link(own, StatusLinked, GradeB)
		}
	}
	d := distance(near.Nanos, s.TimeNanos)
	switch {
	case d <= l.limit && s.goTarget:
		return link(near, StatusAmbiguousGoroutine, GradeD)
	case d <= l.limit && near.Stack == 0:
		return verdict{status: StatusNoStack, distance: d}
	case d <= l.limit:
		return link(near, StatusLinked, GradeC)
	}
	if _, last, ok := l.evidence.Span(s.pid, s.ThreadID); ok && last < s.TimeNanos-l.limit {
		return verdict{status: StatusStale, distance: d}
	}
	return verdict{status: StatusTooFar, distance: d}
}

func distance(a, b int64) int64 {
	if a < b {
		return b - a
	}
	return a - b
}
