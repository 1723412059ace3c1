// Package cputrace gives a recording the CPU side of a Go program: samples of running goroutines with thread, goroutine,
// instant and stack; every wait with its reason and who ended it; and the exact stack of every origin that the SDK
// captures. Import sdk/cputrace/auto for its side effect, or call [Enable].
//
// While the process is recorded it runs the Go execution tracer and a CPU profile and ships whole generations of the
// trace, one second each, unparsed: the receiver reads them. While it is not recorded it does nothing: no goroutine
// besides the runtime's, no trace, no profile.
//
// # What it takes
//
// A process has one execution trace and one CPU profile. While recorded, runtime/trace.Start and
// runtime/pprof.StartCPUProfile of the program itself return errors. The other way round, a program that traces or
// profiles itself keeps doing so, and the recording is told: without the tracer only a plain CPU profile is sent; without
// the profiler the samples of the program's own profile are used, which the trace sees too. A flight recorder
// (runtime/trace.FlightRecorder) is not disturbed.
//
// # What it costs
//
// About 200 ns and 5.6 bytes of trace per scheduling event, and next to nothing per sample: 0 to 2 % for programs that
// compute, up to half of the processor time for programs that pass nearly everything through unbuffered channels. Each
// generation's cost is estimated, told to the recording, and compared with the processor time of the process. Past the
// recording's budget (5 % by default) in two generations in a row the trace stops, the recording is told with the numbers,
// and a plain CPU profile without threads and goroutines goes on, so that origins lose their exact stacks from the trace.
// After 30 s, and then after ever longer pauses, the trace is tried again.
//
// While the trace runs the OpenTelemetry SDK makes a task of each of its spans, which then take about 2.5 instead of
// 1.3 µs to start and end.
//
// # What can be lost
//
// Generations of more than 8 MiB, and generations that the collector does not take in time (4 of them, 32 MiB, wait at
// most), are dropped whole and counted. A program that calls sdk.Shutdown at its end delivers everything until then; one
// that just ends loses at most its last second.
//
// # Platforms
//
// Thread ids are those of the operating system on Linux. On macOS the tracer knows pthread_self values instead, which
// match no other source. The rate that the recording wants holds on Linux, up to the kernel's tick rate; elsewhere, and
// with the build tag stax_portable, it is 100 Hz.
package cputrace
