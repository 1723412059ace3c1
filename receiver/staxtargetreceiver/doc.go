//go:generate go tool -modfile=../../tools/go.mod mdatagen metadata.yaml

// Package staxtargetreceiver receives what targets send: OTLP traces, metrics, logs and profiles over HTTP and gRPC, on
// TCP loopback and on unix sockets, and the recording gate beside them.
//
// Every resource is admitted to a recording or refused, every record is validated, and every refusal is counted by
// reason. Times are never fixed: odd ones are kept as they came and counted as diagnostics. An acknowledgement means
// that the next consumer has returned.
package staxtargetreceiver
