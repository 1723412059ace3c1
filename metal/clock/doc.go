// Package clock places GPU times on the CPU's timeline and says how far off they may be.
//
// The timeline is mach_absolute_time in nanoseconds, which is also Go's monotonic clock on macOS; it stands still while
// the machine sleeps. One offset per [Segment] leads on to Unix time, so that everything in a recording moves together.
//
//   - [Timebase] turns mach ticks into nanoseconds, exactly.
//   - [Decide] finds out what unit a timestamp heap counts in. On the same M3 Max, heap ticks were 24 MHz while classic
//     stamps were nanoseconds (VectorAccelerate report, macOS 26.5.2; not run here), so it is never assumed.
//   - [Track] follows a GPU clock of its own by bracketed pairs, the tightest of some per second, and converts between
//     neighbours only. A conversion that has no neighbour yet has to wait.
//   - [Segment] holds the Unix offset and notices sleep and steps of the wall clock: both end the segment.
//
// Everything takes its readings as arguments: the package reads no clock. Types are not safe for concurrent use.
package clock
