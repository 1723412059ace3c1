package validate

import (
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/stax-otel/stax/sdk/semconv"
)

// Lane is what a scope says about the lane of its spans.
type Lane struct {
	ID, Name, Kind string
	Segment        string // span id of the segment root, 16 hex digits; empty: the sender makes no segments
}

// IsLane reports whether the scope is a lane's.
func (l Lane) IsLane() bool { return l.ID != "" }

// Scope checks an instrumentation scope and returns its lane. A lane that has a name and no id gets its name as id, on
// the scope as well.
func Scope(s pcommon.InstrumentationScope, diag *Diagnostics) (Lane, Reason) {
	var l Lane
	if len(s.Name()) > MaxName || len(s.Version()) > MaxName {
		return l, StringTooLong
	}
	attrs := s.Attributes()
	if r := Attributes(attrs); r != OK {
		return l, r
	}
	get := func(key string) string {
		if v, ok := attrs.Get(key); ok {
			return v.Str()
		}
		return ""
	}
	l = Lane{ID: get(semconv.LaneIDKey), Name: get(semconv.LaneNameKey), Kind: get(semconv.LaneKindKey), Segment: get(semconv.SegmentIDKey)}
	switch {
	case l.ID == "" && l.Name == "":
		return Lane{}, OK // not a lane
	case l.ID == "":
		if len(l.Name) > MaxID {
			return l, BadID
		}
		l.ID = l.Name
		attrs.PutStr(semconv.LaneIDKey, l.ID)
	case l.Name == "":
		diag[MissingLaneName]++
		l.Name = l.ID
	}
	if l.Kind == "" {
		return l, BadLaneKind
	}
	return l, OK
}

// Heartbeat checks the attributes of a heartbeat scope and reports whether it is the runtime's last.
func Heartbeat(attrs pcommon.Map) (final bool, reason Reason) {
	if r := Attributes(attrs); r != OK {
		return false, r
	}
	n := -1
	for _, key := range [...]string{
		semconv.HeartbeatShardsKey, semconv.HeartbeatEmittedKey, semconv.HeartbeatBaseKey, semconv.HeartbeatDroppedFullKey,
		semconv.HeartbeatDroppedSendKey, semconv.HeartbeatDroppedOtherKey,
	} {
		v, ok := attrs.Get(key)
		if !ok {
			if key == semconv.HeartbeatShardsKey || key == semconv.HeartbeatEmittedKey {
				return false, BadHeartbeat
			}
			continue
		}
		if n >= 0 && v.Slice().Len() != n {
			return false, BadHeartbeat
		}
		n = v.Slice().Len()
	}
	if v, ok := attrs.Get(semconv.HeartbeatFinalKey); ok {
		final = v.Bool()
	}
	return final, OK
}
