package clock

import (
	"errors"
	"fmt"
)

// Unit is what a GPU timestamp counts in.
type Unit int

// The hypotheses about a timestamp's unit.
const (
	UnitFree  Unit = iota // ticks of an own clock: a [Track] has to follow it
	UnitMach              // ticks of mach_absolute_time
	UnitNanos             // nanoseconds of mach_absolute_time
)

func (u Unit) String() string { return [...]string{"free", "mach ticks", "nanoseconds"}[u] }

// Trial is one tiny piece of GPU work: its stamps, and mach ticks read before it was committed and after its end was
// known.
type Trial struct {
	Before, After uint64
	Start, End    uint64
}

// MinTrials is how many trials [Decide] asks for.
const MinTrials = 3

// ErrStamps says that stamps cannot be times: never written, error values, or an end before its start.
var ErrStamps = errors.New("not a pair of times")

// CheckStamps returns an error wrapping [ErrStamps] that says what is wrong with a raw pair. Zero is not a time but an
// entry that was never written, all ones is Metal's MTLCounterErrorValue.
func CheckStamps(start, end uint64) error {
	switch {
	case start == 0 && end == 0:
		return fmt.Errorf("both stamps are unwritten: %w", ErrStamps)
	case start == 0:
		return fmt.Errorf("the start stamp is unwritten: %w", ErrStamps)
	case end == 0:
		return fmt.Errorf("the end stamp is unwritten: %w", ErrStamps)
	case start == ^uint64(0) || end == ^uint64(0):
		return fmt.Errorf("a stamp is Metal's error value: %w", ErrStamps)
	case end < start:
		return fmt.Errorf("the end stamp is %d ticks before the start stamp: %w", start-end, ErrStamps)
	}
	return nil
}

// Decide finds the unit of timestamps of the given frequency (0: unknown) by trials. Mach ticks need the frequency of the
// timebase and every stamp inside its bracket; nanoseconds need every stamp inside its bracket; anything else is free. Too
// few trials, or stamps that are no times, are errors: then nothing is known.
func Decide(tb Timebase, hz uint64, trials []Trial) (Unit, error) {
	if len(trials) < MinTrials {
		return UnitFree, fmt.Errorf("%d trials, want at least %d", len(trials), MinTrials)
	}
	for i, t := range trials {
		if err := CheckStamps(t.Start, t.End); err != nil {
			return UnitFree, fmt.Errorf("trial %d: %w", i, err)
		}
	}
	for _, u := range []Unit{UnitMach, UnitNanos} {
		if u == UnitMach && hz != 0 && hz != tb.Hz() || u == UnitNanos && hz != 0 && hz != 1e9 {
			continue
		}
		fits := true
		for _, t := range trials {
			fits = fits && Inside(tb, u, t)
		}
		if fits {
			return u, nil
		}
	}
	return UnitFree, nil
}

// Inside tells whether stamps lie in their bracket under a hypothesis. Use it on every resolved block: a violation
// means the hypothesis is wrong, see [Identity].
func Inside(tb Timebase, u Unit, t Trial) bool {
	before, after := t.Before, t.After
	if u == UnitNanos {
		before, after = tb.Nanos(before), tb.Nanos(after+1)
	}
	return before <= t.Start && t.Start <= t.End && t.End <= after
}

// Identity converts stamps that count in a unit of the mach timeline. It keeps checking.
type Identity struct {
	Timebase Timebase
	Unit     Unit // UnitMach or UnitNanos
	suspect  int
}

// Nanos converts a stamp; the bound is one tick.
func (c *Identity) Nanos(stamp uint64) (nanos, bound uint64) {
	if c.Unit == UnitNanos {
		return stamp, 1
	}
	return c.Timebase.Nanos(stamp), c.Timebase.Nanos(1) + 1
}

// Verify checks one block of work and reports whether the hypothesis still stands. After a violation it never does
// again: the caller goes over to a [Track] and reports clock.suspect.
func (c *Identity) Verify(t Trial) bool {
	if CheckStamps(t.Start, t.End) == nil && !Inside(c.Timebase, c.Unit, t) {
		c.suspect++
	}
	return c.suspect == 0
}

// Violations is the number of blocks that did not fit.
func (c *Identity) Violations() int { return c.suspect }
