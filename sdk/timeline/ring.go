package timeline

import "sync"

// ring keeps the last entries. Entry number n, from 0, lies in slot n % capacity. Reading copies a few entries at a
// time under the lock, so that the loop never waits for a whole copy.
type ring struct {
	mu       sync.Mutex
	capacity int
	slots    []*Entry // nil until the first push
	head     uint64   // entries ever pushed
}

// push takes e and returns an entry for reuse, or nil.
func (g *ring) push(e *Entry) *Entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.slots == nil {
		g.slots = make([]*Entry, g.capacity)
	}
	slot := &g.slots[g.head%uint64(g.capacity)]
	old := *slot
	*slot = e
	g.head++
	return old
}

// oldest is the number of the oldest entry that is kept. The lock is held.
func (g *ring) oldest() uint64 { return g.head - min(g.head, uint64(g.capacity)) }

const copiesPerLock = 4

// read copies the entries from number since up to head, as many as the ring still has.
func (g *ring) read(since uint64) (entries []Entry, head, dropped uint64) {
	g.mu.Lock()
	head = g.head
	if since > head { // the cursor is from another life
		since = 0
	}
	next := max(since, g.oldest())
	dropped = next - since
	g.mu.Unlock()
	entries = make([]Entry, 0, head-next)
	for next < head {
		g.mu.Lock()
		if o := g.oldest(); o > next { // the loop lapped this reader
			o = min(o, head)
			dropped += o - next
			next = o
		}
		for range min(copiesPerLock, head-next) {
			entries = append(entries, g.slots[next%uint64(g.capacity)].clone())
			next++
		}
		g.mu.Unlock()
	}
	return entries, head, dropped
}

// Result is what a reader gets: plain data, copied for it alone.
type Result struct {
	// Entries lie in the order of the ticks.
	Entries []Entry `json:"entries"`
	// Head is the cursor for the next ReadDelta. It only grows.
	Head uint64 `json:"head"`
	// Configuration says which thresholds the warnings come from.
	Configuration Configuration `json:"configuration"`
	// Dropped is how many entries since the reader's cursor were overwritten before they could be read.
	Dropped uint64 `json:"dropped"`
}

// ReadDelta returns the entries since a cursor: 0, or the Head of an earlier result. 0 returns everything that is kept,
// and so does a cursor past the head, which must be from another recorder. Any goroutine may read, any number of them.
func (r *Recorder) ReadDelta(sinceHead uint64) Result {
	if r == nil {
		return Result{Entries: []Entry{}}
	}
	res := Result{Configuration: r.Configuration()}
	res.Entries, res.Head, res.Dropped = r.ring.read(sinceHead)
	return res
}

// Latest returns the newest entry, and false if there is none.
func (r *Recorder) Latest() (Entry, bool) {
	if r == nil {
		return Entry{}, false
	}
	g := &r.ring
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.head == 0 {
		return Entry{}, false
	}
	return g.slots[(g.head-1)%uint64(g.capacity)].clone(), true
}
