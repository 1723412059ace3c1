package stage

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Verdict says why a stage is the bottleneck.
type Verdict string

// The verdicts.
const (
	// Stuck: a call does not return.
	Stuck Verdict = "stuck"
	// CannotKeepUp: the stage needs more time for a value than the sources leave it.
	CannotKeepUp Verdict = "cannot_keep_up"
	// SetsThePace: the stage needs as much time as passes between two values. It may be what holds the source back.
	SetsThePace Verdict = "sets_the_pace"
	// KeepsUp: the stage is the slowest, and fast enough.
	KeepsUp Verdict = "keeps_up"
	// Slowest: the stage is the slowest; how fast it must be is not known.
	Slowest Verdict = "slowest"
)

// Bottleneck names the stage that limits a record.
type Bottleneck struct {
	StageType    Kind   `json:"stage_type"`
	Index        int    `json:"index"`
	Name         string `json:"name,omitempty"`
	AvgTimeNanos int64  `json:"avg_time_ns"`
	// IntervalNanos is the time between two values of all sources together, absent if it is not known.
	IntervalNanos  int64   `json:"interval_ns,omitempty"`
	Verdict        Verdict `json:"verdict"`
	Recommendation string  `json:"recommendation"`
}

const (
	stuckAfter = time.Second // and ten times the longest call
	nearly     = 0.95        // of the interval: as good as all of it
)

// bottleneck finds the stage that limits the others.
//
// A source's own time is no cost: mostly it waits for something to come. So consumers are compared with each other and
// with the time between two values, and a source is the bottleneck only where no consumer was called.
func bottleneck(stages []Info) *Bottleneck {
	interval := sourceInterval(stages)
	var slowest *Info
	for i := range stages {
		s := &stages[i]
		if busy := time.Duration(s.BusyNanos); s.InFlight > 0 && s.StageType != KindSource && busy > max(stuckAfter, 10*time.Duration(s.MaxTimeNanos)) {
			return s.limit(interval, Stuck, fmt.Sprintf("%s has been in a call for %s without returning.", s.title(), show(busy)))
		}
		switch {
		case s.CallCount == 0:
		case slowest == nil || s.consumes() && !slowest.consumes():
			slowest = s
		case s.consumes() == slowest.consumes() && s.perValue() > slowest.perValue():
			slowest = s
		}
	}
	if slowest == nil {
		return nil
	}
	takes := fmt.Sprintf("%s takes %s per call", slowest.title(), show(slowest.Avg()))
	need := slowest.perValue()
	if n := slowest.MaxInFlight; n > 1 {
		takes += fmt.Sprintf(" (%s per value, with up to %d calls at once)", show(need), n)
	}
	switch pace := float64(need) / float64(interval); {
	case !slowest.consumes():
		return slowest.limit(interval, Slowest, takes+" and is the only kind of stage that was called.")
	case interval <= 0:
		return slowest.limit(interval, Slowest, takes+", more than any other. How often the source delivers is not known.")
	case pace > 1:
		return slowest.limit(interval, CannotKeepUp, fmt.Sprintf(
			"%s, but the source delivers every %s (%s): it cannot keep up with %s. It manages %s at most; the rest (%.0f%%) piles up or is dropped. Make it faster, run it in parallel, or let the source deliver less.",
			takes, show(interval), rate(interval), show(interval), rate(need), 100*(1-1/pace)))
	case pace > nearly:
		return slowest.limit(interval, SetsThePace, fmt.Sprintf(
			"%s, and a value comes every %s: it has no time left. If the source waits for it, it is what sets the pace.",
			takes, show(interval)))
	default:
		return slowest.limit(interval, KeepsUp, fmt.Sprintf(
			"%s, more than any other, and keeps up: a value comes every %s, so it is busy %.0f%% of the time.",
			takes, show(interval), 100*pace))
	}
}

// sourceInterval is the time between two values of all sources together, or 0.
func sourceInterval(stages []Info) time.Duration {
	perNano := 0.0
	for i := range stages {
		if n := stages[i].IntervalNanos; n > 0 {
			perNano += 1 / float64(n)
		}
	}
	if perNano == 0 {
		return 0
	}
	return time.Duration(1/perNano + 0.5)
}

func (i *Info) consumes() bool { return i.StageType != KindSource }

func (i *Info) limit(interval time.Duration, v Verdict, text string) *Bottleneck {
	return &Bottleneck{
		StageType: i.StageType, Index: i.Index, Name: i.Name, AvgTimeNanos: i.AvgTimeNanos,
		IntervalNanos: int64(interval), Verdict: v, Recommendation: text,
	}
}

// title is how texts call the stage: Tap 'frame_processor', or Tap 0 without a name.
func (i *Info) title() string {
	kind := string(i.StageType)
	kind = strings.ToUpper(kind[:1]) + kind[1:]
	if i.Name == "" {
		return kind + " " + strconv.Itoa(i.Index)
	}
	return kind + " '" + i.Name + "'"
}

// show writes a duration with three digits and the unit that fits: 40 ms, 33.3 ms, 1.25 µs.
func show(d time.Duration) string {
	v, unit := float64(d), "ns"
	for _, u := range []struct {
		unit string
		size time.Duration
	}{{"s", time.Second}, {"ms", time.Millisecond}, {"µs", time.Microsecond}} {
		if d >= u.size-u.size/2000 { // so much is rounded up to the larger unit
			v, unit = float64(d)/float64(u.size), u.unit
			break
		}
	}
	return digits(v) + " " + unit
}

func rate(interval time.Duration) string {
	return digits(float64(time.Second)/float64(max(interval, 1))) + " per second"
}

// digits writes three digits, and all of those before the point.
func digits(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	}
	s := strconv.FormatFloat(v, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// Format shows a snapshot on a console.
func Format(s RecordSnapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (wall time, waiting included)\n", s.Record)
	fmt.Fprintf(&b, "  %-32s %9s %10s %10s %10s %10s\n", "stage", "calls", "avg", "min", "max", "total")
	for i := range s.Stages {
		st := &s.Stages[i]
		name := fmt.Sprintf("%s[%d]", st.StageType, st.Index)
		if st.Name != "" {
			name += " " + strconv.Quote(st.Name)
		}
		fmt.Fprintf(&b, "  %-32s %9d", name, st.CallCount)
		if st.MinTimeNanos != nil {
			for _, n := range []int64{st.AvgTimeNanos, *st.MinTimeNanos, st.MaxTimeNanos, st.TotalTimeNanos} {
				fmt.Fprintf(&b, " %10s", show(time.Duration(n)))
			}
		} else {
			fmt.Fprintf(&b, " %10s %10s %10s %10s", "-", "-", "-", "-")
		}
		if st.IntervalNanos > 0 {
			fmt.Fprintf(&b, "  every %s", show(st.Interval()))
		}
		if st.ErrorCount > 0 {
			fmt.Fprintf(&b, "  %d errors", st.ErrorCount)
		}
		if st.AbortedCount > 0 {
			fmt.Fprintf(&b, "  %d aborted", st.AbortedCount)
		}
		if st.InFlight > 0 {
			fmt.Fprintf(&b, "  %d running, busy for %s", st.InFlight, show(time.Duration(st.BusyNanos)))
		}
		b.WriteByte('\n')
	}
	for _, u := range s.Buffers {
		fmt.Fprintf(&b, "  buffer %-25s %9d produced, %d consumed, %d dropped, %d of %d held\n",
			strconv.Quote(u.Name), u.ProducedCount, u.ConsumedCount, u.DroppedCount, u.Occupancy, u.Capacity)
	}
	if s.Bottleneck != nil {
		fmt.Fprintf(&b, "  %s\n", s.Bottleneck.Recommendation)
	}
	return b.String()
}
