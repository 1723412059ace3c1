package query

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"

	"github.com/stax-otel/stax/archive"
)

// OriginRef says where on the CPU something was caused, and how well that is known.
type OriginRef struct {
	Kind        archive.OriginKind `json:"kind"` // dispatch, wait, completion or fault
	ThreadID    int64              `json:"thread_id"`
	GoroutineID int64              `json:"goroutine_id,omitempty"`
	TimeNanos   int64              `json:"time_ns"`
	StackID     HexID              `json:"stack_id"`
	Function    string             `json:"function"` // leaf of the stack; "" when there is none
	File        string             `json:"file"`
	Line        int64              `json:"line"`
	CPUTraceID  string             `json:"cpu_trace_id,omitempty"`
	CPUSpanID   HexID              `json:"cpu_span_id,omitempty"`
	Status      string             `json:"status"`
	Grade       string             `json:"grade"` // A B C D, or "" when not linked
	Weak        bool               `json:"weak"`
	// DistanceNanos is the distance to the nearest CPU sample; -1: not known or not needed.
	DistanceNanos int64 `json:"distance_ns"`
	// Candidate is the function of the nearest sample where goroutines share threads (grade D): it may be unrelated code.
	Candidate string `json:"candidate,omitempty"`
}

func (v *view) originRef(rt archive.RuntimeID, kind archive.OriginKind, o archive.Origin, l *archive.Link) *OriginRef {
	if !o.Present() {
		return nil
	}
	ref := &OriginRef{
		Kind: kind, ThreadID: o.ThreadID, GoroutineID: o.GoroutineID, TimeNanos: o.TimeNanos, StackID: HexID(o.Stack),
		CPUSpanID: HexID(o.CPUSpan), DistanceNanos: -1,
	}
	if o.CPUTrace != (archive.TraceID{}) {
		ref.CPUTraceID = hex.EncodeToString(o.CPUTrace[:])
	}
	stack := causeStack(o, l)
	if l != nil {
		ref.Status, ref.Grade, ref.Weak, ref.DistanceNanos = l.Status, l.Grade, l.Weak, l.DistanceNanos
		if l.Stack != stack {
			ref.Candidate = leaf(v.frames(rt, l.Stack))
		}
	}
	if frames := v.frames(rt, stack); len(frames) > 0 {
		ref.StackID = HexID(stack)
		ref.Function, ref.File, ref.Line = frames[0].Function, frames[0].File, frames[0].Line
	}
	return ref
}

// DispatchRow is one dispatch.
type DispatchRow struct {
	ID            HexID             `json:"dispatch_id"`
	Name          string            `json:"name"`
	Lane          string            `json:"lane"`
	LaneID        archive.LaneID    `json:"lane_id"`
	Kind          string            `json:"kind"`
	TID           uint32            `json:"tid"`
	PID           int64             `json:"pid"`
	Runtime       archive.RuntimeID `json:"runtime"`
	Shader        archive.ShaderID  `json:"shader"`
	CommandBuffer HexID             `json:"command_buffer_id"`
	Queue         archive.QueueID   `json:"queue"`
	QueueSeq      uint64            `json:"queue_seq"`
	StartNanos    int64             `json:"start_ns"`
	EndNanos      int64             `json:"end_ns"`
	DurationNanos *int64            `json:"duration_ns"` // null when the times cannot be true
	Faulted       bool              `json:"faulted"`
	StatusMessage string            `json:"status_message,omitempty"`
	Origin        *OriginRef        `json:"origin"` // null when none was reported
	Class         string            `json:"class"`
	Reason        string            `json:"reason,omitempty"` // of an unproven class
	Wait          HexID             `json:"wait_id"`          // the wait that decides the class
	OwnedNanos    int64             `json:"owned_ns"`         // wall time of that wait covered by this dispatch; only if synchronous
	Flags         []string          `json:"flags"`            // faulted, cross_thread, different_stack
}

func (v *view) dispatchRow(d *archive.Dispatch, c *archive.Certificate, link *archive.Link) DispatchRow {
	l := v.lane(d.Runtime, d.Lane)
	row := DispatchRow{
		ID: HexID(d.ID), Name: d.Name, Lane: l.Name, LaneID: l.ID, Kind: l.Kind, TID: l.PseudoTID,
		PID: v.pid(d.Runtime), Runtime: d.Runtime, Shader: d.Shader, CommandBuffer: HexID(d.CommandBuffer),
		Queue: d.Queue, QueueSeq: d.QueueSeq, StartNanos: d.StartNanos, EndNanos: d.EndNanos,
		Faulted: d.Faulted, StatusMessage: d.StatusMessage,
		Origin: v.originRef(d.Runtime, archive.OriginDispatch, d.Origin, link),
		Class:  c.Class, Reason: c.Reason, Wait: HexID(c.Wait), OwnedNanos: c.OwnedNanos, Flags: flags(c),
	}
	if n, ok := durationOf(d.StartNanos, d.EndNanos); ok {
		row.DurationNanos = &n
	}
	return row
}

func flags(c *archive.Certificate) []string {
	f := []string{}
	if c.Faulted {
		f = append(f, "faulted")
	}
	if c.CrossThread {
		f = append(f, "cross_thread")
	}
	if c.DifferentStack {
		f = append(f, "different_stack")
	}
	return f
}

// Orders of [Dispatches].
const (
	SortStart    = "start"    // earliest first
	SortDuration = "duration" // longest first; dispatches without a duration last
)

// DispatchesParams are the parameters of [Dispatches]. Text filters are as in [TopParams].
type DispatchesParams struct {
	Lane   string
	Name   string
	Shader string
	Class  string // one of origin's classes; "" for all
	Thread int64  // CPU thread that queued it; 0: all
	Sort   string // SortStart or SortDuration
	Limit  int    // rows; 0: all
}

// Dispatches lists single dispatches.
func Dispatches(ctx context.Context, r *archive.Reader, p DispatchesParams) (Answer[DispatchRow], error) {
	a := newAnswer[DispatchRow]("dispatches")
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	if err := v.loadStacks(ctx); err != nil {
		return a, err
	}
	order := func(x, y DispatchRow) int {
		c := 0
		if p.Sort == SortDuration {
			c = -cmp.Compare(x.length(), y.length())
		}
		return cmp.Or(c, cmp.Compare(x.StartNanos, y.StartNanos), cmp.Compare(x.Lane, y.Lane),
			cmp.Compare(x.Runtime, y.Runtime), cmp.Compare(x.ID, y.ID))
	}
	lanes, name, shader := v.laneFilter(p.Lane), newPattern(p.Name), newPattern(p.Shader)
	origins := newOriginCoverage()
	matched := 0
	var last DispatchRow // of the best rows so far
	full := false
	err = v.attributed(ctx, func(d *archive.Dispatch, c *archive.Certificate, l *archive.Link) {
		origins.add(d, l)
		if !lanes.match(v.lane(d.Runtime, d.Lane)) || !name.match(d.Name) || !shader.match(string(d.Shader)) ||
			p.Class != "" && c.Class != p.Class || p.Thread != 0 && d.Origin.ThreadID != p.Thread {
			return
		}
		matched++
		if full && behind(d, &last, p.Sort) {
			return // most of a long recording ends here
		}
		a.Rows = append(a.Rows, v.dispatchRow(d, c, l))
		if p.Limit > 0 && len(a.Rows) >= 4*p.Limit+1024 {
			slices.SortFunc(a.Rows, order)
			a.Rows = cut(a.Rows, p.Limit)
			full, last = true, a.Rows[p.Limit-1]
		}
	}, "name", "shader", "status_message")
	if err != nil {
		return a, err
	}
	slices.SortFunc(a.Rows, order)
	a.Rows, a.Matched = cut(a.Rows, p.Limit), matched
	if matched == 0 {
		thread := ""
		if p.Thread != 0 {
			thread = formatTID(p.Thread)
		}
		a.Hints = append(a.Hints, v.emptyHints(origins.Dispatches, "lane", p.Lane, "name", p.Name,
			"shader", p.Shader, "class", p.Class, "thread", thread)...)
	}
	a.Coverage, err = v.coverage(ctx)
	a.Coverage.Origins = origins
	return a, err
}

// behind reports whether a dispatch comes after a row for certain.
func behind(d *archive.Dispatch, row *DispatchRow, sort string) bool {
	if sort != SortDuration {
		return d.StartNanos > row.StartNanos
	}
	n, ok := durationOf(d.StartNanos, d.EndNanos)
	if !ok {
		n = -1
	}
	return n < row.length()
}

func (d *DispatchRow) length() int64 {
	if d.DurationNanos == nil {
		return -1
	}
	return *d.DurationNanos
}
