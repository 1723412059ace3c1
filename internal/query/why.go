package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/origin"
)

// WhyParams name the object of [Why]: a dispatch or a wait.
type WhyParams struct {
	Dispatch HexID
	Wait     HexID
}

// What a [WhyStep] is about.
const (
	AboutObject  = "object"        // what is asked about
	AboutOrigin  = "origin"        // the verdict on its origin
	AboutSamples = "samples"       // what the sampler saw of the thread
	AboutSource  = "source"        // the source of the samples itself
	AboutClass   = "class"         // whether the CPU waited
	AboutProof   = "corroboration" // what samples say about that wait
	AboutTime    = "time"          // where the time of a wait went
)

// WhyStep is one sentence of an explanation, with its numbers.
type WhyStep struct {
	About   string           `json:"about"`
	Text    string           `json:"text"`
	Numbers map[string]int64 `json:"numbers"`
}

// WhyRow explains one object.
type WhyRow struct {
	Object        string   `json:"object"` // dispatch or wait
	ID            HexID    `json:"id"`
	Name          string   `json:"name"`
	Status        string   `json:"status"` // of its origin; no_origin when none was reported
	Grade         string   `json:"grade"`
	Weak          bool     `json:"weak"`
	DistanceNanos int64    `json:"distance_ns"`
	Class         string   `json:"class,omitempty"` // of a dispatch
	Reason        string   `json:"reason,omitempty"`
	Flags         []string `json:"flags"`
	Corroboration string   `json:"corroboration,omitempty"`
	// Steps is the chain of numbers behind the verdicts, in the order in which it is told.
	Steps []WhyStep `json:"steps"`
	// Fix is the one thing to do next; "" when nothing is wrong.
	Fix string `json:"fix"`
}

// WhyAnswer is the answer of [Why].
type WhyAnswer = Answer[WhyRow]

// Why tells which numbers decide the origin and the class of a dispatch, or the origin and the time of a wait, and the
// one thing to do where they are poor. It returns [ErrNotFound] when there is no such object.
func Why(ctx context.Context, r *archive.Reader, p WhyParams) (WhyAnswer, error) {
	a := newAnswer[WhyRow]("why")
	v, ev, err := loadEvidence(ctx, r)
	if err != nil {
		return a, err
	}
	var row WhyRow
	if p.Dispatch != 0 {
		row, err = v.whyDispatch(ctx, ev, p.Dispatch)
	} else {
		row, err = v.whyWait(ctx, ev, p.Wait)
	}
	if err != nil {
		return a, err
	}
	a.Rows, a.Matched = append(a.Rows, row), 1
	a.Coverage, err = v.coverage(ctx)
	return a, err
}

func (w *WhyRow) tell(about string, n numbers, format string, args ...any) {
	if n == nil {
		n = numbers{}
	}
	w.Steps = append(w.Steps, WhyStep{About: about, Text: fmt.Sprintf(format, args...), Numbers: n})
}

// fix sets what to do, unless something more important is to be done.
func (w *WhyRow) fix(what string) {
	if w.Fix == "" {
		w.Fix = what
	}
}

func (v *view) whyDispatch(ctx context.Context, ev *evidence, id HexID) (WhyRow, error) {
	d, ok, err := v.r.Dispatch(ctx, archive.DispatchID(id))
	if err != nil {
		return WhyRow{}, err
	}
	if !ok {
		return WhyRow{}, fmt.Errorf("dispatch %s: %w", id, ErrNotFound)
	}
	cert := ev.certificate(&d)
	link := ev.link(archive.OwnerDispatch, uint64(d.ID), d.Runtime, archive.OriginDispatch, d.Origin)
	ln := v.lane(d.Runtime, d.Lane)
	row := WhyRow{
		Object: "dispatch", ID: id, Name: d.Name, Status: cmp.Or(link.Status, StatusNone), Grade: link.Grade, Weak: link.Weak,
		DistanceNanos: link.DistanceNanos, Class: cert.Class, Reason: cert.Reason, Flags: flags(&cert), Corroboration: cert.Corroboration,
		Steps: []WhyStep{},
	}
	n := numbers{"start_ns": d.StartNanos, "end_ns": d.EndNanos}
	if took, ok := durationOf(d.StartNanos, d.EndNanos); ok {
		n["duration_ns"] = took
		row.tell(AboutObject, n, "Dispatch %q ran on lane %q from %s on, for %s.", d.Name, ln.Name, v.offset(d.StartNanos), dur(took))
	} else {
		row.tell(AboutObject, n, "Dispatch %q on lane %q has times that cannot be true: start %d, end %d.", d.Name, ln.Name, d.StartNanos, d.EndNanos)
	}
	x := ev.ix.ExplainLink(d.Runtime, archive.OwnerDispatch, uint64(d.ID), archive.OriginDispatch, &d.Origin)
	if err := v.whyOrigin(ctx, &row, d.Runtime, d.Origin, x); err != nil {
		return row, err
	}
	v.whyClass(ev, &row, &d, &cert)
	return row, nil
}

func (v *view) whyWait(ctx context.Context, ev *evidence, id HexID) (WhyRow, error) {
	var w *archive.Wait
	for _, key := range ev.order {
		if key.id == archive.WaitID(id) {
			w = ev.waits[key]
			break
		}
	}
	if w == nil {
		return WhyRow{}, fmt.Errorf("wait %s: %w", id, ErrNotFound)
	}
	link := ev.link(archive.OwnerWait, uint64(w.ID), w.Runtime, archive.OriginWait, w.Origin)
	row := WhyRow{
		Object: "wait", ID: id, Name: w.Name, Status: cmp.Or(link.Status, StatusNone), Grade: link.Grade, Weak: link.Weak,
		DistanceNanos: link.DistanceNanos, Flags: []string{}, Steps: []WhyStep{},
	}
	n := numbers{"begin_ns": w.BeginNanos, "end_ns": w.EndNanos}
	took, ok := durationOf(w.BeginNanos, w.EndNanos)
	if ok {
		n["duration_ns"] = took
		row.tell(AboutObject, n, "Wait %q of thread %s began at %s and lasted %s.", w.Name, formatTID(w.Origin.ThreadID), v.offset(w.BeginNanos), dur(took))
	} else {
		row.tell(AboutObject, n, "Wait %q has times that cannot be true: begin %d, end %d.", w.Name, w.BeginNanos, w.EndNanos)
	}
	x := ev.ix.ExplainLink(w.Runtime, archive.OwnerWait, uint64(w.ID), archive.OriginWait, &w.Origin)
	if err := v.whyOrigin(ctx, &row, w.Runtime, w.Origin, x); err != nil {
		return row, err
	}
	rows, err := v.waitRows(ctx, ev)
	if err != nil {
		return row, err
	}
	for i := range rows {
		x := &rows[i]
		if x.ID != id || x.Runtime != w.Runtime {
			continue
		}
		n := numbers{"awaits": x.Awaits, "dispatches": x.Dispatches, "owned_ns": x.OwnedNanos}
		for class, k := range x.Classes {
			n[class] = k
		}
		switch {
		case x.Awaits == 0:
			row.tell(AboutClass, n, "It does not say what it awaits, so it proves nothing about any dispatch.")
			row.fix("Call Await on the wait with what it waits for, before it ends")
		case x.Dispatches == 0:
			row.tell(AboutClass, n, "It awaits %s, and decides the class of no dispatch.", count(x.Awaits, "thing", "things"))
		default:
			row.tell(AboutClass, n, "It awaits %s and decides the class of %s: %s.", count(x.Awaits, "thing", "things"),
				count(x.Dispatches, "dispatch", "dispatches"), listNumbers(x.Classes))
		}
		if p := x.Parts; p != nil && ok && p.UnknownNanos == 0 {
			row.tell(AboutTime, numbers{
				"executing_ns": p.ExecutingNanos, "queued_ns": p.QueuedNanos, "lane_idle_ns": p.LaneIdleNanos, "wake_up_ns": p.WakeUpNanos,
			}, "Of its %s awaited work ran for %s, its lane ran other work for %s and nothing for %s, and %s passed after the work was done.",
				dur(took), dur(p.ExecutingNanos), dur(p.QueuedNanos), dur(p.LaneIdleNanos), dur(p.WakeUpNanos))
		}
	}
	return row, nil
}

// whyOrigin explains the verdict on an origin.
func (v *view) whyOrigin(ctx context.Context, row *WhyRow, rt archive.RuntimeID, o archive.Origin, x *origin.LinkExplanation) error {
	if !o.Present() {
		row.tell(AboutOrigin, nil, "The target reported no CPU origin for it, so there is nothing to link.")
		row.fix("Report it with Lane.ReportFrom or Dispatch.CaptureOrigin, and record with --origins stack")
		return nil
	}
	l := &x.Link
	f, err := v.originFacts(ctx, rt, o, x)
	if err != nil {
		return err
	}
	names, err := v.threadNames(ctx)
	if err != nil {
		return err
	}
	who := "thread " + formatTID(o.ThreadID)
	if name := names.of(v, rt, o.ThreadID); name != "" {
		who += fmt.Sprintf(" (%s)", name)
	}
	switch {
	case x.Goroutine != 0 && x.GoroutineBy == origin.GoroutineByTrace:
		who += fmt.Sprintf(", goroutine %d by the execution trace", x.Goroutine)
	case x.Goroutine != 0:
		who += fmt.Sprintf(", goroutine %d", x.Goroutine)
	}
	limit := x.LimitNanos
	n := numbers{"thread": o.ThreadID, "origin_ns": o.TimeNanos, "limit_ns": limit}
	if l.DistanceNanos >= 0 {
		n["distance_ns"] = l.DistanceNanos
	}
	function := leaf(v.frames(rt, causeStack(o, l)))
	sampled := true // the samples are part of the reason
	switch l.Status {
	case origin.StatusOutsideRecording:
		sampled = false
		switch s, e := v.info.StartedNanos, v.info.StoppedNanos; {
		case o.TimeNanos <= 0:
			row.tell(AboutOrigin, n, "Its origin names %s and no usable instant (%d), so no sample can be compared with it.", who, o.TimeNanos)
		case o.TimeNanos < s:
			n["before_ns"] = s - o.TimeNanos
			row.tell(AboutOrigin, n, "Its origin (%s) lies %s before the recording began; up to %s counts as inside.", who, dur(s-o.TimeNanos), dur(limit))
		case e != 0 && o.TimeNanos > e:
			n["after_ns"] = o.TimeNanos - e
			row.tell(AboutOrigin, n, "Its origin (%s) lies %s after the recording ended; up to %s counts as inside.", who, dur(o.TimeNanos-e), dur(limit))
		default:
			row.tell(AboutOrigin, n, "Its origin (%s) lies outside the recording.", who)
		}
	case origin.StatusWrongPID:
		sampled = false
		n["pid"] = v.pid(rt)
		row.tell(AboutOrigin, n, "Its process %d is none of the %s of this recording, nor a child of one.", v.pid(rt), count(int64(len(v.info.PIDs)), "process", "processes"))
	case origin.StatusSyntheticThread:
		sampled = false
		row.tell(AboutOrigin, n, "Its origin names thread %s, which is the id of a lane: lanes run no CPU code.", formatTID(o.ThreadID))
	case origin.StatusBadThread:
		sampled = false
		row.tell(AboutOrigin, n, "Its origin names thread %d, which is no thread id.", o.ThreadID)
	case origin.StatusClockStep:
		sampled = false
		if s := x.Step; s != nil {
			n["step_ns"], n["step_from_ns"], n["step_to_ns"] = s.ByNanos, s.FromNanos, s.ToNanos
			row.tell(AboutOrigin, n, "The target's clock jumped by %s between %s and %s, and this origin (%s) lies at %s; within 1 s of a jump instants cannot be compared.",
				dur(s.ByNanos), v.offset(s.FromNanos), v.offset(s.ToNanos), who, v.offset(o.TimeNanos))
		} else {
			row.tell(AboutOrigin, n, "The target's clock jumped within 1 s of this origin (%s), so instants of the thread and its samples cannot be compared.", who)
		}
	case origin.StatusLinked:
		sampled = l.Grade != origin.GradeA
		v.whyLinked(row, n, o, l, f, who, function)
	case origin.StatusNoTimestamps:
		sampled = false
		n["samples_without_instant"] = f.untimed
		row.tell(AboutOrigin, n, "Process %d has %s, and none of them says when it was taken, so none can be compared with the instant of this origin (%s).",
			v.pid(rt), count(f.untimed, "CPU sample", "CPU samples"), who)
	case origin.StatusMissingThread:
		sampled = false
		n["samples_of_process"], n["samples_of_thread"], n["threads_sampled"] = f.timed, 0, int64(f.threads)
		if f.timed == 0 {
			row.tell(AboutOrigin, n, "No CPU sample exists for process %d, and no stack was captured with this origin (%s).", v.pid(rt), who)
		} else {
			row.tell(AboutOrigin, n, "None of the %s of process %d is of %s: %s sampled, this one never.",
				count(f.timed, "CPU sample", "CPU samples"), v.pid(rt), who, count(int64(f.threads), "thread was", "threads were"))
		}
	case origin.StatusAmbiguousGoroutine:
		candidate := leaf(v.frames(rt, l.Stack))
		row.tell(AboutOrigin, n, "The nearest sample of thread %s is %s away, but goroutines share threads%s; so its stack%s is a candidate and no cause (grade D).",
			formatTID(o.ThreadID), dur(max(l.DistanceNanos, 0)), f.whichGoroutine(x), inParens(shortName(candidate)))
	case origin.StatusNoStack:
		row.tell(AboutOrigin, n, "The nearest sample of %s is %s away, within the limit of %s, but it has no stack.", who, dur(max(l.DistanceNanos, 0)), dur(limit))
	case origin.StatusStale:
		n["last_sample_ns"] = f.last
		row.tell(AboutOrigin, n, "The last of %s of %s lies %s before this origin, which is more than the limit of %s, and none came later: the sampler lost the thread.",
			count(f.samples, "sample", "samples"), who, dur(max(l.DistanceNanos, 0)), dur(limit))
	case origin.StatusTooFar:
		row.tell(AboutOrigin, n, "Nearest sample %s > limit %s, for %s.", dur(max(l.DistanceNanos, 0)), dur(limit), who)
	default:
		row.tell(AboutOrigin, n, "Its origin (%s) does not link: %s.", who, words(l.Status))
	}
	if sampled {
		v.whySampled(row, o, x, f)
	}
	if s := f.source; s != nil && (l.Status != origin.StatusLinked || l.Weak) && s.State != "running" {
		row.tell(AboutSource, numbers{"begin_ns": s.BeginNanos, "end_ns": s.EndNanos}, "At that time the source %s was %s%s.", s.Source, s.State, reasonText(s.Reason))
	}
	if sampled && l.Status != origin.StatusLinked && f.begins > 0 {
		switch t := o.TimeNanos; {
		case t < f.begins:
			row.tell(AboutSource, numbers{"source_begin_ns": f.begins}, "The source %s began %s after this origin: nothing was sampled yet.", f.starter, dur(f.begins-t))
		case f.ends > 0 && t > f.ends:
			row.tell(AboutSource, numbers{"source_end_ns": f.ends}, "The samples of this process end %s before this origin.", dur(t-f.ends))
		}
	}
	switch {
	case (l.Status == origin.StatusTooFar || l.Status == origin.StatusStale) && x.GoTarget && !x.ThreadLocked && x.Goroutine == 0:
		row.fix("Goroutines share threads, so more samples would not help: capture exact stacks with stax record --origins stack")
	case l.Status != origin.StatusLinked:
		row.fix(statusHints[l.Status])
	case l.Weak:
		row.fix("Sample the CPU more often (stax record --sample-hz), or capture exact stacks with stax record --origins stack")
	}
	return nil
}

func (v *view) whyLinked(row *WhyRow, n numbers, o archive.Origin, l *archive.Link, f *originFacts, who, function string) {
	code, did := "The code of its stack", "queued it"
	if function != "" {
		code = shortName(function)
	}
	if row.Object == "wait" {
		did = "waited"
	}
	switch l.Grade {
	case origin.GradeA:
		switch {
		case f.exact != nil:
			n["event_distance_ns"] = abs(f.exact.EventNanos - o.TimeNanos)
			row.tell(AboutOrigin, n, "%s %s, on %s: the execution trace has the event of this very origin (same thread and instant), so nothing is guessed (grade A).", code, did, who)
		default:
			row.tell(AboutOrigin, n, "%s %s, on %s: the target captured the stack itself, so nothing is guessed (grade A).", code, did, who)
		}
	case origin.GradeB:
		row.tell(AboutOrigin, n, "%s %s: the nearest sample of the same thread and goroutine (%s) is %s away, within the limit of %s (grade B).",
			code, did, who, dur(l.DistanceNanos), dur(n["limit_ns"]))
	default:
		why := ""
		if o.ThreadLocked {
			why = ", and the target says that this code is locked to its thread"
		}
		row.tell(AboutOrigin, n, "%s %s: the nearest sample of %s is %s away, within the limit of %s%s (grade %s).",
			code, did, who, dur(l.DistanceNanos), dur(n["limit_ns"]), why, l.Grade)
	}
	if l.Weak {
		row.tell(AboutOrigin, numbers{"distance_ns": l.DistanceNanos, "period_ns": f.period},
			"The link is weak: %s is more than twice the sampling period of %s.", dur(l.DistanceNanos), dur(f.period))
	}
}

// whySampled tells what the sampler saw around the origin.
func (v *view) whySampled(row *WhyRow, o archive.Origin, x *origin.LinkExplanation, f *originFacts) {
	l := &x.Link
	if f.samples == 0 {
		return
	}
	n := numbers{"samples_of_thread": f.samples, "samples_of_process": f.timed}
	around := "none before"
	if f.before != 0 {
		n["before_ns"] = o.TimeNanos - f.before
		around = dur(o.TimeNanos-f.before) + " before"
	}
	after := "none after"
	if f.after != 0 {
		n["after_ns"] = f.after - o.TimeNanos
		after = dur(f.after-o.TimeNanos) + " after"
	}
	rate := ""
	if f.period > 0 {
		n["period_ns"] = f.period
		rate = fmt.Sprintf("Sampler %s: one sample per %s of processor time. ", hertz(f.period), dur(f.period))
	}
	row.tell(AboutSamples, n, "%sThe thread has %s; the nearest lie %s and %s.", rate, count(f.samples, "sample", "samples"), around, after)
	if x.Goroutine != 0 && f.own == 0 && l.Grade != origin.GradeB {
		row.tell(AboutSamples, numbers{"samples_of_goroutine": f.ownSamples}, "Goroutine %d has %s on this thread.", x.Goroutine, count(f.ownSamples, "sample", "samples"))
	}
	// Why nothing was sampled: the thread, or the goroutine, did not run.
	if gap := f.gap; gap > 0 && (l.Status == origin.StatusTooFar || l.Status == origin.StatusStale || l.Weak) {
		n := numbers{"gap_ns": gap, "off_cpu_ns": f.off}
		switch {
		case f.offRows == 0:
			row.tell(AboutSamples, n, "No source says whether the thread ran in between; a thread that does not run is not sampled.")
		case f.off == 0:
			row.tell(AboutSamples, n, "The thread is not known to have been off-CPU in those %s.", dur(gap))
		case f.offOfGoroutine:
			row.tell(AboutSamples, n, "Goroutine %d off-CPU %s of those %s%s.", x.Goroutine, dur(f.off), dur(gap), mostly(f.offReasons))
		default:
			row.tell(AboutSamples, n, "Thread off-CPU %s of those %s%s.", dur(f.off), dur(gap), mostly(f.offReasons))
		}
		if f.off > gap/2 {
			row.fix("What does not run is not sampled, however often: capture exact stacks with stax record --origins stack")
		}
	}
	if f.events > 0 && f.exact == nil {
		row.tell(AboutSamples, numbers{"origin_events": f.events, "nearest_event_ns": f.nearestEvent},
			"The execution trace has %s of this thread, the nearest %s away: none has this origin's instant.", count(f.events, "origin event", "origin events"), dur(f.nearestEvent))
	}
}

// originFacts is what the archive knows about a thread around one instant. It is found in one pass over the samples.
type originFacts struct {
	timed, untimed int64 // samples of the process
	threads        int   // of the process that have samples
	samples        int64 // of the thread, with an instant
	first, last    int64
	before, after  int64 // instants of the nearest samples of the thread; 0: none
	nearGoroutine  int64 // of the nearest one
	ownSamples     int64 // of thread and goroutine
	own            int64 // the nearest of those
	period         int64
	source         *archive.ProfileSource // what the source of the process said about that time
	begins, ends   int64                  // when the sources of the process began and ended; 0: unknown
	starter        string                 // the source that began first
	exact          *archive.OriginEvent
	events         int64 // origin events of the thread
	nearestEvent   int64
	gap            int64 // from the nearest sample to the origin
	off            int64 // of that time off-CPU
	offRows        int64 // off-CPU intervals of the process that could tell
	offOfGoroutine bool
	offReasons     offTally
}

func (v *view) originFacts(ctx context.Context, rt archive.RuntimeID, o archive.Origin, x *origin.LinkExplanation) (*originFacts, error) {
	o.GoroutineID = x.Goroutine // the trace may know it where the target did not say
	f := &originFacts{nearestEvent: -1, offReasons: offTally{}, period: x.PeriodNanos}
	same := v.sameProcess(rt)
	t := o.TimeNanos
	threads := map[int64]bool{}
	for rows, err := range archive.ScanColumns[archive.Sample](ctx, v.r, "runtime", "thread", "goroutine", "time_ns", "stack", "count") {
		if err != nil {
			return nil, err
		}
		for i := range rows {
			s := &rows[i]
			if !same(s.Runtime) {
				continue
			}
			if s.TimeNanos == 0 {
				f.untimed = addSaturated(f.untimed, int64(min(s.Count, 1<<62)))
				continue
			}
			f.timed++
			threads[s.ThreadID] = true
			if s.ThreadID != o.ThreadID {
				continue
			}
			f.samples++
			f.last = max(f.last, s.TimeNanos)
			if f.first == 0 || s.TimeNanos < f.first {
				f.first = s.TimeNanos
			}
			if s.TimeNanos <= t && s.TimeNanos > f.before {
				f.before = s.TimeNanos
			}
			if s.TimeNanos > t && (f.after == 0 || s.TimeNanos < f.after) {
				f.after = s.TimeNanos
			}
			if near := f.nearest(t); near == s.TimeNanos {
				f.nearGoroutine = s.GoroutineID
			}
			if o.GoroutineID != 0 && s.GoroutineID == o.GoroutineID {
				f.ownSamples++
				if f.own == 0 || abs(s.TimeNanos-t) < abs(f.own-t) {
					f.own = s.TimeNanos
				}
			}
		}
	}
	f.threads = len(threads)
	if err := v.sourceFacts(ctx, f, same, t); err != nil {
		return nil, err
	}
	for rows, err := range archive.Scan[archive.OriginEvent](ctx, v.r) {
		if err != nil {
			return nil, err
		}
		for _, e := range rows {
			if !same(e.Runtime) || e.ThreadID != o.ThreadID || e.Span != 0 {
				continue
			}
			f.events++
			if d := abs(e.TimeNanos - t); f.nearestEvent < 0 || d < f.nearestEvent {
				f.nearestEvent = d
			}
			if e.Runtime == rt && e.TimeNanos == t && t != 0 {
				f.exact = &e
			}
		}
	}
	return f, v.gapFacts(ctx, f, same, o)
}

// sourceFacts finds the sampling period, and what the source said about the time of the origin.
func (v *view) sourceFacts(ctx context.Context, f *originFacts, same func(archive.RuntimeID) bool, t int64) error {
	for rows, err := range archive.Scan[archive.ProfileSource](ctx, v.r) {
		if err != nil {
			return err
		}
		for _, s := range rows {
			if !same(s.Runtime) {
				continue
			}
			if s.PeriodNanos > 0 && f.period == 0 {
				f.period = s.PeriodNanos
			}
			if s.BeginNanos > 0 && (f.begins == 0 || s.BeginNanos < f.begins) {
				f.begins, f.starter = s.BeginNanos, s.Source
			}
			f.ends = max(f.ends, s.EndNanos)
			if s.BeginNanos <= t && (t <= s.EndNanos || s.EndNanos == 0) {
				f.source = &s
				if s.PeriodNanos > 0 {
					f.period = s.PeriodNanos
				}
			} else if f.source == nil && s.BeginNanos <= t && (s.State == "refused" || s.State == "reduced") {
				f.source = &s // it lasts until the source says something else
			}
		}
	}
	return nil
}

// gapFacts finds how much of the time between the nearest sample and the origin the thread did not run.
func (v *view) gapFacts(ctx context.Context, f *originFacts, same func(archive.RuntimeID) bool, o archive.Origin) error {
	near := f.nearest(o.TimeNanos)
	if near == 0 {
		return nil
	}
	begin, end := min(near, o.TimeNanos), max(near, o.TimeNanos)
	f.gap = end - begin
	var goroutine, thread spans
	reasons := [2]offTally{{}, {}}
	for rows, err := range archive.ScanColumns[archive.OffCPU](ctx, v.r, "runtime", "thread", "goroutine", "begin_ns", "wake_ns", "end_ns", "reason") {
		if err != nil {
			return err
		}
		for i := range rows {
			x := &rows[i]
			if !same(x.Runtime) {
				continue
			}
			own := x.GoroutineID != 0 && x.GoroutineID == o.GoroutineID
			if !own && (x.GoroutineID != 0 || x.ThreadID != o.ThreadID) {
				continue
			}
			f.offRows++
			b, e := max(x.BeginNanos, begin), min(x.EndNanos, end)
			if b >= e {
				continue
			}
			if own {
				goroutine.add(b, e)
				reasons[1].add(x, b, e)
			} else {
				thread.add(b, e)
				reasons[0].add(x, b, e)
			}
		}
	}
	f.off, f.offReasons = thread.length(), reasons[0]
	if g := goroutine.length(); g > f.off {
		f.off, f.offReasons, f.offOfGoroutine = g, reasons[1], true
	}
	return nil
}

// nearest is the instant of the sample that is nearest to t, of two at the same distance the earlier; 0: none.
func (f *originFacts) nearest(t int64) int64 {
	if f.before == 0 || f.after != 0 && f.after-t < t-f.before {
		return f.after
	}
	return f.before
}

// whichGoroutine says which goroutine the nearest sample was of, where that differs.
func (f *originFacts) whichGoroutine(x *origin.LinkExplanation) string {
	switch {
	case x.Goroutine == 0:
		return " and the origin names no goroutine"
	case f.nearGoroutine != 0 && f.nearGoroutine != x.Goroutine:
		return fmt.Sprintf(", and it is of goroutine %d while the origin is of goroutine %d", f.nearGoroutine, x.Goroutine)
	}
	return ""
}

// sameProcess returns a test for runtimes of the same process.
func (v *view) sameProcess(rt archive.RuntimeID) func(archive.RuntimeID) bool {
	pid := v.pid(rt)
	return func(other archive.RuntimeID) bool { return other == rt || pid != 0 && v.pid(other) == pid }
}

// whyClass explains whether the CPU waited for a dispatch.
func (v *view) whyClass(ev *evidence, row *WhyRow, d *archive.Dispatch, c *archive.Certificate) {
	w := ev.waits[waitKey{d.Runtime, c.Wait}]
	n := numbers{"clock_error_ns": c.ClockErrorNanos, "covering_waits": int64(len(ev.covering(d)))}
	who := "the wait"
	if w != nil {
		who = fmt.Sprintf("wait %q of thread %s", w.Name, formatTID(w.Origin.ThreadID))
		n["wait_begin_ns"], n["wait_end_ns"] = w.BeginNanos, w.EndNanos
		if d.Origin.TimeNanos > 0 {
			n["begin_after_origin_ns"] = w.BeginNanos - d.Origin.TimeNanos
		}
		n["end_after_work_ns"] = w.EndNanos - d.EndNanos
	}
	clock := "; the lane shares the thread's clock"
	switch {
	case c.ClockErrorNanos < 0:
		clock = "; the error between the two clocks is not known"
	case c.ClockErrorNanos > 0:
		clock = fmt.Sprintf("; the clocks differ by at most %s", dur(c.ClockErrorNanos))
	}
	switch c.Class {
	case origin.ClassSynchronous:
		n["owned_ns"] = c.OwnedNanos
		row.tell(AboutClass, n, "It is synchronous: %s awaits it, began %s after it was queued and ended %s after it had%s.",
			who, dur(c.BeginNanos-c.OriginNanos), dur(c.EndNanos-d.EndNanos), clock)
		row.tell(AboutClass, numbers{"owned_ns": c.OwnedNanos}, "Of that wait's %s, %s overlap this dispatch: owned time.", dur(c.EndNanos-c.BeginNanos), dur(c.OwnedNanos))
		if c.CrossThread && w != nil {
			row.tell(AboutClass, nil, "Thread %s queued it and thread %s waited, so a wall view links it and does not nest it.", formatTID(d.Origin.ThreadID), formatTID(w.Origin.ThreadID))
		}
		if c.DifferentStack {
			row.tell(AboutClass, nil, "The code that queued it and the code that waited have no frame in common, so a wall view links it and does not nest it.")
		}
		whyCorroborated(row, ev.ix.ExplainCertificate(d).Corroboration)
	case origin.ClassTimedOut:
		row.tell(AboutClass, n, "It timed out: %s awaits it, and gave up %s before the work ended%s.", who, dur(d.EndNanos-c.EndNanos), clock)
		row.fix("Wait longer, or look at why the work took so long: stax target waits --class timed_out")
	case origin.ClassWaitedLate:
		row.tell(AboutClass, n, "It was waited for late: %s began %s after the work had ended, so the CPU did not block for it%s.", who, dur(c.BeginNanos-d.EndNanos), clock)
	case origin.ClassAsynchronous:
		row.tell(AboutClass, n, "It is asynchronous: waits do await work of this lane, and none of the %s awaits this dispatch.",
			count(int64(len(ev.order)), "wait of the recording", "waits of the recording"))
	default:
		v.whyUnproven(row, d, c, n, who, clock)
		if c.Reason == origin.ReasonContradicted {
			whyCorroborated(row, ev.ix.ExplainCertificate(d).Corroboration)
		}
	}
}

func (v *view) whyUnproven(row *WhyRow, d *archive.Dispatch, c *archive.Certificate, n numbers, who, clock string) {
	switch c.Reason {
	case origin.ReasonNoWaits:
		row.tell(AboutClass, n, "Its class is unproven: no wait awaits any work of this lane, so nothing says whether a thread waited.")
		row.fix("Declare waits with sdk.BeginWait, Await and End around the blocking calls")
	case origin.ReasonNoOrigin:
		row.tell(AboutClass, n, "Its class is unproven: %s lasted until the work had ended, but nobody knows when the work was queued, so the wait may have begun before.", who)
		row.fix("Report the origin with Lane.ReportFrom or Dispatch.CaptureOrigin")
	case origin.ReasonClockError:
		row.tell(AboutClass, n, "Its class is unproven: %s ended %s the work, which is less than the clocks can tell apart%s.", who, signed(n["end_after_work_ns"], "after", "before"), clock)
		row.fix("Calibrate the lane's clock better, and send its bound in stax.clock.error_ns")
	case origin.ReasonBadTimes:
		if _, ok := durationOf(d.StartNanos, d.EndNanos); !ok {
			row.tell(AboutClass, n, "Its class is unproven: its own times cannot be true (start %d, end %d).", d.StartNanos, d.EndNanos)
		} else {
			row.tell(AboutClass, n, "Its class is unproven: %s awaits it and has times that cannot be true.", who)
		}
		row.fix("Check how the target resolves its timestamps before it reports")
	case origin.ReasonNoQueueSeq:
		n["queue_seq"] = int64(min(d.QueueSeq, 1<<62))
		row.tell(AboutClass, n, "Its class is unproven: %s awaits its queue up to a submission, and its own submission number is not known.", who)
		row.fix("Send stax.queue.seq on the dispatch or its command buffer")
	case origin.ReasonOriginAfterBegin:
		row.tell(AboutClass, n, "Its class is unproven: %s lasted until the work had ended, but began %s before the work was queued.", who, dur(max(c.OriginNanos-c.BeginNanos, 0)))
		row.fix("Begin the wait after the work has been queued")
	case origin.ReasonWaitMissing:
		row.tell(AboutClass, n, "Its class is unproven: wait %s declared to await it, but that wait never arrived.", HexID(c.Wait))
		row.fix("See whether it was dropped: stax audit")
	case origin.ReasonContradicted:
		row.tell(AboutClass, n, "Its class is unproven: by its times %s would own it, but samples show the thread running other code meanwhile.", who)
		row.fix("Begin the wait where the thread blocks, and end it where it goes on")
	default:
		row.tell(AboutClass, n, "Its class is unproven: %s.", words(c.Reason))
	}
}

// whyCorroborated tells what samples and off-CPU intervals say about the deciding wait. The numbers are those of the code
// that decides.
func whyCorroborated(row *WhyRow, c *origin.CorroborationExplanation) {
	if c == nil {
		return
	}
	n := numbers{
		"wait_ns": c.WaitNanos, "off_cpu_ns": c.OffCPUNanos, "rest_ns": c.RestNanos, "allowed_ns": c.AllowedNanos, "edge_ns": c.EdgeNanos,
		"samples_inside": int64(c.Inside), "samples_outside": int64(c.Outside), "samples_undecided": int64(c.Undecided),
	}
	who := fmt.Sprintf("thread %d", c.Thread)
	switch {
	case c.Goroutine != 0:
		who = fmt.Sprintf("goroutine %d", c.Goroutine)
	case c.Thread == 0:
		who = "the goroutine that waited"
	}
	samples := int64(c.Inside + c.Outside + c.Undecided)
	switch c.Verdict {
	case origin.CorroborationSlept:
		row.tell(AboutProof, n, "Evidence agrees that it slept: %s was off-CPU for %s of the wait's %s.",
			who, dur(c.OffCPUNanos), dur(c.WaitNanos))
	case origin.CorroborationSpun:
		row.tell(AboutProof, n, "Evidence agrees that it waited actively: of the %s of %s in the wait, %s within its frames and %s outside.",
			count(samples, "sample", "samples"), who, count(int64(c.Inside), "lies", "lie"), count(int64(c.Outside), "lies", "lie"))
	case origin.CorroborationContradicted:
		row.tell(AboutProof, n, "Evidence contradicts the wait: %s ran other code in it, by %s outside the frames of the wait; it was off-CPU for %s of %s.",
			who, count(int64(c.Outside), "sample", "samples"), dur(c.OffCPUNanos), dur(c.WaitNanos))
	case origin.CorroborationClaimed:
		row.tell(AboutProof, n, "That it waited is the target's own word; nothing confirms or contradicts it: %s has %s in the wait, and is known to have been off-CPU for %s of its %s.",
			who, count(samples, "sample", "samples"), dur(c.OffCPUNanos), dur(c.WaitNanos))
	}
}

// length is the time that the set covers.
func (s *spans) length() (sum int64) {
	s.join()
	for _, x := range s.list {
		sum += x.end - x.begin
	}
	return sum
}

func (v *view) offset(nanos int64) string {
	return fmt.Sprintf("%+.6f s", float64(nanos-v.info.StartedNanos)/1e9)
}

// mostly names the reason that took most of the time off-CPU: " (mostly lock)".
func mostly(t offTally) string {
	rows, _ := t.rows()
	switch len(rows) {
	case 0:
		return ""
	case 1:
		return " (" + rows[0].Reason + ")"
	}
	return " (mostly " + rows[0].Reason + ")"
}

func inParens(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

func reasonText(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// shortName drops the directories of a qualified Go function name.
func shortName(name string) string {
	end := len(name)
	if i := slices.Index([]byte(name), '['); i >= 0 {
		end = i
	}
	for i := end - 1; i >= 0; i-- {
		if name[i] == '/' {
			return name[i+1:]
		}
	}
	return name
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

func signed(n int64, after, before string) string {
	if n < 0 {
		return dur(-n) + " " + before
	}
	return dur(n) + " " + after
}

func hertz(period int64) string { return fmt.Sprintf("%.4g Hz", 1e9/float64(period)) }

// dur renders nanoseconds with up to three digits, as one says them: 61 ms, 4.3 ms, 1.25 s.
func dur(nanos int64) string {
	if nanos < 0 {
		return "-" + dur(-nanos)
	}
	if nanos < 1000 {
		return fmt.Sprintf("%d ns", nanos)
	}
	x := float64(nanos)
	for _, unit := range []string{"µs", "ms"} {
		x /= 1000
		if x < 999.5 {
			return fmt.Sprintf("%.3g %s", x, unit)
		}
	}
	if x /= 1000; x < 999.5 {
		return fmt.Sprintf("%.3g s", x)
	}
	return comma(int64(x+0.5)) + " s"
}
