package ring

import (
	"errors"
	"fmt"
	"sync"

	"github.com/stax-otel/stax/metal/clock"
)

// Heap is a timestamp heap. Ring calls it under its own lock.
type Heap interface {
	// Resolve reads n entries; only entries of completed work may be read.
	Resolve(first, n uint64) ([]uint64, error)
	// Invalidate zeroes n entries; nothing that uses the heap may be in flight.
	Invalidate(first, n uint64)
}

// DefaultEntries is the size of each of the two heaps. No limit of Metal's is known; heaps of 4096 are in use.
const DefaultEntries = 4096

// Mode says which stamps a dispatch gets.
type Mode int

// The modes.
const (
	// Pair stamps before and after.
	Pair Mode = iota
	// EndOnly stamps after only: the start is the end of what ran before, for devices whose start stamps come late.
	EndOnly
)

// Granularity of the stamps, recorded on every sample.
type Granularity int64

// The granularities, with Metal's values.
const (
	Relaxed Granularity = iota
	Precise
)

// Ring is safe for concurrent use.
type Ring struct {
	mode        Mode
	granularity Granularity
	entries     uint64

	mu      sync.Mutex
	heaps   [2]half
	current int
	closed  bool
	stats   Stats
}

type half struct {
	heap Heap
	next uint64 // first free entry
	live int    // blocks that have not retired
}

// Stats count what happened. All values only grow.
type Stats struct {
	Reserved   uint64 // pairs given out
	NoRoom     uint64 // dispatches without a pair because both heaps were busy
	Resolved   uint64 // samples with an interval
	Unwritten  uint64 // samples whose stamps were never written
	ErrorValue uint64 // samples for which Metal wrote its error value
	Backwards  uint64 // samples whose end lies before their start
	Failed     uint64 // samples lost because a resolve failed
	Abandoned  uint64 // samples of commits that were given up
	Swaps      uint64 // times the other heap was taken into use
}

// New makes a ring of two heaps with that many entries each, at least 2.
func New(a, b Heap, entries uint64, mode Mode, granularity Granularity) (*Ring, error) {
	if entries < 2 {
		return nil, fmt.Errorf("timestamp ring: %d entries, want at least 2", entries)
	}
	return &Ring{mode: mode, granularity: granularity, entries: entries, heaps: [2]half{{heap: a}, {heap: b}}}, nil
}

// Mode and granularity of the ring's stamps.
func (r *Ring) Mode() (Mode, Granularity) { return r.mode, r.granularity }

// Stats returns a copy of the counters.
func (r *Ring) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// Slot is a pair of entries in a heap, given out with a dispatch. Its zero value has no pair.
type Slot struct {
	Heap       Heap
	Start, End uint64 // entry indices; Start is not used in mode EndOnly
}

// Ok tells whether there is a pair.
func (s Slot) Ok() bool { return s.Heap != nil }

// Identity says whose pair it is. The numbers are the caller's.
type Identity struct {
	Dispatch, CommandBuffer uint64
	Queue, Lane             string
}

// Commit collects the pairs of one commit. Use it from one goroutine at a time.
type Commit struct {
	r      *Ring
	blocks []block
	done   bool
}

// block is a run of pairs in one heap.
type block struct {
	half  int
	first uint64
	ids   []Identity
}

// Begin begins a commit. Every commit must end with [Commit.Complete] or [Commit.Abandon].
func (r *Ring) Begin() *Commit { return &Commit{r: r} }

// Reserve takes a pair for a dispatch that is about to be encoded. Without room the slot is empty and the dispatch is
// counted: it is recorded without GPU times.
func (c *Commit) Reserve(id Identity) Slot {
	r := c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.done || r.closed {
		r.stats.NoRoom++
		return Slot{}
	}
	h := &r.heaps[r.current]
	if h.next+2 > r.entries {
		other := &r.heaps[1-r.current]
		if other.live > 0 {
			r.stats.NoRoom++
			return Slot{}
		}
		if other.next > 0 {
			other.heap.Invalidate(0, other.next)
			other.next = 0
		}
		r.current = 1 - r.current
		r.stats.Swaps++
		h = other
	}
	first := h.next
	h.next += 2
	if n := len(c.blocks); n > 0 && c.blocks[n-1].half == r.current && c.blocks[n-1].first+2*uint64(len(c.blocks[n-1].ids)) == first {
		c.blocks[n-1].ids = append(c.blocks[n-1].ids, id)
	} else {
		c.blocks = append(c.blocks, block{half: r.current, first: first, ids: []Identity{id}})
		h.live++
	}
	r.stats.Reserved++
	return Slot{Heap: h.heap, Start: first, End: first + 1}
}

// Sample is what became of one pair. Start and End are heap ticks and only mean something when Err is nil; in mode
// EndOnly Start is 0.
type Sample struct {
	Identity
	Start, End  uint64
	Granularity Granularity
	Err         error // wraps ErrNoTime
}

// ErrNoTime says that a sample has no GPU time; the error around it says why.
var ErrNoTime = errors.New("no GPU time")

// Complete resolves the commit's pairs and retires its blocks. Call it once the commit's work has completed, whether with
// or without a fault, and never before: entries read earlier are not there yet. Later calls return nothing.
func (c *Commit) Complete() []Sample {
	r := c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.done {
		return nil
	}
	c.done = true
	var out []Sample
	for _, b := range c.blocks {
		h := &r.heaps[b.half]
		n := 2 * uint64(len(b.ids))
		stamps, err := h.heap.Resolve(b.first, n)
		if err == nil && uint64(len(stamps)) != n {
			err = fmt.Errorf("%d entries instead of %d", len(stamps), n)
		}
		for i, id := range b.ids {
			s := Sample{Identity: id, Granularity: r.granularity}
			if err != nil {
				r.stats.Failed++
				s.Err = fmt.Errorf("resolve: %w: %w", err, ErrNoTime)
			} else {
				s.Start, s.End = stamps[2*i], stamps[2*i+1]
				r.judge(&s)
			}
			out = append(out, s)
		}
		h.live--
	}
	return out
}

// judge decides whether stamps are an interval. Zero is not a time, all ones are Metal's error value.
func (r *Ring) judge(s *Sample) {
	start := s.Start
	if r.mode == EndOnly {
		start = s.End
	}
	err := clock.CheckStamps(start, s.End)
	switch {
	case err == nil:
		r.stats.Resolved++
		return
	case s.Start == ^uint64(0) || s.End == ^uint64(0):
		r.stats.ErrorValue++
	case start == 0 || s.End == 0:
		r.stats.Unwritten++
	default:
		r.stats.Backwards++
	}
	s.Err = fmt.Errorf("%w: %w", err, ErrNoTime)
}

// Abandon gives a commit up whose work was never committed, so that its entries can be used again.
func (c *Commit) Abandon() {
	r := c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.done {
		return
	}
	c.done = true
	for _, b := range c.blocks {
		r.heaps[b.half].live--
		r.stats.Abandoned += uint64(len(b.ids))
	}
}

// Close stops reserving, as when the gate closes, and tells whether the heaps may be released: not while a commit is
// out. Ask again after it completed.
func (r *Ring) Close() (released bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.heaps[0].live == 0 && r.heaps[1].live == 0
}
