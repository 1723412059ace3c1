// Package gotrace turns Go execution traces, one generation at a time, into CPU samples, waits and origin events.
//
// A generation with the trace's header in front is a whole trace: the target cuts its stream there and may lose any of the
// pieces. So every generation gets a parser of its own, and what reaches over a border, the goroutines that wait there, is
// carried by the [Session] of the runtime. Across a lost generation nothing is carried, since nobody knows what happened
// in it.
package gotrace
