// Package truth is the side file in which a test target writes down what it really did, so that a recording of it can
// be compared with the facts.
//
// The file holds JSON lines. Each line is one [Line]: exactly one of its fields is set. Lines are written as things
// happen, buffered for at most [FlushInterval], so a killed target leaves a usable prefix (its last line may be torn;
// [Read] forgives that). A later line for the same id replaces an earlier one. The verdict on a dispatch is a line of
// its own because it is known only when the waits on it have ended.
//
// Everything in the file is the target's own knowledge: times that it reported, the source line that it knows it
// called from, the class that follows from the scenario it played. Nothing comes from stax's own classification.
package truth
