package gotrace

import (
	"time"

	"golang.org/x/exp/trace"
)

// snapshot makes a clock snapshot at a trace time with an offset between the clocks.
func snapshot(at, offset, bracket int64) *trace.ClockSnapshot {
	return &trace.ClockSnapshot{Trace: trace.Time(at), Wall: time.Unix(0, at+offset), Mono: uint64(at + bracket)}
}
