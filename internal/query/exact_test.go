package query

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
)

// makeArchive writes batches into a new archive and opens it; finish seals it first.
func makeArchive(t *testing.T, finish bool, batches ...*archive.Batch) *archive.Reader {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "t.stax")
	w, err := archive.Create(dir, archive.RecordingInfo{ID: "r1", Name: "t", StartedNanos: 1}, archive.WriterOptions{})
	require.NoError(t, err)
	for _, b := range batches {
		require.NoError(t, w.Append(b))
	}
	if finish {
		require.NoError(t, w.Finish(t.Context(), nil, nil))
	} else {
		require.NoError(t, w.Close())
	}
	r, err := archive.Open(dir, archive.ReaderOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	return r
}

// naive recomputes a Stat the plain way.
func naive(ds []archive.Dispatch) Stat {
	s := Stat{Count: int64(len(ds))}
	var values []int64
	for _, d := range ds {
		if d.StartNanos <= 0 || d.EndNanos < d.StartNanos {
			s.UntimedCount++
			continue
		}
		values = append(values, d.EndNanos-d.StartNanos)
		s.TotalNanos += d.EndNanos - d.StartNanos
	}
	if len(values) == 0 {
		return s
	}
	slices.Sort(values)
	nearest := func(p float64) int64 {
		for i := range values {
			if float64(i+1) >= p*float64(len(values))/100 {
				return values[i]
			}
		}
		return 0
	}
	s.AvgNanos = s.TotalNanos / int64(len(values))
	s.MinNanos, s.MaxNanos = values[0], values[len(values)-1]
	s.P50Nanos, s.P95Nanos, s.P99Nanos = nearest(50), nearest(95), nearest(99)
	return s
}

func TestLanesAndTopAreExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := &archive.Batch{Runtimes: []archive.Runtime{{ID: "a", PID: 10}, {ID: "b", PID: 11}}}
	byLane := map[string][]archive.Dispatch{}
	byName := map[string][]archive.Dispatch{}
	for i := range 4_000 {
		d := archive.Dispatch{
			Runtime: archive.RuntimeID([]string{"a", "b"}[rng.IntN(2)]), Lane: archive.LaneID(fmt.Sprint("lane", rng.IntN(3))),
			ID: archive.DispatchID(rng.Uint64() | 1), Name: fmt.Sprint("name", rng.IntN(40)*rng.IntN(4)),
			StartNanos: 1 + rng.Int64N(1e9), Seq: archive.Seq{N: uint64(i + 1)},
		}
		d.EndNanos = d.StartNanos + rng.Int64N(1000)*rng.Int64N(1000)
		switch rng.IntN(100) {
		case 0:
			d.EndNanos = -1
		case 1:
			d.StartNanos = 0
		case 2:
			d.EndNanos = d.StartNanos - 1
		}
		b.Dispatches = append(b.Dispatches, d)
		lane := fmt.Sprint(d.Runtime, "/", d.Lane)
		byLane[lane] = append(byLane[lane], d)
		byName[lane+"/"+d.Name] = append(byName[lane+"/"+d.Name], d)
	}
	for _, finish := range []bool{false, true} {
		r := makeArchive(t, finish, b)
		lanes, err := Lanes(t.Context(), r, LanesParams{})
		require.NoError(t, err)
		require.Len(t, lanes.Rows, len(byLane))
		for _, row := range lanes.Rows {
			assert.Equal(t, naive(byLane[fmt.Sprint(row.Runtime, "/", row.LaneID)]), row.Stat, "lane %s", row.LaneID)
		}
		for _, by := range TopOrders {
			top, err := Top(t.Context(), r, TopParams{By: by})
			require.NoError(t, err)
			require.Len(t, top.Rows, len(byName))
			for i, row := range top.Rows {
				assert.Equal(t, naive(byName[fmt.Sprint(row.Runtime, "/", row.LaneID, "/", row.Name)]), row.Stat, "name %s", row.Name)
				if i > 0 {
					assert.GreaterOrEqual(t, top.Rows[i-1].by(by), row.by(by), "order by %s", by)
				}
			}
			again, err := Run(t.Context(), r, "top", url.Values{"by": {by}, "limit": {"0"}})
			require.NoError(t, err)
			assert.Equal(t, top, again, "the order of ties must not change")
		}
	}
}

func TestSelectNth(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := 1; n < 200; n++ {
		v := make([]int64, n)
		for i := range v {
			v[i] = rng.Int64N(int64(cmp.Or(n/3, 1)))
		}
		sorted := slices.Sorted(slices.Values(v))
		for k := range n {
			w := slices.Clone(v)
			require.Equal(t, sorted[k], selectNth(w, k), "n %d k %d", n, k)
			for i := range w {
				require.True(t, i < k && w[i] <= w[k] || i >= k && w[i] >= w[k], "n %d k %d: not a partition", n, k)
			}
		}
	}
}

// TestDispatchesLimit compares the first rows with those of the whole answer.
func TestDispatchesLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	b := &archive.Batch{}
	for i := range 5000 {
		start := 1 + rng.Int64N(2000)
		b.Dispatches = append(b.Dispatches, archive.Dispatch{
			Runtime: "a", Lane: "l", ID: archive.DispatchID(i + 1), StartNanos: start, EndNanos: start + rng.Int64N(100) - 5,
		})
	}
	r := makeArchive(t, true, b)
	for _, sort := range []string{SortStart, SortDuration} {
		all, err := Dispatches(t.Context(), r, DispatchesParams{Sort: sort})
		require.NoError(t, err)
		require.Len(t, all.Rows, len(b.Dispatches))
		for _, limit := range []int{1, 7, 300} {
			some, err := Dispatches(t.Context(), r, DispatchesParams{Sort: sort, Limit: limit})
			require.NoError(t, err)
			assert.Equal(t, all.Rows[:limit], some.Rows, "sort %s limit %d", sort, limit)
			assert.Equal(t, all.Matched, some.Matched)
		}
	}
}
