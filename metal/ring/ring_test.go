package ring

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// memory is a heap of which the test plays the GPU.
type memory struct {
	entries     []uint64
	fail        error
	short       bool
	invalidated int
	inFlight    func() int // commits that still write here
	t           *testing.T
}

func (m *memory) Resolve(first, n uint64) ([]uint64, error) {
	if m.fail != nil {
		return nil, m.fail
	}
	if m.short {
		n--
	}
	return append([]uint64{}, m.entries[first:first+n]...), nil
}

func (m *memory) Invalidate(first, n uint64) {
	if m.inFlight != nil && m.inFlight() > 0 {
		m.t.Error("a heap was invalidated with work in flight")
	}
	m.invalidated++
	clear(m.entries[first : first+n])
}

func newRing(t *testing.T, entries uint64, mode Mode) (*Ring, *memory, *memory) {
	t.Helper()
	a, b := &memory{entries: make([]uint64, entries), t: t}, &memory{entries: make([]uint64, entries), t: t}
	r, err := New(a, b, entries, mode, Precise)
	if err != nil {
		t.Fatal(err)
	}
	return r, a, b
}

func write(s Slot, start, end uint64) {
	m := s.Heap.(*memory)
	m.entries[s.Start], m.entries[s.End] = start, end
}

func TestPairsBelongToTheirDispatch(t *testing.T) {
	r, _, _ := newRing(t, 16, Pair)
	one, two := r.Begin(), r.Begin()
	slots := map[uint64]Slot{}
	for i, c := range []*Commit{one, two, one, one, two} { // interleaved commits share a heap
		id := uint64(i + 1)
		slots[id] = c.Reserve(Identity{Dispatch: id, CommandBuffer: 7, Queue: "q", Lane: "gpu"})
	}
	seen := map[uint64]bool{}
	for id, s := range slots {
		if !s.Ok() || seen[s.Start] || seen[s.End] || s.End != s.Start+1 {
			t.Fatalf("slot %d: %+v", id, s)
		}
		seen[s.Start], seen[s.End] = true, true
		write(s, id*100, id*100+id)
	}
	got := append(one.Complete(), two.Complete()...)
	if len(got) != 5 {
		t.Fatalf("%d samples", len(got))
	}
	for _, s := range got {
		if s.Err != nil || s.Start != s.Dispatch*100 || s.End != s.Start+s.Dispatch || s.CommandBuffer != 7 || s.Queue != "q" || s.Lane != "gpu" || s.Granularity != Precise {
			t.Errorf("%+v", s)
		}
	}
	if again := one.Complete(); again != nil {
		t.Errorf("completed twice: %v", again)
	}
	if st := r.Stats(); st.Reserved != 5 || st.Resolved != 5 {
		t.Errorf("%+v", st)
	}
}

func TestHeapIsReusedOnlyWhenAllItsBlocksRetired(t *testing.T) {
	r, a, b := newRing(t, 4, Pair)
	var commits []*Commit
	reserve := func() Slot {
		c := r.Begin()
		commits = append(commits, c)
		return c.Reserve(Identity{})
	}
	for i, want := range []*memory{a, a, b, b} {
		if s := reserve(); !s.Ok() || s.Heap.(*memory) != want {
			t.Fatalf("slot %d: %+v", i, s)
		}
	}
	if reserve().Ok() {
		t.Fatal("a pair was given out while both heaps were busy")
	}
	commits[0].Complete()
	if reserve().Ok() || a.invalidated != 0 {
		t.Fatal("a heap was reused while one of its blocks was out")
	}
	commits[1].Complete()
	if s := reserve(); !s.Ok() || s.Heap.(*memory) != a || s.Start != 0 || a.invalidated != 1 {
		t.Fatalf("after both retired: %+v, %d invalidations", s, a.invalidated)
	}
	if st := r.Stats(); st.NoRoom != 2 || st.Swaps != 2 || st.Reserved != 5 {
		t.Errorf("%+v", st)
	}
}

func TestReasons(t *testing.T) {
	for _, c := range []struct {
		name       string
		mode       Mode
		start, end uint64
		want       string
		count      func(Stats) uint64
	}{
		{"good", Pair, 5, 9, "", func(s Stats) uint64 { return s.Resolved }},
		{"both unwritten", Pair, 0, 0, "both stamps are unwritten", func(s Stats) uint64 { return s.Unwritten }},
		{"start unwritten", Pair, 0, 9, "start stamp is unwritten", func(s Stats) uint64 { return s.Unwritten }},
		{"end unwritten", Pair, 5, 0, "end stamp is unwritten", func(s Stats) uint64 { return s.Unwritten }},
		{"error value", Pair, ^uint64(0), ^uint64(0), "error value", func(s Stats) uint64 { return s.ErrorValue }},
		{"backwards", Pair, 9, 5, "4 ticks before", func(s Stats) uint64 { return s.Backwards }},
		{"end only", EndOnly, 0, 9, "", func(s Stats) uint64 { return s.Resolved }},
		{"end only, unwritten", EndOnly, 0, 0, "unwritten", func(s Stats) uint64 { return s.Unwritten }},
	} {
		r, _, _ := newRing(t, 4, c.mode)
		k := r.Begin()
		write(k.Reserve(Identity{Dispatch: 1}), c.start, c.end)
		s := k.Complete()[0]
		if (s.Err == nil) != (c.want == "") || s.Err != nil && (!errors.Is(s.Err, ErrNoTime) || !strings.Contains(s.Err.Error(), c.want)) || c.count(r.Stats()) != 1 {
			t.Errorf("%s: %v, %+v", c.name, s.Err, r.Stats())
		}
		if m, g := r.Mode(); m != c.mode || g != Precise {
			t.Errorf("mode %d, granularity %d", m, g)
		}
	}
}

func TestFailedResolve(t *testing.T) {
	for name, spoil := range map[string]func(*memory){
		"error": func(m *memory) { m.fail = errors.New("device removed") }, "short": func(m *memory) { m.short = true },
	} {
		r, a, _ := newRing(t, 4, Pair)
		c := r.Begin()
		c.Reserve(Identity{})
		c.Reserve(Identity{})
		spoil(a)
		got := c.Complete()
		if len(got) != 2 || !errors.Is(got[0].Err, ErrNoTime) || r.Stats().Failed != 2 {
			t.Errorf("%s: %v, %+v", name, got, r.Stats())
		}
		if !r.Close() {
			t.Errorf("%s: the block did not retire", name)
		}
	}
}

func TestAbandonAndClose(t *testing.T) {
	r, _, _ := newRing(t, 8, Pair)
	given := r.Begin()
	given.Reserve(Identity{})
	out := r.Begin()
	out.Reserve(Identity{})
	given.Abandon()
	given.Abandon()
	if got := given.Complete(); got != nil {
		t.Errorf("an abandoned commit has samples: %v", got)
	}
	if given.Reserve(Identity{}).Ok() {
		t.Error("an abandoned commit reserves")
	}
	if r.Close() {
		t.Error("the heaps may be released while a commit is out")
	}
	if out.Reserve(Identity{}).Ok() {
		t.Error("a closed ring gives out pairs")
	}
	out.Complete()
	if !r.Close() {
		t.Error("the heaps may not be released")
	}
	if st := r.Stats(); st.Abandoned != 1 || st.NoRoom != 2 {
		t.Errorf("%+v", st)
	}
	if _, err := New(nil, nil, 1, Pair, Relaxed); err == nil {
		t.Error("a heap of one entry was accepted")
	}
}

// TestManyCommits lets commits complete in any order on many goroutines: every pair comes back with its own stamps, or is
// counted.
func TestManyCommits(t *testing.T) {
	r, a, b := newRing(t, 64, Pair)
	var mu sync.Mutex
	flying := map[Heap]int{}
	for _, m := range []*memory{a, b} {
		m.inFlight = func() int { mu.Lock(); defer mu.Unlock(); return flying[m] }
	}
	var wg sync.WaitGroup
	var gpu sync.Mutex // one writer of heap memory at a time
	for g := range uint64(4) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(g, 1))
			for i := range uint64(500) {
				c := r.Begin()
				n := 0
				gpu.Lock()
				for j := range rnd.Uint64N(6) {
					id := g<<40 | i<<8 | j + 1
					s := c.Reserve(Identity{Dispatch: id})
					if !s.Ok() {
						continue
					}
					n++
					write(s, id*10, id*10+3)
				}
				got := c.Complete()
				gpu.Unlock()
				if len(got) != n {
					t.Errorf("%d samples of %d pairs", len(got), n)
				}
				for _, s := range got {
					if s.Err != nil || s.Start != s.Dispatch*10 || s.End != s.Start+3 {
						t.Errorf("%+v", s)
					}
				}
			}
		})
	}
	wg.Wait()
	st := r.Stats()
	if st.Reserved != st.Resolved || st.Resolved == 0 {
		t.Errorf("%+v", st)
	}
}
