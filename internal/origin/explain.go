package origin

import "github.com/stax-otel/stax/archive"

// LinkExplanation holds every number behind the verdict on one origin. It is filled in by the code that decides.
// Where a field was not looked at on the way to the verdict, because an earlier row of the table had matched, it is zero.
type LinkExplanation struct {
	Link archive.Link `json:"-"`

	PID             int64  `json:"pid"`
	Thread          int64  `json:"thread"`
	Goroutine       int64  `json:"goroutine,omitempty"`
	GoroutineBy     string `json:"goroutine_by,omitempty"` // GoroutineByTarget, GoroutineByTrace; "": unknown
	ThreadLocked    bool   `json:"thread_locked,omitempty"`
	GoTarget        bool   `json:"go_target"`
	TimeNanos       int64  `json:"time_ns"`
	LimitNanos      int64  `json:"limit_ns"`
	StartedNanos    int64  `json:"recording_started_ns"` // 0: unknown
	StoppedNanos    int64  `json:"recording_stopped_ns"` // 0: unknown, or still running
	StackGiven      bool   `json:"stack_given"`          // the target sent an exact stack ...
	StackDefined    bool   `json:"stack_defined"`        // ... and its frames are known
	TraceEvent      bool   `json:"trace_event"`          // the execution trace has an event of this origin
	TraceEventStack bool   `json:"trace_event_stack"`    // with a stack whose frames are known

	Step *ClockStep `json:"clock_step,omitempty"` // the one that decided

	TimedSamples   bool  `json:"timed_samples"`
	UntimedSamples bool  `json:"untimed_samples"`
	PeriodNanos    int64 `json:"period_ns"` // of sampling; 0: unknown

	// The samples of the thread: how many, when, and the two next to the origin.
	ThreadSamples    int     `json:"thread_samples"`
	ThreadFirstNanos int64   `json:"thread_first_ns"`
	ThreadLastNanos  int64   `json:"thread_last_ns"`
	Before           *Sample `json:"before,omitempty"`
	After            *Sample `json:"after,omitempty"`
	// The samples of the goroutine, and the two on this thread next to the origin and within the limit.
	GoroutineSamples int     `json:"goroutine_samples"`
	GoroutineBefore  *Sample `json:"goroutine_before,omitempty"`
	GoroutineAfter   *Sample `json:"goroutine_after,omitempty"`

	// Gap is the time between the nearest sample and the origin, and how much of it the thread (the goroutine, where it is
	// known) is known to have been off the CPU. It explains distances; no verdict depends on it.
	GapNanos       int64 `json:"gap_ns"`
	GapOffCPUNanos int64 `json:"gap_off_cpu_ns"`
}

// Who says which goroutine an origin was on.
const (
	GoroutineByTarget = "target"
	GoroutineByTrace  = "trace"
)

// The recorder's methods may be called on nil: then nobody asks.

func (x *LinkExplanation) step(s ClockStep) {
	if x != nil {
		x.Step = &s
	}
}

func (x *LinkExplanation) sampler(timed, untimed bool, period int64) {
	if x != nil {
		x.TimedSamples, x.UntimedSamples, x.PeriodNanos = timed, untimed, period
	}
}

func (x *LinkExplanation) thread(n *neighbours) {
	if x != nil {
		x.ThreadSamples, x.ThreadFirstNanos, x.ThreadLastNanos = n.samples, n.first, n.last
		x.Before, x.After = n.pointers()
	}
}

func (x *LinkExplanation) goroutine(n *neighbours) {
	if x != nil {
		x.GoroutineSamples = n.samples
		x.GoroutineBefore, x.GoroutineAfter = n.pointers()
	}
}

func (n *neighbours) pointers() (before, after *Sample) {
	if n.hasBefore {
		b := n.before
		before = &b
	}
	if n.hasAfter {
		a := n.after
		after = &a
	}
	return before, after
}

// ExplainLink is Link with the numbers behind it.
func (ix *Index) ExplainLink(rt archive.RuntimeID, owner archive.OwnerKind, id uint64, kind archive.OriginKind, o *archive.Origin) *LinkExplanation {
	s := ix.subject(rt, o)
	x := &LinkExplanation{
		PID: s.pid, Thread: o.ThreadID, Goroutine: s.goroutine(), ThreadLocked: o.ThreadLocked, GoTarget: s.goTarget,
		TimeNanos: o.TimeNanos, LimitNanos: ix.linker.limit, StartedNanos: ix.linker.started, StoppedNanos: ix.linker.ended,
		StackGiven: o.Stack != 0, StackDefined: s.stackDefined, TraceEvent: s.event.found, TraceEventStack: s.event.stack != 0,
	}
	switch {
	case o.GoroutineID != 0:
		x.GoroutineBy = GoroutineByTarget
	case s.event.goroutine != 0:
		x.GoroutineBy = GoroutineByTrace
	}
	x.Link = ix.linked(&s, rt, owner, id, kind, x)
	if x.Link.DistanceNanos < 0 || x.Before == nil && x.After == nil {
		return x
	}
	from := o.TimeNanos - x.Link.DistanceNanos
	to := o.TimeNanos
	if x.Before == nil || x.Before.Nanos != from && (x.GoroutineBefore == nil || x.GoroutineBefore.Nanos != from) {
		from, to = o.TimeNanos, o.TimeNanos+x.Link.DistanceNanos
	}
	x.GapNanos = to - from
	r := runner{thread: o.ThreadID, goroutine: s.goroutine(), threadToo: !s.goTarget || o.ThreadLocked || s.goroutine() == 0}
	var off spans
	s.evidence.offCPU(r, from, to, func(p *intervals, i int) { off.add(max(p.begin[i], from), min(p.end[i], to)) })
	off.finish()
	x.GapOffCPUNanos = off.measure(from, to)
	return x
}

// CertificateExplanation holds every number behind the verdict on the containment of one dispatch.
type CertificateExplanation struct {
	Certificate archive.Certificate `json:"-"`

	StartNanos      int64            `json:"start_ns"` // of the dispatch
	EndNanos        int64            `json:"end_ns"`
	OriginNanos     int64            `json:"origin_ns"`
	ClockErrorNanos int64            `json:"clock_error_ns"` // of the comparisons that involve the lane's clock; -1: unknown
	LaneReports     bool             `json:"lane_reports_waits"`
	Covering        int              `json:"covering_waits"` // waits that cover the dispatch for certain
	Comparisons     []Comparison     `json:"comparisons"`    // of the deciding wait
	Contradicted    []archive.WaitID `json:"-"`              // waits that would have decided if samples did not contradict them

	DispatchGoroutine int64 `json:"dispatch_goroutine,omitempty"`
	WaitGoroutine     int64 `json:"wait_goroutine,omitempty"`

	Corroboration *CorroborationExplanation `json:"corroboration,omitempty"` // nil: no deciding wait
}

// Comparison is one condition of the class table: Left <= Right, within the error.
type Comparison struct {
	Left       string `json:"left"` // origin, begin, end, work_end
	Right      string `json:"right"`
	LeftNanos  int64  `json:"left_ns"`
	RightNanos int64  `json:"right_ns"`
	ErrorNanos int64  `json:"error_ns"` // -1: unknown
	Holds      string `json:"holds"`    // yes, no, undecided
}

func compare(left, right string, l, r, err int64) Comparison {
	c := Comparison{left, right, l, r, err, "undecided"}
	switch {
	case err < 0 || !usable(l) || !usable(r):
	case l <= r-err:
		c.Holds = "yes"
	case l > r+err:
		c.Holds = "no"
	}
	return c
}

// CorroborationExplanation holds the numbers behind the corroboration of one wait. See the package doc for the rules.
type CorroborationExplanation struct {
	Verdict string `json:"verdict"`

	Goroutine int64 `json:"goroutine,omitempty"` // whose evidence was looked at
	Thread    int64 `json:"thread,omitempty"`    // likewise; 0: evidence about the thread says nothing about the wait
	EdgeNanos int64 `json:"edge_ns"`             // evidence this near to the ends of the wait does not count

	WaitNanos    int64           `json:"wait_ns"`
	OffCPUNanos  int64           `json:"off_cpu_ns"`       // of the wait
	RestNanos    int64           `json:"rest_ns"`          // what is left of it
	AllowedNanos int64           `json:"allowed_ns"`       // the most that may be left of a wait that was slept
	PeriodNanos  int64           `json:"period_ns"`        // of sampling; 0: unknown
	Inside       int             `json:"inside"`           // samples in the wait within its frames
	Outside      int             `json:"outside"`          // samples in the wait outside its frames
	Undecided    int             `json:"undecided"`        // samples in the wait of which that cannot be said
	Frames       []string        `json:"frames,omitempty"` // functions of which one must be on the stack; none: any stack will do, or the wait's is not known
	WaitStack    archive.StackID `json:"-"`
	OutsideStack archive.StackID `json:"-"` // of the first sample outside
	OutsideNanos int64           `json:"outside_ns,omitempty"`
}

// ExplainCertificate is Certificate with the numbers behind it.
func (ix *Index) ExplainCertificate(d *archive.Dispatch) *CertificateExplanation {
	x := &CertificateExplanation{StartNanos: d.StartNanos, EndNanos: d.EndNanos, OriginNanos: d.Origin.TimeNanos}
	x.Certificate = ix.certificate(d, x)
	return x
}
