// Package timeline records what each tick of a fixed-step loop was spent on: phases, systems, the command queue, the
// event bus, how far the simulation is behind, and which rules the tick broke. It needs nothing but the standard
// library.
//
//	rec := timeline.New(timeline.Options{Enabled: true})
//	...
//	rec.BeginTick(timeline.TickStart{Tick: n, StepBudget: step})
//	rec.CapturePhase(timeline.PhaseCommands, drain)
//	err := rec.CaptureSystem("physics", physics)
//	rec.EndTick(timeline.TickEnd{})
//	...
//	delta := rec.ReadDelta(head) // from any goroutine
//	head = delta.Head
//
// All times are wall time of the loop's goroutine, waiting included. None is CPU time.
//
// The [Recorder] is the mutable half and belongs to the loop. A [Result] is plain data, copied for its reader, with
// stable JSON names. The ring keeps the last 512 ticks by default; a reader that comes too late is told how many it
// missed.
//
// # Rules
//
//	EXCEEDED_STEP_BUDGET  the tick took longer than its budget, the step unless configured
//	SYSTEM_SLOW           a system was slow (over a quarter of the step unless configured) in this tick and in
//	                      enough of its own last executions: 2 of 3 unless configured
//	QUEUE_STARVATION      commands were pending at BeginTick and none was drained in the tick
//
// Beside the rules, a tick is annotated with garbage collections that ended in it and how long they stopped the
// program, and with stalls: stretches of 50 ms or more without any boundary of a phase or system.
//
// # Cost
//
// Disabled, a call is a nil check, and BeginTick one atomic load. Enabled, a tick of 24 systems costs about 5 µs: two
// clock reads per phase or system and 70 to 140 ns of bookkeeping. After the first lap of the ring nothing is allocated.
// Figures, with machine and date: docs/guides/timeline.md.
//
// # Deterministic replay
//
// With [Options.Clock] every number comes from the program: two runs over the same commands and the same clock give
// equal entries.
package timeline
