package timeline

import "sync/atomic"

// QueueMeter counts what happens to a command queue, from any goroutine. Give it to a recorder with [Options.Queue] and
// call it where commands are taken in and out. While the recorder is disabled a call is one atomic load. A nil meter
// and the zero meter count nothing until a recorder switches the latter on.
type QueueMeter struct {
	on                                   atomic.Bool
	pending                              func() int64
	drained, accepted, dropped, rejected atomic.Int64
}

// NewQueueMeter makes a meter. pending returns the present length of the queue; it is called once at each BeginTick, on
// the tick loop's goroutine.
func NewQueueMeter(pending func() int64) *QueueMeter {
	return &QueueMeter{pending: pending}
}

// Accepted counts n commands that the queue took.
func (m *QueueMeter) Accepted(n int64) {
	if m != nil && m.on.Load() {
		m.accepted.Add(n)
	}
}

// Rejected counts n commands that the queue refused.
func (m *QueueMeter) Rejected(n int64) {
	if m != nil && m.on.Load() {
		m.rejected.Add(n)
	}
}

// Dropped counts n commands that the queue had taken and threw away.
func (m *QueueMeter) Dropped(n int64) {
	if m != nil && m.on.Load() {
		m.dropped.Add(n)
	}
}

// Drained counts n commands that were taken out to be executed.
func (m *QueueMeter) Drained(n int64) {
	if m != nil && m.on.Load() {
		m.drained.Add(n)
	}
}

// begin switches the meter on or off for the tick that begins and returns the length of the queue.
func (m *QueueMeter) begin(on bool) (pending int64) {
	if m.on.Load() != on {
		m.flush()
		m.on.Store(on)
	}
	if on && m.pending != nil {
		return m.pending()
	}
	return 0
}

// flush returns the counts since the flush before.
func (m *QueueMeter) flush() (q Queue) {
	q.Drained, q.Accepted = m.drained.Swap(0), m.accepted.Swap(0)
	q.Dropped, q.Rejected = m.dropped.Swap(0), m.rejected.Swap(0)
	return q
}
