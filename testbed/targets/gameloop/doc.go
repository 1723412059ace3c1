// Gameloop is a small simulation with everything that a tick loop has: a fixed step, a bounded command queue, an event
// bus, systems that run every tick and rarely, and trouble at known ticks. It records its ticks with sdk/timeline, puts
// them on a stax lane, and writes down its input, so that a run can be replayed:
//
//	gameloop -duration 5s -journal game.jsonl    # play in real time
//	gameloop -replay game.jsonl                  # twice on a fake clock: equal entries, and the same world as live
//
// The trouble, by tick (see plan.go): a path rebuild makes ai slow for several ticks in a row; autosave runs every 40
// ticks and is slow each time; a level load stalls; commands are left waiting for a few ticks; a burst of events fills
// the bus; a script fails and another one panics. Every tick's expected warnings are known, and tested.
package main
