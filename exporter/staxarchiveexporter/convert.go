package staxarchiveexporter

import (
	"slices"
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/otlprows"
)

// Package otlprows turns pdata into rows. What this file adds is the archive's side of it: what it holds already, what it
// passes through, and the counts of what becomes no row.

// Reasons why something that reached the exporter is not stored, beside those of otlprows.
const (
	reasonUnencodable   = "unencodable"    // a passed-through resource that cannot be encoded again
	reasonNoRecording   = "no_recording"   // the resource names no recording: nothing to store it in
	reasonRecordingOver = "recording_over" // the recording is closed
)

// Signals in drop rows, beside those of otlprows.
const (
	signalMetric  = "metric"
	signalProfile = "profile"
)

// stageArchive is the stage in drop rows of this exporter.
const stageArchive = "archive"

// request is the conversion of one request for one archive, with the scratch memory that it needs.
type request struct {
	batch  archive.Batch
	drops  []archive.Drop
	finals []archive.RuntimeID // runtimes whose final heartbeat is in the batch

	seqDrops []seqDrop // numbered records that became no row
	claimed  []claimed // numbers that are this request's until it ends

	// The resource that is being converted, for the hooks.
	s            *state
	rs           *runtimeState
	conv         otlprows.Converter
	foreignSpans foreignSpans
	foreignLogs  foreignLogs
}

var _ otlprows.Hooks = (*request)(nil)

var requests = sync.Pool{New: func() any { return new(request) }}

func newRequest() *request { return requests.Get().(*request) }

func (q *request) release() {
	q.batch.Reset()
	q.drops = q.drops[:0]
	clear(q.finals)
	q.finals = q.finals[:0]
	clear(q.seqDrops)
	q.seqDrops = q.seqDrops[:0]
	clear(q.claimed[:cap(q.claimed)])
	q.claimed = q.claimed[:0]
	q.conv.Release()
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

// begin locks the resource's runtime and notes what the resource says about it. end must follow.
func (s *state) begin(resource pcommon.Resource) *runtimeState {
	attrs := resource.Attributes()
	rs := s.runtime(otlprows.RuntimeID(attrs))
	rs.mu.Lock()
	row := &rs.row
	row.ID = rs.id
	if row.FirstSeenNanos == 0 {
		row.FirstSeenNanos = s.now().UnixNano()
		row.ClockErrorNanos = -1
	}
	otlprows.ReadRuntime(row, attrs)
	if pid, ok := s.rec.RuntimePID(rs.id); ok {
		row.PID = int64(pid)
	}
	return rs
}

// convert is the shared part of spans and logs: f uses req.conv with the resource's runtime, whose lock is held.
func (s *state) convert(req *request, resource pcommon.Resource, f func(*runtimeState)) {
	rs := s.begin(resource)
	defer s.end(req, rs)
	req.s, req.rs = s, rs
	req.conv.Begin(&req.batch, rs.id, req)
	f(rs)
	if req.conv.Sequenced() {
		rs.row.Sequenced = true
	}
	if req.conv.Final() {
		req.finals = append(req.finals, rs.id)
	}
	req.foreignSpans, req.foreignLogs = foreignSpans{}, foreignLogs{}
	req.s, req.rs = nil, nil
}

// Drop implements [otlprows.Hooks].
func (q *request) Drop(seq archive.Seq, signal, reason string, n int) {
	if seq.N != 0 && n == 1 {
		q.seqDrops = append(q.seqDrops, seqDrop{q.rs.id, seq, signal, reason})
		return
	}
	q.drop(q.rs.id, seq, signal, reason, n)
}

// Lane implements [otlprows.Hooks].
func (q *request) Lane(l otlprows.Lane) { q.s.lane(q, q.rs, l) }

// Thread implements [otlprows.Hooks].
func (q *request) Thread(id int64, name string) { q.rs.thread(q, id, name) }

// HoldsStack implements [otlprows.Hooks].
func (q *request) HoldsStack(id archive.StackID) bool {
	_, held := q.rs.stacks[id]
	return held
}

// HoldsCounters implements [otlprows.Hooks].
func (q *request) HoldsCounters(id archive.CounterSetID, rows []archive.Counter) bool {
	return slices.Equal(q.rs.counters[id], rows)
}

// end appends the runtime's row when the archive lacks it, and unlocks.
func (s *state) end(req *request, rs *runtimeState) {
	if rs.row != rs.held {
		req.batch.Runtimes = append(req.batch.Runtimes, rs.row)
	}
	rs.mu.Unlock()
}

// Intern implements [otlprows.Hooks]: equal tags share one string. rs.mu is held.
func (q *request) Intern(json []byte) string {
	rs := q.rs
	if s, ok := rs.tags[string(json)]; ok {
		return s
	}
	if len(rs.tags) >= maxTags {
		clear(rs.tags)
	}
	s := string(json)
	if len(s) <= 1024 { // long ones are not worth remembering
		rs.tags[s] = s
	}
	return s
}
