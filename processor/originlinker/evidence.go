package originlinker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/origin"
	"github.com/stax-otel/stax/internal/otlprows"
	"github.com/stax-otel/stax/internal/profiles"
	"github.com/stax-otel/stax/internal/recording"
)

// maxStacks bounds the stacks of one recording whose frames are remembered, once for those that targets define, which come
// only once, and once for those of samples, which come again with other samples.
const maxStacks = 1 << 16

// evidence is what is known of one recording.
type evidence struct {
	cfg  *Config
	rec  *recording.Recording // nil: unknown here
	now  func() time.Time
	used atomic.Int64 // when data of the recording came last, Unix nanoseconds

	mu       sync.Mutex
	stream   *origin.Stream
	conv     otlprows.Converter
	batch    archive.Batch
	runtimes map[archive.RuntimeID]archive.Runtime
	lanes    map[laneKey]archive.Lane
	stacks   map[stackKey][]archive.StackFrame // defined by targets
	sampled  map[stackKey][]archive.StackFrame
	waits    map[waitKey]*waitFacts // nil without wall traces
	refused  uint64                 // rows that the stream had no room for, as told last
	newest   int64                  // newest instant of the recording, Unix nanoseconds
	evicted  int64                  // newest when rows were last let go
}

type stackKey struct {
	runtime archive.RuntimeID
	stack   archive.StackID
}

type laneKey struct {
	runtime archive.RuntimeID
	lane    archive.LaneID
}

var _ otlprows.Hooks = (*evidence)(nil)

func newEvidence(cfg *Config, rec *recording.Recording, now func() time.Time) *evidence {
	ev := &evidence{
		cfg: cfg, rec: rec, now: now, runtimes: map[archive.RuntimeID]archive.Runtime{},
		lanes: map[laneKey]archive.Lane{}, stacks: map[stackKey][]archive.StackFrame{}, sampled: map[stackKey][]archive.StackFrame{},
	}
	info := archive.RecordingInfo{}
	if rec != nil {
		in := rec.Info()
		info = archive.RecordingInfo{ID: string(in.ID), Mode: in.Mode, State: archive.StateRecording, StartedNanos: in.StartedUnixNano}
	}
	ev.stream = origin.NewStream(origin.StreamConfig{
		Config: origin.Config{Limit: cfg.Limit}, Recording: info, MaxRows: cfg.MaxEvidenceRows,
	})
	if cfg.WallTrace {
		ev.waits = map[waitKey]*waitFacts{}
	}
	return ev
}

// takeRefused returns how many rows of evidence found no room since the last call.
func (ev *evidence) takeRefused() uint64 {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	stats := ev.stream.Stats()
	n := stats.Refused() - ev.refused
	ev.refused += n
	return n
}

func (ev *evidence) lastUsed() time.Time { return time.Unix(0, ev.used.Load()) }

// runtime notes the resource and returns its runtime. ev.mu is held.
func (ev *evidence) runtime(resource pcommon.Resource) archive.RuntimeID {
	id := otlprows.RuntimeID(resource.Attributes())
	old, known := ev.runtimes[id]
	row := old
	if !known {
		row = archive.Runtime{ID: id, ClockErrorNanos: -1}
	}
	otlprows.ReadRuntime(&row, resource.Attributes())
	if ev.rec != nil {
		if pid, ok := ev.rec.RuntimePID(id); ok {
			row.PID = int64(pid)
		}
	}
	if !known || row != old {
		ev.runtimes[id] = row
		ev.batch.Runtimes = append(ev.batch.Runtimes, row)
	}
	return id
}

// observeSpans takes the evidence in a resource's spans. It reports for each of them, in order, what it is to the model.
func (ev *evidence) observeSpans(rspans ptrace.ResourceSpans, kinds []otlprows.Kind) []otlprows.Kind {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	ev.conv.Begin(&ev.batch, ev.runtime(rspans.Resource()), ev)
	for _, ss := range rspans.ScopeSpans().All() {
		sc := otlprows.ReadScope(ss.Scope())
		if sc.IsLane {
			ev.Lane(sc.Lane)
		}
		for _, span := range ss.Spans().All() {
			kinds = append(kinds, ev.conv.Span(&sc, span))
		}
	}
	ev.take(ev.stacks)
	return kinds
}

func (ev *evidence) observeLogs(rlogs plog.ResourceLogs) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	ev.conv.Begin(&ev.batch, ev.runtime(rlogs.Resource()), ev)
	ev.conv.Logs(rlogs, 0)
	ev.take(ev.stacks)
}

// observeProfiles takes the rows of the i-th resource of a request. It returns how many observations were of no use.
func (ev *evidence) observeProfiles(d *profiles.Decoder, resource pcommon.Resource, i int) (skipped uint64) {
	decoded := d.Resource(i)
	ev.mu.Lock()
	defer ev.mu.Unlock()
	decoded.AppendTo(&ev.batch, ev.runtime(resource))
	ev.take(ev.sampled)
	return decoded.Malformed + decoded.TooMany
}

// take gives the batch to the stream and remembers its stacks in the given map. ev.mu is held.
func (ev *evidence) take(stacks map[stackKey][]archive.StackFrame) {
	b := &ev.batch
	ev.stream.Add(b)
	for rows := b.StackFrames; len(rows) > 0; {
		n := 1
		for n < len(rows) && rows[n].Stack == rows[0].Stack && rows[n].Runtime == rows[0].Runtime && rows[n].Depth != 0 {
			n++
		}
		ev.remember(stacks, rows[:n])
		rows = rows[n:]
	}
	for i := range b.Waits {
		ev.seen(b.Waits[i].EndNanos)
		ev.rememberWait(&b.Waits[i])
	}
	for i := range b.Dispatches {
		ev.seen(b.Dispatches[i].EndNanos)
	}
	for i := range b.Samples {
		ev.seen(b.Samples[i].TimeNanos)
	}
	b.Reset()
	ev.conv.Release()
	if ev.newest-ev.evicted > int64(time.Second) {
		ev.evicted = ev.newest
		ev.stream.Evict(ev.newest - int64(ev.cfg.EvidenceAge))
		ev.evictWaits(ev.newest - int64(ev.cfg.EvidenceAge))
	}
}

// seen notes an instant of the recording. One in the future says nothing about how old the rest is.
func (ev *evidence) seen(nanos int64) {
	if nanos > ev.newest && nanos <= ev.now().UnixNano() {
		ev.newest = nanos
	}
}

func (ev *evidence) remember(stacks map[stackKey][]archive.StackFrame, frames []archive.StackFrame) {
	key := stackKey{frames[0].Runtime, frames[0].Stack}
	if _, ok := stacks[key]; ok {
		return
	}
	if len(stacks) >= maxStacks {
		clear(ev.sampled)
		if len(stacks) > 0 {
			return
		}
	}
	keep := 1
	if ev.cfg.Stacktrace {
		keep = min(len(frames), maxFrames)
	}
	stacks[key] = slices.Clone(frames[:keep])
}

// frames returns the frames of a stack as far as they are remembered, leaf first. ev.mu is held.
func (ev *evidence) frames(runtime archive.RuntimeID, stack archive.StackID) []archive.StackFrame {
	if stack == 0 {
		return nil
	}
	find := func(runtime archive.RuntimeID) []archive.StackFrame {
		if f, ok := ev.stacks[stackKey{runtime, stack}]; ok {
			return f
		}
		return ev.sampled[stackKey{runtime, stack}]
	}
	if f := find(runtime); f != nil {
		return f
	}
	// Stack ids are hashes of the frames, so equal stacks of any runtime of the process have one id. A foreign sampler reports
	// under a runtime of its own.
	pid := ev.runtimes[runtime].PID
	for id, row := range ev.runtimes {
		if id != runtime && pid != 0 && row.PID == pid {
			if f := find(id); f != nil {
				return f
			}
		}
	}
	return nil
}

// Lane implements [otlprows.Hooks]. What a registration does not say stays as it was.
func (ev *evidence) Lane(l otlprows.Lane) {
	key := laneKey{ev.conv.Runtime(), l.ID}
	old, known := ev.lanes[key]
	row := old
	row.Runtime, row.ID = key.runtime, key.lane
	if l.Name != "" {
		row.Name = l.Name
	}
	if l.Kind != "" {
		row.Kind = l.Kind
	}
	if l.ClockErrorNanos != 0 {
		row.ClockErrorNanos = l.ClockErrorNanos
	}
	if !known || row != old {
		ev.lanes[key] = row
		ev.batch.Lanes = append(ev.batch.Lanes, row)
	}
}

// The rest of [otlprows.Hooks]: what the linker has no use for. What is malformed is counted on the way to the archive.

// Thread implements [otlprows.Hooks].
func (ev *evidence) Thread(int64, string) {}

// Intern implements [otlprows.Hooks].
func (ev *evidence) Intern([]byte) string { return "" }

// HoldsStack implements [otlprows.Hooks].
func (ev *evidence) HoldsStack(id archive.StackID) bool {
	_, ok := ev.stacks[stackKey{ev.conv.Runtime(), id}]
	return ok
}

// HoldsCounters implements [otlprows.Hooks].
func (ev *evidence) HoldsCounters(archive.CounterSetID, []archive.Counter) bool { return true }

// Drop implements [otlprows.Hooks].
func (ev *evidence) Drop(archive.Seq, string, string, int) {}

// ForeignSpan implements [otlprows.Hooks].
func (ev *evidence) ForeignSpan(ptrace.ResourceSpans, ptrace.ScopeSpans, ptrace.Span) {}

// ForeignLog implements [otlprows.Hooks].
func (ev *evidence) ForeignLog(plog.ResourceLogs, plog.ScopeLogs, plog.LogRecord) {}
