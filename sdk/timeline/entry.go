package timeline

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Entry is one finished tick. Entries of a [Result] are copies that nobody else holds.
type Entry struct {
	// Tick is the number of the simulation step, as BeginTick was given it.
	Tick int64 `json:"tick"`
	// StepBudget is the fixed step of the simulation: the time that the tick may take. It is the same in a replay.
	StepBudget Milliseconds `json:"stepBudgetMs"`
	// HostFrame is the wall time of the host frame that ran the tick. A long frame runs several ticks to catch up.
	HostFrame Milliseconds `json:"hostFrameMs"`
	// LagBefore and LagAfter are how far the simulation was behind real time before and after the tick.
	LagBefore Milliseconds `json:"lagBeforeMs"`
	LagAfter  Milliseconds `json:"lagAfterMs"`
	// StartedAt is the instant of BeginTick on the recorder's clock, Duration the wall time until EndTick.
	StartedAt Milliseconds `json:"startedAtMs"`
	Duration  Milliseconds `json:"durationMs"`
	// Queue is what happened to the command queue since the end of the tick before.
	Queue Queue `json:"queue"`
	// Phases lie in the order of their offsets. A system is one of them, named system:<id>.
	Phases []Phase `json:"phases"`
	// Systems lie in the order in which they ran.
	Systems []System `json:"systems"`
	// Events is the pressure on the event bus; absent without an EventSource.
	Events Events `json:"events,omitzero"`
	// Warnings are the rules that this tick broke.
	Warnings Warnings `json:"warnings"`

	// GC says that garbage collections ended during the tick, and how long they stopped the program.
	GC GC `json:"gc,omitzero"`
	// Stalls are stretches of the tick that no phase or system boundary interrupts and that last too long, whatever
	// the reason.
	Stalls []Stall `json:"stalls,omitempty"`
	// Truncated counts phases and systems past the limit of one tick.
	Truncated int `json:"truncated,omitempty"`
	// Unfinished says that EndTick was never called, as after a panic. Duration then reaches to the last boundary.
	Unfinished bool `json:"unfinished,omitempty"`
}

// Queue counts commands of one tick. Pending is the length of the queue at BeginTick; the others are deltas, which also
// hold what happened between the ticks.
type Queue struct {
	PendingBefore int64 `json:"pendingBefore"`
	Drained       int64 `json:"drained"`
	Accepted      int64 `json:"accepted"`
	Dropped       int64 `json:"dropped"`
	Rejected      int64 `json:"rejected"`
}

// The phases that a tick loop usually has. Others are as good.
const (
	PhaseCommands            = "commands"
	PhaseEventsBeforeSystems = "eventDispatchBeforeSystems"
	PhaseEventsAfterSystems  = "eventDispatchAfterSystems"
	PhasePublish             = "publish"

	systemPhase = "system:"
)

// Phase is a segment of a tick. Offset counts from the tick's start; it is negative for work that [Recorder.AddPhase]
// reported and that began before the tick.
type Phase struct {
	Name     string       `json:"name"`
	Offset   Milliseconds `json:"offsetMs"`
	Duration Milliseconds `json:"durationMs"`
}

// System returns the id of the system whose execution the phase is, and false for other phases.
func (p *Phase) System() (id string, ok bool) { return strings.CutPrefix(p.Name, systemPhase) }

// System is one execution of a system. Slow says that this execution took longer than the threshold; whether that is
// worth a warning depends on the executions before it.
type System struct {
	ID       string       `json:"id"`
	Duration Milliseconds `json:"durationMs"`
	Slow     bool         `json:"slow"`
	Error    *ErrorLike   `json:"error,omitempty"`

	offset Milliseconds
	warned bool
}

// Offset is the system's start from the start of its tick.
func (s *System) Offset() time.Duration { return time.Duration(s.offset) }

// Warned reports whether this execution broke the rule of repeated slowness.
func (s *System) Warned() bool { return s.warned }

// GC counts the garbage collections that ended during a tick. Pause is how long they stopped all goroutines.
type GC struct {
	Cycles uint64       `json:"cycles"`
	Pause  Milliseconds `json:"pauseMs"`
}

// Stall is a stretch without any boundary. In names the innermost phase or system that was running, if any.
type Stall struct {
	Offset   Milliseconds `json:"offsetMs"`
	Duration Milliseconds `json:"durationMs"`
	In       string       `json:"in,omitempty"`
}

// Warnings is a set of bits.
type Warnings uint32

// The warnings.
const (
	// ExceededStepBudget: the tick took longer than its budget.
	ExceededStepBudget Warnings = 1 << iota
	// SystemSlow: a system was slow now and often enough in its own last executions.
	SystemSlow
	// QueueStarvation: commands were pending before the tick and none was drained in it.
	QueueStarvation
)

var warningNames = []string{"EXCEEDED_STEP_BUDGET", "SYSTEM_SLOW", "QUEUE_STARVATION"}

// Names returns the names of the set bits.
func (w Warnings) Names() []string {
	var names []string
	for i, n := range warningNames {
		if w&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

// String joins the names with spaces.
func (w Warnings) String() string { return strings.Join(w.Names(), " ") }

// Milliseconds is a time span that JSON shows as a number of milliseconds with microsecond precision. In Go it keeps
// nanoseconds.
type Milliseconds time.Duration

// Duration converts to the usual type.
func (m Milliseconds) Duration() time.Duration { return time.Duration(m) }

// String is the number that JSON shows.
func (m Milliseconds) String() string { return string(m.append(nil)) }

// MarshalJSON writes a number of milliseconds.
func (m Milliseconds) MarshalJSON() ([]byte, error) { return m.append(nil), nil }

// append writes m, rounded to microseconds, without trailing zeros.
func (m Milliseconds) append(b []byte) []byte {
	us := time.Duration(m).Round(time.Microsecond).Microseconds()
	if us < 0 {
		b, us = append(b, '-'), -us
	}
	b = strconv.AppendInt(b, us/1000, 10)
	if frac := us % 1000; frac != 0 {
		b = append(b, '.', byte('0'+frac/100), byte('0'+frac/10%10), byte('0'+frac%10))
		for b[len(b)-1] == '0' {
			b = b[:len(b)-1]
		}
	}
	return b
}

// UnmarshalJSON reads a number of milliseconds.
func (m *Milliseconds) UnmarshalJSON(b []byte) error {
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("timeline: milliseconds: %w", err)
	}
	*m = Milliseconds(math.Round(f*1000) * 1000)
	return nil
}

// reset makes the entry ready for another tick and keeps its buffers.
func (e *Entry) reset() {
	clear(e.Systems) // errors must not live on in the pool
	*e = Entry{
		Phases: e.Phases[:0], Systems: e.Systems[:0], Stalls: e.Stalls[:0],
		Events: Events{Before: e.Events.Before[:0], Final: e.Events.Final[:0], Deltas: e.Events.Deltas[:0]},
	}
}

// clone copies the entry deeply. Lists that JSON always shows are never nil.
func (e *Entry) clone() Entry {
	c := *e
	c.Phases = append(make([]Phase, 0, len(e.Phases)), e.Phases...)
	c.Systems = append(make([]System, 0, len(e.Systems)), e.Systems...)
	for i := range c.Systems {
		if p := c.Systems[i].Error; p != nil {
			failure := *p
			c.Systems[i].Error = &failure
		}
	}
	c.Stalls = copyOf(e.Stalls)
	c.Events = Events{Before: copyOf(e.Events.Before), Final: copyOf(e.Events.Final), Deltas: copyOf(e.Events.Deltas)}
	for i := range c.Events.Deltas {
		c.Events.Deltas[i].Channels = slices.Clone(c.Events.Deltas[i].Channels)
	}
	return c
}

// copyOf is slices.Clone, but nil for an empty list: a pooled buffer and none at all must compare equal.
func copyOf[T any](s []T) []T { return append([]T(nil), s...) }
