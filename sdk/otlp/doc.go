// Package otlp posts ready-made OTLP/HTTP protobuf bytes to a receiver over TCP or a unix socket. It adds nothing to
// what the caller encoded: no batching, no queue, no retry; the error says whether and when to try again.
package otlp
