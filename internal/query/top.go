package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/stax-otel/stax/archive"
)

// Orders of [Top].
const (
	ByTime  = "time"
	ByCount = "count"
	ByAvg   = "avg"
	ByMax   = "max"
	ByP50   = "p50"
	ByP95   = "p95"
	ByP99   = "p99"
)

// TopOrders lists what [TopParams].By may be.
var TopOrders = []string{ByTime, ByCount, ByAvg, ByMax, ByP50, ByP95, ByP99}

// TopRow is one name on one lane.
type TopRow struct {
	Name    string            `json:"name"`
	Lane    string            `json:"lane"`
	LaneID  archive.LaneID    `json:"lane_id"`
	Kind    string            `json:"kind"`
	TID     uint32            `json:"tid"`
	PID     int64             `json:"pid"`
	Runtime archive.RuntimeID `json:"runtime"`
	Stat
	FaultedCount int64 `json:"faulted_count"`
}

// TopParams are the parameters of [Top].
type TopParams struct {
	By    string // one of TopOrders; "" is ByTime
	Lane  string // filter, see LanesParams
	Name  string // filter: "=exact", a part of the name, or a shell pattern
	Limit int    // rows; 0: all
}

// Top ranks the names on each lane.
func Top(ctx context.Context, r *archive.Reader, p TopParams) (Answer[TopRow], error) {
	a := newAnswer[TopRow]("top")
	if p.By == "" {
		p.By = ByTime
	}
	if !slices.Contains(TopOrders, p.By) {
		return a, &ParamError{Name: "by", Value: p.By, Want: "one of time, count, avg, max, p50, p95, p99"}
	}
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	type acc struct {
		durations
		faulted int64
	}
	type laneAcc struct {
		lane   *lane
		wanted bool
		names  nameCache[acc]
	}
	lanes := v.laneFilter(p.Lane)
	pat := newPattern(p.Name)
	var accs []*laneAcc
	var total int64
	for rows, err := range archive.ScanColumns[archive.Dispatch](ctx, r, "runtime", "lane", "name", "start_ns", "end_ns", "faulted") {
		if err != nil {
			return a, err
		}
		total += int64(len(rows))
		for i := range rows {
			d := &rows[i]
			l := v.lane(d.Runtime, d.Lane)
			for len(accs) <= l.index {
				accs = append(accs, nil)
			}
			la := accs[l.index]
			if la == nil {
				la = &laneAcc{lane: l, wanted: lanes.match(l)}
				accs[l.index] = la
			}
			if !la.wanted {
				continue
			}
			s := la.names.at(d.Name)
			if d.Faulted {
				s.faulted++
			}
			s.add(d.StartNanos, d.EndNanos)
		}
	}
	for _, la := range accs {
		if la == nil {
			continue
		}
		for name, s := range la.names.all {
			if !pat.match(name) {
				continue
			}
			a.Rows = append(a.Rows, TopRow{
				Name: name, Lane: la.lane.Name, LaneID: la.lane.ID, Kind: la.lane.Kind, TID: la.lane.PseudoTID,
				PID: v.pid(la.lane.Runtime), Runtime: la.lane.Runtime, Stat: s.stat(), FaultedCount: s.faulted,
			})
		}
	}
	slices.SortFunc(a.Rows, func(x, y TopRow) int {
		return cmp.Or(-cmp.Compare(x.by(p.By), y.by(p.By)), -cmp.Compare(x.TotalNanos, y.TotalNanos),
			-cmp.Compare(x.Count, y.Count), cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Name, y.Name),
			cmp.Compare(x.PID, y.PID), cmp.Compare(x.Runtime, y.Runtime), cmp.Compare(x.LaneID, y.LaneID))
	})
	a.Matched = len(a.Rows)
	a.Rows = cut(a.Rows, p.Limit)
	if len(a.Rows) == 0 {
		a.Hints = append(a.Hints, v.emptyHints(total, "lane", p.Lane, "name", p.Name)...)
	}
	a.Coverage, err = v.coverage(ctx)
	return a, err
}

// by is the figure that an order ranks by.
func (s *Stat) by(order string) int64 {
	switch order {
	case ByCount:
		return s.Count
	case ByAvg:
		return s.AvgNanos
	case ByMax:
		return s.MaxNanos
	case ByP50:
		return s.P50Nanos
	case ByP95:
		return s.P95Nanos
	case ByP99:
		return s.P99Nanos
	}
	return s.TotalNanos
}
