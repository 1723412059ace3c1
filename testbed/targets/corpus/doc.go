// Corpus is the demo target and the source of ground truth: a program whose lanes, causes and waits are known.
//
// It has five lanes. What a recording has to say about the dispatches on them follows from the scenario that queued
// them, never from luck: a simulated device begins or ends work only when its scenario lets it, so the order of
// origin, wait and execution is the same on a loaded machine.
//
//	lane   kind         what happens on it                                             expected class
//	gpu    metal        command buffers of 3 to 8 dispatches, two counters each        by scenario, see below
//	pool   thread_pool  CPU jobs queued by three goroutines, executed by two workers   unproven: the lane reports no waits
//	disk   storage      finished reads with an origin, without builder (ReportFrom)    unproven
//	codec  codec        finished frames without origin (Report)                        unproven
//	tick   tick         spans that a goroutine executes itself (Begin and End)         unproven
//
// The scenarios of the gpu lane, played by several goroutines that share threads:
//
//	sync       begin to wait, commit, wait until done                              synchronous
//	async      commit, never wait                                                  asynchronous
//	late       commit, see it done, then wait                                      waited_late
//	timeout    begin to wait, give up before the work may begin                    timed_out
//	overrun    the last dispatch runs, begin to wait, give up before it may end    timed_out, the earlier ones waited_late
//	retry      as timeout, then wait again until done                              synchronous by the second wait
//	fault      as sync, one dispatch fails                                         synchronous, that one also faulted
//	partial    the last dispatch runs, begin to wait, wait until done              synchronous, the earlier ones waited_late
//	queue      wait for a queue up to a submission number                          synchronous; those past it as they end up
//	drain      wait for everything on a queue                                      synchronous
//	stranger   another goroutine with another stack waits                          synchronous, different_stack
//	cross      a goroutine locked to another thread, with another stack, waits     synchronous, cross_thread, different_stack
//	twin       as cross, by a goroutine that runs the same code                    synchronous, cross_thread
//
// With -truth (or STAX_TRUTH) it writes all of that down, see package truth. It ends by itself after -duration, obeys
// SIGTERM and SIGINT, and can be told to misbehave.
package main
