package origin

import "time"

// Version names the rules of this package. It is stored with derived tables, and changes with any
// change of a verdict.
const Version = "origin/2"

// DefaultLimit is the longest distance between an origin and the CPU sample it is linked to.
const DefaultLimit = 50 * time.Millisecond

// The statuses of an origin, in the order in which they are tried: the first that matches is the verdict.
const (
	StatusOutsideRecording   = "outside_recording"   // the instant is outside the recording (± limit)
	StatusWrongPID           = "wrong_pid"           // the process is not in the recording's tree
	StatusSyntheticThread    = "synthetic_thread"    // the thread id is a lane's pseudo-thread
	StatusBadThread          = "bad_thread"          // no usable thread id
	StatusLinked             = "linked"              // grade A here; B and C further down
	StatusClockStep          = "clock_step"          // near a recorded step of the clock
	StatusNoTimestamps       = "no_timestamps"       // only untimed samples exist for the process
	StatusMissingThread      = "missing_thread"      // no sample of the thread in the whole recording
	StatusAmbiguousGoroutine = "ambiguous_goroutine" // a Go process, and only the thread is known: grade D
	StatusNoStack            = "no_stack"            // the nearest sample has no stack
	StatusStale              = "stale"               // every sample lies before the origin by more than the limit
	StatusTooFar             = "too_far"             // no sample within the limit
)

// The grades of a link.
const (
	GradeA = "A" // exact stack captured in the target, or exact event in its execution trace
	GradeB = "B" // nearest sample of the same thread and goroutine
	GradeC = "C" // nearest sample of the thread; not of a Go target, unless the goroutine is locked to it
	GradeD = "D" // ambiguous: a candidate, never shown as the cause
)

// The containment classes.
const (
	ClassSynchronous  = "synchronous"
	ClassTimedOut     = "timed_out"
	ClassWaitedLate   = "waited_late"
	ClassAsynchronous = "asynchronous"
	ClassUnproven     = "unproven"
)

// The reasons of class unproven.
const (
	// ReasonNoWaits: no wait of the runtime awaits work of the lane, so nothing says whether the CPU waited.
	ReasonNoWaits = "no_waits"
	// ReasonNoOrigin: the instant at which the dispatch was caused is not known, so no wait provably began after it.
	ReasonNoOrigin = "no_origin"
	// ReasonClockError: the instants are closer to each other than the error of their clocks.
	ReasonClockError = "clock_error"
	// ReasonBadTimes: the dispatch, or a wait that covers it, has no usable begin and end.
	ReasonBadTimes = "bad_times"
	// ReasonNoQueueSeq: a wait awaits the queue up to a submission, and the dispatch's submission number is not known.
	ReasonNoQueueSeq = "no_queue_seq"
	// ReasonOriginAfterBegin: the wait lasted until the work had ended, but began before the work was caused.
	ReasonOriginAfterBegin = "origin_after_begin"
	// ReasonWaitMissing: a wait declared to await the dispatch, but its begin and end are not in the archive.
	ReasonWaitMissing = "wait_missing"
	// ReasonContradicted: samples say that the thread computed something else during the wait.
	ReasonContradicted = "contradicted"
)

// What CPU evidence says about the deciding wait of a certificate. The rules are in the package doc.
const (
	// CorroborationClaimed: the target says that the thread waited, and nothing confirms or contradicts it.
	CorroborationClaimed = "claimed"
	// CorroborationSlept: the thread or goroutine was off the CPU.
	CorroborationSlept = "slept"
	// CorroborationSpun: it ran, within the frames of the wait.
	CorroborationSpun = "spun"
	// CorroborationContradicted: it ran outside the frames of the wait. Such a wait proves nothing.
	CorroborationContradicted = "contradicted"
)

// The pseudo-thread ids stand for lanes.
const (
	firstPseudoThread = 0xFFF0_0000
	lastPseudoThread  = 0xFFFF_FFFF
)

// timeLimit bounds the instants that are compared (the year 2116), so that instant ± error cannot overflow.
const timeLimit = 1 << 62

// usable reports whether an instant is a time at all: not missing (zero), not all-ones, not negative.
func usable(nanos int64) bool { return nanos > 0 && nanos < timeLimit }

// usableInterval reports whether both ends are times, in order.
func usableInterval(start, end int64) bool { return usable(start) && usable(end) && start <= end }
