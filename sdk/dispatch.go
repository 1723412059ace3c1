package sdk

import "context"

// A Dispatch builds one unit of work on a lane. [Lane.Dispatch] reserves its id before the work runs, so that waits,
// logs or a device can name it; Report ends it. While not recorded it is inert: the id is 0 and nothing happens.
// Use it from one goroutine at a time and do not use two copies of one.
type Dispatch struct{ b builder }

// Dispatch begins a dispatch and reserves its id. A dispatch that is never reported costs its id and nothing else.
func (l *Lane) Dispatch(n Name) (d Dispatch) {
	if l != nil && l.rt.active.Load() != 0 {
		d.begin(l, n)
	}
	return d
}

func (d *Dispatch) begin(l *Lane, n Name) { d.b.begin(l, kindDispatch, n) }

// ID is the dispatch's id, or 0 when inert. It stays valid after Report.
func (d *Dispatch) ID() DispatchID { return DispatchID(d.b.rec.id) }

// Active reports whether a Report will be recorded.
func (d *Dispatch) Active() bool { return d.b.rt != nil }

// Origin sets where the work was queued.
func (d *Dispatch) Origin(o Origin) { d.b.setOrigin(o) }

// CaptureOrigin captures the calling goroutine as the place where the work was queued: call it just before queueing.
// ctx may be nil.
func (d *Dispatch) CaptureOrigin(ctx context.Context) {
	if d.b.rt != nil {
		d.b.capture(ctx, 1)
	}
}

// CommandBuffer says that the dispatch belongs to a command buffer of the same lane.
func (d *Dispatch) CommandBuffer(id CommandBufferID) {
	if d.b.rt != nil {
		d.b.rec.parent = uint64(id)
	}
}

// Queue sets the concrete queue and the submission number on it, from 1 (0: not known).
func (d *Dispatch) Queue(q Queue, seq uint64) { d.b.rec.queue, d.b.rec.queueSeq = q.id, seq }

// Shader sets the identity of the code that runs.
func (d *Dispatch) Shader(s Shader) { d.b.rec.shader = s.id }

// Counters adds the values of a counter set at a sample point, in the order of the set's counters. Values past the
// set's counters are dropped and counted.
func (d *Dispatch) Counters(set *CounterSet, point SamplePoint, values ...Value) {
	d.b.counters(set, point, values)
}

// Tag adds a free text attribute. The first value of a key wins. Values are cut at 4 KiB and tags limited to 64.
func (d *Dispatch) Tag(k Key, v string) { d.b.tag(k, v) }

// TagInt adds a free integer attribute.
func (d *Dispatch) TagInt(k Key, v int64) { d.b.tagNumber(sideTagInt, k, uint64(v)) }

// TagFloat adds a free floating-point attribute.
func (d *Dispatch) TagFloat(k Key, v float64) { d.b.tagNumber(sideTagFloat, k, floatBits(v)) }

// Fault says that the work failed. msg may be empty.
func (d *Dispatch) Fault(msg string) { d.b.fault(msg) }

// FaultOrigin says where the fault was handled; it implies nothing about the status.
func (d *Dispatch) FaultOrigin(o Origin) { d.b.extraOrigin(sideFault, &o) }

// Completion says where the completion was handled.
func (d *Dispatch) Completion(o Origin) { d.b.extraOrigin(sideCompletion, &o) }

// Report records the dispatch with the times of its execution, as they are. Later calls do nothing.
func (d *Dispatch) Report(start, end Time) {
	if d.b.rt != nil {
		d.b.report(int64(start), int64(end))
	}
}
