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
// An origin names a thread, an instant, and perhaps an exact stack that the target captured itself.
// The verdict is the first line of a table that matches (see status.go). Everything about CPU
// samples comes through Evidence; without samples only the first rows can match.
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
// # Use
//
// Load reads what is needed of an archive into an Index; the Index then classifies any dispatch and
// links any origin, in any order. Derive does so for the whole archive and DeriveInto stores the
// result as the archive's derived tables. Both are the same code, so an archive that is still being
// written gives the same answers as one that has been closed.
package origin
