package query

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stax-otel/stax/archive"
)

// Frame is one frame of a stack.
type Frame struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int64  `json:"line"`
}

func framesOf(stack []archive.StackFrame) []Frame {
	out := make([]Frame, len(stack))
	for i, f := range stack {
		out[i] = Frame{f.Function, f.File, f.Line}
	}
	return out
}

// OriginDetail is an origin with its whole stack.
type OriginDetail struct {
	OriginRef
	Owner      archive.OwnerKind `json:"owner"` // dispatch, command_buffer or wait
	OwnerID    HexID             `json:"owner_id"`
	Stack      []Frame           `json:"stack"` // leaf first
	ThreadName string            `json:"thread_name,omitempty"`
}

// CertificateRow is the containment verdict and the evidence for it.
type CertificateRow struct {
	Class           string   `json:"class"`
	Reason          string   `json:"reason,omitempty"`
	Wait            HexID    `json:"wait_id"`
	OriginNanos     int64    `json:"origin_ns"`
	BeginNanos      int64    `json:"wait_begin_ns"`
	EndNanos        int64    `json:"wait_end_ns"`
	OwnedNanos      int64    `json:"owned_ns"`
	ClockErrorNanos int64    `json:"clock_error_ns"`
	Flags           []string `json:"flags"`
	Corroboration   string   `json:"corroboration"` // claimed: only the target's word; slept or spun: samples agree
}

// CounterValue is one counter sample of a dispatch.
type CounterValue struct {
	Set   archive.CounterSetID `json:"counter_set"`
	Name  string               `json:"name"`
	Unit  string               `json:"unit"`
	Point string               `json:"sample_point"`
	State archive.CounterState `json:"state"`
	Value json.Number          `json:"value,omitempty"` // only when state is ok
}

// CommandBufferRow is the command buffer of a dispatch.
type CommandBufferRow struct {
	ID            HexID           `json:"command_buffer_id"`
	Name          string          `json:"name"`
	Queue         archive.QueueID `json:"queue"`
	QueueSeq      uint64          `json:"queue_seq"`
	StartNanos    int64           `json:"start_ns"`
	EndNanos      int64           `json:"end_ns"`
	Faulted       bool            `json:"faulted"`
	StatusMessage string          `json:"status_message,omitempty"`
	Dispatches    int64           `json:"dispatches"`
}

// DispatchDetail is everything known about one dispatch.
type DispatchDetail struct {
	DispatchRow
	TraceID       string            `json:"trace_id"`
	SeqShard      uint32            `json:"seq_shard"`
	SeqN          uint64            `json:"seq_n"`
	Tags          json.RawMessage   `json:"tags"` // object; null when none
	CommandBuffer *CommandBufferRow `json:"command_buffer"`
	Origins       []OriginDetail    `json:"origins"` // dispatch, completion, fault; of the deciding waits too
	// Waits are the deciding wait, and the others that await it and began before it ended. LaterWaits counts those that
	// began when it had ended already: a wait for a whole queue covers everything that was ever queued.
	Waits       []WaitRow      `json:"waits"`
	LaterWaits  int64          `json:"later_waits"`
	Counters    []CounterValue `json:"counters"`
	Certificate CertificateRow `json:"certificate"`
}

// Dispatch tells everything about the dispatches with an id: one, unless two runtimes drew the same.
// It returns [ErrNotFound] when there is none.
func Dispatch(ctx context.Context, r *archive.Reader, id HexID) (Answer[DispatchDetail], error) {
	a := newAnswer[DispatchDetail]("dispatch")
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	if err := v.loadStacks(ctx); err != nil {
		return a, err
	}
	d, ok, err := r.Dispatch(ctx, archive.DispatchID(id))
	if err != nil {
		return a, err
	}
	if !ok {
		return a, fmt.Errorf("dispatch %s: %w", id, ErrNotFound)
	}
	ev, err := v.evidence(ctx)
	if err != nil {
		return a, err
	}
	row, err := v.dispatchDetail(ctx, ev, &d)
	if err != nil {
		return a, err
	}
	a.Rows, a.Matched = append(a.Rows, row), 1
	a.Coverage, err = v.coverage(ctx)
	if err != nil {
		return a, err
	}
	link := ev.link(archive.OwnerDispatch, uint64(d.ID), d.Runtime, archive.OriginDispatch, d.Origin)
	a.Coverage.Origins = newOriginCoverage()
	a.Coverage.Origins.add(&d, &link)
	if !d.Origin.Present() {
		a.Hints = append(a.Hints, Hint{
			"no_origin", "The target reported no CPU origin for this dispatch.",
			"Report it with Lane.ReportFrom or Dispatch.CaptureOrigin, and record with --origins stack",
		})
	}
	return a, nil
}

func (v *view) dispatchDetail(ctx context.Context, ev *evidence, d *archive.Dispatch) (DispatchDetail, error) {
	cert := ev.certificate(d)
	link := ev.link(archive.OwnerDispatch, uint64(d.ID), d.Runtime, archive.OriginDispatch, d.Origin)
	out := DispatchDetail{
		DispatchRow: v.dispatchRow(d, &cert, &link),
		TraceID:     traceText(d.Trace), SeqShard: d.Seq.Shard, SeqN: d.Seq.N,
		Origins: []OriginDetail{}, Waits: []WaitRow{}, Counters: []CounterValue{},
		Certificate: CertificateRow{
			Class: cert.Class, Reason: cert.Reason, Wait: HexID(cert.Wait), OriginNanos: cert.OriginNanos,
			BeginNanos: cert.BeginNanos, EndNanos: cert.EndNanos, OwnedNanos: cert.OwnedNanos,
			ClockErrorNanos: cert.ClockErrorNanos, Flags: flags(&cert), Corroboration: cert.Corroboration,
		},
	}
	if json.Valid([]byte(d.Tags)) {
		out.Tags = json.RawMessage(d.Tags)
	}
	names, err := v.threadNames(ctx)
	if err != nil {
		return out, err
	}
	add := func(owner archive.OwnerKind, id uint64, kind archive.OriginKind, o archive.Origin) {
		l := ev.link(owner, id, d.Runtime, kind, o)
		if ref := v.originRef(d.Runtime, kind, o, &l); ref != nil {
			out.Origins = append(out.Origins, OriginDetail{
				OriginRef: *ref, Owner: owner, OwnerID: HexID(id),
				Stack: framesOf(v.frames(d.Runtime, archive.StackID(ref.StackID))), ThreadName: names.of(v, d.Runtime, o.ThreadID),
			})
		}
	}
	add(archive.OwnerDispatch, uint64(d.ID), archive.OriginDispatch, d.Origin)
	for rows, err := range archive.Scan[archive.ExtraOrigin](ctx, v.r) {
		if err != nil {
			return out, err
		}
		for _, x := range rows {
			if x.Runtime == d.Runtime && (x.OwnerKind == archive.OwnerDispatch && x.Owner == uint64(d.ID) ||
				x.OwnerKind == archive.OwnerCommandBuffer && x.Owner == uint64(d.CommandBuffer) && x.Owner != 0) {
				add(x.OwnerKind, x.Owner, x.Kind, x.Origin)
			}
		}
	}
	// The waits: those that await it, the deciding one first. A command buffer's waits count for its dispatches.
	waits, err := v.waitRows(ctx, ev)
	if err != nil {
		return out, err
	}
	covering := ev.covering(d)
	for _, deciding := range []bool{true, false} {
		for _, w := range waits {
			id := archive.WaitID(w.ID)
			if w.Runtime != d.Runtime || (id == cert.Wait) != deciding || !deciding && !covering[id] {
				continue
			}
			if !deciding && w.BeginNanos > d.EndNanos {
				out.LaterWaits++
				continue
			}
			out.Waits = append(out.Waits, w)
			add(archive.OwnerWait, uint64(id), archive.OriginWait, ev.waits[waitKey{d.Runtime, id}].Origin)
		}
	}
	if d.CommandBuffer != 0 {
		if err := v.commandBuffer(ctx, d, &out); err != nil {
			return out, err
		}
	}
	return out, v.counterValues(ctx, d, &out)
}

func (v *view) commandBuffer(ctx context.Context, d *archive.Dispatch, out *DispatchDetail) error {
	cb, ok, err := v.r.CommandBuffer(ctx, d.CommandBuffer)
	if err != nil {
		return err
	}
	row := &CommandBufferRow{ID: HexID(d.CommandBuffer)}
	if ok && cb.Runtime == d.Runtime {
		*row = CommandBufferRow{
			ID: HexID(cb.ID), Name: cb.Name, Queue: cb.Queue, QueueSeq: cb.QueueSeq, StartNanos: cb.StartNanos,
			EndNanos: cb.EndNanos, Faulted: cb.Faulted, StatusMessage: cb.StatusMessage,
		}
	}
	for rows, err := range archive.ScanColumns[archive.Dispatch](ctx, v.r, "runtime", "command_buffer") {
		if err != nil {
			return err
		}
		for i := range rows {
			if rows[i].CommandBuffer == d.CommandBuffer && rows[i].Runtime == d.Runtime {
				row.Dispatches++
			}
		}
	}
	out.CommandBuffer = row
	return nil
}

func (v *view) counterValues(ctx context.Context, d *archive.Dispatch, out *DispatchDetail) error {
	units, err := v.counterUnits(ctx)
	if err != nil {
		return err
	}
	for rows, err := range archive.Scan[archive.CounterSample](ctx, v.r) {
		if err != nil {
			return err
		}
		for i := range rows {
			s := &rows[i]
			if s.Runtime != d.Runtime || s.OwnerKind != archive.OwnerDispatch || s.Owner != uint64(d.ID) {
				continue
			}
			c := CounterValue{
				Set: s.Set, Name: s.Name, Point: s.Point, State: s.State,
				Unit: units[counterKey{s.Runtime, s.Set, s.Name}],
			}
			if s.State == archive.CounterOK {
				c.Value = number(s)
			}
			out.Counters = append(out.Counters, c)
		}
	}
	return nil
}
