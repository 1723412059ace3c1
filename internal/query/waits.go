package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/origin"
)

// WaitParts decomposes a wait. The parts add up to its duration.
type WaitParts struct {
	ExecutingNanos int64 `json:"executing_ns"` // awaited work was running
	QueuedNanos    int64 `json:"queued_ns"`    // awaited work was still to come, and its lane ran other work
	LaneIdleNanos  int64 `json:"lane_idle_ns"` // awaited work was still to come, and its lane ran nothing
	WakeUpNanos    int64 `json:"wake_up_ns"`   // all awaited work was done, the thread not yet running
	UnknownNanos   int64 `json:"unknown_ns"`   // what it waited for is not in the recording
	// ClockErrorNanos bounds how far the borders between the parts may be off; -1: unknown.
	ClockErrorNanos int64 `json:"clock_error_ns"`
	// Pending counts the awaited dispatches that had not ended when the wait began; Untimed those without usable times.
	Pending int64 `json:"pending_count"`
	Untimed int64 `json:"untimed_count"`
}

// WaitRow is one interval in which a CPU thread says that it waited.
type WaitRow struct {
	ID            HexID             `json:"wait_id"`
	Name          string            `json:"name"`
	PID           int64             `json:"pid"`
	Runtime       archive.RuntimeID `json:"runtime"`
	ThreadID      int64             `json:"thread_id"`
	ThreadName    string            `json:"thread_name,omitempty"`
	BeginNanos    int64             `json:"begin_ns"`
	EndNanos      int64             `json:"end_ns"`
	DurationNanos *int64            `json:"duration_ns"` // wall time; null when the times cannot be true
	TimedOut      bool              `json:"timed_out"`   // the target says that it gave up
	Awaits        int64             `json:"awaits"`      // things it declared to await
	Dispatches    int64             `json:"dispatches"`  // whose class this wait decides
	Classes       map[string]int64  `json:"classes"`     // of those dispatches
	// OwnedNanos sums the certified overlaps of this wait with the dispatches it provably waited for. Work that ran in
	// parallel counts once each, so it can exceed the duration; Parts.ExecutingNanos cannot.
	OwnedNanos int64      `json:"owned_ns"`
	Parts      *WaitParts `json:"parts"`  // null when the wait has no duration
	Origin     *OriginRef `json:"origin"` // where it waited; null when not reported
}

// SortOwned is an order of [Waits] beside SortStart and SortDuration: most owned time first.
const SortOwned = "owned"

// WaitsParams are the parameters of [Waits].
type WaitsParams struct {
	Thread int64  // CPU thread that waited; 0: all
	Name   string // filter
	Class  string // waits that decide at least one dispatch of this class
	Sort   string // SortDuration (default), SortStart or SortOwned
	Limit  int
}

// Waits lists the waits, what they waited for, and where their time went.
func Waits(ctx context.Context, r *archive.Reader, p WaitsParams) (Answer[WaitRow], error) {
	a := newAnswer[WaitRow]("waits")
	v, ev, err := loadEvidence(ctx, r)
	if err != nil {
		return a, err
	}
	all, err := v.waitRows(ctx, ev)
	if err != nil {
		return a, err
	}
	name := newPattern(p.Name)
	for _, w := range all {
		if p.Thread != 0 && w.ThreadID != p.Thread || !name.match(w.Name) || p.Class != "" && w.Classes[p.Class] == 0 {
			continue
		}
		a.Rows = append(a.Rows, w)
	}
	slices.SortFunc(a.Rows, func(x, y WaitRow) int {
		c := 0
		switch p.Sort {
		case SortStart:
		case SortOwned:
			c = -cmp.Compare(x.OwnedNanos, y.OwnedNanos)
		default:
			c = -cmp.Compare(x.length(), y.length())
		}
		return cmp.Or(c, cmp.Compare(x.BeginNanos, y.BeginNanos), cmp.Compare(x.Runtime, y.Runtime), cmp.Compare(x.ID, y.ID))
	})
	a.Matched = len(a.Rows)
	a.Rows = cut(a.Rows, p.Limit)
	switch {
	case len(all) == 0 && len(v.runtimes) == 0:
		a.Hints = append(a.Hints, v.emptyHints(0)...)
	case len(all) == 0:
		a.Hints = append(a.Hints, Hint{
			"no_wait", "The target declares no waits, so no target time can be proven to block a CPU thread: all of it is parallel work.",
			"Declare waits with sdk.BeginWait, Await and End around the blocking calls",
		})
	case a.Matched == 0:
		a.Hints = append(a.Hints, Hint{"no_match", "No wait matches the filters.", "See all: stax target waits --limit 0"})
	}
	a.Coverage, err = v.coverage(ctx)
	return a, err
}

func (w *WaitRow) length() int64 {
	if w.DurationNanos == nil {
		return -1
	}
	return *w.DurationNanos
}

// waitRows makes a row of every wait, in write order. loadStacks must have run.
func (v *view) waitRows(ctx context.Context, ev *evidence) ([]WaitRow, error) {
	names, err := v.threadNames(ctx)
	if err != nil {
		return nil, err
	}
	rows := make([]WaitRow, 0, len(ev.order))
	index := make(map[waitKey]int, len(ev.order))
	for _, key := range ev.order {
		w := ev.waits[key]
		l := ev.link(archive.OwnerWait, uint64(w.ID), w.Runtime, archive.OriginWait, w.Origin)
		row := WaitRow{
			ID: HexID(w.ID), Name: w.Name, PID: v.pid(w.Runtime), Runtime: w.Runtime, ThreadID: w.Origin.ThreadID,
			ThreadName: names.of(v, w.Runtime, w.Origin.ThreadID), BeginNanos: w.BeginNanos, EndNanos: w.EndNanos,
			TimedOut: w.TimedOut, Awaits: ev.awaits[key], Classes: map[string]int64{},
			Origin: v.originRef(w.Runtime, archive.OriginWait, w.Origin, &l),
		}
		if n, ok := durationOf(w.BeginNanos, w.EndNanos); ok {
			row.DurationNanos = &n
		}
		index[key] = len(rows)
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return rows, nil
	}
	err = v.attributed(ctx, func(d *archive.Dispatch, c *archive.Certificate, _ *archive.Link) {
		if i, ok := index[waitKey{d.Runtime, c.Wait}]; ok && c.Wait != 0 {
			rows[i].Dispatches++
			rows[i].Classes[c.Class]++
			rows[i].OwnedNanos = addSaturated(rows[i].OwnedNanos, max(c.OwnedNanos, 0))
		}
	})
	if err != nil {
		return nil, err
	}
	parts, err := origin.Decompose(ctx, v.r, ev.ix, nil)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if i, ok := index[waitKey{p.Runtime, p.Wait}]; ok && rows[i].DurationNanos != nil {
			rows[i].Parts = &WaitParts{
				ExecutingNanos: p.ExecutingNanos, QueuedNanos: p.QueuedNanos, LaneIdleNanos: p.IdleNanos,
				WakeUpNanos: p.WakeUpNanos, UnknownNanos: p.UnknownNanos, ClockErrorNanos: p.ClockErrorNanos,
				Pending: p.Pending, Untimed: p.Untimed,
			}
		}
	}
	return rows, nil
}
