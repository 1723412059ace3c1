// Package otlprows turns OTLP traces and logs into the rows of an archive. It knows the mapping of the semantic conventions
// (package semconv) onto tables and nothing else: what has been stored before, what is worth remembering and what becomes of
// records that are not part of the model is the business of its user, through [Hooks].
//
// Its users are the archive exporter, which stores the rows, and the origin linker, which decides about them. One mapping for
// both is what makes their verdicts comparable.
//
// Nothing here trusts the data: an attribute of the wrong type costs its record, which is counted, never a panic and never a
// value that was not sent.
package otlprows
