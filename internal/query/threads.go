package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/stax-otel/stax/archive"
)

// Kinds of a [ThreadRow].
const (
	ThreadCPU  = "cpu"  // a thread of the target: its work was queued from there and ran in parallel
	ThreadLane = "lane" // a pseudo-thread that stands for a lane: its work ran there
)

// ThreadRow is a CPU thread or a lane. TargetNanos is target time either way: of the lane's own dispatches, or of the
// dispatches queued from the CPU thread, which ran elsewhere. It is never CPU time.
type ThreadRow struct {
	TID         int64             `json:"tid"` // lanes have 0xFFF00000 and up
	Kind        string            `json:"kind"`
	Name        string            `json:"name"`
	LaneKind    string            `json:"lane_kind,omitempty"`
	PID         int64             `json:"pid"`
	Runtime     archive.RuntimeID `json:"runtime"`
	Dispatches  int64             `json:"dispatches"`
	TargetNanos int64             `json:"target_ns"`
	Waits       int64             `json:"waits"`
	WaitNanos   int64             `json:"wait_ns"`  // wall time in declared waits
	OwnedNanos  int64             `json:"owned_ns"` // target time that this thread provably waited for
	Lanes       []ThreadLaneRow   `json:"lanes"`    // where the queued work ran, most time first; empty for lanes
	CPUTime
	// OffCPUNanos is how long the thread itself did not run, and why. Waits of goroutines are not in it: those are in
	// [ThreadsAnswer].Goroutines.
	OffCPUNanos int64          `json:"off_cpu_ns"`
	OffCPU      []OffCPUReason `json:"off_cpu"`
}

// GoroutinesRow sums up the goroutines of one process. Goroutines wait side by side: the times of many add up to more
// than passed, and say nothing about any thread.
type GoroutinesRow struct {
	PID         int64          `json:"pid"`
	Name        string         `json:"name"` // of the process
	Goroutines  int64          `json:"goroutines"`
	Waits       int64          `json:"waits"`
	OffCPUNanos int64          `json:"off_cpu_ns"`
	OffCPU      []OffCPUReason `json:"off_cpu"`
	// ShortWaits were seen and are not stored, being shorter than the source's threshold; ShortNanos is their time.
	ShortWaits int64 `json:"short_waits"`
	ShortNanos int64 `json:"short_ns"`
}

// ThreadsAnswer is the answer of [Threads].
type ThreadsAnswer struct {
	Answer[ThreadRow]
	Goroutines []GoroutinesRow `json:"goroutines"` // of processes with waits of goroutines
}

// ThreadLaneRow is the work that one CPU thread queued on one lane.
type ThreadLaneRow struct {
	Lane        string `json:"lane"`
	TID         uint32 `json:"tid"`
	Dispatches  int64  `json:"dispatches"`
	TargetNanos int64  `json:"target_ns"`
}

// ThreadsParams are the parameters of [Threads].
type ThreadsParams struct {
	Limit int // rows; 0: all. Lanes with dispatches are listed whatever the limit.
}

// Threads lists the CPU threads that origins, waits and samples name, and the lanes as pseudo-threads.
func Threads(ctx context.Context, r *archive.Reader, p ThreadsParams) (ThreadsAnswer, error) {
	a := ThreadsAnswer{Answer: newAnswer[ThreadRow]("threads"), Goroutines: []GoroutinesRow{}}
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	names, err := v.threadNames(ctx)
	if err != nil {
		return a, err
	}
	declared, err := v.waitTable(ctx)
	if err != nil {
		return a, err
	}
	cpu := newThreadSums(v, names)
	for key := range names.named {
		cpu.at(key.runtime, key.id)
	}
	lanes := map[*lane]*tally{}
	origins := newOriginCoverage()
	err = v.attributed(ctx, func(d *archive.Dispatch, c *archive.Certificate, l *archive.Link) {
		origins.add(d, l)
		ln := v.lane(d.Runtime, d.Lane)
		addTo(lanes, ln, d)
		if isCPUThread(d.Origin.ThreadID) {
			t := cpu.at(d.Runtime, d.Origin.ThreadID)
			t.work.add(d.StartNanos, d.EndNanos)
			addTo(t.lanes, ln, d)
		}
		if c.OwnedNanos > 0 {
			if w := declared.waits[waitKey{d.Runtime, c.Wait}]; w != nil && isCPUThread(w.Origin.ThreadID) {
				t := cpu.at(d.Runtime, w.Origin.ThreadID)
				t.OwnedNanos = addSaturated(t.OwnedNanos, c.OwnedNanos)
			}
		}
	})
	if err != nil {
		return a, err
	}
	for _, w := range declared.waits {
		if !isCPUThread(w.Origin.ThreadID) {
			continue
		}
		t := cpu.at(w.Runtime, w.Origin.ThreadID)
		t.Waits++
		if n, ok := durationOf(w.BeginNanos, w.EndNanos); ok {
			t.WaitNanos = addSaturated(t.WaitNanos, n)
		}
	}
	if err := cpu.activity(ctx); err != nil {
		return a, err
	}
	a.Goroutines = append(a.Goroutines, cpu.goroutineRows()...)
	for _, t := range cpu.threads {
		a.Rows = append(a.Rows, t.row())
	}
	sortThreads(a.Rows)
	a.Matched = len(a.Rows) + len(v.lanes)
	a.Rows = cut(a.Rows, p.Limit)
	busy, idle := v.laneRows(lanes)
	if p.Limit > 0 {
		idle = cut(idle, max(p.Limit-len(a.Rows)-len(busy), 0))
		if p.Limit <= len(a.Rows)+len(busy) {
			idle = nil
		}
	}
	a.Rows = orEmpty(slices.Concat(busy, a.Rows, idle))
	if len(a.Rows) == 0 {
		a.Hints = append(a.Hints, v.emptyHints(0)...)
	}
	a.Coverage, err = v.coverage(ctx)
	a.Coverage.Origins = origins
	return a, err
}

// laneRows makes rows of the lanes: those with dispatches, and the others.
func (v *view) laneRows(work map[*lane]*tally) (busy, idle []ThreadRow) {
	for _, l := range v.lanes {
		row := ThreadRow{
			TID: int64(l.PseudoTID), Kind: ThreadLane, Name: l.Name, LaneKind: l.Kind, PID: v.pid(l.Runtime), Runtime: l.Runtime,
			Lanes: []ThreadLaneRow{}, OffCPU: []OffCPUReason{},
		}
		if n := work[l]; n != nil {
			row.Dispatches, row.TargetNanos = n.count, n.total
			busy = append(busy, row)
			continue
		}
		idle = append(idle, row)
	}
	sortThreads(busy)
	sortThreads(idle)
	return busy, idle
}

// threadSum collects what one CPU thread did.
type threadSum struct {
	ThreadRow
	lanes map[*lane]*tally
	work  tally
	off   offTally
}

func (t *threadSum) row() ThreadRow {
	t.Dispatches, t.TargetNanos, t.Lanes = t.work.count, t.work.total, []ThreadLaneRow{}
	for l, n := range t.lanes {
		t.Lanes = append(t.Lanes, ThreadLaneRow{l.Name, l.PseudoTID, n.count, n.total})
	}
	slices.SortFunc(t.Lanes, func(x, y ThreadLaneRow) int {
		return cmp.Or(-cmp.Compare(x.TargetNanos, y.TargetNanos), cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.TID, y.TID))
	})
	t.OffCPU, t.OffCPUNanos = t.off.rows()
	return t.ThreadRow
}

// threadSums collects the CPU threads. Several runtimes of one process speak of the same threads.
type threadSums struct {
	v          *view
	names      *threadNames
	rank       map[archive.RuntimeID]int
	threads    map[threadOf]*threadSum
	goroutines map[int64]*goroutineSum // by process
	recent     *threadSum
	recentKey  threadKey
}

// threadOf identifies a thread: by its process, or by its runtime where that is not known.
type threadOf struct {
	pid     int64
	runtime archive.RuntimeID
	id      int64
}

type goroutineSum struct {
	ids          numberSet
	off          offTally
	waits        int64
	short, nanos int64
}

func newThreadSums(v *view, names *threadNames) *threadSums {
	s := &threadSums{
		v: v, names: names, rank: map[archive.RuntimeID]int{}, threads: map[threadOf]*threadSum{}, goroutines: map[int64]*goroutineSum{},
	}
	for i, id := range v.order {
		s.rank[id] = i
	}
	return s
}

func (s *threadSums) at(rt archive.RuntimeID, id int64) *threadSum {
	if key := (threadKey{rt, id}); s.recent != nil && key == s.recentKey {
		return s.recent
	}
	key := threadOf{pid: s.v.pid(rt), id: id}
	if key.pid == 0 {
		key.runtime = rt
	}
	t := s.threads[key]
	if t == nil {
		t = &threadSum{lanes: map[*lane]*tally{}, off: offTally{}, ThreadRow: ThreadRow{
			TID: id, Kind: ThreadCPU, Name: s.names.of(s.v, rt, id), PID: key.pid, Runtime: rt,
		}}
		s.threads[key] = t
	} else if s.rank[rt] < s.rank[t.Runtime] {
		t.Runtime = rt // the first of the process, whatever the order of the rows
	}
	s.recent, s.recentKey = t, threadKey{rt, id}
	return t
}

func (s *threadSums) process(rt archive.RuntimeID) *goroutineSum {
	pid := s.v.pid(rt)
	g := s.goroutines[pid]
	if g == nil {
		g = &goroutineSum{off: offTally{}}
		s.goroutines[pid] = g
	}
	return g
}

// activity adds what the samples and off-CPU intervals say.
func (s *threadSums) activity(ctx context.Context) error {
	for rows, err := range archive.ScanColumns[archive.Sample](ctx, s.v.r, "runtime", "thread", "count", "cpu_ns") {
		if err != nil {
			return err
		}
		for i := range rows {
			s.at(rows[i].Runtime, rows[i].ThreadID).add(&rows[i])
		}
	}
	columns := []string{"runtime", "thread", "goroutine", "begin_ns", "wake_ns", "end_ns", "reason"}
	for rows, err := range archive.ScanColumns[archive.OffCPU](ctx, s.v.r, columns...) {
		if err != nil {
			return err
		}
		for i := range rows {
			o := &rows[i]
			if _, ok := durationOf(o.BeginNanos, o.EndNanos); !ok {
				continue
			}
			if o.GoroutineID == 0 {
				s.at(o.Runtime, o.ThreadID).off.add(o, o.BeginNanos, o.EndNanos)
				continue
			}
			g := s.process(o.Runtime)
			g.ids.add(uint64(o.GoroutineID))
			g.waits++
			g.off.add(o, o.BeginNanos, o.EndNanos)
		}
	}
	for rows, err := range archive.ScanColumns[archive.ProfileSource](ctx, s.v.r, "runtime", "waits_short", "short_ns") {
		if err != nil {
			return err
		}
		for _, x := range rows {
			if x.WaitsShort > 0 {
				g := s.process(x.Runtime)
				g.short = addSaturated(g.short, int64(x.WaitsShort))
				g.nanos = addSaturated(g.nanos, x.ShortNanos)
			}
		}
	}
	return nil
}

func (s *threadSums) goroutineRows() []GoroutinesRow {
	rows := make([]GoroutinesRow, 0, len(s.goroutines))
	for pid, g := range s.goroutines {
		row := GoroutinesRow{
			PID: pid, Name: s.v.processName(pid), Goroutines: int64(g.ids.distinct), Waits: g.waits, ShortWaits: g.short, ShortNanos: g.nanos,
		}
		row.OffCPU, row.OffCPUNanos = g.off.rows()
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(x, y GoroutinesRow) int {
		return cmp.Or(-cmp.Compare(x.OffCPUNanos, y.OffCPUNanos), cmp.Compare(x.PID, y.PID))
	})
	return rows
}

// isCPUThread reports whether an id can be a CPU thread's: an origin may say anything.
func isCPUThread(id int64) bool { return id > 0 && (id < pseudoThreads || id > 0xFFFF_FFFF) }

// processName is the name of a process as its first runtime gives it.
func (v *view) processName(pid int64) string {
	for _, id := range v.order {
		if rt := v.runtimes[id]; rt.PID == pid {
			if name := cmp.Or(rt.ServiceName, rt.Executable); name != "" {
				return name
			}
		}
	}
	return ""
}

func addTo(m map[*lane]*tally, l *lane, d *archive.Dispatch) {
	t := m[l]
	if t == nil {
		t = &tally{}
		m[l] = t
	}
	t.add(d.StartNanos, d.EndNanos)
}

func sortThreads(rows []ThreadRow) {
	slices.SortFunc(rows, func(x, y ThreadRow) int {
		return cmp.Or(compareCPU(&x.CPUTime, &y.CPUTime), -cmp.Compare(x.TargetNanos, y.TargetNanos), -cmp.Compare(x.WaitNanos, y.WaitNanos),
			-cmp.Compare(x.Dispatches, y.Dispatches), -cmp.Compare(x.OffCPUNanos, y.OffCPUNanos),
			cmp.Compare(x.PID, y.PID), cmp.Compare(x.TID, y.TID), cmp.Compare(x.Runtime, y.Runtime))
	})
}
