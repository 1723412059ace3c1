package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/stax-otel/stax/archive"
)

// Kinds of a [ThreadRow].
const (
	ThreadCPU  = "cpu"  // a thread of the target: its work was queued from there and ran in parallel
	ThreadLane = "lane" // a pseudo-thread that stands for a lane: its work ran there
)

// ThreadRow is a CPU thread or a lane. TargetNanos is target time either way: of the lane's own dispatches, or of the
// dispatches queued from the CPU thread, which ran elsewhere. It is never CPU time.
type ThreadRow struct {
	TID         int64             `json:"tid"` // lanes have 0xFFF00000 and up
	Kind        string            `json:"kind"`
	Name        string            `json:"name"`
	LaneKind    string            `json:"lane_kind,omitempty"`
	PID         int64             `json:"pid"`
	Runtime     archive.RuntimeID `json:"runtime"`
	Dispatches  int64             `json:"dispatches"`
	TargetNanos int64             `json:"target_ns"`
	Waits       int64             `json:"waits"`
	WaitNanos   int64             `json:"wait_ns"`  // wall time in declared waits
	OwnedNanos  int64             `json:"owned_ns"` // target time that this thread provably waited for
	Lanes       []ThreadLaneRow   `json:"lanes"`    // where the queued work ran, most time first; empty for lanes
}

// ThreadLaneRow is the work that one CPU thread queued on one lane.
type ThreadLaneRow struct {
	Lane        string `json:"lane"`
	TID         uint32 `json:"tid"`
	Dispatches  int64  `json:"dispatches"`
	TargetNanos int64  `json:"target_ns"`
}

// ThreadsParams are the parameters of [Threads].
type ThreadsParams struct {
	Limit int // rows; 0: all. Lanes with dispatches are listed whatever the limit.
}

// Threads lists the CPU threads that origins and waits name, and the lanes as pseudo-threads.
func Threads(ctx context.Context, r *archive.Reader, p ThreadsParams) (Answer[ThreadRow], error) {
	a := newAnswer[ThreadRow]("threads")
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	names, err := v.threadNames(ctx)
	if err != nil {
		return a, err
	}
	ev, err := v.evidence(ctx)
	if err != nil {
		return a, err
	}
	type acc struct {
		ThreadRow
		lanes map[*lane]*tally
		work  tally
	}
	cpu := map[threadKey]*acc{}
	thread := func(rt archive.RuntimeID, id int64) *acc {
		key := threadKey{rt, id}
		t := cpu[key]
		if t == nil {
			t = &acc{lanes: map[*lane]*tally{}, ThreadRow: ThreadRow{
				TID: id, Kind: ThreadCPU, Name: names[key], PID: v.pid(rt), Runtime: rt,
			}}
			cpu[key] = t
		}
		return t
	}
	for key := range names {
		thread(key.runtime, key.id)
	}
	lanes := map[*lane]*tally{}
	origins := newOriginCoverage()
	err = v.attributed(ctx, func(d *archive.Dispatch, c *archive.Certificate, l *archive.Link) {
		origins.add(d, l)
		ln := v.lane(d.Runtime, d.Lane)
		addTo(lanes, ln, d)
		if d.Origin.ThreadID != 0 {
			t := thread(d.Runtime, d.Origin.ThreadID)
			t.work.add(d.StartNanos, d.EndNanos)
			addTo(t.lanes, ln, d)
		}
		if c.OwnedNanos > 0 {
			if w := ev.waits[waitKey{d.Runtime, c.Wait}]; w != nil && w.Origin.ThreadID != 0 {
				t := thread(d.Runtime, w.Origin.ThreadID)
				t.OwnedNanos = addSaturated(t.OwnedNanos, c.OwnedNanos)
			}
		}
	})
	if err != nil {
		return a, err
	}
	for _, w := range ev.waits {
		if w.Origin.ThreadID == 0 {
			continue
		}
		t := thread(w.Runtime, w.Origin.ThreadID)
		t.Waits++
		if n, ok := durationOf(w.BeginNanos, w.EndNanos); ok {
			t.WaitNanos = addSaturated(t.WaitNanos, n)
		}
	}
	for _, t := range cpu {
		t.Dispatches, t.TargetNanos, t.Lanes = t.work.count, t.work.total, []ThreadLaneRow{}
		for l, n := range t.lanes {
			t.Lanes = append(t.Lanes, ThreadLaneRow{l.Name, l.PseudoTID, n.count, n.total})
		}
		slices.SortFunc(t.Lanes, func(x, y ThreadLaneRow) int {
			return cmp.Or(-cmp.Compare(x.TargetNanos, y.TargetNanos), cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.TID, y.TID))
		})
		a.Rows = append(a.Rows, t.ThreadRow)
	}
	sortThreads(a.Rows)
	a.Matched = len(a.Rows) + len(v.lanes)
	a.Rows = cut(a.Rows, p.Limit)
	var idle, busy []ThreadRow
	for _, l := range v.lanes {
		row := ThreadRow{
			TID: int64(l.PseudoTID), Kind: ThreadLane, Name: l.Name, LaneKind: l.Kind, PID: v.pid(l.Runtime), Runtime: l.Runtime,
			Lanes: []ThreadLaneRow{},
		}
		if n := lanes[l]; n != nil {
			row.Dispatches, row.TargetNanos = n.count, n.total
			busy = append(busy, row)
			continue
		}
		idle = append(idle, row)
	}
	sortThreads(busy)
	sortThreads(idle)
	if p.Limit > 0 {
		idle = cut(idle, max(p.Limit-len(a.Rows)-len(busy), 0))
		if p.Limit <= len(a.Rows)+len(busy) {
			idle = nil
		}
	}
	a.Rows = orEmpty(slices.Concat(busy, a.Rows, idle))
	if len(a.Rows) == 0 {
		a.Hints = append(a.Hints, v.emptyHints(0)...)
	}
	a.Coverage, err = v.coverage(ctx)
	a.Coverage.Origins = origins
	return a, err
}

func addTo(m map[*lane]*tally, l *lane, d *archive.Dispatch) {
	t := m[l]
	if t == nil {
		t = &tally{}
		m[l] = t
	}
	t.add(d.StartNanos, d.EndNanos)
}

func sortThreads(rows []ThreadRow) {
	slices.SortFunc(rows, func(x, y ThreadRow) int {
		return cmp.Or(-cmp.Compare(x.TargetNanos, y.TargetNanos), -cmp.Compare(x.WaitNanos, y.WaitNanos),
			-cmp.Compare(x.Dispatches, y.Dispatches), cmp.Compare(x.PID, y.PID), cmp.Compare(x.TID, y.TID), cmp.Compare(x.Runtime, y.Runtime))
	})
}
