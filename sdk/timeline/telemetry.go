package timeline

import "time"

// The names of the counters that a telemetry should keep. They are the Prometheus names.
const (
	CounterTicksOverBudget = "runtime_ticks_over_budget_total"
	CounterSystemSlow      = "runtime_system_slow_total"
)

// Telemetry is told of warnings, on the tick loop's goroutine, when the tick has been sealed. It should return quickly.
// Package timelineotel has one that counts with an OpenTelemetry meter.
type Telemetry interface {
	TickOverBudget(TickOverBudget)
	SystemSlow(SystemSlowWarning)
}

// TickOverBudget says that a tick took longer than its budget.
type TickOverBudget struct {
	Tick             int64
	Duration, Budget time.Duration
}

// SystemSlowWarning says that a system was slow in this tick, and that this happened Slow times in its last Window
// executions. Label is the system's id if it was registered as a label, else empty: a metric must use Label, so that
// ids made at run time do not become label values.
type SystemSlowWarning struct {
	Tick                int64
	System, Label       string
	Duration, Threshold time.Duration
	Slow, Window        int
}

// Sink gets every tick that is recorded, on the tick loop's goroutine.
type Sink interface {
	// BeginTick is called when a tick begins, also while the recorder is disabled. It reports whether the sink wants
	// the tick; a tick that the ring does not want is then measured for the sink alone.
	BeginTick() bool
	// EndTick gets a tick that the sink wanted. start is the instant of the tick's start. The entry is valid during
	// the call only, and is not to be changed.
	EndTick(e *Entry, start time.Time)
}
