package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/stax-otel/stax/archive"
)

// LaneRow is a lane and its totals. A lane without dispatches is listed too.
type LaneRow struct {
	Lane        string            `json:"lane"`
	LaneID      archive.LaneID    `json:"lane_id"`
	Kind        string            `json:"kind"` // as the target declared it; "" when nobody registered the lane
	TID         uint32            `json:"tid"`  // of the pseudo-thread that stands for the lane
	PID         int64             `json:"pid"`
	Runtime     archive.RuntimeID `json:"runtime"`
	ServiceName string            `json:"service_name,omitempty"`
	Stat
	CommandBuffers int64 `json:"command_buffers"`
	FaultedCount   int64 `json:"faulted_count"`
	// FirstStartNanos and LastEndNanos bound the timed dispatches; 0: none.
	FirstStartNanos int64 `json:"first_start_ns"`
	LastEndNanos    int64 `json:"last_end_ns"`
	ClockErrorNanos int64 `json:"clock_error_ns"` // of the lane's times against the target's clock
}

// LanesParams are the parameters of [Lanes].
type LanesParams struct {
	Lane string // filter: name, id, thread id, part of a name, or shell pattern
}

// Lanes lists the lanes, the one with most target time first.
func Lanes(ctx context.Context, r *archive.Reader, p LanesParams) (Answer[LaneRow], error) {
	a := newAnswer[LaneRow]("lanes")
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	type acc struct {
		durations
		buffers, faulted, first, last int64
	}
	var accs []*acc
	at := func(l *lane) *acc {
		for len(accs) <= l.index {
			accs = append(accs, &acc{})
		}
		return accs[l.index]
	}
	var total int64
	for rows, err := range archive.ScanColumns[archive.Dispatch](ctx, r, "runtime", "lane", "start_ns", "end_ns", "faulted") {
		if err != nil {
			return a, err
		}
		total += int64(len(rows))
		for i := range rows {
			d := &rows[i]
			s := at(v.lane(d.Runtime, d.Lane))
			s.add(d.StartNanos, d.EndNanos)
			if d.Faulted {
				s.faulted++
			}
			if _, ok := durationOf(d.StartNanos, d.EndNanos); ok {
				if s.first == 0 || d.StartNanos < s.first {
					s.first = d.StartNanos
				}
				s.last = max(s.last, d.EndNanos)
			}
		}
	}
	for rows, err := range archive.ScanColumns[archive.CommandBuffer](ctx, r, "runtime", "lane") {
		if err != nil {
			return a, err
		}
		for i := range rows {
			at(v.lane(rows[i].Runtime, rows[i].Lane)).buffers++
		}
	}
	f := v.laneFilter(p.Lane)
	for _, l := range v.lanes {
		if !f.match(l) {
			continue
		}
		s := at(l)
		row := LaneRow{
			Lane: l.Name, LaneID: l.ID, Kind: l.Kind, TID: l.PseudoTID, PID: v.pid(l.Runtime), Runtime: l.Runtime,
			Stat: s.stat(), CommandBuffers: s.buffers, FaultedCount: s.faulted,
			FirstStartNanos: s.first, LastEndNanos: s.last, ClockErrorNanos: l.ClockErrorNanos,
		}
		if rt := v.runtimes[l.Runtime]; rt != nil {
			row.ServiceName = rt.ServiceName
		}
		a.Rows = append(a.Rows, row)
	}
	slices.SortFunc(a.Rows, func(x, y LaneRow) int {
		return cmp.Or(-cmp.Compare(x.TotalNanos, y.TotalNanos), -cmp.Compare(x.Count, y.Count),
			cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.PID, y.PID), cmp.Compare(x.Runtime, y.Runtime), cmp.Compare(x.LaneID, y.LaneID))
	})
	a.Matched = len(a.Rows)
	if total == 0 || len(a.Rows) == 0 {
		a.Hints = append(a.Hints, v.emptyHints(total, "lane", p.Lane)...)
	}
	a.Coverage, err = v.coverage(ctx)
	return a, err
}
