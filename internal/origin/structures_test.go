package origin

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
)

// TestNearest compares look-ups in any order with a walk over all samples.
func TestNearest(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := NewSamples()
		var all []Sample
		for range 1 + r.IntN(60) {
			x := Sample{Nanos: r.Int64N(300), Goroutine: r.Int64N(3), Stack: archive.StackID(r.IntN(5))}
			all = append(all, x)
			s.Add(1, 2, x)
		}
		for range 100 {
			at, goroutine := r.Int64N(320)-10, r.Int64N(4)
			got, ok := s.Nearest(1, 2, goroutine, at)
			best := slices.MinFunc(append([]Sample{{Nanos: 1 << 40}}, all...), func(a, b Sample) int {
				score := func(x Sample) int64 {
					if goroutine != 0 && x.Goroutine != goroutine {
						return 1 << 50
					}
					return 2*distance(x.Nanos, at) + max(0, min(1, x.Nanos-at)) // of two at one distance the earlier
				}
				return int(score(a) - score(b))
			})
			require.Equal(t, best.Nanos < 1<<40, ok, "seed %d", seed)
			if ok {
				require.Equal(t, best.Nanos, got.Nanos, "seed %d: at %d goroutine %d of %v", seed, at, goroutine, all)
				require.True(t, slices.Contains(all, got))
			}
		}
		first, last, ok := s.Span(1, 2)
		require.True(t, ok)
		require.Equal(t, slices.MinFunc(all, func(a, b Sample) int { return int(a.Nanos - b.Nanos) }).Nanos, first)
		require.Equal(t, slices.MaxFunc(all, func(a, b Sample) int { return int(a.Nanos - b.Nanos) }).Nanos, last)
	}
	s := NewSamples()
	s.Add(1, 2)
	_, ok := s.Nearest(1, 2, 0, 5)
	require.False(t, ok)
	_, _, ok = s.Span(1, 2)
	require.False(t, ok)
}

// TestGroup compares searches in groups of all sizes around those at which the tree grows with a walk.
func TestGroup(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(200)
		rt := &runtimeIndex{byWait: map[archive.WaitID]int32{}}
		var waits []waitRow
		for i := range n {
			begin := 1 + r.Int64N(100)
			waits = append(waits, waitRow{id: archive.WaitID(i + 1), begin: begin, end: begin + r.Int64N(1+r.Int64N(100))})
		}
		rt.setWaits(waits, nil)
		g := &group{}
		for i := range rt.waits {
			upTo := uint64(1 + r.IntN(50))
			if seed%2 == 0 {
				rt.join(g, int32(i), &upTo)
			} else {
				rt.join(g, int32(i), nil)
			}
		}
		g.build(rt.waits)
		for range 100 {
			lo, hi := r.IntN(n+1), r.IntN(n+1)
			b := bounds{minEnd: r.Int64N(200), maxEnd: r.Int64N(220), seq: uint64(r.IntN(52))}
			if seed%2 == 1 {
				b.seq = 0
			}
			require.Equal(t, g.scan(rt.waits, lo, hi, b), g.find(rt.waits, lo, hi, b), "seed %d", seed)
			at := r.Int64N(120)
			want := slices.IndexFunc(rt.waits, func(w waitRow) bool { return w.begin >= at })
			if want < 0 {
				want = n
			}
			require.Equal(t, want, g.notBefore(rt.waits, at))
		}
	}
}

// TestSpans compares the set of intervals with a set of single instants.
func TestSpans(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		var s spans
		in := make([]bool, 20_000)
		for range r.IntN(5000) {
			start := r.Int64N(19_000)
			end := start + r.Int64N(5)
			s.add(start, end)
			for i := start; i < end; i++ {
				in[i] = true
			}
		}
		s.finish()
		for range 50 {
			from, to := r.Int64N(20_000), r.Int64N(20_000)
			want := int64(0)
			for i := from; i < to; i++ {
				if in[i] {
					want++
				}
			}
			require.Equal(t, want, s.measure(from, to), "seed %d", seed)
			require.Equal(t, want > 0, from < to && s.touches(from, to))
			got := int64(0)
			s.clip(from, to, func(a, b int64) { got += b - a })
			require.Equal(t, want, got)
		}
	}
}

// TestConcurrentUse is for the race detector: an Index may be asked from many goroutines.
func TestConcurrentUse(t *testing.T) {
	sc := workload(2000)
	ix := sc.index()
	done := make(chan archive.Certificate)
	for range 4 {
		go func() {
			var last archive.Certificate
			for i := range sc.Dispatches {
				last = ix.Certificate(&sc.Dispatches[i])
				ix.Link("r", archive.OwnerDispatch, 1, archive.OriginDispatch, &sc.Dispatches[i].Origin)
			}
			done <- last
		}()
	}
	first := <-done
	for range 3 {
		require.Equal(t, first, <-done)
	}
}
