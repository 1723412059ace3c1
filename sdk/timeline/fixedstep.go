package timeline

import "time"

// FixedStep turns host frames of any length into simulation steps of one length, and knows how far the simulation is
// behind real time:
//
//	for range steps.Frame(elapsed) {
//		rec.BeginTick(steps.Begin())
//		simulate()
//		rec.EndTick(timeline.TickEnd{LagAfter: steps.End()})
//	}
//
// MaxSteps bounds the steps of one frame. What does not fit stays in the backlog: it shows as lag and is caught up by
// later frames, unless the program gives it up with [FixedStep.Discard].
type FixedStep struct {
	// Step is the length of a step. A step of 0 or less never runs.
	Step time.Duration
	// MaxSteps is the most steps of one frame. 0: no limit.
	MaxSteps int

	backlog time.Duration
	frame   time.Duration
	tick    int64
}

// Frame adds the real time of a host frame and returns how many steps to run now. A negative time counts as 0.
func (f *FixedStep) Frame(elapsed time.Duration) int {
	f.frame = elapsed
	f.backlog += max(elapsed, 0)
	if f.Step <= 0 {
		return 0
	}
	n := f.backlog / f.Step
	if f.MaxSteps > 0 {
		n = min(n, time.Duration(f.MaxSteps))
	}
	return int(n)
}

// Begin returns the values of the step that begins. Steps are numbered from 1.
func (f *FixedStep) Begin() TickStart {
	f.tick++
	return TickStart{Tick: f.tick, StepBudget: f.Step, HostFrame: f.frame, LagBefore: f.Backlog()}
}

// End takes the step's time off the backlog and returns what is left: the lag after the step.
func (f *FixedStep) End() time.Duration {
	f.backlog -= f.Step
	return f.Backlog()
}

// Backlog is the real time that the simulation has not run yet, 0 or more.
func (f *FixedStep) Backlog() time.Duration { return max(f.backlog, 0) }

// Discard gives up the whole steps of the backlog and returns how much that was. The part of a step that is left stays.
func (f *FixedStep) Discard() time.Duration {
	if f.Step <= 0 {
		return 0
	}
	lost := f.Backlog() / f.Step * f.Step
	f.backlog -= lost
	return lost
}
