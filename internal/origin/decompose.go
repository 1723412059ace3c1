package origin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"

	"github.com/stax-otel/stax/archive"
)

// WaitParts says what a wait was spent on. The five parts are exact differences of the reported
// instants and add up to EndNanos - BeginNanos; ClockErrorNanos bounds how far each of their borders
// may be off.
//
// At each instant of the wait the first of these that holds decides:
//
//	executing  some covered dispatch executes (work that overlaps counts once)
//	wake-up    every covered dispatch has ended: the thread could have gone on
//	queued     other work executes on a lane on which covered work has yet to end
//	idle       those lanes execute nothing
//
// A wait whose covered work is not known is unknown as a whole.
type WaitParts struct {
	Runtime    archive.RuntimeID
	Wait       archive.WaitID
	BeginNanos int64
	EndNanos   int64

	ExecutingNanos int64
	QueuedNanos    int64
	IdleNanos      int64
	WakeUpNanos    int64
	UnknownNanos   int64

	// SignalNanos, ScheduleNanos and ReturnNanos split WakeUpNanos exactly, where off-CPU evidence knows of the interval that
	// was under way when the work had ended: until the thread was woken, until it ran again, and until the wait ended. All are
	// zero where it does not; Woken says which. A source that does not know who woke it counts everything until it ran as signal.
	Woken         bool
	SignalNanos   int64
	ScheduleNanos int64
	ReturnNanos   int64

	Pending         int64 // covered dispatches that had not ended when the wait began
	Untimed         int64 // covered dispatches without usable times: they are left out
	Lanes           []archive.LaneID
	ClockErrorNanos int64 // of the lanes; -1: unknown
}

// Decomposer collects what it needs to decompose waits from dispatches in any order. It keeps, for
// each lane that some wait awaits, the union of the intervals in which the lane worked while one of
// the waits lasted, and the covered intervals of each wait. It is not safe for concurrent use.
type Decomposer struct {
	ix       *Index
	runtimes map[archive.RuntimeID]*runtimeWork
	scratch  []int32
}

type runtimeWork struct {
	rt      *runtimeIndex
	waits   []*waitWork // parallel to rt.waits; nil: not wanted
	windows spans       // of the wanted waits
	lanes   map[archive.LaneID]*spans
	queues  map[archive.QueueID]*queueWork
}

// queueWork knows of a queue's dispatches what says whether a later wait covers any of them.
type queueWork struct {
	minSeq, minCaused int64
}

type waitWork struct {
	covered spans
	lanes   []coveredLane
	pending int64
	untimed int64
	any     bool
}

type coveredLane struct {
	id      archive.LaneID
	lastEnd int64
}

// NewDecomposer returns a Decomposer for the waits of the index that want accepts; nil: all.
func NewDecomposer(ix *Index, want func(archive.RuntimeID, archive.WaitID) bool) *Decomposer {
	dc := &Decomposer{ix: ix, runtimes: map[archive.RuntimeID]*runtimeWork{}}
	for id, rt := range ix.runtimes {
		w := &runtimeWork{
			rt: rt, waits: make([]*waitWork, len(rt.waits)),
			lanes: map[archive.LaneID]*spans{}, queues: map[archive.QueueID]*queueWork{},
		}
		for i := range rt.waits {
			if row := &rt.waits[i]; !row.missing && (want == nil || want(id, row.id)) {
				w.waits[i] = &waitWork{}
				if row.usable() {
					w.windows.add(row.begin, row.end)
				}
			}
		}
		w.windows.finish()
		dc.runtimes[id] = w
	}
	return dc
}

// Add takes dispatches. Only their ids, queue, times and origin instant are read.
func (dc *Decomposer) Add(rows []archive.Dispatch) {
	for i := range rows {
		d := &rows[i]
		w := dc.runtimes[d.Runtime]
		if w == nil || len(w.waits) == 0 {
			continue
		}
		if lane := w.rt.lanes[d.Lane]; lane != nil && lane.waits {
			dc.add(w, lane, d)
		}
	}
}

func (dc *Decomposer) add(w *runtimeWork, lane *laneIndex, d *archive.Dispatch) {
	err := clockError(lane.clockError, w.rt.row.ClockErrorNanos)
	timed := usableInterval(d.StartNanos, d.EndNanos)
	q := inquiry{rt: w.rt}
	if timed {
		if w.windows.touches(d.StartNanos, d.EndNanos) {
			w.lane(d.Lane).add(d.StartNanos, d.EndNanos)
		}
		w.observe(d, err)
		q.collect(d, err)
	} else {
		q.collectNamed(d)
	}
	dc.scratch = q.covering(dc.scratch[:0], d.EndNanos)
	for _, at := range dc.scratch {
		work, row := w.waits[at], &w.rt.waits[at]
		switch {
		case work == nil || !row.usable():
			continue
		case !timed:
			work.untimed++
			continue
		}
		work.any = true
		work.end(d.Lane, d.EndNanos)
		if d.EndNanos > row.begin {
			work.pending++
		}
		work.covered.add(max(d.StartNanos, row.begin), min(d.EndNanos, row.end))
	}
}

// observe notes what tells later waits on the dispatch's queue that they cover something.
func (w *runtimeWork) observe(d *archive.Dispatch, err int64) {
	if len(w.rt.queues) == 0 {
		return
	}
	id, seq := w.rt.place(d)
	if w.rt.queues[id] == nil {
		return
	}
	q := w.queues[id]
	if q == nil {
		q = &queueWork{minSeq: timeLimit, minCaused: timeLimit}
		w.queues[id] = q
	}
	if seq != 0 && seq < timeLimit {
		q.minSeq = min(q.minSeq, int64(seq))
	}
	switch {
	case usable(d.Origin.TimeNanos):
		q.minCaused = min(q.minCaused, d.Origin.TimeNanos)
	case err >= 0:
		q.minCaused = min(q.minCaused, d.StartNanos+err)
	}
}

func (w *runtimeWork) lane(id archive.LaneID) *spans {
	return entry(w.lanes, id)
}

// end notes that covered work of a lane ended.
func (w *waitWork) end(lane archive.LaneID, nanos int64) {
	for i := range w.lanes {
		if w.lanes[i].id == lane {
			w.lanes[i].lastEnd = max(w.lanes[i].lastEnd, nanos)
			return
		}
	}
	w.lanes = append(w.lanes, coveredLane{lane, nanos})
}

// Parts returns the parts of every wanted wait, by runtime, begin, end and id. It may be called once.
func (dc *Decomposer) Parts() []WaitParts {
	var out []WaitParts
	for _, id := range slices.Sorted(maps.Keys(dc.runtimes)) {
		w := dc.runtimes[id]
		w.finish()
		for i, work := range w.waits {
			if work != nil {
				p, done := w.parts(&w.rt.waits[i], work)
				dc.ix.wakeUp(w.rt, &w.rt.waits[i], &p, done)
				out = append(out, p)
			}
		}
	}
	return out
}

func (w *runtimeWork) finish() {
	for _, s := range w.lanes {
		s.finish()
	}
	for id, q := range w.queues {
		groups := w.rt.queues[id]
		for _, at := range groups.drain.waits {
			if work := w.waits[at]; work != nil {
				work.any = work.any || w.rt.waits[at].begin >= q.minCaused
			}
		}
		for i, at := range groups.upTo.waits {
			if work := w.waits[at]; work != nil {
				work.any = work.any || groups.upTo.upTo[i] >= uint64(q.minSeq)
			}
		}
	}
}

// parts returns the parts of a wait, and when all work that it covers had ended.
func (w *runtimeWork) parts(row *waitRow, work *waitWork) (p WaitParts, done int64) {
	p = WaitParts{
		Runtime: w.rt.row.ID, Wait: row.id, BeginNanos: row.begin, EndNanos: row.end,
		Pending: work.pending, Untimed: work.untimed,
	}
	slices.SortFunc(work.lanes, func(a, b coveredLane) int { return cmp.Compare(a.id, b.id) })
	for _, l := range work.lanes {
		p.Lanes = append(p.Lanes, l.id)
		if err := clockError(w.rt.lanes[l.id].clockError, w.rt.row.ClockErrorNanos); err < 0 || p.ClockErrorNanos < 0 {
			p.ClockErrorNanos = -1
		} else {
			p.ClockErrorNanos = max(p.ClockErrorNanos, err)
		}
	}
	if !row.usable() {
		return p, row.end
	}
	whole := row.end - row.begin
	if !work.any {
		p.UnknownNanos = whole
		return p, row.end
	}
	work.covered.finish()
	p.ExecutingNanos = work.covered.measure(row.begin, row.end)
	done = row.begin
	var busy spans
	var busyNanos int64
	for _, l := range work.lanes {
		until := min(max(l.lastEnd, row.begin), row.end)
		done = max(done, until)
		lane := w.lanes[l.id]
		switch {
		case lane == nil:
		case len(work.lanes) == 1:
			busyNanos = lane.measure(row.begin, until)
		default:
			lane.clip(row.begin, until, busy.add)
		}
	}
	if len(work.lanes) > 1 {
		busy.finish()
		busyNanos = busy.measure(row.begin, row.end)
	}
	p.QueuedNanos = busyNanos - p.ExecutingNanos
	p.WakeUpNanos = row.end - done
	p.IdleNanos = whole - p.ExecutingNanos - p.QueuedNanos - p.WakeUpNanos
	return p, done
}

// wakeUp splits the wake-up latency of a wait by the interval in which the waiting thread or goroutine was off the CPU when
// the work had ended.
func (ix *Index) wakeUp(rt *runtimeIndex, row *waitRow, p *WaitParts, done int64) {
	if p.WakeUpNanos <= 0 {
		return
	}
	woke, ran := int64(0), int64(0)
	r := rt.runner(row, ix.event(rt, row.thread, row.at))
	rt.kin.offCPU(r, done, done+1, func(s *intervals, i int) { // of several, the one that lasted longest
		end := min(s.end[i], row.end)
		wake := end
		if s.wake[i] >= s.begin[i] && s.wake[i] <= s.end[i] && s.wake[i] > 0 {
			wake = min(max(s.wake[i], done), end)
		}
		if end > ran || end == ran && wake < woke {
			woke, ran = wake, end
		}
	})
	if ran > 0 {
		p.Woken, p.SignalNanos, p.ScheduleNanos, p.ReturnNanos = true, woke-done, ran-woke, row.end-ran
	}
}

// Decompose decomposes the waits that want accepts; nil: all. It reads the dispatches once.
func Decompose(ctx context.Context, r *archive.Reader, ix *Index, want func(archive.RuntimeID, archive.WaitID) bool) ([]WaitParts, error) {
	dc := NewDecomposer(ix, want)
	if ix.observes() {
		for rows, err := range archive.ScanColumns[archive.Dispatch](ctx, r,
			"runtime", "lane", "dispatch", "command_buffer", "queue", "queue_seq", "start_ns", "end_ns", "origin_ns") {
			if err != nil {
				return nil, err
			}
			dc.Add(rows)
		}
	}
	return dc.Parts(), nil
}

// spans is a set of instants: half-open intervals, added in any order. Between add and finish the
// intervals may overlap; they are merged whenever their number has doubled.
type spans struct {
	starts, ends []int64
	before       []int64 // after finish: total length of the intervals before each
	merged       int
}

const minMerge = 1024

func (s *spans) add(start, end int64) {
	n := len(s.starts)
	if start >= end {
		return
	}
	if n > 0 && start >= s.starts[n-1] && start <= s.ends[n-1] { // the usual case: in order and touching
		s.ends[n-1] = max(s.ends[n-1], end)
		return
	}
	s.starts, s.ends = append(s.starts, start), append(s.ends, end)
	if n+1 >= 2*s.merged+minMerge {
		s.merge()
	}
}

func (s *spans) Len() int           { return len(s.starts) }
func (s *spans) Less(i, j int) bool { return s.starts[i] < s.starts[j] }
func (s *spans) Swap(i, j int) {
	s.starts[i], s.starts[j] = s.starts[j], s.starts[i]
	s.ends[i], s.ends[j] = s.ends[j], s.ends[i]
}

// merge makes the intervals disjoint and sorted.
func (s *spans) merge() {
	if !sort.IsSorted(s) {
		sort.Sort(s)
	}
	n := 0
	for i := range s.starts {
		if n > 0 && s.starts[i] <= s.ends[n-1] {
			s.ends[n-1] = max(s.ends[n-1], s.ends[i])
			continue
		}
		s.starts[n], s.ends[n] = s.starts[i], s.ends[i]
		n++
	}
	s.starts, s.ends, s.merged = s.starts[:n], s.ends[:n], n
}

// finish makes the set ready for questions.
func (s *spans) finish() {
	s.merge()
	s.before = make([]int64, len(s.starts)+1)
	for i := range s.starts {
		s.before[i+1] = s.before[i] + s.ends[i] - s.starts[i]
	}
}

// upTo returns the length of the set before the instant.
func (s *spans) upTo(nanos int64) int64 {
	i := sort.Search(len(s.starts), func(i int) bool { return s.starts[i] >= nanos })
	if i == 0 {
		return 0
	}
	return s.before[i-1] + min(s.ends[i-1], nanos) - s.starts[i-1]
}

// measure returns the length of the set within [from, to).
func (s *spans) measure(from, to int64) int64 {
	if from >= to {
		return 0
	}
	return s.upTo(to) - s.upTo(from)
}

// touches reports whether the set and [from, to) have an instant in common.
func (s *spans) touches(from, to int64) bool {
	i := sort.Search(len(s.ends), func(i int) bool { return s.ends[i] > from })
	return i < len(s.starts) && s.starts[i] < to
}

// clip calls f with the parts of the set within [from, to).
func (s *spans) clip(from, to int64, f func(start, end int64)) {
	for i := sort.Search(len(s.ends), func(i int) bool { return s.ends[i] > from }); i < len(s.starts) && s.starts[i] < to; i++ {
		f(max(s.starts[i], from), min(s.ends[i], to))
	}
}
