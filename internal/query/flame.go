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
	FlameName     = "name"   // a dispatch name
	FlameMore     = "more"   // the rest of its siblings, cut by the limit
	FlameReason   = "reason" // why something did not run; the stacks below it are where it stopped
)

// What the total of a [FlameNode] measures.
const (
	MeasureTarget = "target_time"  // time on lanes; count is dispatches
	MeasureCPU    = "cpu_time"     // processor time; count is samples
	MeasureOffCPU = "off_cpu_time" // time not running; count is waits
	MeasureOwned  = "owned_time"   // wall time that a CPU thread provably waited for work; count is dispatches
)

// Modes of [Flame].
const (
	FlameModeTarget = "target"  // lanes; for a CPU thread the work that it queued, with its CPU flame beside it
	FlameModeCPU    = "cpu"     // on-CPU samples by stack
	FlameModeOffCPU = "off_cpu" // off-CPU time by reason and stack
)

// FlameModes lists what [FlameParams].Mode may be.
var FlameModes = []string{FlameModeTarget, FlameModeCPU, FlameModeOffCPU}

// FlameNode is one box of a flame graph. Its width is TotalNanos; what that measures, the answer says.
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
	calls int // how often callAt was told
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
	if n.calls > 0 && n.Line != line {
		line = 0
	}
	n.calls++
	n.Line = line
}

// FlameParams are the parameters of [Flame].
type FlameParams struct {
	// TID selects a lane by its pseudo-thread, or the work queued from a CPU thread; 0: all lanes.
	TID  int64
	Lane string
	Name string
	// Mode is one of FlameModes; "": target, or cpu in a recording that has samples and no dispatch. With cpu and off_cpu
	// the filters of lanes have no meaning, and PID chooses a process; 0: all.
	Mode string
	PID  int64
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
	Measure  string `json:"measure"` // of the rows
	// CPU is, beside the work queued from a CPU thread, the samples of that thread: measure cpu_time. Null without any.
	CPU *FlameNode `json:"cpu"`
	// SamplesWithoutTime of the samples do not say how much processor time they stand for.
	SamplesWithoutTime int64 `json:"samples_without_time"`
}

// Flame draws target time as a tree: (all), lane, name. For a CPU thread it is (all), the stack that queued the work
// with the outermost frame first, lane, name: parallel work hung under its cause, not time of that thread. Beside it are
// the samples of the thread.
func Flame(ctx context.Context, r *archive.Reader, p FlameParams) (FlameAnswer, error) {
	a := FlameAnswer{Answer: newAnswer[*FlameNode]("flame"), TID: p.TID, Relation: RelationRan, Measure: MeasureTarget}
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	rows := r.Rows()
	if p.Mode == "" && p.TID < pseudoThreads && p.Lane == "" && p.Name == "" && rows["dispatches"] == 0 && rows["samples"] > 0 {
		p.Mode = FlameModeCPU
	}
	if p.TID >= pseudoThreads {
		if err := v.knownLane(p.TID); err != nil {
			return a, err
		}
		if p.Mode == FlameModeCPU || p.Mode == FlameModeOffCPU {
			return a, &ParamError{Name: "tid", Value: formatTID(p.TID), Want: "a CPU thread: a lane has target time, no CPU time"}
		}
	}
	switch p.Mode {
	case FlameModeCPU:
		err = v.flameCPU(ctx, &a, p)
	case FlameModeOffCPU:
		err = v.flameOffCPU(ctx, &a, p)
	default:
		return v.flameTarget(ctx, a, p)
	}
	if err != nil {
		return a, err
	}
	a.Matched = 1
	a.Coverage, err = v.coverage(ctx)
	return a, err
}

func (v *view) flameTarget(ctx context.Context, a FlameAnswer, p FlameParams) (FlameAnswer, error) {
	r := v.r
	cpu := p.TID != 0 && p.TID < pseudoThreads
	root := &FlameNode{Name: "(all)", Kind: FlameAll}
	lanes, name := v.laneFilter(p.Lane), newPattern(p.Name)
	var err error
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
			frames := v.frames(d.Runtime, causeStack(d.Origin, l))
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
	if cpu && v.cpuRows() {
		sums, err := v.sumStacks(ctx, cpuFilter{thread: p.TID, pid: p.PID}, nil)
		if err != nil {
			return a, err
		}
		if sums.total.Samples > 0 {
			a.CPU = v.cpuTree(sums, p.Limit)
			a.SamplesWithoutTime = sums.total.SamplesWithoutTime
		}
	}
	if matched == 0 && a.CPU != nil {
		a.Hints = append(a.Hints, Hint{"no_queued_work", "No target work is known to be queued from this thread.", "See which threads queue work: stax threads"})
	} else if matched == 0 {
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

// knownLane returns ErrNotFound unless the thread id is a lane's.
func (v *view) knownLane(tid int64) error {
	for _, l := range v.lanes {
		if int64(l.PseudoTID) == tid {
			return nil
		}
	}
	return fmt.Errorf("thread %s: %w", formatTID(tid), ErrNotFound)
}

// grow adds a figure to the path from n down the stack, outermost frame first, and returns the last node.
func (v *view) grow(n *FlameNode, stack stackKey, count, nanos int64) *FlameNode {
	frames := v.frames(stack.runtime, stack.id)
	for _, f := range slices.Backward(frames) {
		n = n.child(flameKey{kind: FlameFunction, name: f.Function, file: f.File})
		n.weigh(count, nanos)
		n.callAt(f.Line)
	}
	if len(frames) == 0 {
		n = n.child(flameKey{kind: FlameFunction, name: "(no stack)"})
		n.weigh(count, nanos)
	}
	return n
}

func (n *FlameNode) weigh(count, nanos int64) {
	n.tally.count = addSaturated(n.tally.count, count)
	n.tally.total = addSaturated(n.tally.total, nanos)
}

// cpuTree draws samples by stack.
func (v *view) cpuTree(sums *stackSums, limit int) *FlameNode {
	root := &FlameNode{Name: "(all)", Kind: FlameAll}
	sums.ordered(func(stack stackKey, t *CPUTime) {
		root.weigh(t.Samples, t.OnCPUNanos)
		v.grow(root, stack, t.Samples, t.OnCPUNanos)
	})
	root.finish(limit)
	return root
}

func (v *view) flameCPU(ctx context.Context, a *FlameAnswer, p FlameParams) error {
	a.Measure = MeasureCPU
	if err := v.loadStacks(ctx); err != nil {
		return err
	}
	filter := cpuFilter{thread: p.TID, pid: p.PID}
	sums, err := v.sumStacks(ctx, filter, nil)
	if err != nil {
		return err
	}
	a.Rows = append(a.Rows, v.cpuTree(sums, p.Limit))
	a.SamplesWithoutTime = sums.total.SamplesWithoutTime
	a.Hints = append(a.Hints, sums.hints(v)...)
	return nil
}

// offStack is a place where something stopped running, and why.
type offStack struct {
	stackKey
	reason string
}

// offStacks sums off-CPU time by reason and stack.
type offStacks struct {
	sums       map[offStack]*tally
	goroutines int64 // intervals of goroutines, not of threads
	others     int64 // intervals of goroutines that stopped on the thread that is asked for
	all        int64
}

// sumOffCPU visits the off-CPU intervals. overlap gives the part of an interval that counts; nil: all of it.
func (v *view) sumOffCPU(ctx context.Context, f cpuFilter, overlap func(begin, end int64) int64) (*offStacks, error) {
	s := &offStacks{sums: map[offStack]*tally{}}
	for rows, err := range archive.ScanColumns[archive.OffCPU](ctx, v.r, "runtime", "thread", "goroutine", "begin_ns", "end_ns", "reason", "stack") {
		if err != nil {
			return nil, err
		}
		for i := range rows {
			o := &rows[i]
			s.all++
			n, ok := durationOf(o.BeginNanos, o.EndNanos)
			if !ok || !f.match(v, o.Runtime, o.ThreadID) {
				continue
			}
			if f.thread != 0 && o.GoroutineID != 0 {
				s.others++ // a goroutine stopped on this thread, which then ran another
				continue
			}
			if overlap != nil {
				if n = overlap(o.BeginNanos, o.EndNanos); n <= 0 {
					continue
				}
			}
			if o.GoroutineID != 0 {
				s.goroutines++
			}
			key := offStack{stackKey{o.Runtime, o.Stack}, o.Reason}
			t := s.sums[key]
			if t == nil {
				t = &tally{}
				s.sums[key] = t
			}
			t.count++
			t.total = addSaturated(t.total, n)
		}
	}
	return s, nil
}

func (v *view) offTree(s *offStacks, limit int) *FlameNode {
	root := &FlameNode{Name: "(all)", Kind: FlameAll}
	keys := make([]offStack, 0, len(s.sums))
	for key := range s.sums {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(x, y offStack) int {
		return cmp.Or(cmp.Compare(x.reason, y.reason), cmp.Compare(x.runtime, y.runtime), cmp.Compare(x.id, y.id))
	})
	for _, key := range keys {
		t := s.sums[key]
		root.weigh(t.count, t.total)
		n := root.child(flameKey{kind: FlameReason, name: key.reason})
		n.weigh(t.count, t.total)
		v.grow(n, key.stackKey, t.count, t.total)
	}
	root.finish(limit)
	return root
}

func (v *view) flameOffCPU(ctx context.Context, a *FlameAnswer, p FlameParams) error {
	a.Measure = MeasureOffCPU
	if err := v.loadStacks(ctx); err != nil {
		return err
	}
	s, err := v.sumOffCPU(ctx, cpuFilter{thread: p.TID, pid: p.PID}, nil)
	if err != nil {
		return err
	}
	a.Rows = append(a.Rows, v.offTree(s, p.Limit))
	switch {
	case s.all == 0 && len(v.runtimes) > 0:
		a.Hints = append(a.Hints, Hint{
			"no_off_cpu", "No source of this recording reports when threads did not run.",
			`A Go target reports every wait with the blank import "github.com/stax-otel/stax/sdk/cputrace/auto"`,
		})
	case s.all == 0:
		a.Hints = append(a.Hints, v.noSamplesHint())
	case len(s.sums) == 0 && s.others > 0:
		a.Hints = append(a.Hints, Hint{
			"goroutine_waits", "Only goroutines are known to wait, and they belong to no thread: a thread whose goroutine waits runs another.",
			"See the waits of all goroutines: stax flame --off-cpu",
		})
	case len(s.sums) == 0:
		a.Hints = append(a.Hints, Hint{"no_match", "Nothing that did not run matches the filters.", "See the threads: stax threads --limit 0"})
	case s.goroutines > 0:
		a.Hints = append(a.Hints, Hint{
			Code: "goroutine_time",
			Text: "These are waits of goroutines, side by side: their sum can exceed the time that passed, and is no thread's time.",
		})
	}
	return nil
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
