package sdk

import "context"

// A CommandBuffer builds one submission that groups dispatches of its lane. It obeys the rules of [Dispatch]; its
// dispatches may be reported before or after it.
type CommandBuffer struct{ b builder }

// CommandBuffer begins a command buffer and reserves its id.
func (l *Lane) CommandBuffer(n Name) (c CommandBuffer) {
	if l.Active() {
		c.b.begin(l, kindCommandBuffer, n)
	}
	return c
}

// ID is the command buffer's id, or 0 when inert. It stays valid after Report.
func (c *CommandBuffer) ID() CommandBufferID { return CommandBufferID(c.b.rec.id) }

// Active reports whether a Report will be recorded.
func (c *CommandBuffer) Active() bool { return c.b.rt != nil }

// Origin sets where the command buffer was submitted.
func (c *CommandBuffer) Origin(o Origin) { c.b.setOrigin(o) }

// CaptureOrigin captures the calling goroutine as the place of the submission. ctx may be nil.
func (c *CommandBuffer) CaptureOrigin(ctx context.Context) {
	if c.b.rt != nil {
		c.b.capture(ctx, 1)
	}
}

// Queue sets the concrete queue and the submission number on it, from 1 (0: not known).
func (c *CommandBuffer) Queue(q Queue, seq uint64) { c.b.rec.queue, c.b.rec.queueSeq = q.id, seq }

// Counters is [Dispatch.Counters].
func (c *CommandBuffer) Counters(set *CounterSet, point SamplePoint, values ...Value) {
	c.b.counters(set, point, values)
}

// Tag is [Dispatch.Tag].
func (c *CommandBuffer) Tag(k Key, v string) { c.b.tag(k, v) }

// TagInt is [Dispatch.TagInt].
func (c *CommandBuffer) TagInt(k Key, v int64) { c.b.tagNumber(sideTagInt, k, uint64(v)) }

// TagFloat is [Dispatch.TagFloat].
func (c *CommandBuffer) TagFloat(k Key, v float64) { c.b.tagNumber(sideTagFloat, k, floatBits(v)) }

// Fault says that the submission failed. msg may be empty.
func (c *CommandBuffer) Fault(msg string) { c.b.fault(msg) }

// FaultOrigin says where the fault was handled.
func (c *CommandBuffer) FaultOrigin(o Origin) { c.b.extraOrigin(sideFault, &o) }

// Completion says where the completion was handled.
func (c *CommandBuffer) Completion(o Origin) { c.b.extraOrigin(sideCompletion, &o) }

// Report records the command buffer with its times, as they are. Later calls do nothing.
func (c *CommandBuffer) Report(start, end Time) {
	if c.b.rt != nil {
		c.b.report(int64(start), int64(end))
	}
}
