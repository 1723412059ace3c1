package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/stax-otel/stax/archive"
)

// Kinds of the two roots of [Gaps].
const (
	FlameCPU    = "cpu"
	FlameOffCPU = "off_cpu"
)

// GapsParams are the parameters of [Gaps]. They must name one lane.
type GapsParams struct {
	Lane  string // filter, see LanesParams
	TID   int64  // the lane's pseudo-thread
	Limit int    // children of a node; 0: all
}

// GapsAnswer is the answer of [Gaps]. Its rows are two roots: of kind cpu, measured in processor time, and of kind
// off_cpu, measured in time not running. They are not parts of one whole.
type GapsAnswer struct {
	Answer[*FlameNode]
	Lane    string            `json:"lane"`
	LaneID  archive.LaneID    `json:"lane_id"`
	TID     int64             `json:"tid"`
	PID     int64             `json:"pid"`
	Runtime archive.RuntimeID `json:"runtime"`
	// FirstNanos and LastNanos are where the lane's first dispatch began and its last one ended. BusyNanos and IdleNanos
	// divide that time; dispatches that overlap count once.
	FirstNanos int64 `json:"first_ns"`
	LastNanos  int64 `json:"last_ns"`
	BusyNanos  int64 `json:"busy_ns"`
	IdleNanos  int64 `json:"idle_ns"`
	Gaps       int64 `json:"gaps"` // stretches of idle time
	LongestGap int64 `json:"longest_gap_ns"`
	// ClockErrorNanos bounds the error of the borders of the gaps against the CPU's clock; -1: unknown, 0: one clock.
	ClockErrorNanos int64   `json:"clock_error_ns"`
	CPU             CPUTime `json:"cpu"`        // in the gaps, of all threads of the lane's process
	OffCPUNanos     int64   `json:"off_cpu_ns"` // in the gaps, of everything that waited
	GoroutineWaits  int64   `json:"goroutine_waits"`
}

// Gaps says what the CPU did while a lane was idle: for each stretch between its first and last dispatch in which it ran
// nothing, the samples of all threads of its process, and why threads and goroutines did not run.
func Gaps(ctx context.Context, r *archive.Reader, p GapsParams) (GapsAnswer, error) {
	a := GapsAnswer{Answer: newAnswer[*FlameNode]("gaps")}
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	ln, err := v.oneLane(ctx, p)
	if err != nil {
		return a, err
	}
	if err := v.loadStacks(ctx); err != nil {
		return a, err
	}
	a.Lane, a.LaneID, a.TID, a.PID, a.Runtime = ln.Name, ln.ID, int64(ln.PseudoTID), v.pid(ln.Runtime), ln.Runtime
	if ln.ClockErrorNanos != 0 {
		a.ClockErrorNanos = -1
		if rt := v.runtimes[ln.Runtime]; ln.ClockErrorNanos > 0 && rt != nil {
			a.ClockErrorNanos = addSaturated(ln.ClockErrorNanos, max(rt.ClockErrorNanos, 0))
		}
	}
	var busy spans
	for rows, err := range archive.ScanColumns[archive.Dispatch](ctx, r, "runtime", "lane", "start_ns", "end_ns") {
		if err != nil {
			return a, err
		}
		for i := range rows {
			d := &rows[i]
			if d.Lane == ln.ID && d.Runtime == ln.Runtime {
				if _, ok := durationOf(d.StartNanos, d.EndNanos); ok {
					busy.add(d.StartNanos, d.EndNanos)
				}
			}
		}
	}
	gaps := busy.holes()
	if all := busy.list; len(all) > 0 {
		a.FirstNanos, a.LastNanos = all[0].begin, all[len(all)-1].end
	}
	for _, g := range gaps.list {
		a.Gaps++
		a.IdleNanos += g.end - g.begin
		a.LongestGap = max(a.LongestGap, g.end-g.begin)
	}
	a.BusyNanos = a.LastNanos - a.FirstNanos - a.IdleNanos
	filter := cpuFilter{pid: a.PID}
	sums, err := v.sumStacks(ctx, filter, gaps.contains)
	if err != nil {
		return a, err
	}
	off, err := v.sumOffCPU(ctx, filter, gaps.overlap)
	if err != nil {
		return a, err
	}
	on, not := v.cpuTree(sums, p.Limit), v.offTree(off, p.Limit)
	on.Kind, on.Name = FlameCPU, "on CPU"
	not.Kind, not.Name = FlameOffCPU, "off CPU"
	a.CPU, a.OffCPUNanos, a.GoroutineWaits = sums.total, not.TotalNanos, off.goroutines
	a.Rows, a.Matched = append(a.Rows, on, not), 2
	switch {
	case len(busy.list) == 0:
		a.Hints = append(a.Hints, v.emptyHints(1, "lane with usable times", ln.Name)...)
	case a.Gaps == 0:
		a.Hints = append(a.Hints, Hint{Code: "no_gap", Text: "The lane was never idle between its first and its last dispatch."})
	case sums.all == 0 && off.all == 0:
		a.Hints = append(a.Hints, v.noSamplesHint())
	case sums.total.Samples == 0 && sums.instants == 0 && sums.all > 0:
		a.Hints = append(a.Hints, Hint{
			"no_timestamps", "The samples of this process have no instants, so nobody can say which of them lie in the gaps.",
			"Use a source with a time for each sample, such as sdk/cputrace within its budget",
		})
	}
	a.Coverage, err = v.coverage(ctx)
	return a, err
}

// oneLane finds the lane that is meant.
func (v *view) oneLane(ctx context.Context, p GapsParams) (*lane, error) {
	if p.TID == 0 && p.Lane == "" {
		return nil, &ParamError{Name: "lane", Value: "", Want: "the lane whose idle time is asked for; see stax target lanes"}
	}
	// Lanes that nobody registered are only known from their dispatches.
	for rows, err := range archive.ScanColumns[archive.Dispatch](ctx, v.r, "runtime", "lane") {
		if err != nil {
			return nil, err
		}
		for i := range rows {
			v.lane(rows[i].Runtime, rows[i].Lane)
		}
	}
	var found []*lane
	filter := v.laneFilter(p.Lane)
	for _, l := range v.lanes {
		if filter.match(l) && (p.TID == 0 || int64(l.PseudoTID) == p.TID) {
			found = append(found, l)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		what := "lane " + p.Lane
		if p.TID != 0 {
			what = "lane " + formatTID(p.TID)
		}
		return nil, fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return nil, &ParamError{
		Name: "lane", Value: p.Lane,
		Want: fmt.Sprintf("one lane, and this means %d: %s (%s), %s (%s) …; give its thread id", len(found),
			found[0].Name, formatTID(int64(found[0].PseudoTID)), found[1].Name, formatTID(int64(found[1].PseudoTID))),
	}
}

// span is a stretch of time.
type span struct{ begin, end int64 }

// spans is a set of stretches of time. Those that touch are joined now and then, so its memory grows with the number of
// gaps and not with what was added.
type spans struct {
	list  []span
	limit int // join when the list is this long
	at    int // of the last look-up
}

func (s *spans) add(begin, end int64) {
	if n := len(s.list); n > 0 && s.list[n-1].begin <= begin && begin <= s.list[n-1].end {
		s.list[n-1].end = max(s.list[n-1].end, end) // the usual case: in order
		return
	}
	s.list = append(s.list, span{begin, end})
	if len(s.list) > max(s.limit, 1<<16) {
		s.join()
		s.limit = 2 * len(s.list)
	}
}

func (s *spans) join() {
	slices.SortFunc(s.list, func(x, y span) int { return cmp.Or(cmp.Compare(x.begin, y.begin), cmp.Compare(x.end, y.end)) })
	out := s.list[:0]
	for _, x := range s.list {
		if n := len(out); n > 0 && x.begin <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, x.end)
			continue
		}
		out = append(out, x)
	}
	s.list = out
}

// holes returns what lies between the stretches.
func (s *spans) holes() *spans {
	s.join()
	h := &spans{}
	for i := 1; i < len(s.list); i++ {
		h.list = append(h.list, span{s.list[i-1].end, s.list[i].begin})
	}
	return h
}

// from returns the position of the first stretch that ends after the instant. Instants come almost in order.
func (s *spans) from(nanos int64) int {
	if s.at < len(s.list) && s.list[s.at].end > nanos && (s.at == 0 || s.list[s.at-1].end <= nanos) {
		return s.at
	}
	s.at = sort.Search(len(s.list), func(i int) bool { return s.list[i].end > nanos })
	return s.at
}

func (s *spans) contains(nanos int64) bool {
	i := s.from(nanos)
	return i < len(s.list) && s.list[i].begin <= nanos
}

// overlap returns how much of an interval lies in the set.
func (s *spans) overlap(begin, end int64) (sum int64) {
	for i := s.from(begin); i < len(s.list) && s.list[i].begin < end; i++ {
		sum += min(end, s.list[i].end) - max(begin, s.list[i].begin)
	}
	return sum
}
