package staxarchiveexporter

import (
	"strconv"
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Conversion turns pdata into rows. The receiver has validated the data, and still nothing here trusts it: an attribute of
// the wrong type costs its record, which is counted, never a panic and never a value that was not sent.

// Reasons why something that reached the exporter is not stored.
const (
	reasonBadAttribute  = "bad_attribute"     // a stax attribute has the wrong type or form
	reasonBadCounter    = "bad_counter"       // the counter's key or value has the wrong form
	reasonZeroID        = "zero_id"           // a dispatch, command buffer or wait without a span id
	reasonUnknownType   = "unknown_span_type" // stax.span.type has a value of another version
	reasonNotStored     = "not_stored"        // span events and links that the model has no place for
	reasonUnencodable   = "unencodable"       // a passed-through resource that cannot be encoded again
	reasonNoRecording   = "no_recording"      // the resource names no recording: nothing to store it in
	reasonRecordingOver = "recording_over"    // the recording is closed
)

// Signals in drop rows.
const (
	signalDispatch      = "dispatch"
	signalCommandBuffer = "command_buffer"
	signalWait          = "wait"
	signalSpan          = "span"
	signalCounter       = "counter"
	signalHeartbeat     = "heartbeat"
	signalEvent         = "event"
	signalLog           = "log"
	signalMetric        = "metric"
	signalProfile       = "profile"
)

// stageArchive is the stage in drop rows of this exporter.
const stageArchive = "archive"

// request is the conversion of one request for one archive, with the scratch memory that it needs.
type request struct {
	batch  archive.Batch
	drops  []archive.Drop
	finals []archive.RuntimeID // runtimes whose final heartbeat is in the batch

	span     spanAttrs
	tags     []tag
	counters []counterAttr
	json     []byte
}

var requests = sync.Pool{New: func() any { return new(request) }}

func newRequest() *request { return requests.Get().(*request) }

func (q *request) release() {
	q.batch.Reset()
	q.drops = q.drops[:0]
	clear(q.finals)
	q.finals = q.finals[:0]
	q.span = spanAttrs{}
	clear(q.tags[:cap(q.tags)])
	clear(q.counters[:cap(q.counters)])
	requests.Put(q)
}

// drop counts records that are not stored.
func (q *request) drop(runtime archive.RuntimeID, seq archive.Seq, signal, reason string, n int) {
	if n <= 0 {
		return
	}
	d := archive.Drop{
		Runtime: runtime, Shard: seq.Shard, Sequenced: seq.N != 0, Stage: stageArchive, Reason: reason, Signal: signal,
	}
	for i := range q.drops {
		if e := &q.drops[i]; e.Runtime == d.Runtime && e.Shard == d.Shard && e.Sequenced == d.Sequenced && e.Signal == signal && e.Reason == reason {
			e.Count += uint64(n)
			return
		}
	}
	d.Count = uint64(n)
	q.drops = append(q.drops, d)
}

// runtimeID returns the runtime that a resource is. The receiver sets it; without a receiver the pid has to do.
func runtimeID(resource pcommon.Map) archive.RuntimeID {
	if id := str(resource, semconv.RuntimeIDKey); id != "" {
		return archive.RuntimeID(id)
	}
	pid, _ := integer(resource, semconv.ProcessPIDKey)
	return archive.RuntimeID("pid-" + strconv.FormatInt(pid, 10))
}

// begin locks the resource's runtime and notes what the resource says about it. end must follow.
func (s *state) begin(resource pcommon.Resource) *runtimeState {
	attrs := resource.Attributes()
	rs := s.runtime(runtimeID(attrs))
	rs.mu.Lock()
	row := &rs.row
	row.ID = rs.id
	if row.FirstSeenNanos == 0 {
		row.FirstSeenNanos = s.now().UnixNano()
		row.ClockErrorNanos = -1
	}
	if pid, ok := integer(attrs, semconv.ProcessPIDKey); ok {
		row.TargetPID = pid
		row.PID = pid
	}
	if pid, ok := s.rec.RuntimePID(rs.id); ok {
		row.PID = int64(pid)
	}
	if pid, ok := integer(attrs, semconv.ProcessParentPIDKey); ok {
		row.ParentPID = pid
	}
	if n, ok := integer(attrs, semconv.ClockErrorNanosKey); ok {
		row.ClockErrorNanos = n
	}
	for _, f := range []struct {
		key string
		to  *string
	}{
		{semconv.ServiceNameKey, &row.ServiceName},
		{semconv.ProcessExecutableNameKey, &row.Executable},
		{semconv.ProcessCommandLineKey, &row.CommandLine},
		{semconv.TelemetrySDKNameKey, &row.SDKName},
		{semconv.TelemetrySDKVersionKey, &row.SDKVersion},
		{semconv.TelemetrySDKLanguageKey, &row.SDKLanguage},
	} {
		if v := str(attrs, f.key); v != "" {
			*f.to = v
		}
	}
	if row.SDKName == "stax" {
		row.Sequenced = true
	}
	return rs
}

// end appends the runtime's row when the archive lacks it, and unlocks.
func (s *state) end(req *request, rs *runtimeState) {
	if rs.row != rs.held {
		req.batch.Runtimes = append(req.batch.Runtimes, rs.row)
	}
	rs.mu.Unlock()
}

// intern returns the canonical JSON of tags as a string that equal tags share. rs.mu is held.
func (rs *runtimeState) intern(req *request, tags []tag) string {
	if len(tags) == 0 {
		return ""
	}
	req.json = appendTags(req.json[:0], tags, 0)
	if s, ok := rs.tags[string(req.json)]; ok {
		return s
	}
	if len(rs.tags) >= maxTags {
		clear(rs.tags)
	}
	s := string(req.json)
	if len(s) <= 1024 { // long ones are not worth remembering
		rs.tags[s] = s
	}
	return s
}

// laneAttrs are the attributes of a lane, on a scope or on a registration.
type laneAttrs struct {
	id         archive.LaneID
	name, kind string
	clockError int64
	segment    uint64
}

// parseLane reads the lane group. isLane is false when there is no lane id; bad is set when an attribute is malformed.
func parseLane(m pcommon.Map) (l laneAttrs, isLane, bad bool) {
	for k, v := range m.All() {
		ok := true
		var s string
		switch k {
		case semconv.LaneIDKey:
			s, ok = strOf(v)
			l.id = archive.LaneID(s)
			isLane = true
		case semconv.LaneNameKey:
			l.name, ok = strOf(v)
		case semconv.LaneKindKey:
			l.kind, ok = strOf(v)
		case semconv.LaneClockErrorNanosKey:
			l.clockError, ok = intOf(v)
		case semconv.SegmentIDKey:
			if s, ok = strOf(v); ok && s != "" {
				l.segment, ok = parseHex64(s)
			}
		}
		bad = bad || !ok
	}
	return l, isLane, bad || (isLane && l.id == "")
}
