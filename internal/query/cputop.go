package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/stax-otel/stax/archive"
)

// Orders of [CPUTop].
const (
	BySelf  = "self"  // samples in which the function was the innermost frame
	ByTotal = "total" // samples with the function anywhere on the stack
)

// CPUTopRow is one function. A function that calls itself counts once in a sample's total; a function that the compiler
// inlined counts as itself.
type CPUTopRow struct {
	Function     string `json:"function"` // "" for samples without a stack
	File         string `json:"file"`
	SelfSamples  int64  `json:"self_samples"`
	TotalSamples int64  `json:"total_samples"`
	SelfNanos    int64  `json:"self_ns"`  // processor time, as far as the samples say how much each stands for
	TotalNanos   int64  `json:"total_ns"` // processor time
}

// CPUTopParams are the parameters of [CPUTop].
type CPUTopParams struct {
	By     string // BySelf (default) or ByTotal
	TID    int64  // CPU thread, or the pseudo-thread of a lane; 0: all
	PID    int64  // process; 0: all
	Lane   string // filter of the lanes
	Name   string // filter of functions and dispatch names, see TopParams
	Source string // source of the samples; "": all
	Limit  int    // functions, and as many names of lanes; 0: all
}

// CPUTopAnswer is the answer of [CPUTop].
type CPUTopAnswer struct {
	Answer[CPUTopRow]
	CPUTime // of all samples of the chosen threads, whatever the name filter
	// Lanes ranks the dispatch names of the lanes by target time, beside the functions and never mixed with them: target
	// time is not processor time. LanesMatched counts them before the limit.
	Lanes        []TopRow `json:"lanes"`
	LanesMatched int      `json:"lanes_matched"`
}

// CPUTop ranks functions by the CPU samples in which they ran, and beside them what ran on the lanes.
func CPUTop(ctx context.Context, r *archive.Reader, p CPUTopParams) (CPUTopAnswer, error) {
	a := CPUTopAnswer{Answer: newAnswer[CPUTopRow]("cpu_top"), Lanes: []TopRow{}}
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	onLane := p.TID >= pseudoThreads
	if onLane {
		if err := v.knownLane(p.TID); err != nil {
			return a, err
		}
		a.Hints = append(a.Hints, Hint{"lane_thread", "A lane runs no CPU code: what it ran is target time.", "See which code queued it: stax target origins"})
	} else if err := v.cpuTop(ctx, &a, p); err != nil {
		return a, err
	}
	if p.TID == 0 || onLane {
		q := TopParams{By: ByTime, Lane: p.Lane, Name: p.Name}
		if onLane {
			q.Lane = formatTID(p.TID)
		}
		lanes, err := Top(ctx, r, q)
		if err != nil {
			return a, err
		}
		if p.PID != 0 {
			lanes.Rows = slices.DeleteFunc(lanes.Rows, func(row TopRow) bool { return row.PID != p.PID })
		}
		a.Lanes, a.LanesMatched = cut(lanes.Rows, p.Limit), len(lanes.Rows)
	}
	a.Coverage, err = v.coverage(ctx)
	return a, err
}

func (v *view) cpuTop(ctx context.Context, a *CPUTopAnswer, p CPUTopParams) error {
	if err := v.loadStacks(ctx); err != nil {
		return err
	}
	filter := cpuFilter{thread: p.TID, pid: p.PID, source: p.Source}
	sums, err := v.sumStacks(ctx, filter, nil)
	if err != nil {
		return err
	}
	type key struct{ function, file string }
	type acc struct {
		CPUTopRow
		seen int // number of the last stack that counted
	}
	rows := map[key]*acc{}
	n := 0
	sums.ordered(func(stack stackKey, t *CPUTime) {
		n++
		frames := v.frames(stack.runtime, stack.id)
		if len(frames) == 0 {
			frames = []archive.StackFrame{{}}
		}
		for i := range frames {
			f := &frames[i]
			k := key{f.Function, f.File}
			row := rows[k]
			if row == nil {
				row = &acc{CPUTopRow: CPUTopRow{Function: f.Function, File: f.File}}
				rows[k] = row
			}
			if i == 0 {
				row.SelfSamples = addSaturated(row.SelfSamples, t.Samples)
				row.SelfNanos = addSaturated(row.SelfNanos, t.OnCPUNanos)
			}
			if row.seen != n {
				row.seen = n
				row.TotalSamples = addSaturated(row.TotalSamples, t.Samples)
				row.TotalNanos = addSaturated(row.TotalNanos, t.OnCPUNanos)
			}
		}
	})
	name := newPattern(p.Name)
	for _, row := range rows {
		if name.match(row.Function) {
			a.Rows = append(a.Rows, row.CPUTopRow)
		}
	}
	slices.SortFunc(a.Rows, func(x, y CPUTopRow) int {
		self := cmp.Or(-cmp.Compare(x.SelfSamples, y.SelfSamples), -cmp.Compare(x.SelfNanos, y.SelfNanos))
		total := cmp.Or(-cmp.Compare(x.TotalSamples, y.TotalSamples), -cmp.Compare(x.TotalNanos, y.TotalNanos))
		if p.By == ByTotal {
			self, total = total, self
		}
		return cmp.Or(self, total, cmp.Compare(x.Function, y.Function), cmp.Compare(x.File, y.File))
	})
	a.Matched = len(a.Rows)
	a.Rows = cut(a.Rows, p.Limit)
	a.CPUTime = sums.total
	a.Hints = append(a.Hints, sums.hints(v)...)
	if a.Matched == 0 && sums.total.Samples > 0 {
		a.Hints = append(a.Hints, Hint{"no_match", "No function matches the name.", "See all: stax top --limit 0"})
	}
	return nil
}
