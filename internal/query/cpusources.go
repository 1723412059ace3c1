package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// CPUSourceRow is what one source of CPU samples in one process says about itself: what it covered, what it lost, and
// what it cost the target.
type CPUSourceRow struct {
	PID        int64  `json:"pid"`
	Source     string `json:"source"`
	State      string `json:"state"`            // the last one: running, reduced, refused, lost, stopped
	Reason     string `json:"reason,omitempty"` // of the last state that is not running
	SinceNanos int64  `json:"since_ns"`         // when that state began
	// States counts the stretches by state. ReducedNanos is when the source was replaced by a cheaper one; 0: never.
	States       map[string]int64 `json:"states"`
	ReducedNanos int64            `json:"reduced_ns"`
	BeginNanos   int64            `json:"begin_ns"` // of the first stretch
	EndNanos     int64            `json:"end_ns"`   // of the last one
	Stretches    int64            `json:"stretches"`
	PeriodNanos  int64            `json:"period_ns"` // of sampling; 0: unknown
	Samples      int64            `json:"samples"`
	Waits        int64            `json:"waits"`
	ShortWaits   int64            `json:"short_waits"` // seen and not stored
	Origins      int64            `json:"origin_events"`
	Bytes        int64            `json:"bytes"`
	// LostStretches of LostNanos in sum were given up; LostReason is the first one's.
	LostStretches int64  `json:"lost_stretches"`
	LostNanos     int64  `json:"lost_ns"`
	LostReason    string `json:"lost_reason,omitempty"`
	// CostNanos is the processor time that the source is estimated to have cost the target, of ProcessNanos in all. Both
	// are sums over the stretches that state both; 0: none does.
	CostNanos       int64 `json:"cost_ns"`
	ProcessNanos    int64 `json:"process_cpu_ns"`
	ClockErrorNanos int64 `json:"clock_error_ns"` // the largest; -1: unknown
}

// cpuSources sums up the ledger of the sources, by process and source.
func (v *view) cpuSources(ctx context.Context) ([]CPUSourceRow, error) {
	sums := map[producer]*CPUSourceRow{}
	at := func(pid int64, source string) *CPUSourceRow {
		key := producer{pid, source}
		if sums[key] == nil {
			sums[key] = &CPUSourceRow{PID: pid, Source: source, States: map[string]int64{}}
		}
		return sums[key]
	}
	for rows, err := range archive.Scan[archive.ProfileSource](ctx, v.r) {
		if err != nil {
			return nil, err
		}
		for _, x := range rows {
			s := at(v.pid(x.Runtime), x.Source)
			s.Stretches++
			s.States[x.State]++
			if x.State == semconv.ProfileStateReduced && (s.ReducedNanos == 0 || x.BeginNanos < s.ReducedNanos) {
				s.ReducedNanos = x.BeginNanos
			}
			// Equal instants: what is not running says more.
			if s.State == "" || x.BeginNanos > s.SinceNanos || x.BeginNanos == s.SinceNanos && x.State != semconv.ProfileStateRunning {
				if s.State != x.State || x.BeginNanos > s.SinceNanos {
					s.SinceNanos = x.BeginNanos
				}
				s.State = x.State
			}
			if x.State != semconv.ProfileStateRunning && x.State != semconv.ProfileStateLost && x.Reason != "" &&
				(x.State != semconv.ProfileStateStopped || s.Reason == "") { // that it ended explains the least
				s.Reason = x.Reason
			}
			if x.State == semconv.ProfileStateLost {
				s.LostStretches++
				s.LostNanos = addSaturated(s.LostNanos, max(x.EndNanos-x.BeginNanos, 0))
				s.LostReason = cmp.Or(s.LostReason, x.Reason)
			}
			if s.BeginNanos == 0 || x.BeginNanos < s.BeginNanos {
				s.BeginNanos = x.BeginNanos
			}
			s.EndNanos = max(s.EndNanos, x.EndNanos)
			s.PeriodNanos = cmp.Or(x.PeriodNanos, s.PeriodNanos)
			s.Samples += int64(x.Samples)
			s.Waits += int64(x.Waits)
			s.ShortWaits += int64(x.WaitsShort)
			s.Origins += int64(x.OriginEvents)
			s.Bytes += int64(x.Bytes)
			if x.CostNanos > 0 && x.ProcessNanos > 0 {
				s.CostNanos = addSaturated(s.CostNanos, x.CostNanos)
				s.ProcessNanos = addSaturated(s.ProcessNanos, x.ProcessNanos)
			}
			switch {
			case x.Samples+x.Waits+x.OriginEvents == 0:
				// It has no instant that could be wrong.
			case x.ClockErrorNanos < 0 || s.ClockErrorNanos < 0:
				s.ClockErrorNanos = -1
			default:
				s.ClockErrorNanos = max(s.ClockErrorNanos, x.ClockErrorNanos)
			}
		}
	}
	rows := make([]CPUSourceRow, 0, len(sums))
	for _, s := range sums {
		rows = append(rows, *s)
	}
	slices.SortFunc(rows, func(x, y CPUSourceRow) int {
		return cmp.Or(cmp.Compare(x.PID, y.PID), cmp.Compare(x.BeginNanos, y.BeginNanos), cmp.Compare(x.Source, y.Source))
	})
	return rows, nil
}

const topicCPU = "cpu"

// costWarning is the share of a target's processor time, in permille, from which sampling is worth a warning.
const costWarning = 50

// costFloor is the share of one processor, as a divisor, below which sampling is never worth one: a program that mostly
// sleeps has little processor time to take a share of. It is the floor of sdk/cputrace's budget.
const costFloor = 50

// diagnoseCPU says what sampled the CPU, what that cost, and what is missing of it.
func (v *view) diagnoseCPU(ctx context.Context, f *findings, s *survey) error {
	sources, err := v.cpuSources(ctx)
	if err != nil {
		return err
	}
	var on CPUTime
	var untimed int64
	for rows, err := range archive.ScanColumns[archive.Sample](ctx, v.r, "time_ns", "count", "cpu_ns") {
		if err != nil {
			return err
		}
		for i := range rows {
			on.add(&rows[i])
			if rows[i].TimeNanos == 0 {
				untimed += int64(min(rows[i].Count, 1<<62))
			}
		}
	}
	for i := range sources {
		v.diagnoseSource(f, &sources[i])
	}
	n := numbers{"samples": on.Samples, "on_cpu_ns": on.OnCPUNanos}
	switch {
	case on.Samples == 0 && len(sources) == 0:
		if len(v.runtimes) > 0 {
			f.add(SeverityInfo, topicCPU, "no_cpu_samples", nil,
				`Add the blank import "github.com/stax-otel/stax/sdk/cputrace/auto" to a Go target, or send OTLP profiles`,
				"There are no CPU samples: which code ran, and why threads waited, is not known.")
		}
	case len(sources) == 0:
		f.add(SeverityOK, topicCPU, "cpu_sampled", n, "", "%s, by a source that says nothing about itself.", count(on.Samples, "CPU sample", "CPU samples"))
	}
	if untimed > 0 {
		f.add(SeverityInfo, topicCPU, "samples_without_instant", numbers{"samples": untimed}, "Use a source with a time for each sample, such as sdk/cputrace within its budget",
			"%s no instant: good for stax top and stax flame, not for origins and gaps.", count(untimed, "CPU sample has", "CPU samples have"))
	}
	// A program that waits for its lanes has an almost empty CPU profile: that is no fault of the sampler.
	const share = 20
	if on.Samples > 0 && on.SamplesWithoutTime == 0 && s.work.total/share > on.OnCPUNanos {
		n["target_ns"] = s.work.total
		f.add(SeverityInfo, topicCPU, "lane_bound", n, "Ask the lanes: stax target top, stax flame; and stax flame --gaps --lane LANE for the time they idle",
			"The CPU profile is almost empty: %s of processor time beside %s of target time. The work runs on the lanes, not on the CPU.",
			dur(on.OnCPUNanos), dur(s.work.total))
	}
	return nil
}

func (v *view) diagnoseSource(f *findings, s *CPUSourceRow) {
	rate := ""
	if s.PeriodNanos > 0 {
		rate = " at " + hertz(s.PeriodNanos)
	}
	n := numbers{
		"pid": s.PID, "samples": s.Samples, "waits": s.Waits, "short_waits": s.ShortWaits, "origin_events": s.Origins,
		"period_ns": s.PeriodNanos, "bytes": s.Bytes,
	}
	who := fmt.Sprintf("%s of process %d", s.Source, s.PID)
	switch {
	case s.States[semconv.ProfileStateRefused] > 0:
		f.add(SeverityWarn, topicCPU, "source_refused", n, "Let the program stop its own tracer or profiler while it is recorded",
			"The source %s could not start%s.", who, reasonText(s.Reason))
	case s.States[semconv.ProfileStateReduced] > 0:
		n["reduced_ns"] = s.ReducedNanos
		f.add(SeverityWarn, topicCPU, "source_reduced", n, "Allow it more: stax record --cpu-budget 10%; or sample less often: --sample-hz",
			"The source %s cost too much and was replaced by a cheaper one at %s%s.", who, v.offset(s.ReducedNanos), reasonText(s.Reason))
	}
	if s.Samples+s.Waits+s.Origins > 0 {
		text := fmt.Sprintf("%s, %s, %s", count(s.Samples, "sample", "samples"), count(s.Waits, "wait", "waits"), count(s.Origins, "origin event", "origin events"))
		if s.ShortWaits > 0 {
			text += fmt.Sprintf("; %s too short to keep", count(s.ShortWaits, "more wait", "more waits"))
		}
		f.add(SeverityOK, topicCPU, "source_running", n, "", "%s%s: %s.", who, rate, text)
	} else if s.State == semconv.ProfileStateRunning {
		f.add(SeverityWarn, topicCPU, "source_silent", n, "A program that only waits has no samples; otherwise see whether data was lost: stax audit",
			"The source %s ran and delivered nothing.", who)
	}
	if s.LostStretches > 0 {
		hint := "In that time nothing is known about the CPU; a slower collector or a full disk loses data"
		if strings.Contains(s.LostReason, "larger than") {
			hint = "The program blocks and wakes goroutines too often for its execution trace, which steps down by itself; --sample-hz 0 switches it off"
		}
		f.add(SeverityWarn, topicCPU, "source_lost", numbers{"pid": s.PID, "stretches": s.LostStretches, "lost_ns": s.LostNanos}, hint,
			"%s lost %s, %s in all%s.", who, count(s.LostStretches, "stretch", "stretches"), dur(s.LostNanos), reasonText(s.LostReason))
	}
	if s.CostNanos > 0 {
		permille := s.CostNanos * 1000 / s.ProcessNanos
		if s.CostNanos > 1<<53 {
			permille = s.CostNanos / (s.ProcessNanos / 1000)
		}
		n := numbers{"pid": s.PID, "cost_ns": s.CostNanos, "process_cpu_ns": s.ProcessNanos, "cost_permille": permille}
		severity, hint := SeverityOK, ""
		if permille >= costWarning && s.CostNanos > (s.EndNanos-s.BeginNanos)/costFloor {
			severity, hint = SeverityWarn, "Lower the budget: stax record --cpu-budget 2%; or sample less often: --sample-hz"
		}
		f.add(severity, topicCPU, "sampling_cost", n, hint, "%s cost about %s of the process's %s of processor time (%.2g %%).",
			who, dur(s.CostNanos), dur(s.ProcessNanos), 100*float64(s.CostNanos)/float64(s.ProcessNanos))
	}
}
