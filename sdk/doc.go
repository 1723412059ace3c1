// Package sdk is what a target program imports to report lanes, dispatches, origins and waits to stax.
//
// A lane is anything that executes work: a GPU queue, a pool, a database, a tick loop. A dispatch is one unit of work on
// a lane. Its origin says which CPU code queued it; a wait says that a CPU thread blocked for it:
//
//	lane := sdk.NewLane("render", sdk.LaneMetal)
//	draw := lane.Name("draw")
//	...
//	d := lane.Dispatch(draw)      // reserves the id
//	d.CaptureOrigin(ctx)          // thread, instant, exact stack: just before the work is queued
//	submit(func(start, end time.Time) { d.Report(sdk.TimeOf(start), sdk.TimeOf(end)) })
//
//	w := sdk.BeginWait(ctx, sync) // the thread blocks ...
//	w.Await(d.ID())               // ... for this
//	<-done
//	w.End()
//
// # Cost
//
// While no recording wants this process, every call is one atomic load and nothing is allocated: no buffers, no
// goroutine before the first lane. While recorded, a call copies one 128-byte record into a bounded ring and allocates
// nothing. A full ring drops the newest record and counts it; no call ever blocks on the collector, panics or logs.
//
// # Recording
//
// The first lane starts two goroutines: one asks the gate "am I recorded?" about once a second, one drains the rings
// every few tens of milliseconds and sends OTLP over HTTP. STAX_ENDPOINT names the collector (unix:///path or
// http://host:port) and STAX_RECORDING carries the token; `stax record -- cmd` sets both, and then the first lane asks
// once synchronously (at most 50 ms), so that a short program is recorded whole. Without STAX_ENDPOINT the target looks
// for a private socket of the same user. STAX_ENDPOINT=off disables everything.
//
// A program that ends should call [Shutdown]. One that does not loses what was not yet drained, and the recording says
// that it ended without a farewell.
//
// # Companions
//
// sdk/cputrace adds the CPU side of a recording: samples, waits and the exact stacks of origins. sdk/otelsdk sends lanes
// through an existing OpenTelemetry pipeline and gives ordinary spans their origin. Programs that want to follow a
// recording themselves use [Subscribe].
//
// # Values and concurrency
//
// Lanes, names, keys, shaders, queues and counter sets are made once and used from any goroutine. [Dispatch],
// [CommandBuffer], [Span] and [Wait] are values for one use: pass them by pointer or hand them over, but do not use two
// copies of one. The zero value of each is inert: every method does nothing.
package sdk
