// Package query answers questions about one recording: which lanes ran, what took the time, where the
// work came from, who waited for it, what is missing.
//
// Every answer is a function of an [archive.Reader] and a few parameters, with no state of its own, so the command
// line, the HTTP API and everything later that renders answers give the same numbers. An answer is an [Answer]: rows,
// what share of the truth they cover, and hints on what to do next. Field names carry their units; ids are strings of
// 16 hex digits; times are Unix nanoseconds in the target's clock, as reported.
//
// # Target time
//
// Durations of dispatches are target time: time on a lane, never CPU time. A CPU origin says who queued the
// work, not who ran it: work queued from a thread is parallel to that thread unless a certificate (see package
// origin) proves that the thread waited for it. Only those proven overlaps are called owned.
//
// # Exactness
//
// Counts, totals and percentiles are exact, computed from every dispatch in the archive: percentile p of n values is
// the nearest rank, value number ceil(p*n) in ascending order. A dispatch whose start is not positive or whose end
// lies before its start has no duration: it is counted (count and untimed_count) and adds no time. Nothing is clamped.
// Equal ranks are broken by total time, count, lane and name, so an answer is the same each time it is asked.
package query
