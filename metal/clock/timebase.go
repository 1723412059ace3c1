package clock

import (
	"fmt"
	"math"
	"math/bits"
)

// Timebase is the length of a mach tick in nanoseconds: Numer/Denom. Apple silicon has 125/3, Intel and Rosetta 1/1
// (Apple's mach_timebase_info documentation; not run here).
type Timebase struct{ Numer, Denom uint32 }

// Nanos converts ticks, rounding down. It is exact for every tick count; a result past 64 bits is capped.
func (t Timebase) Nanos(ticks uint64) uint64 { return mulDiv(ticks, uint64(t.Numer), uint64(t.Denom)) }

// Ticks converts nanoseconds, rounding down, with the same cap.
func (t Timebase) Ticks(nanos uint64) uint64 { return mulDiv(nanos, uint64(t.Denom), uint64(t.Numer)) }

// Hz is the number of ticks per second, rounded down.
func (t Timebase) Hz() uint64 { return mulDiv(1e9, uint64(t.Denom), uint64(t.Numer)) }

// Valid tells whether both parts are set.
func (t Timebase) Valid() bool { return t.Numer > 0 && t.Denom > 0 }

func (t Timebase) String() string { return fmt.Sprintf("%d/%d", t.Numer, t.Denom) }

// mulDiv is a*b/c in 128 bits.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, c)
	return q
}
