// Package origin decides two things about the records of an archive: which CPU stack an origin
// stands for (links), and whether the CPU really waited for a dispatch (containment certificates).
// It also says what a wait was spent on (Decompose). Plain structs in, plain structs out.
//
// A CPU origin is provenance: it says who caused the work, never that the work ran inside the
// caller. Target work is parallel to the CPU until a certificate of class synchronous proves that a
// thread waited for it. docs/adr/0004-containment.md gives the reasons; this is the contract.
//
// # Links
//
// An origin names a thread, an instant, and perhaps a goroutine and an exact stack that the target captured itself.
// The verdict is the first line of a table that matches (see status.go and linker.decide). An event of the target's
// execution trace with the same runtime, thread and instant is the same origin: its stack is as exact as one that the
// target captured, and it names the goroutine. Other CPU evidence is looked up by process and thread, or goroutine,
// whichever runtime of the process reports it. Stacks are named by hashes of their content, so one that any runtime of the
// process defines is defined.
//
// # Containment
//
// For a dispatch [s, e] with dispatch origin at t0, and waits [begin, end] that declare to await it
// (by dispatch, by command buffer, or by queue up to a sequence number), the class is the first of
//
//	synchronous   some covering wait has t0 <= begin <= e <= end
//	timed_out     some covering wait began before e and ended before e
//	waited_late   there are covering waits, and every one began after e
//	asynchronous  no wait covers the dispatch, although waits do await work of its lane
//	unproven      none of these can be proven; Certificate.Reason says why
//
// Every condition is three-valued: proven, refuted, or undecided because the compared instants are
// closer than the clock error, an instant is missing, or the extent of a wait is not known. A class
// is given only when its condition is proven and every class above it is refuted. Otherwise the
// verdict is unproven.
//
// All instants of one runtime are readings of one clock, so t0 <= begin is compared exactly, and so
// is everything on a lane that shares that clock. Instants of a lane with a clock of its own are
// compared within the lane's error plus the runtime's (see clockError).
//
// A wait that samples contradict (below) undecides synchronous and timed_out as a missing instant does: another wait may
// still prove them, and if none does, the reason is contradicted.
//
// # Corroboration
//
// CPU evidence about the goroutine that waited says more than the target's word. Its goroutine is known from the target or
// from the execution trace; evidence that only names a thread counts outside Go and where the goroutine is locked to its
// thread. The edge of a wait is the part at either end in which evidence does not count: 20 µs, or the source's clock error
// if that is larger, or 10 ms if it is not known. With rest = the wait less its time off the CPU, the verdict is the first of
//
//	slept         rest <= a tenth of the wait, or one sampling period, or 100 µs, and at most half of the wait
//	contradicted  two or more samples lie outside the wait's frames; they are more than the others, and fill the rest, which
//	              is more than half of the wait
//	spun          every sample lies within the wait's frames, and they fill the rest
//	claimed       anything else: no evidence, too little, or none that can be judged
//
// Samples fill the rest if they stand for a quarter of it by their period or, if that is not known, lie at least half of it
// apart. Other programs may have had the processor in between. Samples within the edges do not count.
//
// The wait's frames are the function that waits and what it calls. The stack at the begin shows the function that began the
// wait, which may be a helper, or the helper of one, and has returned. So a sample lies within the wait's frames if one of
// the three innermost functions of that stack is on it, on whatever line, or if the third is the thread's entry function or
// missing: that one never leaves the stack. It lies outside if none is, and its stack reaches down to the same entry
// function, and its source sees inlined functions. In all other cases (cut stacks, native samplers, stacks that only say
// that the runtime was busy) it cannot be said. An interval off the CPU outside the wait's frames was not for this wait and
// is left out of its sleep.
//
// # Use
//
// A Stream answers while facts arrive, in any order; once everything has, its verdicts are those of the archive. The
// Explain methods return the numbers behind a verdict, collected by the code that decides.
//
// Load reads what is needed of an archive into an Index; the Index then classifies any dispatch and
// links any origin, in any order. Derive does so for the whole archive and DeriveInto stores the
// result as the archive's derived tables. Both are the same code, so an archive that is still being
// written gives the same answers as one that has been closed.
package origin
