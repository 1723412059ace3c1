package gotrace

import (
	"slices"

	"golang.org/x/exp/trace"
)

// Clock says how the instants of a generation were converted: Unix time = trace time + OffsetNanos.
type Clock struct {
	RawNanos    int64 // the trace's clock at the generation's snapshot
	UnixNanos   int64 // the wall clock at the same instant
	OffsetNanos int64 // what was used: UnixNanos - RawNanos, or the neighbours' when Rejected
	ErrorNanos  int64 // bound on the error of the converted instants
	// Rejected says that the snapshot differs from its neighbours as only a reading that was interrupted does.
	Rejected bool
	// StepNanos is not 0 when the wall clock was set between this generation and the one before: by how much.
	StepNanos int64
}

const (
	// maxOffsetDeviation is how far the offset of a generation may lie from the median of its neighbours. Readings of one
	// machine agree within 0.2 µs; more means that somebody interrupted the reading, or set the clock.
	maxOffsetDeviation = 10_000
	// sureStep is a difference that no interruption of an otherwise good reading explains.
	sureStep = 1_000_000
	// clockGrain is the unit of the trace's clock.
	clockGrain = 64
	neighbours = 8
)

// clock follows the offset between a trace's clock and the wall clock from generation to generation.
type clock struct {
	offsets []int64 // of accepted generations, oldest first
	pending int64   // offset of a rejected generation: a second one like it is a step
	waiting bool
}

// next judges one snapshot. The receiver is a value: the caller keeps the result when the generation is done.
func (c clock) next(snap *trace.ClockSnapshot) (Clock, clock) {
	out := Clock{RawNanos: int64(snap.Trace), UnixNanos: snap.Wall.UnixNano()}
	out.OffsetNanos = out.UnixNanos - out.RawNanos
	// The runtime reads wall and monotonic clock together and the trace's clock, which is the monotonic one, next: what
	// lies between those two readings is what the pair may be wrong by.
	bracket := abs(int64(snap.Mono)-out.RawNanos) + clockGrain
	offsets := slices.Clone(c.offsets)
	if len(offsets) == 0 {
		out.ErrorNanos = bracket
		return out, clock{offsets: append(offsets, out.OffsetNanos)}
	}
	middle := median(offsets)
	deviation := out.OffsetNanos - middle
	switch {
	case abs(deviation) <= maxOffsetDeviation:
		out.ErrorNanos = max(bracket, abs(deviation)+clockGrain)
		if len(offsets) == neighbours {
			offsets = slices.Delete(offsets, 0, 1)
		}
		return out, clock{offsets: append(offsets, out.OffsetNanos)}
	case bracket <= maxOffsetDeviation && abs(deviation) >= sureStep,
		c.waiting && abs(out.OffsetNanos-c.pending) <= maxOffsetDeviation:
		out.ErrorNanos, out.StepNanos = bracket, deviation
		return out, clock{offsets: []int64{out.OffsetNanos}}
	}
	next := clock{offsets: offsets, pending: out.OffsetNanos, waiting: bracket <= maxOffsetDeviation}
	out.Rejected, out.OffsetNanos = true, middle
	out.ErrorNanos = maxOffsetDeviation
	return out, next
}

func median(v []int64) int64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}
