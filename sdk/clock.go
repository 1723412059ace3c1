package sdk

import (
	"sync/atomic"
	"time"
)

// Time is an instant in Unix nanoseconds. Zero and nonsense are legal: they are recorded as given.
type Time int64

// Now is the current instant on the SDK's clock: the monotonic clock plus a wall offset that is calibrated when a
// recording begins and fixed while it lasts, so that differences are exact and a stepped wall clock bends nothing.
func Now() Time { return Time(clock.offset.Load() + int64(time.Since(clock.base))) }

// TimeOf converts t. A monotonic reading in t, as time.Now gives it, is used.
func TimeOf(t time.Time) Time { return Time(clock.offset.Load() + int64(t.Sub(clock.base))) }

// Time converts back.
func (t Time) Time() time.Time { return time.Unix(0, int64(t)) }

// clock is process-wide: times of all runtimes compare.
var clock = newClock()

type clockState struct {
	base   time.Time    // has a monotonic reading
	offset atomic.Int64 // Unix nanoseconds at base
	bound  atomic.Int64 // error bound of offset, ns
}

func newClock() *clockState {
	c := &clockState{base: time.Now()}
	c.offset.Store(c.base.UnixNano())
	c.calibrate()
	return c
}

// calibrate reads the wall clock between two monotonic readings, keeps the narrowest of several brackets and moves the
// offset when it disagrees by more than the bracket explains.
func (c *clockState) calibrate() {
	best, offset := int64(1<<62), int64(0)
	for range 16 {
		a := int64(time.Since(c.base))
		wall := time.Now().UnixNano()
		b := int64(time.Since(c.base))
		if half := (b - a + 1) / 2; half < best {
			best, offset = half, wall-(a+half)
		}
	}
	if d := offset - c.offset.Load(); d > best || d < -best {
		c.offset.Store(offset)
	}
	c.bound.Store(best)
}

// clockReading pairs the monotonic clock with the wall clock.
type clockReading struct {
	mono, unix, bracket int64
}

// read takes a clock sample: the narrowest of a few brackets.
func (c *clockState) read() clockReading {
	best := clockReading{bracket: 1 << 62}
	for range 8 {
		a := monotonicNanos(c)
		wall := time.Now().UnixNano()
		b := monotonicNanos(c)
		if half := (b - a + 1) / 2; half < best.bracket {
			best = clockReading{mono: a + half, unix: wall, bracket: half}
		}
	}
	return best
}
