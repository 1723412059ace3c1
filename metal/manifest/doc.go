// Package manifest says which lines of which source file a shader function is.
//
// A [Manifest] belongs to one library and is content-addressed: sources by the SHA-256 of their text, the library by the
// SHA-256 of its bytes, or of its sources and flags when it is compiled at run time. [Build] makes it from .metal files
// with [Scan], which finds functions without a compiler.
//
// How to read back sources recorded by the compiler's -frecord-sources is not publicly documented; [Recoverer] is the
// place for it, with no implementation here.
package manifest
