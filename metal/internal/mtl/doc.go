// Package mtl binds the parts of Metal that stax uses: the classic and the Metal 4 path for compute work, timestamp
// heaps, counter sample buffers, captures and commit feedback.
//
// Ownership. Every object a function of this package returns is owned by the caller, who ends it with Release: objects
// of the new family are owned by Cocoa's rule, autoreleased ones (encoders, classic command buffers, counter sets) are
// retained before they are handed out. Functions that meet autoreleased objects open an autorelease pool themselves;
// a loop that encodes much should still run inside [System.Pool].
//
// Methods newer than the oldest supported macOS are sent only after respondsToSelector said yes: absent ones give an
// error wrapping [errors.ErrUnsupported]. What a Mac really does was not measured by this project; the sources of each
// statement about hardware are named where it is made.
package mtl
