// Package stage times the stages of a pipeline without changing them: sources that produce values, taps that consume
// them, links that carry them to other systems, and transforms that make new values of them. It needs nothing but the
// standard library.
//
//	stages := stage.NewRegistry(stage.Options{Mode: stage.On})
//	frames := stages.Record("camera.Frame")
//
//	capture := stage.Source(frames, camera.Next, stage.Named("camera_capture"))
//	process := stage.Tap(frames, detector.Process, stage.Named("frame_processor"))
//
//	go func() { buffer.Offer(capture()) ... }()
//	for f := range buffer.All() { process(f) }
//	...
//	fmt.Print(stage.Format(frames.Snapshot()))
//
// Each verb has forms for functions ([Tap], [TapErr], [TapCtx]), for iterators ([TapSeq], which times the body of the
// range loop) and for channels ([TapChan]).
//
// # Wall time
//
// A stage's time is wall time from call to return. It contains everything that the stage waits for: input and output,
// locks, timers, and the scheduler. It is never CPU time. It answers which stage is slow, not why.
//
// # What is counted
//
// A call counts when it returns, whatever it returns; returned errors are counted beside it. A call that leaves by a
// panic or by runtime.Goexit is counted as aborted and its time is left out, since it says nothing about the work; the
// panic passes unchanged. A call that never returns shows as in flight, with the time since it began.
//
// # Cost
//
// With [Off] the wrappers return what they were given: the same function, no wrapper. With [Switchable] a call costs one
// atomic load while it is off. A timed call costs two clock reads and a few atomic additions, and allocates nothing.
// Figures: docs/guides/stages.md.
package stage
