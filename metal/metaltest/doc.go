// Package metaltest is a Metal that runs anywhere: the Objective-C runtime, Foundation and Metal as far as stax sends
// messages to them, in pure Go behind the same symbol lookup that a Mac's dlsym is behind. It needs no C toolchain.
//
// Its devices behave like hardware that others have reported ([M3], [Paravirtual], [Discrete]; the sources are named
// there) and like broken ones ([Faults]). Nothing in it was checked against a Mac by this project.
//
// It is strict where Metal is dangerous. An unknown selector, a freed object, an object released too often, an
// autorelease without a pool and what Metal answers with a failed assertion panic with class and selector. Time is
// virtual: a read of the clock costs 500 ns, work takes what its size says, so results do not depend on the machine.
//
// What it cannot show: exceptions, forwarding, tagged pointers, libdispatch threads, Apple's stack packing on arm64, the
// validation and capture layers.
package metaltest
