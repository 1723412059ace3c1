package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stax-otel/stax/archive"
)

// CPUTime is processor time as samples measure it. It is never target time.
type CPUTime struct {
	// Samples counts the observations of a running thread.
	Samples int64 `json:"samples"`
	// OnCPUNanos is the processor time that they stand for. SamplesWithoutTime of them do not say how much: with any of
	// those, OnCPUNanos is less than the truth.
	OnCPUNanos         int64 `json:"on_cpu_ns"`
	SamplesWithoutTime int64 `json:"samples_without_time"`
}

func (c *CPUTime) add(s *archive.Sample) {
	n := int64(min(s.Count, 1<<62))
	c.Samples = addSaturated(c.Samples, n)
	if s.CPUNanos > 0 {
		c.OnCPUNanos = addSaturated(c.OnCPUNanos, s.CPUNanos)
	} else {
		c.SamplesWithoutTime = addSaturated(c.SamplesWithoutTime, n)
	}
}

// compareCPU orders by processor time, then by samples, most first.
func compareCPU(x, y *CPUTime) int {
	return cmp.Or(-cmp.Compare(x.OnCPUNanos, y.OnCPUNanos), -cmp.Compare(x.Samples, y.Samples))
}

// OffCPUReason sums up the intervals in which something did not run for one reason.
type OffCPUReason struct {
	Reason     string `json:"reason"` // semconv.WaitReason*: idle, lock, sem, ipc, io_read, io_write, conn, sleep, ready, syscall, other
	Waits      int64  `json:"waits"`
	TotalNanos int64  `json:"total_ns"`
	MaxNanos   int64  `json:"max_ns"`
	// ReadyNanos is the part of the total in which it was awake again and did not run yet, as far as the source says.
	ReadyNanos int64 `json:"ready_ns"`
}

// offTally collects off-CPU intervals by reason.
type offTally map[string]*OffCPUReason

// add counts the part of an interval from begin to end.
func (t offTally) add(o *archive.OffCPU, begin, end int64) {
	r := t[o.Reason]
	if r == nil {
		r = &OffCPUReason{Reason: o.Reason}
		t[o.Reason] = r
	}
	r.Waits++
	n := end - begin
	r.TotalNanos = addSaturated(r.TotalNanos, n)
	r.MaxNanos = max(r.MaxNanos, n)
	if o.WakeNanos > 0 && o.WakeNanos < end {
		r.ReadyNanos = addSaturated(r.ReadyNanos, end-max(o.WakeNanos, begin))
	}
}

// rows returns the reasons, most time first, and the whole time.
func (t offTally) rows() (rows []OffCPUReason, total int64) {
	rows = make([]OffCPUReason, 0, len(t))
	for _, r := range t {
		rows = append(rows, *r)
		total = addSaturated(total, r.TotalNanos)
	}
	slices.SortFunc(rows, func(x, y OffCPUReason) int {
		return cmp.Or(-cmp.Compare(x.TotalNanos, y.TotalNanos), -cmp.Compare(x.Waits, y.Waits), cmp.Compare(x.Reason, y.Reason))
	})
	return rows, total
}

// cpuFilter says which samples and waits count.
type cpuFilter struct {
	thread, pid int64  // 0: all
	source      string // "": all
}

func (f *cpuFilter) match(v *view, rt archive.RuntimeID, thread int64) bool {
	return (f.thread == 0 || f.thread == thread) && (f.pid == 0 || f.pid == v.pid(rt))
}

// stackSums is processor time by stack. Its memory grows with the number of different stacks, not with the samples.
type stackSums struct {
	sums  map[stackKey]*CPUTime
	total CPUTime
	// byProducer counts samples by process and source: two sources of one process may count the same time twice.
	byProducer map[producer]int64
	instants   int64 // observations with an instant
	all        int64 // samples of any thread and process, matched or not
}

type producer struct {
	pid    int64
	source string
}

func (v *view) sumStacks(ctx context.Context, f cpuFilter, within func(nanos int64) bool) (*stackSums, error) {
	s := &stackSums{sums: map[stackKey]*CPUTime{}, byProducer: map[producer]int64{}}
	var lastKey stackKey
	var last *CPUTime
	columns := []string{"runtime", "thread", "time_ns", "stack", "count", "cpu_ns", "source"}
	for rows, err := range archive.ScanColumns[archive.Sample](ctx, v.r, columns...) {
		if err != nil {
			return nil, err
		}
		for i := range rows {
			x := &rows[i]
			s.all++
			if !f.match(v, x.Runtime, x.ThreadID) || f.source != "" && f.source != x.Source {
				continue
			}
			s.byProducer[producer{v.pid(x.Runtime), x.Source}]++
			if x.TimeNanos != 0 {
				s.instants++
			}
			if within != nil && (x.TimeNanos == 0 || !within(x.TimeNanos)) {
				continue
			}
			s.total.add(x)
			if key := (stackKey{x.Runtime, x.Stack}); last == nil || key != lastKey {
				lastKey, last = key, s.sums[key]
				if last == nil {
					last = &CPUTime{}
					s.sums[key] = last
				}
			}
			last.add(x)
		}
	}
	return s, nil
}

// ordered visits the stacks in an order that does not depend on how the archive was written.
func (s *stackSums) ordered(visit func(stackKey, *CPUTime)) {
	keys := make([]stackKey, 0, len(s.sums))
	for key := range s.sums {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(x, y stackKey) int { return cmp.Or(cmp.Compare(x.runtime, y.runtime), cmp.Compare(x.id, y.id)) })
	for _, key := range keys {
		visit(key, s.sums[key])
	}
}

// hints says what makes the figures less than they look.
func (s *stackSums) hints(v *view) []Hint {
	var out []Hint
	sources := map[int64][]string{}
	for p := range s.byProducer {
		sources[p.pid] = append(sources[p.pid], p.source)
	}
	for _, pid := range slices.Sorted(maps.Keys(sources)) {
		if names := sources[pid]; len(names) > 1 {
			slices.Sort(names)
			out = append(out, Hint{
				"several_sources", fmt.Sprintf("Process %d was sampled by several sources (%s): the same time may be counted twice.", pid, strings.Join(names, ", ")),
				"Ask for one of them: stax top --source " + names[0],
			})
			break
		}
	}
	switch {
	case s.all == 0:
		out = append(out, v.noSamplesHint())
	case s.total.Samples == 0:
		out = append(out, Hint{"no_match", "No CPU sample matches the filters.", "See the threads that were sampled: stax threads --limit 0"})
	}
	return out
}

// noSamplesHint says why there are no CPU samples, and how to get some.
func (v *view) noSamplesHint() Hint {
	if len(v.runtimes) == 0 {
		return v.emptyHints(0)[0]
	}
	return Hint{
		"no_samples", "The recording has no CPU samples.",
		`A Go target samples itself with the blank import "github.com/stax-otel/stax/sdk/cputrace/auto"; others can send OTLP profiles`,
	}
}

// cpuRows reports whether the archive has CPU evidence at all.
func (v *view) cpuRows() bool {
	rows := v.r.Rows()
	return rows["samples"]+rows["off_cpu"] > 0
}
