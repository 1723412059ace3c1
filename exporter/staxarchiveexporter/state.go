package staxarchiveexporter

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/otlprows"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/semconv"
)

// What one archive remembers about what it holds, so that rows about runtimes, lanes, threads, stacks and counter sets are
// written when they are first seen or change, and not with each request. A row counts as held only once its request has
// been appended: after a failed append the next request carries it again.

const (
	firstPseudoTID = 0xFFF0_0000
	// Bounds of what is remembered per runtime. Beyond them rows repeat, which costs space and nothing else.
	maxStacks  = 1 << 20
	maxThreads = 1 << 16
	maxTags    = 1 << 14
)

// state is the memory of one open archive.
type state struct {
	rec *recording.Recording
	now func() time.Time

	mu       sync.Mutex
	runtimes map[archive.RuntimeID]*runtimeState
	nextTID  uint32
}

// runtimeState is the memory about one runtime. Its lock is held while one resource of one request is converted, so
// requests of different runtimes are converted in parallel.
type runtimeState struct {
	id   archive.RuntimeID
	seqs seqs // has a lock of its own

	mu       sync.Mutex
	row      archive.Runtime // as known now
	held     archive.Runtime // as the archive has it; zero: not at all
	lanes    map[archive.LaneID]*laneState
	threads  map[int64]string // as the archive has them
	stacks   map[archive.StackID]struct{}
	counters map[archive.CounterSetID][]archive.Counter
	tags     map[string]string // interned canonical JSON
}

type laneState struct{ row, held archive.Lane }

func newState(rec *recording.Recording, now func() time.Time) *state {
	return &state{rec: rec, now: now, runtimes: map[archive.RuntimeID]*runtimeState{}, nextTID: firstPseudoTID}
}

func (s *state) runtime(id archive.RuntimeID) *runtimeState {
	s.mu.Lock()
	defer s.mu.Unlock()
	rs := s.runtimes[id]
	if rs == nil {
		rs = &runtimeState{
			id: id, lanes: map[archive.LaneID]*laneState{}, threads: map[int64]string{},
			stacks: map[archive.StackID]struct{}{}, counters: map[archive.CounterSetID][]archive.Counter{}, tags: map[string]string{},
		}
		s.runtimes[id] = rs
	}
	return rs
}

// pseudoTID returns a pseudo thread id that no other lane of the archive has; the last one is shared when a million lanes
// have used up the rest.
func (s *state) pseudoTID() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	tid := s.nextTID
	if s.nextTID != ^uint32(0) {
		s.nextTID++
	}
	return tid
}

// lane notes a lane's registration and appends its row when the archive lacks it. rs.mu is held.
func (s *state) lane(req *request, rs *runtimeState, l otlprows.Lane) {
	ls := rs.lanes[l.ID]
	if ls == nil {
		ls = &laneState{row: archive.Lane{Runtime: rs.id, ID: l.ID, Kind: semconv.LaneKindGeneric, PseudoTID: s.pseudoTID()}}
		rs.lanes[l.ID] = ls
	}
	if l.Name != "" {
		ls.row.Name = l.Name
	}
	if l.Kind != "" {
		ls.row.Kind = l.Kind
	}
	if l.ClockErrorNanos != 0 {
		ls.row.ClockErrorNanos = l.ClockErrorNanos
	}
	if ls.row != ls.held && !slices.Contains(req.batch.Lanes, ls.row) {
		req.batch.Lanes = append(req.batch.Lanes, ls.row)
	}
}

// thread notes a CPU thread. rs.mu is held.
func (rs *runtimeState) thread(req *request, id int64, name string) {
	if id == 0 {
		return
	}
	held, ok := rs.threads[id]
	if ok && (name == "" || name == held) {
		return
	}
	row := archive.Thread{Runtime: rs.id, ID: id, Name: name}
	for i, t := range req.batch.Threads {
		if t.Runtime == rs.id && t.ID == id {
			if name != "" {
				req.batch.Threads[i].Name = name
			}
			return
		}
	}
	req.batch.Threads = append(req.batch.Threads, row)
}

// commit notes what the archive holds now that the request is appended.
func (s *state) commit(b *archive.Batch) {
	for _, r := range b.Runtimes {
		rs := s.runtime(r.ID)
		rs.mu.Lock()
		rs.held = r
		rs.mu.Unlock()
	}
	for _, l := range b.Lanes {
		rs := s.runtime(l.Runtime)
		rs.mu.Lock()
		if ls := rs.lanes[l.ID]; ls != nil {
			ls.held = l
		}
		rs.mu.Unlock()
	}
	for _, t := range b.Threads {
		rs := s.runtime(t.Runtime)
		rs.mu.Lock()
		if len(rs.threads) < maxThreads {
			rs.threads[t.ID] = t.Name
		}
		rs.mu.Unlock()
	}
	for _, f := range b.StackFrames {
		if f.Depth != 0 {
			continue
		}
		rs := s.runtime(f.Runtime)
		rs.mu.Lock()
		if len(rs.stacks) < maxStacks {
			rs.stacks[f.Stack] = struct{}{}
		}
		rs.mu.Unlock()
	}
	for rows := b.Counters; len(rows) > 0; {
		n := 1
		for n < len(rows) && rows[n].Index != 0 && rows[n].Set == rows[0].Set && rows[n].Runtime == rows[0].Runtime {
			n++
		}
		rs := s.runtime(rows[0].Runtime)
		rs.mu.Lock()
		rs.counters[rows[0].Set] = slices.Clone(rows[:n])
		rs.mu.Unlock()
		rows = rows[n:]
	}
}

// silent tells of runtimes that were asked to report and sent nothing at all: they ended before their first flush. Without
// this the archive could not know that anything is missing.
func (s *state) silent(all []recording.RuntimeInfo) []archive.Diagnostic {
	var out []archive.Diagnostic
	now := s.now().UnixNano()
	for _, rt := range all {
		s.mu.Lock()
		_, heard := s.runtimes[rt.Runtime]
		s.mu.Unlock()
		if rt.Gated && !heard {
			out = append(out, archive.Diagnostic{
				Runtime: rt.Runtime, TimeNanos: now, Source: "recorder", Code: archive.DiagnosticSilentRuntime, Count: 1,
				Text: fmt.Sprintf("process %d asked whether it is recorded and then sent nothing: it ended before its first flush without sdk.Shutdown, or was held up", rt.PID),
			})
		}
	}
	slices.SortFunc(out, func(a, b archive.Diagnostic) int { return strings.Compare(string(a.Runtime), string(b.Runtime)) })
	return out
}
