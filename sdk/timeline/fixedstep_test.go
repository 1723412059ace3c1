package timeline

import (
	"testing"
	"time"
)

// TestFixedStep plays host frames and writes down each step's lag before and after.
func TestFixedStep(t *testing.T) {
	type step struct{ frame, before, after time.Duration }
	for _, tc := range []struct {
		name     string
		maxSteps int
		frames   []time.Duration
		want     []step
	}{
		{"a step per frame", 0, []time.Duration{10 * ms, 10 * ms}, []step{{10 * ms, 10 * ms, 0}, {10 * ms, 10 * ms, 0}}},
		{"short frames add up", 0, []time.Duration{4 * ms, 4 * ms, 4 * ms}, []step{{4 * ms, 12 * ms, 2 * ms}}},
		{
			"a long frame runs several steps", 0,
			[]time.Duration{35 * ms},
			[]step{{35 * ms, 35 * ms, 25 * ms}, {35 * ms, 25 * ms, 15 * ms}, {35 * ms, 15 * ms, 5 * ms}},
		},
		{
			"the clamp does not hide the backlog", 2,
			[]time.Duration{55 * ms, 10 * ms},
			[]step{{55 * ms, 55 * ms, 45 * ms}, {55 * ms, 45 * ms, 35 * ms}, {10 * ms, 45 * ms, 35 * ms}, {10 * ms, 35 * ms, 25 * ms}},
		},
		{"a clock that went back", 0, []time.Duration{-5 * ms, 10 * ms}, []step{{10 * ms, 10 * ms, 0}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := enabled(&fakeClock{})
			f := FixedStep{Step: 10 * ms, MaxSteps: tc.maxSteps}
			for _, frame := range tc.frames {
				for range f.Frame(frame) {
					r.BeginTick(f.Begin())
					r.EndTick(TickEnd{LagAfter: f.End()})
				}
			}
			var got []step
			for i, e := range r.ReadDelta(0).Entries {
				got = append(got, step{e.HostFrame.Duration(), e.LagBefore.Duration(), e.LagAfter.Duration()})
				equal(t, "tick", e.Tick, int64(i+1))
				equal(t, "budget", e.StepBudget, Milliseconds(10*ms))
			}
			equal(t, "steps", got, tc.want)
		})
	}
}

func TestFixedStepDiscard(t *testing.T) {
	f := FixedStep{Step: 10 * ms, MaxSteps: 1}
	f.Frame(57 * ms)
	f.Begin()
	f.End()
	equal(t, "discarded", f.Discard(), 40*ms)
	equal(t, "left", f.Backlog(), 7*ms)
	f.End() // one too many
	equal(t, "never negative", f.Backlog(), time.Duration(0))
	none := FixedStep{}
	equal(t, "no step", []any{none.Frame(time.Second), none.Discard()}, []any{0, time.Duration(0)})
}
