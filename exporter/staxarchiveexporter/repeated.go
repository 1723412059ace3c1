package staxarchiveexporter

import (
	"errors"
	"slices"
	"sync"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/otlprows"
)

// A target whose request timed out sends it again, although it may have arrived. Numbered records are told from their
// copies here: each (runtime, shard, n) is stored once. A record counts as stored when its append has succeeded, so what
// failed can come again; and while a request is under way, a copy of its records is refused for the time being, since
// nobody knows yet how that ends.

// reasonRepeated is the reason of drops of copies. They are no losses.
const reasonRepeated = "repeated"

const (
	// seqWindow is how many numbers of a shard are remembered, from the highest on. Copies come within seconds; of an older
	// number it is not known whether it was stored, so it is.
	seqWindow = 1 << 15
	seqWords  = seqWindow / 64
	// maxSeqShards bounds the shards that are remembered per runtime, at 8 KiB each.
	maxSeqShards = 1 << 12
)

var errUnderWay = errors.New("staxarchive: the same records are being stored for an earlier request")

// seqs remembers the numbers of one runtime.
type seqs struct {
	mu     sync.Mutex
	shards map[uint32]*seqShard
}

// seqShard has two bits for each number of the window: claimed by a request, and stored.
type seqShard struct {
	high    uint64
	claimed [seqWords]uint64
	stored  [seqWords]uint64
}

type claimState uint8

const (
	claimNew claimState = iota // it is the caller's now
	claimUnknown
	claimUnderWay
	claimStored
)

func bit(n uint64) (word int, mask uint64) {
	n %= seqWindow
	return int(n / 64), 1 << (n % 64)
}

// claim takes a number unless somebody has it.
func (s *seqShard) claim(n uint64) claimState {
	switch {
	case n > s.high:
		if n-s.high >= seqWindow {
			clear(s.claimed[:])
			clear(s.stored[:])
		} else {
			for i := s.high + 1; i <= n; i++ {
				w, m := bit(i)
				s.claimed[w] &^= m
				s.stored[w] &^= m
			}
		}
		s.high = n
	case s.high-n >= seqWindow:
		return claimUnknown
	}
	w, m := bit(n)
	switch {
	case s.stored[w]&m != 0:
		return claimStored
	case s.claimed[w]&m != 0:
		return claimUnderWay
	}
	s.claimed[w] |= m
	return claimNew
}

// settle says how the request ended that claimed a number.
func (s *seqShard) settle(n uint64, stored bool) {
	if n > s.high || s.high-n >= seqWindow {
		return // out of the window by now
	}
	w, m := bit(n)
	if stored {
		s.stored[w] |= m
	} else {
		s.claimed[w] &^= m
	}
}

func (s *seqs) shard(id uint32) *seqShard {
	sh := s.shards[id]
	if sh == nil {
		if len(s.shards) >= maxSeqShards {
			return nil
		}
		if s.shards == nil {
			s.shards = map[uint32]*seqShard{}
		}
		sh = &seqShard{}
		s.shards[id] = sh
	}
	return sh
}

// claimed is a number that a request has taken.
type claimed struct {
	of *seqs
	seqNumber
}

type seqNumber struct {
	sh *seqShard
	n  uint64
}

// seqDrop is a numbered record that became no row. It has a number like the others: a copy of it is no second loss.
type seqDrop struct {
	runtime        archive.RuntimeID
	seq            archive.Seq
	signal, reason string
}

// owner names a record in the rows that belong to it.
type owner struct {
	runtime archive.RuntimeID
	kind    archive.OwnerKind
	id      uint64
}

// claims takes the numbers of all records of the request and removes the records that are stored already.
func (s *state) claims(q *request) error {
	c := claimer{s: s, q: q}
	defer c.unlock()
	b := &q.batch
	b.Dispatches = without(b.Dispatches, func(d *archive.Dispatch) bool {
		return c.remove(d.Runtime, d.Seq, otlprows.SignalDispatch, archive.OwnerDispatch, uint64(d.ID))
	})
	b.CommandBuffers = without(b.CommandBuffers, func(x *archive.CommandBuffer) bool {
		return c.remove(x.Runtime, x.Seq, otlprows.SignalCommandBuffer, archive.OwnerCommandBuffer, uint64(x.ID))
	})
	b.Waits = without(b.Waits, func(w *archive.Wait) bool {
		return c.remove(w.Runtime, w.Seq, otlprows.SignalWait, archive.OwnerWait, uint64(w.ID))
	})
	for _, d := range q.seqDrops {
		if !c.remove(d.runtime, d.seq, d.signal, "", 0) {
			q.drop(d.runtime, d.seq, d.signal, d.reason, 1)
		}
	}
	if c.underWay {
		c.unlock()
		q.settle(false)
		return errUnderWay
	}
	if len(c.removed) > 0 {
		b.Awaits = slices.DeleteFunc(b.Awaits, func(a archive.Await) bool {
			return c.removed[owner{a.Runtime, archive.OwnerWait, uint64(a.Wait)}]
		})
		b.ExtraOrigins = slices.DeleteFunc(b.ExtraOrigins, func(o archive.ExtraOrigin) bool {
			return c.removed[owner{o.Runtime, o.OwnerKind, o.Owner}]
		})
		b.CounterSamples = slices.DeleteFunc(b.CounterSamples, func(x archive.CounterSample) bool {
			return c.removed[owner{x.Runtime, x.OwnerKind, x.Owner}]
		})
	}
	return nil
}

// without removes rows, as slices.DeleteFunc does. Rows are large: nothing is copied while nothing is removed.
func without[T any](rows []T, remove func(*T) bool) []T {
	kept := 0
	for i := range rows {
		if remove(&rows[i]) {
			continue
		}
		if kept != i {
			rows[kept] = rows[i]
		}
		kept++
	}
	clear(rows[kept:])
	return rows[:kept]
}

// claimer is the work of claims. It holds the lock of one runtime's numbers at a time.
type claimer struct {
	s        *state
	q        *request
	runtime  archive.RuntimeID
	of       *seqs // locked; nil: none
	own      map[seqNumber]bool
	removed  map[owner]bool
	underWay bool
}

func (c *claimer) unlock() {
	if c.of != nil {
		c.of.mu.Unlock()
		c.of = nil
	}
}

// remove reports whether a record is stored already.
func (c *claimer) remove(rt archive.RuntimeID, seq archive.Seq, signal string, kind archive.OwnerKind, id uint64) bool {
	if seq.N == 0 || c.underWay {
		return false
	}
	if c.of == nil || rt != c.runtime {
		c.unlock()
		rs := c.s.runtime(rt)
		c.runtime, c.of = rt, &rs.seqs
		c.of.mu.Lock()
	}
	sh := c.of.shard(seq.Shard)
	if sh == nil {
		return false
	}
	key := seqNumber{sh, seq.N}
	switch sh.claim(seq.N) {
	case claimNew:
		c.q.claimed = append(c.q.claimed, claimed{c.of, key})
		return false
	case claimUnknown:
		return false
	case claimUnderWay:
		if c.own == nil {
			c.own = map[seqNumber]bool{}
			for _, x := range c.q.claimed {
				c.own[x.seqNumber] = true
			}
		}
		if c.own[key] { // twice in one request: the first one counts, with what belongs to it
			c.q.drop(rt, seq, signal, reasonRepeated, 1)
			return true
		}
		c.underWay = true
		return false
	}
	c.q.drop(rt, seq, signal, reasonRepeated, 1)
	if kind != "" {
		if c.removed == nil {
			c.removed = map[owner]bool{}
		}
		c.removed[owner{rt, kind, id}] = true
	}
	return true
}

// settle says how the request ended.
func (q *request) settle(stored bool) {
	var held *seqs
	for _, c := range q.claimed {
		if c.of != held {
			if held != nil {
				held.mu.Unlock()
			}
			held = c.of
			held.mu.Lock()
		}
		c.sh.settle(c.n, stored)
	}
	if held != nil {
		held.mu.Unlock()
	}
	q.claimed = q.claimed[:0]
}
