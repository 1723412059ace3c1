// Package validate decides whether a record that came over the wire can be taken.
//
// A record is refused when it cannot be represented or would not be bounded: an id of zero, a malformed stax attribute,
// a string over its cap. It is never refused, and never changed, for what it says: times that are zero, all ones, in the
// wrong order or far from the recording are kept as they came and only counted ([Diagnostics]).
//
// Functions are pure and safe for concurrent use; a [Facts] belongs to one goroutine.
package validate

// Caps on what one record may carry. They hold for records of every SDK, since they bound memory.
const (
	MaxName       = 4 << 10  // bytes of span, event, scope, lane and metric names
	MaxValue      = 64 << 10 // bytes of one attribute value, nested values included
	MaxKey        = 256      // bytes of one attribute key
	MaxAttributes = 512      // attributes of one resource, scope, span, link, event or record
	MaxDepth      = 16       // nesting of one attribute value
	MaxID         = 256      // bytes of a runtime, lane, queue, shader or counter set id
	MaxFrames     = 512      // frames of one stack
	MaxCounters   = 512      // counters of one set
)

// Reason says why a record was refused. The zero value means that it was not.
type Reason string

// The reasons. They are stable: metrics, drop rows and answers to clients carry them.
const (
	OK                Reason = ""
	ZeroSpanID        Reason = "zero_span_id"
	ZeroTraceID       Reason = "zero_trace_id"
	MissingLane       Reason = "missing_lane"
	BadLaneKind       Reason = "bad_lane_kind"
	BadSpanType       Reason = "bad_span_type"
	BadSeq            Reason = "bad_seq"
	BadAwaits         Reason = "bad_awaits"
	BadCounterKey     Reason = "bad_counter_key"
	BadID             Reason = "bad_id"
	WrongType         Reason = "wrong_type"
	StringTooLong     Reason = "string_too_long"
	TooManyAttributes Reason = "too_many_attributes"
	BadHeartbeat      Reason = "bad_heartbeat"
	BadDefinition     Reason = "bad_definition"
	ReservedScope     Reason = "reserved_scope"
)

var hints = map[Reason]string{
	ZeroSpanID:        "a span needs a span id",
	ZeroTraceID:       "a span needs a trace id",
	MissingLane:       "stax.lane.id, stax.lane.name and stax.lane.kind belong on the instrumentation scope of dispatches and command buffers",
	BadLaneKind:       "stax.lane.kind must be one of the documented kinds, \"generic\" when none fits",
	BadSpanType:       "stax.span.type must be dispatch, command_buffer, wait or segment",
	BadSeq:            "stax.seq must be an int, shard<<48 | n with n from 1",
	BadAwaits:         "stax.wait.awaits must be strings dispatch:<16 hex>, command_buffer:<16 hex>, queue:<id> or queue:<id>@<seq>",
	BadCounterKey:     "counter keys look like stax.counter.<set>/<point>/<name>",
	BadID:             "ids are lower-case hex digits, not all zero: 16 for spans and stacks, 32 for traces; other ids have at most 256 bytes and are not empty",
	WrongType:         "a stax attribute has the wrong type",
	StringTooLong:     "names may have 4 KiB, attribute values 64 KiB, keys 256 bytes",
	TooManyAttributes: "at most 512 attributes are taken",
	BadHeartbeat:      "the arrays of a heartbeat must be ints of equal length",
	BadDefinition:     "the arrays of a stack or counter set must have equal lengths and known units",
	ReservedScope:     "the scope stax.derived is the receiver's own",
}

// Hint says in a few words what a sender has to change; empty for reasons that are not of this package.
func Hint(r Reason) string { return hints[r] }
