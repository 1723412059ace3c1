package truth

import (
	"strconv"
)

// EnvPath is the environment variable with the path of the truth file, for targets without a -truth flag.
const EnvPath = "STAX_TRUTH"

// ID is an OTLP span id. In JSON it is 16 hex digits, as in all answers of stax.
type ID uint64

// String returns the 16 hex digits.
func (id ID) String() string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[i] = digits[id>>(60-4*i)&15]
	}
	return string(b[:])
}

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*id = ID(n)
	return err
}

// Line is one line of the file. Exactly one field is set.
type Line struct {
	Process       *Process       `json:"process,omitempty"`
	Lane          *Lane          `json:"lane,omitempty"`
	CommandBuffer *CommandBuffer `json:"command_buffer,omitempty"`
	Dispatch      *Dispatch      `json:"dispatch,omitempty"`
	Wait          *Wait          `json:"wait,omitempty"`
	Verdict       *Verdict       `json:"verdict,omitempty"`
	End           *End           `json:"end,omitempty"`
}

// Process is the first line: who writes.
type Process struct {
	PID       int    `json:"pid"`
	ParentPID int    `json:"ppid"`
	Program   string `json:"program"`
	RuntimeID string `json:"runtime_id"`
	Seed      uint64 `json:"seed"`
}

// Lane is a lane of the target. Names are unique in a target.
type Lane struct {
	Name            string `json:"name"`
	Kind            string `json:"kind"`
	ClockErrorNanos int64  `json:"clock_error_ns"`
	// ReportsWaits says whether any wait of the target ever names work of this lane.
	ReportsWaits bool `json:"reports_waits"`
}

// Site is the source position of a call: of the capture of an origin or of the begin of a wait.
type Site struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int    `json:"line"`
}

// Counter is one value of one counter, or the statement that there is none.
type Counter struct {
	Set     string  `json:"set"`
	Point   string  `json:"point"`
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	State   string  `json:"state"` // ok, error, unresolved
	IsFloat bool    `json:"is_float,omitempty"`
	Int     int64   `json:"int,omitempty"`
	Float   float64 `json:"float,omitempty"`
}

// Origin is where a dispatch was queued from. The instant of the capture lies in [NotBefore, NotAfter].
type Origin struct {
	Thread    int64 `json:"thread"`              // OS thread id; 0: the platform cannot tell
	Goroutine int64 `json:"goroutine,omitempty"` // 0: not known
	Locked    bool  `json:"locked,omitempty"`    // the goroutine is bound to its thread
	NotBefore int64 `json:"not_before_ns"`
	NotAfter  int64 `json:"not_after_ns"`
	Site      Site  `json:"site"`
	// CPUTrace and CPUSpan are the CPU span context that was active, in hex; empty: none.
	CPUTrace string `json:"cpu_trace,omitempty"`
	CPUSpan  string `json:"cpu_span,omitempty"`
}

// Dispatch is one unit of work that the target reported, all times in Unix nanoseconds.
type Dispatch struct {
	ID            ID                `json:"id"` // 0: reported by a call that tells no id
	Lane          string            `json:"lane"`
	Scenario      string            `json:"scenario"`
	CommandBuffer ID                `json:"command_buffer,omitempty"`
	Queue         string            `json:"queue,omitempty"`
	QueueSeq      uint64            `json:"queue_seq,omitempty"`
	Name          string            `json:"name"`
	Shader        string            `json:"shader,omitempty"`
	StartNanos    int64             `json:"start_ns"`
	EndNanos      int64             `json:"end_ns"`
	Fault         string            `json:"fault,omitempty"` // status message; empty: no fault
	Origin        *Origin           `json:"origin,omitempty"`
	Counters      []Counter         `json:"counters,omitempty"`
	Tags          map[string]string `json:"tags,omitempty"`
	// Bracketed says that the SDK read the clock: the recorded times lie inside StartNanos to EndNanos, start not after
	// the origin's NotAfter.
	Bracketed bool `json:"bracketed,omitempty"`
}

// CommandBuffer is one submission that the target reported.
type CommandBuffer struct {
	ID         ID     `json:"id"`
	Lane       string `json:"lane"`
	Queue      string `json:"queue,omitempty"`
	QueueSeq   uint64 `json:"queue_seq,omitempty"`
	Name       string `json:"name"`
	StartNanos int64  `json:"start_ns"`
	EndNanos   int64  `json:"end_ns"`
	Fault      string `json:"fault,omitempty"`
	Dispatches int    `json:"dispatches"`
}

// KeyWait is the tag with the number of a wait: the SDK tells no wait ids.
const KeyWait = "truth.wait"

// Wait is one wait that the target reported. The SDK reads the clock itself, so its begin and its end are known as
// brackets.
type Wait struct {
	Number         uint64   `json:"number"` // from 1; the recorded wait has it as the tag KeyWait
	Name           string   `json:"name"`
	Thread         int64    `json:"thread"`
	BeginNotBefore int64    `json:"begin_not_before_ns"`
	BeginNotAfter  int64    `json:"begin_not_after_ns"`
	EndNotBefore   int64    `json:"end_not_before_ns"`
	EndNotAfter    int64    `json:"end_not_after_ns"`
	TimedOut       bool     `json:"timed_out"`
	Awaits         []string `json:"awaits"` // as in stax.wait.awaits
	Site           Site     `json:"site"`
	// Goroutine waited, for Reason (an off-CPU reason); "" when it did not leave the processor.
	Goroutine int64  `json:"goroutine,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// Verdict is what a recording has to conclude about a dispatch, from the scenario that the target played.
type Verdict struct {
	Dispatch       ID     `json:"dispatch"`
	Class          string `json:"class"` // synchronous timed_out waited_late asynchronous unproven
	Faulted        bool   `json:"faulted,omitempty"`
	CrossThread    bool   `json:"cross_thread,omitempty"`
	DifferentStack bool   `json:"different_stack,omitempty"`
	// CrossGoroutine says that another goroutine waited, which is what cross_thread means where goroutines are known;
	// CrossThread says that another thread did.
	CrossGoroutine bool `json:"cross_goroutine,omitempty"`
	// Wait is the number of the deciding wait; 0 when there is none, or when several would do.
	Wait uint64 `json:"wait,omitempty"`
	// OwnedMin and OwnedMax bound the overlap of wait and dispatch. They are equal when the dispatch lies inside the
	// wait for certain; both are 0 unless the class is synchronous.
	OwnedMin int64 `json:"owned_min_ns"`
	OwnedMax int64 `json:"owned_max_ns"`
	// Corroboration is what CPU samples must say about the wait; "": nothing is expected.
	Corroboration string `json:"corroboration,omitempty"`
}

// LaneTotal sums the dispatches of one lane that were reported while recorded.
type LaneTotal struct {
	Lane       string `json:"lane"`
	Count      uint64 `json:"count"`
	TotalNanos int64  `json:"total_ns"`
}

// End is the last line of a target that got to say goodbye.
type End struct {
	Reason         string      `json:"reason"` // duration, signal
	Lanes          []LaneTotal `json:"lanes"`
	Dispatches     uint64      `json:"dispatches"`
	CommandBuffers uint64      `json:"command_buffers"`
	Waits          uint64      `json:"waits"`
	Calls          uint64      `json:"calls"`           // timed calls into the SDK
	MaxCallNanos   int64       `json:"max_call_ns"`     // the slowest of them
	SlowCalls      uint64      `json:"slow_calls"`      // those over 10 ms
	Unrecorded     uint64      `json:"unrecorded_work"` // units of work done while nothing recorded the process
	Shutdown       string      `json:"shutdown"`        // ok, skipped, or the error of sdk.Shutdown
	SDK            SDK         `json:"sdk"`
}

// SDK is what the SDK's own reporter said at the end.
type SDK struct {
	State   string `json:"state"`
	Emitted uint64 `json:"emitted"`
	Queued  uint64 `json:"queued"`
	Sent    uint64 `json:"sent"`
	Full    uint64 `json:"dropped_full"`
	Send    uint64 `json:"dropped_send"`
	Other   uint64 `json:"dropped_other"`
}
