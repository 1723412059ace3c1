package truth

import (
	"sync/atomic"
	"time"
)

// SlowCall is far above what a call into the SDK costs and above what a busy machine does to it, and far below any
// blocking.
const SlowCall = 10 * time.Millisecond

// Meter measures what the SDK costs its callers. The zero Meter is ready; it is safe for concurrent use.
type Meter struct {
	calls, slow atomic.Uint64
	slowest     atomic.Int64
}

// Called says that a call into the SDK began at t and has just returned.
func (m *Meter) Called(t time.Time) {
	d := time.Since(t)
	m.calls.Add(1)
	if d > SlowCall {
		m.slow.Add(1)
	}
	for {
		have := m.slowest.Load()
		if int64(d) <= have || m.slowest.CompareAndSwap(have, int64(d)) {
			return
		}
	}
}

// Fill writes the measures into e.
func (m *Meter) Fill(e *End) {
	e.Calls, e.SlowCalls, e.MaxCallNanos = m.calls.Load(), m.slow.Load(), m.slowest.Load()
}
