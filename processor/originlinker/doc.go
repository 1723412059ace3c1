//go:generate go tool -modfile=../../tools/go.mod mdatagen metadata.yaml

// Package originlinker decides about dispatches while they pass by: which CPU stack caused them, and whether the CPU provably
// waited for them. It writes the verdicts on the spans, for viewers that know nothing of stax.
//
// One component id has one state for its traces, profiles and logs pipelines. Profiles and logs are observed and pass at
// once. Target spans are held, since the evidence about them comes later than they do: a Go execution trace up to a second.
// When their time is up, when a bound is reached, or at shutdown they are resolved with what is known and forwarded. They are
// never dropped.
//
// Towards the archive nothing needs to be held: the archive derives its verdicts over the whole recording. Put the linker
// on the path to other backends only.
package originlinker
