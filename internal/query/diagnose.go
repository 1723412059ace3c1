package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/origin"
)

// Severities of a [Finding].
const (
	SeverityOK    = "ok"
	SeverityInfo  = "info"
	SeverityWarn  = "warn"
	SeverityError = "error"
)

// Finding is one answer to one question about the health of a recording.
type Finding struct {
	Code     string           `json:"code"`  // stable snake_case
	Topic    string           `json:"topic"` // recording, target, lanes, times, cpu, origins, waits, counters, losses, clock
	Severity string           `json:"severity"`
	Text     string           `json:"text"`
	Numbers  map[string]int64 `json:"numbers"`
	Hint     string           `json:"hint,omitempty"` // the one thing to do
}

// Topics of findings, in the order of the answer.
const (
	topicRecording = "recording"
	topicTarget    = "target"
	topicLanes     = "lanes"
	topicTimes     = "times"
	topicOrigins   = "origins"
	topicWaits     = "waits"
	topicCounters  = "counters"
	topicLosses    = "losses"
	topicClock     = "clock"
)

type numbers = map[string]int64

// findings collects; its methods add one finding each.
type findings []Finding

func (f *findings) add(severity, topic, code string, n numbers, hint, format string, args ...any) {
	if n == nil {
		n = numbers{}
	}
	*f = append(*f, Finding{
		Code: code, Topic: topic, Severity: severity, Text: fmt.Sprintf(format, args...), Numbers: n, Hint: hint,
	})
}

// Diagnose goes through everything that commonly goes wrong between a target and an answer.
func Diagnose(ctx context.Context, r *archive.Reader) (Answer[Finding], error) {
	a := newAnswer[Finding]("diagnose")
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	declared, err := v.waitTable(ctx)
	if err != nil {
		return a, err
	}
	books, err := v.books(ctx)
	if err != nil {
		return a, err
	}
	seen, err := v.survey(ctx)
	if err != nil {
		return a, err
	}
	var f findings
	v.diagnoseRecording(&f)
	v.diagnoseTarget(&f, books)
	v.diagnoseLanes(&f, seen)
	v.diagnoseTimes(&f, seen)
	if err := v.diagnoseCPU(ctx, &f, seen); err != nil {
		return a, err
	}
	diagnoseOrigins(&f, seen)
	diagnoseWaits(&f, seen, declared)
	if err := v.diagnoseCounters(ctx, &f); err != nil {
		return a, err
	}
	diagnoseLosses(&f, books, r.Losses())
	if err := v.diagnoseClock(ctx, &f); err != nil {
		return a, err
	}
	if err := v.diagnoseReports(ctx, &f); err != nil {
		return a, err
	}
	a.Rows = append(a.Rows, f...)
	a.Matched = len(a.Rows)
	a.Coverage, err = v.coverage(ctx)
	a.Coverage.Origins = seen.origins
	return a, err
}

// survey is one pass over the dispatches.
type survey struct {
	origins *OriginCoverage
	work    tally
	classes map[string]int64
	reasons map[string]int64 // of unproven
	onLane  map[*lane]int64
	// Times that cannot be true, and times outside the recording.
	zero, allOnes, reversed, outside int64
	distances                        map[string]*distances // of origins to the nearest sample, by status
}

type distances struct{ n, sum, lo, hi int64 }

func (d *distances) add(x int64) {
	if x < 0 {
		return
	}
	if d.n == 0 || x < d.lo {
		d.lo = x
	}
	d.hi = max(d.hi, x)
	d.n++
	d.sum = addSaturated(d.sum, x)
}

func (d *distances) numbers(n numbers, prefix string) {
	if d != nil && d.n > 0 {
		n[prefix+"_min_ns"], n[prefix+"_avg_ns"], n[prefix+"_max_ns"] = d.lo, d.sum/d.n, d.hi
	}
}

// text says how far the samples are, after lead; "" without any.
func (d *distances) text(lead string) string {
	switch {
	case d == nil || d.n == 0:
		return ""
	case d.lo == d.hi:
		return fmt.Sprintf("%s %s away", lead, dur(d.lo))
	}
	return fmt.Sprintf("%s %s to %s away, %s on average", lead, dur(d.lo), dur(d.hi), dur(d.sum/d.n))
}

// slackNanos is how far outside the recording a dispatch may lie before it is worth a word.
const slackNanos = int64(origin.DefaultLimit)

func (v *view) survey(ctx context.Context) (*survey, error) {
	s := &survey{
		origins: newOriginCoverage(), classes: map[string]int64{}, reasons: map[string]int64{}, onLane: map[*lane]int64{},
		distances: map[string]*distances{},
	}
	err := v.attributed(ctx, func(d *archive.Dispatch, c *archive.Certificate, l *archive.Link) {
		s.origins.add(d, l)
		s.work.add(d.StartNanos, d.EndNanos)
		s.onLane[v.lane(d.Runtime, d.Lane)]++
		s.classes[c.Class]++
		if c.Class == origin.ClassUnproven {
			s.reasons[c.Reason]++
		}
		switch {
		case d.StartNanos == 0 || d.EndNanos == 0:
			s.zero++
		case d.StartNanos == -1 || d.EndNanos == -1:
			s.allOnes++
		case d.EndNanos < d.StartNanos:
			s.reversed++
		case d.StartNanos < v.info.StartedNanos-slackNanos,
			v.info.StoppedNanos != 0 && d.EndNanos > v.info.StoppedNanos+slackNanos:
			s.outside++
		}
		if l.DistanceNanos >= 0 && d.Origin.Present() {
			if s.distances[l.Status] == nil {
				s.distances[l.Status] = &distances{}
			}
			s.distances[l.Status].add(l.DistanceNanos)
		}
	})
	return s, err
}

func (v *view) diagnoseRecording(f *findings) {
	switch v.state() {
	case StateFinished:
		f.add(SeverityOK, topicRecording, "finished", nil, "", "The recording is finished and sealed.")
	case StateLive:
		f.add(SeverityInfo, topicRecording, "live", nil, "", "The recording is still running: this is a snapshot.")
	default:
		f.add(SeverityError, topicRecording, "not_finished", nil, "Everything written is readable; stax audit says what is missing",
			"The recorder ended before it sealed the archive (killed, or the machine went down).")
	}
	if c := v.info.ExitCode; c != nil && *c != 0 {
		f.add(SeverityInfo, topicRecording, "command_failed", numbers{"exit_code": int64(*c)}, "", "The command exited with code %d.", *c)
	}
	if s := v.info.ExitSignal; s != "" {
		f.add(SeverityInfo, topicRecording, "command_killed", nil, "", "The command was ended by signal %s.", s)
	}
}

func (v *view) diagnoseTarget(f *findings, b *books) {
	n := numbers{"processes": int64(len(v.runtimes)), "heartbeats": b.beats.count}
	if len(v.runtimes) == 0 {
		f.add(SeverityError, topicTarget, "no_runtime", n,
			"Instrument the target with the stax SDK, let it inherit STAX_ENDPOINT and STAX_RECORDING from stax record, and call sdk.Shutdown before it exits",
			"No instrumented process reported: nothing arrived.")
	} else {
		var who []string
		for _, id := range v.order {
			rt := v.runtimes[id]
			who = append(who, fmt.Sprintf("%s (pid %d)", cmp.Or(rt.ServiceName, rt.Executable, "process"), rt.PID))
		}
		if len(who) > 3 {
			who = append(who[:3], fmt.Sprintf("%d more", len(who)-3))
		}
		f.add(SeverityOK, topicTarget, "batches_arriving", n, "", "Batches arrived from %s: %s.",
			count(int64(len(v.runtimes)), "process", "processes"), strings.Join(who, ", "))
	}
	refused := numbers{}
	for _, d := range b.other {
		if d.Stage == "receiver" && gateReason(d.Reason) {
			refused[d.Reason] += int64(d.Count)
		}
	}
	for _, x := range b.rows {
		for _, d := range x.Drops {
			if d.Stage == "receiver" && gateReason(d.Reason) {
				refused[d.Reason] += int64(d.Count)
			}
		}
	}
	switch {
	case len(refused) > 0:
		f.add(SeverityWarn, topicTarget, "wrong_process", refused,
			"Start the target under stax record, or name its process with stax record --pid",
			"Records were refused because their process is not part of the recording: %s.", listNumbers(refused))
	case len(v.runtimes) > 0:
		f.add(SeverityOK, topicTarget, "right_process", nil, "", "Every batch came from a process of this recording.")
	}
	for _, id := range v.order {
		rt := v.runtimes[id]
		switch {
		case !rt.Sequenced:
			f.add(SeverityWarn, topicTarget, "unsequenced", numbers{"pid": rt.PID}, "Use the stax SDK, or set stax.seq on every span",
				"Process %d numbers nothing, so losses cannot show.", rt.PID)
		case v.state() != StateLive && !b.beats.last[id].final:
			hint := "Call sdk.Shutdown before the process exits"
			if v.state() == StateCrashed {
				hint = ""
			}
			f.add(SeverityWarn, topicTarget, "no_final_heartbeat", numbers{"pid": rt.PID}, hint, "Process %d %s", rt.PID, v.noLastWord())
		}
	}
}

// gateReason reports whether a receiver's reason is about whose data it was.
func gateReason(reason string) bool {
	switch reason {
	case "wrong_pid", "no_active_recording", "unknown_recording", "recording_over", "wrong_user", "bad_token":
		return true
	}
	return false
}

func (v *view) diagnoseLanes(f *findings, s *survey) {
	n := numbers{"lanes": int64(len(v.lanes)), "dispatches": s.work.count, "target_ns": s.work.total}
	unregistered := 0
	for _, l := range v.lanes {
		if !l.registered {
			unregistered++
		}
	}
	switch {
	case len(v.lanes) == 0 && v.cpuRows():
		f.add(SeverityInfo, topicLanes, "no_lane", n, "Make a lane with sdk.NewLane to see work beside the CPU", "The target has no lane: the recording is about the CPU alone.")
	case len(v.lanes) == 0:
		f.add(SeverityError, topicLanes, "no_lane", n, "Make a lane with sdk.NewLane and report dispatches on it", "The target has no lane.")
	case s.work.count == 0:
		f.add(SeverityError, topicLanes, "no_dispatch", n, "Report dispatches while sdk.ReportingActive is true",
			"%s registered, but no dispatch arrived.", count(int64(len(v.lanes)), "lane is", "lanes are"))
	default:
		f.add(SeverityOK, topicLanes, "dispatches", n, "", "%s on %s.",
			count(s.work.count, "dispatch", "dispatches"), count(int64(len(s.onLane)), "lane", "lanes"))
	}
	if unregistered > 0 {
		f.add(SeverityWarn, topicLanes, "lane_unregistered", numbers{"lanes": int64(unregistered)},
			"Send stax.lane.name and stax.lane.kind in the scope attributes",
			"%s dispatches but no registration: name and kind are unknown.", count(int64(unregistered), "lane has", "lanes have"))
	}
}

func (v *view) diagnoseTimes(f *findings, s *survey) {
	bad := numbers{}
	for name, n := range map[string]int64{"zero": s.zero, "all_ones": s.allOnes, "end_before_start": s.reversed} {
		if n > 0 {
			bad[name] = n
		}
	}
	if len(bad) > 0 {
		f.add(SeverityWarn, topicTimes, "bad_times", bad, "Check how the target resolves its timestamps before it reports",
			"Some dispatches have times that cannot be true; they are counted and add no target time: %s.", listNumbers(bad))
	}
	if s.outside > 0 {
		f.add(SeverityWarn, topicTimes, "outside_recording", numbers{"dispatches": s.outside},
			"Check the conversion of the lane's clock to Unix time",
			"%s outside the recording.", count(s.outside, "dispatch lies", "dispatches lie"))
	}
	if len(bad) == 0 && s.outside == 0 && s.work.count > 0 {
		f.add(SeverityOK, topicTimes, "times_sane", nil, "", "All times are in order and inside the recording.")
	}
}

// statusHints says what to do about origins that do not link.
var statusHints = map[string]string{
	origin.StatusMissingThread:      "Capture exact stacks in the target: stax record --origins stack",
	origin.StatusNoTimestamps:       "Use a CPU sample source with a time for each sample",
	origin.StatusAmbiguousGoroutine: "Goroutines share threads: capture exact stacks with stax record --origins stack",
	origin.StatusOutsideRecording:   "Check the clock that the target takes origin times from",
	origin.StatusWrongPID:           "Record the process that makes the origins: stax record --pid",
	origin.StatusSyntheticThread:    "Capture origins on a CPU thread, not with a lane's pseudo-thread id",
	origin.StatusBadThread:          "Send the OS thread id in stax.origin.thread_id",
	origin.StatusTooFar:             "Sample the CPU more often, or capture exact stacks with stax record --origins stack",
	origin.StatusStale:              "The sampler lost the thread: capture exact stacks with stax record --origins stack",
	origin.StatusNoStack:            "Capture exact stacks in the target: stax record --origins stack",
	origin.StatusClockStep:          "The clock jumped near these origins; nothing to do unless it happens often",
}

func diagnoseOrigins(f *findings, s *survey) {
	o := s.origins
	if o.Dispatches == 0 {
		return
	}
	n := numbers{"dispatches": o.Dispatches, "reported": o.Reported, "linked": o.Statuses[origin.StatusLinked]}
	for grade, k := range o.Grades {
		n["grade_"+strings.ToLower(grade)] = k
	}
	s.distances[origin.StatusLinked].numbers(n, "linked_distance")
	switch linked := o.Statuses[origin.StatusLinked]; {
	case o.Reported == 0:
		f.add(SeverityWarn, topicOrigins, "no_origin", n, "Report with Lane.ReportFrom or Dispatch.CaptureOrigin; record with --origins stack",
			"No dispatch has a CPU origin, so nothing says which code queued the work.")
		return
	case linked == o.Dispatches:
		f.add(SeverityOK, topicOrigins, "origins_linked", n, "", "Every dispatch is linked to the CPU code that queued it%s.", s.distances[origin.StatusLinked].text("; the nearest sample lies"))
	case linked == 0:
		f.add(SeverityWarn, topicOrigins, "origins_not_linking", n, "", "%s of %s dispatches have an origin, and none of them links to a stack.",
			comma(o.Reported), comma(o.Dispatches))
	default:
		f.add(SeverityInfo, topicOrigins, "origins_partly_linked", n, "", "%s of %s dispatches are linked to the CPU code that queued them%s; %s no origin.",
			comma(linked), comma(o.Dispatches), s.distances[origin.StatusLinked].text(", the nearest sample"), count(o.Dispatches-o.Reported, "has", "have"))
	}
	statuses := make([]string, 0, len(o.Statuses))
	for status := range o.Statuses {
		if status != origin.StatusLinked {
			statuses = append(statuses, status)
		}
	}
	slices.Sort(statuses)
	for _, status := range statuses {
		n := numbers{"origins": o.Statuses[status]}
		s.distances[status].numbers(n, "distance")
		limit := ""
		if status == origin.StatusTooFar || status == origin.StatusStale {
			n["limit_ns"] = int64(origin.DefaultLimit)
			limit = " (limit " + dur(int64(origin.DefaultLimit)) + ")"
		}
		f.add(SeverityWarn, topicOrigins, "origin_"+status, n, statusHints[status],
			"%s with status %s%s%s.", count(o.Statuses[status], "origin does not link,", "origins do not link,"), status,
			s.distances[status].text("; the nearest sample lies"), limit)
	}
}

func diagnoseWaits(f *findings, s *survey, declared *waitTable) {
	if s.work.count == 0 {
		return
	}
	n := numbers{"waits": int64(len(declared.order))}
	for class, k := range s.classes {
		n[class] = k
	}
	proven := s.classes[origin.ClassSynchronous]
	switch {
	case len(declared.order) == 0:
		f.add(SeverityWarn, topicWaits, "no_wait", n, "Declare waits with sdk.BeginWait, Await and End",
			"The target declares no waits: all target work counts as parallel, none is proven to block a CPU thread.")
	case proven == 0:
		f.add(SeverityInfo, topicWaits, "only_parallel", n, "stax target waits says what each wait waited for",
			"%s, but no dispatch is proven synchronous: all target work ran in parallel as far as is known.",
			count(int64(len(declared.order)), "wait is declared", "waits are declared"))
	default:
		f.add(SeverityOK, topicWaits, "proven", n, "", "%s proven synchronous by declared waits, %s asynchronous, %s unproven.",
			count(proven, "dispatch is", "dispatches are"), comma(s.classes[origin.ClassAsynchronous]), comma(s.classes[origin.ClassUnproven]))
	}
	if k := s.classes[origin.ClassUnproven]; k > 0 {
		// A lane without waits is the normal reason and has been said above when nothing waits at all.
		if other := k - s.reasons[origin.ReasonNoWaits]; other > 0 {
			reasons := numbers{}
			for reason, k := range s.reasons {
				if reason != origin.ReasonNoWaits {
					reasons[reason] = k
				}
			}
			f.add(SeverityInfo, topicWaits, "unproven", reasons, "stax target dispatches --class unproven shows them with their reason",
				"%s: %s.", count(other, "dispatch has no provable class", "dispatches have no provable class"), listNumbers(reasons))
		}
	}
	if k := s.classes[origin.ClassTimedOut]; k > 0 {
		f.add(SeverityInfo, topicWaits, "timed_out", numbers{"dispatches": k}, "stax target waits --class timed_out",
			"%s only after a wait for it had given up.", count(k, "dispatch ended", "dispatches ended"))
	}
}

func (v *view) diagnoseCounters(ctx context.Context, f *findings) error {
	units, err := v.counterUnits(ctx)
	if err != nil {
		return err
	}
	n := numbers{"defined": int64(len(units))}
	undefined := map[counterKey]bool{}
	for rows, err := range archive.ScanColumns[archive.CounterSample](ctx, v.r, "runtime", "counter_set", "name", "state") {
		if err != nil {
			return err
		}
		for i := range rows {
			s := &rows[i]
			n["samples"]++
			switch s.State {
			case archive.CounterError:
				n["error"]++
			case archive.CounterUnresolved:
				n["unresolved"]++
			}
			if k := (counterKey{s.Runtime, s.Set, s.Name}); len(undefined) < 1000 {
				if _, ok := units[k]; !ok {
					undefined[k] = true
				}
			}
		}
	}
	switch {
	case len(units) == 0 && n["samples"] == 0:
		return nil
	case n["samples"] == 0:
		f.add(SeverityWarn, topicCounters, "no_counter_sample", n, "Attach values with Dispatch.Counters", "Counters are defined, but no value arrived.")
	case n["error"]+n["unresolved"] > 0:
		f.add(SeverityWarn, topicCounters, "counters_without_value", n, "stax target counters shows which; the device may not support them in this mode",
			"%s counter samples, of which %s failed and %s were never resolved.",
			comma(n["samples"]), comma(n["error"]), comma(n["unresolved"]))
	default:
		f.add(SeverityOK, topicCounters, "counters_present", n, "", "%s, all with a value.", count(n["samples"], "counter sample", "counter samples"))
	}
	if len(undefined) > 0 {
		f.add(SeverityWarn, topicCounters, "counter_undefined", numbers{"counters": int64(len(undefined))},
			"Define the set with sdk.NewCounterSet (event stax.counter_set)", "%s values but no definition: the unit is unknown.",
			count(int64(len(undefined)), "counter has", "counters have"))
	}
	return nil
}

func diagnoseLosses(f *findings, b *books, losses []archive.Loss) {
	for _, l := range losses {
		f.add(SeverityError, topicLosses, "unreadable", numbers{"offset": l.Offset, "bytes": l.Bytes}, "stax archive verify checks every file",
			"Not readable: %s.", lossText(l))
	}
	type key struct{ stage, reason, noun string }
	sums := map[key]int64{}
	var missing, unaccounted, duplicates, repeated int64
	for _, x := range b.rows {
		missing += int64(x.Missing)
		unaccounted += int64(x.Unaccounted)
		duplicates += int64(x.Duplicates)
		repeated += int64(x.Repeated)
		for _, d := range x.Drops {
			sums[key{d.Stage, d.Reason, "record"}] += int64(d.Count)
		}
	}
	for _, d := range b.other {
		sums[key{d.Stage, d.Reason, signalNoun(d.Signal)}] += int64(d.Count)
	}
	keys := make([]key, 0, len(sums))
	for k := range sums {
		if (k.stage != "receiver" || !gateReason(k.reason)) && k.reason != reasonRepeated { // those are told elsewhere
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(x, y key) int {
		return cmp.Or(cmp.Compare(x.stage, y.stage), cmp.Compare(x.reason, y.reason), cmp.Compare(x.noun, y.noun))
	})
	for _, k := range keys {
		hint := "stax audit gives the whole account"
		if k.stage == stageSDK && k.reason == "ring_full" {
			hint = "The target reports faster than it can send: report less often, or give the SDK more memory"
		}
		f.add(SeverityWarn, topicLosses, "dropped", numbers{"records": sums[k]}, hint,
			"%s dropped in the %s: %s.", count(sums[k], k.noun+" was", k.noun+"s were"), stageName(k.stage), strings.ReplaceAll(k.reason, "_", " "))
	}
	if unaccounted > 0 {
		f.add(SeverityError, topicLosses, "unaccounted", numbers{"records": unaccounted}, "stax audit gives the whole account",
			"%s missing, and nobody counted dropping them.", count(unaccounted, "record is", "records are"))
	}
	if duplicates > 0 {
		f.add(SeverityWarn, topicLosses, "duplicates", numbers{"records": duplicates}, "A sender repeated a batch that had arrived; counts include the copies",
			"%s in the archive more than once.", count(duplicates, "record is", "records are"))
	}
	if repeated > 0 {
		f.add(SeverityInfo, topicLosses, "repeated", numbers{"records": repeated}, "",
			"%s sent again and dropped the second time: nothing is lost by that.", count(repeated, "record was", "records were"))
	}
	cpuLost := slices.ContainsFunc(*f, func(x Finding) bool { return x.Code == "source_lost" })
	if !cpuLost && len(losses) == 0 && len(keys) == 0 && missing == 0 && len(b.rows) > 0 {
		f.add(SeverityOK, topicLosses, "no_loss", nil, "", "Nothing is known to be lost.")
	}
}

// signalNoun names one item of a signal.
func signalNoun(signal string) string {
	switch signal {
	case "log", "profile":
		return signal + " record"
	case "metric":
		return "metric point"
	case "counter":
		return "counter value"
	}
	return "record"
}

func stageName(stage string) string {
	switch stage {
	case stageSDK:
		return "target (SDK queue)"
	case "linker":
		return "origin linker"
	}
	return stage
}

// clockStepNanos is a jump of a clock's offset that is worth a word.
const clockStepNanos = 1_000_000

// clockStep is a jump of a target's clock.
type clockStep struct {
	runtime archive.RuntimeID
	nanos   int64 // when it was seen, in the target's Unix time
	size    int64
}

// clockSteps sums up the clock samples.
type clockSteps struct {
	list     []clockStep // the first maxSteps
	steps    int64
	largest  int64
	samples  int64
	maxError int64
	clocks   int // with samples
}

const maxSteps = 1000

func (v *view) clockSteps(ctx context.Context) (*clockSteps, error) {
	type key struct {
		runtime archive.RuntimeID
		clock   string
	}
	s := &clockSteps{}
	offsets := map[key]int64{}
	for rows, err := range archive.Scan[archive.ClockSample](ctx, v.r) {
		if err != nil {
			return nil, err
		}
		for _, c := range rows {
			s.samples++
			s.maxError = max(s.maxError, c.ErrorNanos)
			if c.Clock != "monotonic" {
				continue // its ticks need not be nanoseconds
			}
			k, offset := key{c.Runtime, c.Clock}, c.UnixNanos-c.RawTicks
			if last, ok := offsets[k]; ok {
				if step := max(offset-last, last-offset); step > clockStepNanos {
					s.steps++
					s.largest = max(s.largest, step)
					if len(s.list) < maxSteps {
						s.list = append(s.list, clockStep{c.Runtime, c.UnixNanos, step})
					}
				}
			}
			offsets[k] = offset
		}
	}
	s.clocks = len(offsets)
	return s, nil
}

func (v *view) diagnoseClock(ctx context.Context, f *findings) error {
	s, err := v.clockSteps(ctx)
	if err != nil {
		return err
	}
	n := numbers{}
	if s.samples > 0 {
		n["samples"], n["max_error_ns"] = s.samples, s.maxError
	}
	if s.steps > 0 {
		n["steps"], n["max_step_ns"] = s.steps, s.largest
	}
	unknown := int64(0)
	for _, rt := range v.runtimes {
		if rt.ClockErrorNanos < 0 {
			unknown++
		}
	}
	switch {
	case n["steps"] > 0:
		f.add(SeverityWarn, topicClock, "clock_step", n, "Origins within a second of a step are not linked",
			"The target's clock jumped %s, by up to %.4g ms.", count(n["steps"], "time", "times"), float64(n["max_step_ns"])/1e6)
	case s.samples > int64(s.clocks):
		f.add(SeverityOK, topicClock, "clock_steady", n, "", "The clock is steady over %s; error at most %.3g µs.",
			count(n["samples"], "clock sample", "clock samples"), float64(n["max_error_ns"])/1e3)
	case len(v.runtimes) > 0:
		f.add(SeverityInfo, topicClock, "few_clock_samples", n, "", "%s arrived, so steps of the clock cannot show.",
			count(n["samples"], "clock sample", "clock samples"))
	}
	if unknown > 0 {
		f.add(SeverityInfo, topicClock, "clock_error_unknown", numbers{"processes": unknown}, "Send stax.clock.error_ns on the resource",
			"%s clock error.", count(unknown, "process states no bound on its", "processes state no bound on their"))
	}
	return nil
}

// diagnoseReports passes on what components wrote into the archive about themselves.
func (v *view) diagnoseReports(ctx context.Context, f *findings) error {
	type key struct{ source, code string }
	type report struct {
		key
		text  string
		count int64
	}
	seen := map[key]*report{}
	for rows, err := range archive.Scan[archive.Diagnostic](ctx, v.r) {
		if err != nil {
			return err
		}
		for _, d := range rows {
			k := key{d.Source, d.Code}
			if seen[k] == nil {
				seen[k] = &report{key: k, text: d.Text}
			}
			seen[k].count += int64(max(d.Count, 1))
		}
	}
	reports := make([]*report, 0, len(seen))
	for _, r := range seen {
		reports = append(reports, r)
	}
	slices.SortFunc(reports, func(x, y *report) int { return cmp.Or(cmp.Compare(x.source, y.source), cmp.Compare(x.code, y.code)) })
	for _, r := range reports {
		f.add(SeverityWarn, topicTarget, "reported_"+r.code, numbers{"count": r.count}, "", "The %s reports: %s", r.source, r.text)
	}
	return nil
}

// listNumbers renders counts as "3 zero, 1 all ones", largest first.
func listNumbers(n numbers) string {
	keys := make([]string, 0, len(n))
	for k := range n {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(-cmp.Compare(n[a], n[b]), cmp.Compare(a, b)) })
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%s %s", comma(n[k]), strings.ReplaceAll(k, "_", " "))
	}
	return strings.Join(keys, ", ")
}
