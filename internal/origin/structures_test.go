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
	const limit = 40
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		e := NewEvidence()
		var all []Sample
		for range 1 + r.IntN(60) {
			x := Sample{Nanos: 1 + r.Int64N(300), Thread: 1 + r.Int64N(2), Goroutine: r.Int64N(3), Stack: archive.StackID(r.IntN(5))}
			all = append(all, x)
			e.AddSamples([]archive.Sample{{Runtime: "r", TimeNanos: x.Nanos, ThreadID: x.Thread, GoroutineID: x.Goroutine, Stack: x.Stack}})
			if r.IntN(20) == 0 {
				e.settle()
			}
		}
		e.settle()
		k := kin{e.runtimes["r"]}
		for range 100 {
			at, goroutine := 1+r.Int64N(320), r.Int64N(4)
			n := k.ofThread(&e.names, 2, at)
			if goroutine != 0 {
				n = k.ofRoutine(&e.names, 2, goroutine, at, limit)
			}
			got, ok := n.nearest(at)
			score := func(x Sample) int64 {
				d := distance(x.Nanos, at)
				if x.Thread != 2 || goroutine != 0 && (x.Goroutine != goroutine || d > limit) {
					return 1 << 50
				}
				return 2*d + max(0, min(1, x.Nanos-at)) // of two at one distance the earlier
			}
			best := slices.MinFunc(all, func(a, b Sample) int { return int(score(a) - score(b)) })
			require.Equal(t, score(best) < 1<<50, ok, "seed %d", seed)
			if ok {
				require.Equal(t, best.Nanos, got.Nanos, "seed %d: at %d goroutine %d of %v", seed, at, goroutine, all)
				require.True(t, slices.Contains(all, got))
			}
		}
	}
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
