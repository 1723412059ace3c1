package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stax-otel/stax/archive"
)

// Kinds of a [FlameNode].
const (
	FlameAll      = "all"
	FlameFunction = "function" // a frame of the CPU stack that queued the work below it
	FlameLane     = "lane"
	FlameName     = "name" // a dispatch name
	FlameMore     = "more" // the rest of its siblings, cut by the limit
)

// FlameNode is one box of a flame graph. Its width is target time: what the dispatches below it took on their lanes.
type FlameNode struct {
	Name         string       `json:"name"`
	Kind         string       `json:"kind"`
	LaneKind     string       `json:"lane_kind,omitempty"`
	TID          int64        `json:"tid,omitempty"` // of a lane
	File         string       `json:"file,omitempty"`
	Line         int64        `json:"line,omitempty"` // absent when the function was left at several lines
	Count        int64        `json:"count"`
	UntimedCount int64        `json:"untimed_count"`
	TotalNanos   int64        `json:"total_ns"`
	Children     []*FlameNode `json:"children,omitempty"`

	byKey map[flameKey]*FlameNode
	tally tally
}

type flameKey struct {
	kind, name, file string
	lane             int
}

func (n *FlameNode) child(k flameKey) *FlameNode {
	if c := n.byKey[k]; c != nil {
		return c
	}
	if n.byKey == nil {
		n.byKey = map[flameKey]*FlameNode{}
	}
	c := &FlameNode{Name: k.name, Kind: k.kind, File: k.file}
	n.byKey[k] = c
	n.Children = append(n.Children, c)
	return c
}

// callAt notes the line at which a function was left; a function left at several lines shows none.
func (n *FlameNode) callAt(line int64) {
	if n.tally.count > 1 && n.Line != line {
		line = 0
	}
	n.Line = line
}

// FlameParams are the parameters of [Flame].
type FlameParams struct {
	// TID selects a lane by its pseudo-thread, or the work queued from a CPU thread; 0: all lanes.
	TID  int64
	Lane string
	Name string
	// Limit is the most children a node keeps; the rest becomes one node. 0: all.
	Limit int
}

// Relations of a flame graph's work to what it is shown under.
const (
	RelationRan    = "ran"    // the lanes ran it
	RelationQueued = "queued" // the CPU thread queued it; it ran in parallel on the lanes
)

// FlameAnswer is the answer of [Flame]: one row, the root.
type FlameAnswer struct {
	Answer[*FlameNode]
	TID int64 `json:"tid"`
	// Relation says whether the work ran where it is drawn, or was merely queued from there.
	Relation string `json:"relation"`
}

// Flame draws target time as a tree: (all), lane, name. For a CPU thread it is (all), the stack that queued the work
// with the outermost frame first, lane, name: parallel work hung under its cause, not time of that thread.
func Flame(ctx context.Context, r *archive.Reader, p FlameParams) (FlameAnswer, error) {
	a := FlameAnswer{Answer: newAnswer[*FlameNode]("flame"), TID: p.TID, Relation: RelationRan}
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	cpu := p.TID != 0 && p.TID < pseudoThreads
	root := &FlameNode{Name: "(all)", Kind: FlameAll}
	lanes, name := v.laneFilter(p.Lane), newPattern(p.Name)
	if p.TID >= pseudoThreads {
		known := false
		for _, l := range v.lanes {
			known = known || int64(l.PseudoTID) == p.TID
		}
		if !known {
			return a, fmt.Errorf("thread %s: %w", formatTID(p.TID), ErrNotFound)
		}
	}
	var dispatches, matched int64
	visit := func(d *archive.Dispatch, l *archive.Link) {
		dispatches++
		ln := v.lane(d.Runtime, d.Lane)
		switch {
		case !lanes.match(ln) || !name.match(d.Name):
			return
		case cpu && d.Origin.ThreadID != p.TID:
			return
		case p.TID >= pseudoThreads && int64(ln.PseudoTID) != p.TID:
			return
		}
		matched++
		n := root
		n.tally.add(d.StartNanos, d.EndNanos)
		down := func(k flameKey) {
			n = n.child(k)
			n.tally.add(d.StartNanos, d.EndNanos)
		}
		if cpu {
			frames := v.frames(d.Runtime, cmp.Or(l.Stack, d.Origin.Stack))
			for _, f := range slices.Backward(frames) {
				down(flameKey{kind: FlameFunction, name: f.Function, file: f.File})
				n.callAt(f.Line)
			}
			if len(frames) == 0 {
				down(flameKey{kind: FlameFunction, name: "(no stack)"})
			}
		}
		down(flameKey{kind: FlameLane, name: ln.Name, lane: ln.index})
		n.LaneKind, n.TID = ln.Kind, int64(ln.PseudoTID)
		down(flameKey{kind: FlameName, name: d.Name})
	}
	if cpu {
		a.Relation = RelationQueued
		if err := v.loadStacks(ctx); err != nil {
			return a, err
		}
		origins := newOriginCoverage()
		err = v.attributed(ctx, func(d *archive.Dispatch, _ *archive.Certificate, l *archive.Link) {
			origins.add(d, l)
			visit(d, l)
		}, "name")
		a.Coverage.Origins = origins
	} else {
		for rows, scanErr := range archive.ScanColumns[archive.Dispatch](ctx, r, "runtime", "lane", "name", "start_ns", "end_ns") {
			if err = scanErr; err != nil {
				break
			}
			for i := range rows {
				visit(&rows[i], nil)
			}
		}
	}
	if err != nil {
		return a, err
	}
	root.finish(p.Limit)
	a.Rows, a.Matched = append(a.Rows, root), 1
	if matched == 0 {
		thread := ""
		if p.TID != 0 {
			thread = formatTID(p.TID)
		}
		a.Hints = append(a.Hints, v.emptyHints(dispatches, "thread", thread, "lane", p.Lane, "name", p.Name)...)
	}
	origins := a.Coverage.Origins
	a.Coverage, err = v.coverage(ctx)
	a.Coverage.Origins = origins
	return a, err
}

// finish fills in the figures, sorts the children and folds those past the limit into one.
func (n *FlameNode) finish(limit int) {
	n.Count, n.UntimedCount, n.TotalNanos = n.tally.count, n.tally.untimed, n.tally.total
	for _, c := range n.Children {
		c.finish(limit)
	}
	slices.SortFunc(n.Children, func(a, b *FlameNode) int {
		return cmp.Or(-cmp.Compare(a.TotalNanos, b.TotalNanos), -cmp.Compare(a.Count, b.Count), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.TID, b.TID))
	})
	if limit <= 0 || len(n.Children) <= limit+1 {
		return
	}
	more := &FlameNode{Kind: FlameMore, Name: fmt.Sprintf("(%d more)", len(n.Children)-limit)}
	for _, c := range n.Children[limit:] {
		more.Count += c.Count
		more.UntimedCount += c.UntimedCount
		more.TotalNanos = addSaturated(more.TotalNanos, c.TotalNanos)
	}
	n.Children = append(n.Children[:limit], more)
}
