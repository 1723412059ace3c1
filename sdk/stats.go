package sdk

// State says what a runtime is doing.
type State string

// The states of a runtime.
const (
	StateDisabled       State = "disabled"        // no endpoint, STAX_ENDPOINT=off, shut down, or failed internally: Reason says which
	StateOff            State = "off"             // the gate answers, no recording wants this process
	StateRecording      State = "recording"       // a recording wants this process
	StateDisconnected   State = "disconnected"    // the gate cannot be reached
	StateUnsupported    State = "unsupported"     // something answers that has no gate
	StateSchemaMismatch State = "schema_mismatch" // the collector speaks another version of the conventions
)

// ReporterStats is a snapshot of a runtime's reporter. Counts are of records (dispatches, command buffers and waits) since the
// runtime began, and Emitted = Queued + Sent + Dropped.Full + Dropped.Send + Dropped.Other.
type ReporterStats struct {
	State       State  `json:"state"`
	Reason      string `json:"reason,omitempty"` // why, when State is not off or recording
	RecordingID string `json:"recording_id,omitempty"`

	Emitted  uint64  `json:"emitted"`  // numbered
	Queued   uint64  `json:"queued"`   // in rings or in the request being sent
	Sent     uint64  `json:"sent"`     // in requests that the collector accepted
	Rejected uint64  `json:"rejected"` // of Sent: refused one by one by the collector (OTLP partial success)
	Dropped  Dropped `json:"dropped"`

	Requests uint64 `json:"requests"` // export requests accepted
	Retries  uint64 `json:"retries"`  // export requests tried again
}

// Dropped counts lost records by reason.
type Dropped struct {
	Full  uint64 `json:"full"`  // the rings were full; the newest was dropped
	Send  uint64 `json:"send"`  // in requests given up: no collector, or refused
	Other uint64 `json:"other"` // every ring was in use at that moment
}
