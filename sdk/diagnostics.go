package sdk

import "sync/atomic"

// diagCounter counts one kind of event that the reader of a recording should know. Counters are process-wide and only
// grow; each recording is told what happened so far.
type diagCounter struct {
	code, text string
	count      atomic.Uint64
}

func (d *diagCounter) add()          { d.count.Add(1) }
func (d *diagCounter) addN(n uint64) { d.count.Add(n) }

var (
	diagLongString         = diagCounter{code: "string_truncated", text: "Strings past the limits (4 KiB; ids and keys 256 bytes) were cut."}
	diagTooManyNames       = diagCounter{code: "too_many_names", text: "Names, keys, ids or sample points past the limit share one name."}
	diagReservedKey        = diagCounter{code: "reserved_key", text: "Tags whose keys belong to stax were ignored."}
	diagAttributesDropped  = diagCounter{code: "attributes_dropped", text: "Tags, counter values or awaits did not fit their record; the spans say how many."}
	diagAwaitsDropped      = diagCounter{code: "awaits_dropped", text: "A wait names too many things (1024, 48 KiB); the rest is missing, so their containment cannot be proven."}
	diagCounterSetConflict = diagCounter{code: "counter_set_conflict", text: "A counter set id was registered twice with different definitions; the later one is ignored."}
	diagCounterSetRefused  = diagCounter{code: "counter_set_refused", text: "A counter set is empty, has an unknown unit or is past the limits, and is ignored."}
	diagStackTableFull     = diagCounter{code: "stack_table_full", text: "Too many different stacks: origins past the limit have a thread and an instant only."}
	diagStackUnknown       = diagCounter{code: "stack_unknown", text: "A stack captured in an earlier recording could not be named."}
	diagLaneKind           = diagCounter{code: "unknown_lane_kind", text: "Lanes with an unknown kind are reported as generic."}
	diagTooManyLanes       = diagCounter{code: "too_many_lanes", text: "Lanes past the limit report nothing."}
	diagContended          = diagCounter{code: "ring_contended", text: "Records were dropped because every ring was in use at that moment."}
	diagRejected           = diagCounter{code: "rejected_by_receiver", text: "The receiver accepted requests but rejected records or registrations in them."}
	diagPanic              = diagCounter{code: "sdk_panic", text: "The SDK failed internally and switched itself off."}
)

var diagCounters = []*diagCounter{
	&diagLongString, &diagTooManyNames, &diagReservedKey, &diagAttributesDropped, &diagAwaitsDropped,
	&diagCounterSetConflict, &diagCounterSetRefused, &diagStackTableFull, &diagStackUnknown, &diagLaneKind, &diagTooManyLanes,
	&diagContended, &diagRejected, &diagPanic,
}
