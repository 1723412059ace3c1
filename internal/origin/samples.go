package origin

import (
	"cmp"
	"slices"
	"sort"

	"github.com/stax-otel/stax/archive"
)

// Samples is an Evidence in memory: for each thread the times, stacks and goroutines of its samples
// in order of time, and the position of the last look-up.
//
// Origins come almost in order of time, so a look-up gallops from where the last one ended: it
// doubles its step in either direction until it has passed the instant, then bisects the last step.
// That costs a few comparisons however many samples there are, and at worst as much as bisecting.
//
// Samples is not safe for concurrent use: look-ups move the position.
type Samples struct {
	processes map[int64]*ProcessEvidence
	threads   map[threadKey]*threadSamples
	steps     map[archive.RuntimeID][]int64
}

type threadKey struct{ pid, thread int64 }

// threadSamples holds the samples of one thread. goroutine is nil when no sample names one.
type threadSamples struct {
	nanos     []int64
	stack     []archive.StackID
	goroutine []int64
	byRoutine map[int64][]int32 // positions by goroutine, built at the first look-up that names one
	unsorted  bool
	at        int
}

// clockStepRadius is the time around a step of a clock in which its readings are not comparable.
const clockStepRadius = int64(1e9)

// NewSamples returns an empty Samples.
func NewSamples() *Samples {
	return &Samples{
		processes: map[int64]*ProcessEvidence{}, threads: map[threadKey]*threadSamples{}, steps: map[archive.RuntimeID][]int64{},
	}
}

func (s *Samples) process(pid int64) *ProcessEvidence {
	p := s.processes[pid]
	if p == nil {
		p = &ProcessEvidence{}
		s.processes[pid] = p
	}
	return p
}

// SetPeriod sets the sampling period of a process.
func (s *Samples) SetPeriod(pid, nanos int64) { s.process(pid).PeriodNanos = nanos }

// AddUntimed records that the process has samples without an instant.
func (s *Samples) AddUntimed(pid int64) { s.process(pid).Untimed = true }

// AddStep records a step of the runtime's clock.
func (s *Samples) AddStep(rt archive.RuntimeID, nanos int64) {
	s.steps[rt] = append(s.steps[rt], nanos)
}

// Add records samples of one thread, in any order.
func (s *Samples) Add(pid, thread int64, samples ...Sample) {
	if len(samples) == 0 {
		return
	}
	s.process(pid).Timed = true
	key := threadKey{pid, thread}
	t := s.threads[key]
	if t == nil {
		t = &threadSamples{}
		s.threads[key] = t
	}
	t.byRoutine = nil
	for _, x := range samples {
		if n := len(t.nanos); n > 0 && x.Nanos <= t.nanos[n-1] {
			t.unsorted = true
		}
		if x.Goroutine != 0 && t.goroutine == nil {
			t.goroutine = make([]int64, len(t.nanos), cap(t.nanos)+len(samples))
		}
		t.nanos, t.stack = append(t.nanos, x.Nanos), append(t.stack, x.Stack)
		if t.goroutine != nil {
			t.goroutine = append(t.goroutine, x.Goroutine)
		}
	}
}

// ClockStep implements Evidence.
func (s *Samples) ClockStep(rt archive.RuntimeID, nanos int64) bool {
	return slices.ContainsFunc(s.steps[rt], func(step int64) bool { return distance(step, nanos) <= clockStepRadius })
}

// Process implements Evidence.
func (s *Samples) Process(pid int64) ProcessEvidence {
	if p := s.processes[pid]; p != nil {
		return *p
	}
	return ProcessEvidence{}
}

// Span implements Evidence.
func (s *Samples) Span(pid, thread int64) (first, last int64, ok bool) {
	t := s.threads[threadKey{pid, thread}]
	if t == nil {
		return 0, 0, false
	}
	t.sort()
	return t.nanos[0], t.nanos[len(t.nanos)-1], true
}

// Nearest implements Evidence.
func (s *Samples) Nearest(pid, thread, goroutine, nanos int64) (Sample, bool) {
	t := s.threads[threadKey{pid, thread}]
	if t == nil {
		return Sample{}, false
	}
	t.sort()
	if goroutine == 0 {
		t.at = gallop(t.nanos, t.at, nanos)
		return t.sample(nearer(t.nanos, t.at, nanos)), true
	}
	at := t.routine(goroutine)
	if len(at) == 0 {
		return Sample{}, false
	}
	i := sort.Search(len(at), func(i int) bool { return t.nanos[at[i]] >= nanos })
	if i == len(at) || i > 0 && nanos-t.nanos[at[i-1]] <= t.nanos[at[i]]-nanos {
		i--
	}
	return t.sample(int(at[i])), true
}

func (t *threadSamples) sample(i int) Sample {
	x := Sample{Nanos: t.nanos[i], Stack: t.stack[i]}
	if t.goroutine != nil {
		x.Goroutine = t.goroutine[i]
	}
	return x
}

// routine returns the positions of a goroutine's samples, in order of time.
func (t *threadSamples) routine(goroutine int64) []int32 {
	if t.goroutine == nil {
		return nil
	}
	if t.byRoutine == nil {
		t.byRoutine = map[int64][]int32{}
		for i, g := range t.goroutine {
			t.byRoutine[g] = append(t.byRoutine[g], int32(i))
		}
	}
	return t.byRoutine[goroutine]
}

// sort puts samples that came late in their place. Samples of one instant are ordered by content, so
// that the order of arrival never decides.
func (t *threadSamples) sort() {
	if !t.unsorted {
		return
	}
	all := make([]Sample, len(t.nanos))
	for i := range all {
		all[i] = t.sample(i)
	}
	slices.SortFunc(all, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(a.Nanos, b.Nanos), cmp.Compare(a.Goroutine, b.Goroutine), cmp.Compare(a.Stack, b.Stack))
	})
	for i, x := range all {
		t.nanos[i], t.stack[i] = x.Nanos, x.Stack
		if t.goroutine != nil {
			t.goroutine[i] = x.Goroutine
		}
	}
	t.unsorted, t.byRoutine, t.at = false, nil, 0
}

// gallop returns the first position in sorted times whose time is not before nanos, len(times) if
// there is none, searching outwards from the position at.
func gallop(times []int64, at int, nanos int64) int {
	n := len(times)
	at = min(max(at, 0), n)
	lo, hi := 0, n // the answer lies in [lo, hi]
	if at < n && times[at] < nanos {
		lo = at + 1
		for step := 1; ; step *= 2 {
			p := lo + step
			if p >= n {
				break
			}
			if times[p] >= nanos {
				hi = p
				break
			}
			lo = p + 1
		}
	} else {
		hi = at
		for step := 1; ; step *= 2 {
			p := hi - step
			if p < 0 {
				break
			}
			if times[p] < nanos {
				lo = p + 1
				break
			}
			hi = p
		}
	}
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if times[m] < nanos {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// nearer returns the position of the time nearest to nanos, given the first one not before it. Of two
// at the same distance the earlier wins.
func nearer(times []int64, at int, nanos int64) int {
	if at == len(times) || at > 0 && nanos-times[at-1] <= times[at]-nanos {
		return at - 1
	}
	return at
}
