package timeline

import "time"

// The defaults of [Options].
const (
	DefaultCapacity      = 512
	DefaultStepBudget    = 100 * time.Millisecond
	DefaultSlowWindow    = 3
	DefaultSlowSamples   = 2
	DefaultPressure      = 0.8
	DefaultStall         = 50 * time.Millisecond
	defaultSlowShare     = 4 // a system is slow from 1/4 of the step budget
	maxSlowWindow        = 64
	maxSegments          = 4096 // phases of one tick, and systems of one tick
	maxSystems           = 4096 // systems that a recorder keeps a window for
	maxAdded             = 256  // phases of AddPhase that wait for the end of a tick
	maxChannelsPerSource = 1 << 16
)

// A Clock returns the time since any fixed origin. It must not go back. It is called from the tick loop's goroutine and
// from AddPhase.
type Clock func() time.Duration

// Options configures a [Recorder]. The zero value is a disabled recorder with the defaults; numbers that make no sense,
// such as negative ones, count as zero.
type Options struct {
	// Enabled switches recording on from the start. [Recorder.SetEnabled] changes it later.
	Enabled bool
	// Capacity is how many ticks the ring keeps. 0: DefaultCapacity.
	Capacity int
	// StepBudget is the fixed step of ticks that name none. 0: DefaultStepBudget.
	StepBudget time.Duration
	// SlowTickBudget is the duration above which a tick is over budget. 0: the tick's step budget.
	SlowTickBudget time.Duration
	// SlowSystemThreshold is the duration above which one execution of a system is slow. 0: a quarter of the tick's
	// step budget.
	SlowSystemThreshold time.Duration
	// SlowSystemWindow is how many of its last executions a system is judged by, at most 64, and SlowSystemSamples
	// how many of them, the current one included, must be slow for a warning. 0: 3 and 2.
	SlowSystemWindow  int
	SlowSystemSamples int
	// EventPressure is the utilization from which a system's effect on the event bus is recorded. 0: DefaultPressure.
	EventPressure float64
	// Stall is the shortest stretch without a boundary that is annotated as a stall. 0: DefaultStall.
	Stall time.Duration

	// Clock replaces the monotonic clock, for tests and replays. With a clock of its own a recorder looks at garbage
	// collections only when GC is set too: a replay must not depend on them.
	Clock Clock
	// GC replaces the look at the garbage collector: collections and pause time since the start of the process.
	GC func() (cycles uint64, pause time.Duration)
	// Queue, when set, counts the command queue; then the queue values given to BeginTick and EndTick are ignored.
	Queue *QueueMeter
	// Events, when set, is asked for the event bus's pressure.
	Events EventSource
	// Telemetry, when set, is told of the warnings of every tick that is measured, be it for the ring or for the
	// sink. SystemLabels are the systems whose id may become a label there.
	Telemetry    Telemetry
	SystemLabels []string
	// Sink, when set, gets each finished tick. Package ticklane has one that reports ticks on a stax lane.
	Sink Sink
}

// Configuration is what a recorder works with: the options with all defaults filled in.
type Configuration struct {
	Enabled             bool         `json:"enabled"`
	Capacity            int          `json:"capacity"`
	StepBudget          Milliseconds `json:"stepBudgetMs"`
	SlowTickBudget      Milliseconds `json:"slowTickBudgetMs"`
	SlowSystemThreshold Milliseconds `json:"slowSystemThresholdMs"`
	SlowSystemWindow    int          `json:"slowSystemWindow"`
	SlowSystemSamples   int          `json:"slowSystemSamples"`
	EventPressure       float64      `json:"eventPressureThreshold"`
	Stall               Milliseconds `json:"stallThresholdMs"`
}

func (o *Options) resolve() Configuration {
	c := Configuration{
		Enabled:             o.Enabled,
		Capacity:            orDefault(o.Capacity, DefaultCapacity),
		StepBudget:          Milliseconds(orDefault(o.StepBudget, DefaultStepBudget)),
		SlowSystemWindow:    min(orDefault(o.SlowSystemWindow, DefaultSlowWindow), maxSlowWindow),
		SlowSystemSamples:   orDefault(o.SlowSystemSamples, DefaultSlowSamples),
		EventPressure:       orDefault(o.EventPressure, DefaultPressure),
		Stall:               Milliseconds(orDefault(o.Stall, DefaultStall)),
		SlowTickBudget:      Milliseconds(o.SlowTickBudget),
		SlowSystemThreshold: Milliseconds(o.SlowSystemThreshold),
	}
	c.SlowSystemSamples = min(c.SlowSystemSamples, c.SlowSystemWindow)
	c.SlowTickBudget = orDefault(c.SlowTickBudget, c.StepBudget)
	c.SlowSystemThreshold = orDefault(c.SlowSystemThreshold, c.StepBudget/defaultSlowShare)
	return c
}

func orDefault[T int | time.Duration | Milliseconds | float64](v, def T) T {
	if v > 0 {
		return v
	}
	return def
}
