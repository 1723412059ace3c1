package origin

import (
	"cmp"
	"sort"
	"sync/atomic"

	"github.com/stax-otel/stax/archive"
)

// interner gives small numbers to values that repeat.
type interner[T comparable] struct {
	values []T
	index  map[T]uint32
}

func (in *interner[T]) of(v T) uint32 {
	i, ok := in.index[v]
	if !ok {
		if in.index == nil {
			in.index = map[T]uint32{}
		}
		i = uint32(len(in.values))
		in.index[v] = i
		in.values = append(in.values, v)
	}
	return i
}

// A stack in a column: its interned number, and a bit that says whether its source sees inlined functions.
const (
	inlinesBit = 1 << 31
	stackMask  = inlinesBit - 1
)

// names holds the values that columns refer to by number: stacks, and the ids of threads and goroutines.
type names struct {
	stacks interner[archive.StackID]
	ids    interner[int64]
}

func (n *names) stack(column uint32) archive.StackID { return n.stacks.values[column&stackMask] }

// series is a column of instants of one thread or goroutine, with a stack and another id for each: 16 bytes a row. Rows
// come in any order; those that come late are put in their place by settle, which must be called before look-ups.
//
// Look-ups come almost in order of time, so one gallops from where the last one ended: it doubles its step in either
// direction until it has passed the instant, then bisects the last step. That costs a few comparisons however many rows
// there are, and at worst as much as bisecting.
type series struct {
	nanos  []int64
	stack  []uint32
	other  []uint32 // of a thread the goroutine, of a goroutine the thread
	sorted int      // the rows before this one are in order, without repetitions
	at     atomic.Int64
}

func (s *series) add(nanos int64, stack, other uint32) {
	n := len(s.nanos)
	if s.sorted == n && (n == 0 || nanos > s.nanos[n-1]) {
		s.sorted++
	}
	s.nanos, s.stack, s.other = append(s.nanos, nanos), append(s.stack, stack), append(s.other, other)
}

// sorter orders the rows of a series from one on. Rows of one instant are ordered by content, so that the order of arrival
// never decides.
type sorter struct {
	*series
	names *names
	from  int
}

func (s sorter) Len() int           { return len(s.nanos) - s.from }
func (s sorter) Less(i, j int) bool { return s.compare(i+s.from, j+s.from) < 0 }
func (s sorter) Swap(i, j int) {
	i, j = i+s.from, j+s.from
	s.nanos[i], s.nanos[j] = s.nanos[j], s.nanos[i]
	s.stack[i], s.stack[j] = s.stack[j], s.stack[i]
	s.other[i], s.other[j] = s.other[j], s.other[i]
}

func (s sorter) compare(i, j int) int {
	if c := cmp.Compare(s.nanos[i], s.nanos[j]); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(s.names.ids.values[s.other[i]], s.names.ids.values[s.other[j]]),
		cmp.Compare(s.names.stack(s.stack[i]), s.names.stack(s.stack[j])), cmp.Compare(s.stack[i]&inlinesBit, s.stack[j]&inlinesBit))
}

// settle puts late rows in their place and keeps one of each that came twice.
func (s *series) settle(n *names) {
	if s.sorted == len(s.nanos) {
		return
	}
	first := s.nanos[s.sorted]
	for _, t := range s.nanos[s.sorted:] {
		first = min(first, t)
	}
	from := sort.Search(s.sorted, func(i int) bool { return s.nanos[i] >= first })
	x := sorter{s, n, from}
	sort.Sort(x)
	kept := from
	for i := from; i < len(s.nanos); i++ {
		if i > from && x.compare(i, kept-1) == 0 {
			continue
		}
		s.nanos[kept], s.stack[kept], s.other[kept] = s.nanos[i], s.stack[i], s.other[i]
		kept++
	}
	s.nanos, s.stack, s.other, s.sorted = s.nanos[:kept], s.stack[:kept], s.other[:kept], kept
}

// evict forgets the rows before an instant.
func (s *series) evict(before int64) {
	i := sort.Search(len(s.nanos), func(i int) bool { return s.nanos[i] >= before })
	if i == 0 {
		return
	}
	s.nanos = append(s.nanos[:0:0], s.nanos[i:]...)
	s.stack = append(s.stack[:0:0], s.stack[i:]...)
	s.other = append(s.other[:0:0], s.other[i:]...)
	s.sorted = len(s.nanos)
	s.at.Store(0)
}

// notBefore returns the first row that is not before an instant.
func (s *series) notBefore(nanos int64) int {
	at := int(s.at.Load())
	i := gallop(s.nanos, at, nanos)
	if i != at {
		s.at.Store(int64(i))
	}
	return i
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

// intervals is a column of the times in which one thread or goroutine did not run: 36 bytes a row.
type intervals struct {
	begin, end, wake []int64
	stack            []uint32
	reach            []int64 // the latest end up to each row
	settled          bool
}

func (s *intervals) add(begin, wake, end int64, stack uint32) {
	s.settled = false
	s.begin, s.wake, s.end, s.stack = append(s.begin, begin), append(s.wake, wake), append(s.end, end), append(s.stack, stack)
}

type intervalSorter struct {
	*intervals
	names *names
}

func (s intervalSorter) Len() int           { return len(s.begin) }
func (s intervalSorter) Less(i, j int) bool { return s.compare(i, j) < 0 }
func (s intervalSorter) Swap(i, j int) {
	s.begin[i], s.begin[j] = s.begin[j], s.begin[i]
	s.wake[i], s.wake[j] = s.wake[j], s.wake[i]
	s.end[i], s.end[j] = s.end[j], s.end[i]
	s.stack[i], s.stack[j] = s.stack[j], s.stack[i]
}

func (s intervalSorter) compare(i, j int) int {
	if c := cmp.Compare(s.begin[i], s.begin[j]); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(s.end[i], s.end[j]), cmp.Compare(s.wake[i], s.wake[j]),
		cmp.Compare(s.names.stack(s.stack[i]), s.names.stack(s.stack[j])), cmp.Compare(s.stack[i]&inlinesBit, s.stack[j]&inlinesBit))
}

// settle must be called before look-ups. In order, which is the usual case, it costs one pass over what is new.
func (s *intervals) settle(n *names) {
	if s.settled {
		return
	}
	x, old := intervalSorter{s, n}, len(s.reach)
	for i := max(old, 1); i < len(s.begin); i++ {
		if s.begin[i] <= s.begin[i-1] {
			sort.Sort(x)
			old, s.reach = 0, s.reach[:0]
			kept := 0
			for i := range s.begin {
				if i > 0 && x.compare(i, kept-1) == 0 {
					continue
				}
				s.begin[kept], s.wake[kept], s.end[kept], s.stack[kept] = s.begin[i], s.wake[i], s.end[i], s.stack[i]
				kept++
			}
			s.begin, s.wake, s.end, s.stack = s.begin[:kept], s.wake[:kept], s.end[:kept], s.stack[:kept]
			break
		}
	}
	for i := old; i < len(s.begin); i++ {
		r := s.end[i]
		if i > 0 {
			r = max(r, s.reach[i-1])
		}
		s.reach = append(s.reach, r)
	}
	s.settled = true
}

// evict forgets the intervals that ended before an instant.
func (s *intervals) evict(before int64) {
	kept := 0
	for i := range s.begin {
		if s.end[i] >= before {
			s.begin[kept], s.wake[kept], s.end[kept], s.stack[kept] = s.begin[i], s.wake[i], s.end[i], s.stack[i]
			kept++
		}
	}
	if kept == len(s.begin) {
		return
	}
	s.begin, s.wake = append(s.begin[:0:0], s.begin[:kept]...), append(s.wake[:0:0], s.wake[:kept]...)
	s.end, s.stack = append(s.end[:0:0], s.end[:kept]...), append(s.stack[:0:0], s.stack[:kept]...)
	s.reach = s.reach[:0:0]
	for i, end := range s.end {
		if i > 0 {
			end = max(end, s.reach[i-1])
		}
		s.reach = append(s.reach, end)
	}
}

// each calls f with every interval that has an instant in common with [from, to), latest begin first.
func (s *intervals) each(from, to int64, f func(i int)) {
	for i := sort.Search(len(s.begin), func(i int) bool { return s.begin[i] >= to }) - 1; i >= 0 && s.reach[i] > from; i-- {
		if s.end[i] > from {
			f(i)
		}
	}
}
