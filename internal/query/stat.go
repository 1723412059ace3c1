package query

import (
	"math"
	"slices"
)

// Stat summarises the durations of a set of dispatches. The figures other than the counts cover the timed ones.
type Stat struct {
	Count        int64 `json:"count"`
	UntimedCount int64 `json:"untimed_count"` // start not positive, or end before start: counted, no time
	TotalNanos   int64 `json:"total_ns"`
	AvgNanos     int64 `json:"avg_ns"` // total / timed count, rounded down
	MinNanos     int64 `json:"min_ns"`
	P50Nanos     int64 `json:"p50_ns"`
	P95Nanos     int64 `json:"p95_ns"`
	P99Nanos     int64 `json:"p99_ns"`
	MaxNanos     int64 `json:"max_ns"`
}

// durationOf returns the duration of an interval, and whether it has one: times that cannot be true are left alone.
func durationOf(start, end int64) (int64, bool) {
	if start <= 0 || end < start {
		return 0, false
	}
	return end - start, true
}

// addSaturated adds two numbers that are not negative.
func addSaturated(a, b int64) int64 {
	if s := a + b; s >= 0 {
		return s
	}
	return math.MaxInt64
}

// tally counts and sums without keeping values.
type tally struct {
	count, untimed, total int64
}

func (t *tally) add(start, end int64) {
	t.count++
	d, ok := durationOf(start, end)
	if !ok {
		t.untimed++
		return
	}
	t.total = addSaturated(t.total, d)
}

// durations keeps every value: percentiles are exact, at 8 bytes a dispatch.
type durations struct {
	tally
	values []int64
}

func (d *durations) add(start, end int64) {
	d.count++
	v, ok := durationOf(start, end)
	if !ok {
		d.untimed++
		return
	}
	d.total = addSaturated(d.total, v)
	d.values = append(d.values, v)
}

// stat summarises; it reorders the values.
func (d *durations) stat() Stat {
	s := Stat{Count: d.count, UntimedCount: d.untimed, TotalNanos: d.total}
	n := len(d.values)
	if n == 0 {
		return s
	}
	s.AvgNanos = d.total / int64(n)
	s.MinNanos, s.MaxNanos = slices.Min(d.values), slices.Max(d.values)
	lo := 0
	for _, p := range []struct {
		percent int
		out     *int64
	}{{50, &s.P50Nanos}, {95, &s.P95Nanos}, {99, &s.P99Nanos}} {
		k := rank(n, p.percent)
		// After the last selection everything from lo on is at least as large as what lies before it.
		*p.out = selectNth(d.values[lo:], k-lo)
		lo = k
	}
	return s
}

// rank is the nearest rank of a percentile among n values, from 0: ceil(n*percent/100) - 1.
func rank(n, percent int) int {
	return max((n*percent+99)/100, 1) - 1
}

// selectNth returns the value that sorting v would put at k, and partitions v around it.
func selectNth(v []int64, k int) int64 {
	// Quickselect with a median of three. Enough bad pivots in a row, and the rest is sorted.
	for budget := 64; len(v) > 12 && budget > 0; budget-- {
		pivot := median(v[0], v[len(v)/2], v[len(v)-1])
		i, j := 0, len(v)-1
		for i <= j {
			for v[i] < pivot {
				i++
			}
			for v[j] > pivot {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			v = v[:j+1]
		case k >= i:
			v, k = v[i:], k-i
		default:
			return v[k]
		}
	}
	slices.Sort(v)
	return v[k]
}

func median(a, b, c int64) int64 {
	return max(min(a, b), min(max(a, b), c))
}
