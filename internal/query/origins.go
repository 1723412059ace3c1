package query

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/stax-otel/stax/archive"
)

func traceText(t archive.TraceID) string {
	if t == (archive.TraceID{}) {
		return ""
	}
	return hex.EncodeToString(t[:])
}

func formatTID(tid int64) string {
	if tid >= pseudoThreads {
		return fmt.Sprintf("0x%X", tid)
	}
	return fmt.Sprint(tid)
}

// OriginRow is one place on the CPU and the target work that was queued from it: a source line where the stack is
// known, else a thread, else everything without an origin. The work is parallel to that place, not inside it.
type OriginRow struct {
	Function     string `json:"function"` // "" when no stack is known
	File         string `json:"file"`
	Line         int64  `json:"line"`
	ThreadID     int64  `json:"thread_id"` // only in rows without a function; 0: no origin was reported
	Count        int64  `json:"count"`
	UntimedCount int64  `json:"untimed_count"`
	TotalNanos   int64  `json:"total_ns"` // target time
	// OwnedNanos is the wall time for which a wait provably waited for this work.
	OwnedNanos int64            `json:"owned_ns"`
	Threads    int              `json:"threads"` // that queued it
	Lanes      []string         `json:"lanes"`
	Grades     map[string]int64 `json:"grades"`
	Statuses   map[string]int64 `json:"statuses"` // no_origin where none was reported
	Classes    map[string]int64 `json:"classes"`
}

// StatusNone is the status of a dispatch that came without an origin. It is not a link status: there was nothing to link.
const StatusNone = "no_origin"

// OriginsParams are the parameters of [Origins].
type OriginsParams struct {
	Lane   string
	Name   string
	Thread int64
	Limit  int
}

// Origins says from which lines of the program the target work was queued.
func Origins(ctx context.Context, r *archive.Reader, p OriginsParams) (Answer[OriginRow], error) {
	a := newAnswer[OriginRow]("origins")
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	if err := v.loadStacks(ctx); err != nil {
		return a, err
	}
	type key struct {
		function, file string
		line, thread   int64
	}
	type acc struct {
		OriginRow
		tally   tally
		threads map[threadKey]bool
		lanes   map[string]bool
	}
	accs := map[key]*acc{}
	leaves := map[stackKey]key{}
	lanes, name := v.laneFilter(p.Lane), newPattern(p.Name)
	origins := newOriginCoverage()
	err = v.attributed(ctx, func(d *archive.Dispatch, c *archive.Certificate, l *archive.Link) {
		origins.add(d, l)
		ln := v.lane(d.Runtime, d.Lane)
		if !lanes.match(ln) || !name.match(d.Name) || p.Thread != 0 && d.Origin.ThreadID != p.Thread {
			return
		}
		sk := stackKey{d.Runtime, causeStack(d.Origin, l)}
		k, ok := leaves[sk]
		if !ok {
			if frames := v.frames(sk.runtime, sk.id); len(frames) > 0 {
				k = key{function: frames[0].Function, file: frames[0].File, line: frames[0].Line}
			}
			leaves[sk] = k
		}
		if k == (key{}) {
			k.thread = d.Origin.ThreadID
		}
		s := accs[k]
		if s == nil {
			s = &acc{threads: map[threadKey]bool{}, lanes: map[string]bool{}, OriginRow: OriginRow{
				Function: k.function, File: k.file, Line: k.line, ThreadID: k.thread,
				Lanes: []string{}, Grades: map[string]int64{}, Statuses: map[string]int64{}, Classes: map[string]int64{},
			}}
			accs[k] = s
		}
		s.tally.add(d.StartNanos, d.EndNanos)
		s.OwnedNanos = addSaturated(s.OwnedNanos, max(c.OwnedNanos, 0))
		s.lanes[ln.Name] = true
		s.Classes[c.Class]++
		if !d.Origin.Present() {
			s.Statuses[StatusNone]++
			return
		}
		s.Statuses[l.Status]++
		if l.Grade != "" {
			s.Grades[l.Grade]++
		}
		if d.Origin.ThreadID != 0 {
			s.threads[threadKey{d.Runtime, d.Origin.ThreadID}] = true
		}
	}, "name")
	if err != nil {
		return a, err
	}
	for _, s := range accs {
		s.Count, s.UntimedCount, s.TotalNanos = s.tally.count, s.tally.untimed, s.tally.total
		s.Threads = len(s.threads)
		for name := range s.lanes {
			s.Lanes = append(s.Lanes, name)
		}
		slices.Sort(s.Lanes)
		a.Rows = append(a.Rows, s.OriginRow)
	}
	slices.SortFunc(a.Rows, func(x, y OriginRow) int {
		return cmp.Or(-cmp.Compare(x.TotalNanos, y.TotalNanos), -cmp.Compare(x.Count, y.Count),
			cmp.Compare(x.Function, y.Function), cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line),
			cmp.Compare(x.ThreadID, y.ThreadID))
	})
	a.Matched = len(a.Rows)
	a.Rows = cut(a.Rows, p.Limit)
	switch {
	case a.Matched == 0:
		thread := ""
		if p.Thread != 0 {
			thread = formatTID(p.Thread)
		}
		a.Hints = append(a.Hints, v.emptyHints(origins.Dispatches, "lane", p.Lane, "name", p.Name, "thread", thread)...)
	case origins.Reported == 0:
		a.Hints = append(a.Hints, Hint{
			"no_origin", "The target reports dispatches, but no CPU origin for any of them.",
			"Report with Lane.ReportFrom or Dispatch.CaptureOrigin, and record with --origins stack",
		})
	case origins.Grades["A"] == 0:
		a.Hints = append(a.Hints, Hint{
			"no_stack", "Origins name threads, but no stack was captured in the target.",
			"Record with --origins stack",
		})
	}
	a.Coverage, err = v.coverage(ctx)
	a.Coverage.Origins = origins
	return a, err
}

// DispatchOrigins lists the origins around one dispatch with their whole stacks: who queued it, who waited for it, who
// handled its completion or fault. It returns [ErrNotFound] when there is no such dispatch.
func DispatchOrigins(ctx context.Context, r *archive.Reader, id HexID) (Answer[OriginDetail], error) {
	a := newAnswer[OriginDetail]("dispatch_origins")
	d, err := Dispatch(ctx, r, id)
	if err != nil {
		return a, err
	}
	a.Rows = append(a.Rows, d.Rows[0].Origins...)
	a.Matched, a.Coverage, a.Hints = len(a.Rows), d.Coverage, d.Hints
	return a, nil
}
