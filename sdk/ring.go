package sdk

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// Rings and shards
//
// Every record goes through one of a fixed number of shards. A shard is a try-lock, a counter and, while recorded, one
// ring of records and one of side bytes. A caller starts at the shard that its stack address hashes to, so that a
// goroutine stays with one shard, and moves on when the shard is locked or full: nobody ever waits. Under the lock the
// caller takes the shard's next number n and then either stores the record or counts the drop. Therefore, at any moment
// that the lock is free,
//
//	n = records stored + records dropped (since the counters began)
//
// holds exactly, and the worker reads all of it in one consistent snapshot by taking the lock for a few nanoseconds.
// When every shard is locked the record is dropped and counted on shard 0, which has no ring.
//
// The worker reads stored records without the lock: callers never write between tail and the head that it saw.
//
// Why not a pool of single-writer rings through sync.Pool (about 3 ns cheaper): the collector drops pool tokens, so that
// design needs a registry, a way to reclaim rings and a bound on their number, and it cannot take an exact snapshot at
// the begin and end of a recording. The try-lock gives all of this for one compare-and-swap.

// maxShards keeps shard numbers inside the id class byte and the positive half of stax.seq.
const maxShards = 64

// spill is how many shards a caller tries before it drops: full rings cost each caller at most this much.
const spill = 8

type shard struct {
	lock atomic.Uint32
	num  uint32 // from 1
	ring *ring  // nil while not recorded

	n            uint64 // numbers handed out
	droppedFull  uint64
	droppedOther uint64
	_            [128 - 4 - 4 - 8 - 3*8]byte
}

// ring is two bounded queues that move together: fixed records and their side bytes. head and sideHead are guarded by
// the shard's lock; tail and sideTail belong to the worker.
type ring struct {
	recs []record // power of two
	side []byte   // power of two

	head, sideHead uint64
	quarter        uint64 // len(recs)/4 - 1
	seenTail       uint64 // the caller's copy of tail, refreshed when the ring looks full
	seenSideTail   uint64

	_        [64]byte
	tail     atomic.Uint64
	sideTail atomic.Uint64
	_        [48]byte
}

func newRing(records, side int) *ring {
	return &ring{recs: make([]record, records), side: make([]byte, side), quarter: uint64(records/4 - 1)}
}

// room reports whether a record with side bytes fits.
func (r *ring) room(side int) bool {
	if r.head-r.seenTail >= uint64(len(r.recs)) {
		r.seenTail = r.tail.Load()
		if r.head-r.seenTail >= uint64(len(r.recs)) {
			return false
		}
	}
	if side == 0 {
		return true
	}
	if r.sideHead-r.seenSideTail+uint64(side) > uint64(len(r.side)) {
		r.seenSideTail = r.sideTail.Load()
		return r.sideHead-r.seenSideTail+uint64(side) <= uint64(len(r.side))
	}
	return true
}

// next returns the slot for a record for which there is room, after storing its side bytes. The record counts once the
// caller adds one to head.
func (r *ring) next(side []byte) *record {
	if len(side) > 0 {
		at := int(r.sideHead) & (len(r.side) - 1)
		if k := copy(r.side[at:], side); k < len(side) {
			copy(r.side, side[k:])
		}
		r.sideHead += uint64(len(side))
	}
	return &r.recs[int(r.head)&(len(r.recs)-1)]
}

func (s *shard) tryLock() bool { return s.lock.CompareAndSwap(0, 1) }
func (s *shard) unlock()       { s.lock.Store(0) }

// acquire waits for the lock. Only the worker and Stats use it; callers hold the lock for nanoseconds.
func (s *shard) acquire() {
	for i := 0; !s.tryLock(); i++ {
		if i < 64 {
			runtime.Gosched()
		} else {
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// push gives rec its number and stores or drops it. rec.id is filled when 0. A record that meets no ring (the recording
// ended meanwhile) takes no number: nobody owes it.
func (rt *Runtime) push(rec *record, side []byte) {
	s, slot, id := rt.claim(rec.id, side)
	rec.id = id
	if slot != nil {
		rec.n, rec.side = s.n, uint32(len(side))
		*slot = *rec
		rt.publish(s)
	}
}

// claim numbers a record. Unless it was dropped, the caller gets the slot and the locked shard, fills the slot at once
// (n is s.n) and publishes.
func (rt *Runtime) claim(id uint64, side []byte) (*shard, *record, uint64) {
	at := stackHint()
	locked, full := 0, 0
	for i := 0; i < 2*len(rt.shards); i++ {
		s := &rt.shards[(at+i)&(len(rt.shards)-1)]
		if !s.tryLock() {
			if locked++; locked == len(rt.shards) {
				break
			}
			continue
		}
		r := s.ring
		if r == nil {
			s.unlock()
			return nil, nil, id
		}
		fits := r.room(len(side))
		if !fits {
			if full++; full < spill && full < len(rt.shards) {
				s.unlock()
				continue
			}
		}
		s.n++
		if id == 0 {
			id = rt.shardID(s.num, s.n)
		}
		if fits {
			return s, r.next(side), id
		}
		s.droppedFull++
		s.unlock()
		rt.wake()
		return nil, nil, id
	}
	if id == 0 {
		id = rt.reserveID()
	}
	if rt.active.Load() != 0 {
		rt.contended.Add(1)
	}
	return nil, nil, id
}

// publish counts the claimed record and unlocks. Each quarter of a ring wakes the worker.
func (rt *Runtime) publish(s *shard) {
	r := s.ring
	r.head++
	wake := r.head&r.quarter == 0
	s.unlock()
	if wake {
		rt.wake()
	}
}

// stackHint is a number that stays with a goroutine and differs between goroutines: a hash of where its stack is.
func stackHint() int {
	var mark byte
	return int(uint64(uintptr(unsafe.Pointer(&mark))>>11) * 0x9e3779b97f4a7c15 >> 40)
}

// minShardBytes is the least budget of a shard: fewer, larger rings beat many tiny ones.
const minShardBytes = 64 << 10

// shardCount is the number of shards for p processors and a budget of bytes: enough that callers that run at the same
// time rarely meet. It is a power of two.
func shardCount(p, budget int) int {
	n := 1
	for n < 4*p && n < maxShards && 2*n*minShardBytes <= budget {
		n *= 2
	}
	return n
}

// ringBudget and stackBudget are the parts of a memory limit; the request being built and its assembly take the rest.
func ringBudget(limit int) int  { return limit * 5 / 8 }
func stackBudget(limit int) int { return limit / 8 }

// ringSizes splits a budget of bytes over n shards: about two thirds records, one third side bytes, powers of two.
func ringSizes(budget, n int) (records, side int) {
	const recordBytes = 128
	records, side = 16, maxSideBytes
	for 3*records*recordBytes*n <= budget {
		records *= 2
	}
	for 6*side*n <= budget {
		side *= 2
	}
	return records, side
}
