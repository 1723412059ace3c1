// Package gate is the wire protocol of the recording gate: how a target asks "is this process recorded?".
//
// It is one HTTP request beside the receiver's OTLP paths, a long poll that a target repeats for as long as it lives:
//
//	GET {endpoint}/stax/v1/gate?pid=…&ppid=…&pid_ns=…&runtime=…&schema=1&have=…&wait_ms=…
//	Stax-Recording: {token}
//
// The server answers at once when its answer differs from what the target has ("have", a recording id or empty), else
// after wait_ms. 200 carries a [Reply]; 401 and 403 mean that the caller may not know; 409 means that the schema
// versions do not fit. Both sides ignore unknown fields.
package gate

import (
	"net/url"
	"strconv"
	"time"
)

// MaxWait is the longest poll a server holds open.
const MaxWait = 25 * time.Second

// Origin modes of a [Reply].
const (
	OriginStack  = "stack"  // thread, instant and exact stack
	OriginThread = "thread" // thread and instant
	OriginOff    = "off"    // no origins
)

// Request is one question. The token travels in the header semconv.HeaderToken, never in the URL.
type Request struct {
	PID           int    // as the target sees itself
	ParentPID     int    // 0: unknown
	PIDNamespace  uint64 // inode number; 0: unknown
	Runtime       string // stax.runtime.id
	SchemaVersion int    // semconv.SchemaVersion of the target
	Have          string // recording id that the target believes in, or ""
	Wait          time.Duration
}

// Values encodes r as URL parameters.
func (r Request) Values() url.Values {
	return url.Values{
		"pid":     {strconv.Itoa(r.PID)},
		"ppid":    {strconv.Itoa(r.ParentPID)},
		"pid_ns":  {strconv.FormatUint(r.PIDNamespace, 10)},
		"runtime": {r.Runtime},
		"schema":  {strconv.Itoa(r.SchemaVersion)},
		"have":    {r.Have},
		"wait_ms": {strconv.FormatInt(r.Wait.Milliseconds(), 10)},
	}
}

// ParseRequest decodes what [Request.Values] encodes. Missing numbers are 0; malformed ones are errors.
func ParseRequest(v url.Values) (Request, error) {
	var r Request
	var err error
	num := func(key string) (n int64) {
		if s := v.Get(key); s != "" && err == nil {
			n, err = strconv.ParseInt(s, 10, 64)
		}
		return n
	}
	r.PID = int(num("pid"))
	r.ParentPID = int(num("ppid"))
	r.PIDNamespace = uint64(num("pid_ns"))
	r.SchemaVersion = int(num("schema"))
	r.Wait = min(max(time.Duration(num("wait_ms"))*time.Millisecond, 0), MaxWait)
	r.Runtime, r.Have = v.Get("runtime"), v.Get("have")
	return r, err
}

// Reply is the answer. The zero value means "off".
type Reply struct {
	// RecordingID names the recording that wants this process; empty: off.
	RecordingID string `json:"recording_id"`
	// SchemaVersion is the server's semconv.SchemaVersion.
	SchemaVersion int `json:"schema_version"`
	// SampleHz is the wanted CPU sampling rate; 0: none.
	SampleHz int `json:"sample_hz,omitempty"`
	// SampleBudgetPermille is how much of its own processor time a target may spend on being sampled, in thousandths;
	// 0: the target's default.
	SampleBudgetPermille int `json:"sample_budget_permille,omitempty"`
	// OriginMode is the dearest kind of origin wanted: stack, thread or off; empty: the lane decides.
	OriginMode string `json:"origin_mode,omitempty"`
	// StopAtUnixNano, if not 0, is when the recording will stop by itself.
	StopAtUnixNano int64 `json:"stop_at_unix_nano,omitempty"`
	// Timelines lists subscribed diagnostic timelines; StageResetEpoch grows with each stage reset.
	Timelines       []string `json:"timelines,omitempty"`
	StageResetEpoch uint64   `json:"stage_reset_epoch,omitempty"`
}
