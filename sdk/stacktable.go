package sdk

import "sync/atomic"

// maxFrames is the depth of an exact stack.
const maxFrames = 32

// stackTable interns captured stacks by the hash of their program counters, on the caller's path, without locks and
// without allocating. It is a bounded open-addressing table: a caller claims a free slot by compare-and-swap on the
// hash, writes the counters, and publishes the slot's length. Two callers with the same stack meet in the same slot; the
// loser does nothing. A record carries the hash; the worker looks it up, turns counters into frames once, and defines
// the stack on the wire before the first span that names it.
//
// When the table is full new stacks are not captured, and a diagnostic counts them: an origin then has its thread and
// instant only. Two different stacks with one 64-bit hash are taken for one; with a full table of 4096 stacks the chance
// is below 1e-12.
type stackTable struct {
	slots []stackSlot
	used  atomic.Int64
}

type stackSlot struct {
	hash atomic.Uint64 // 0: free
	n    atomic.Uint32 // frames; 0: being written
	pcs  [maxFrames]uintptr
	wire atomic.Uint64 // its id on the wire, once somebody but the worker needed it; 0: nobody did
}

const (
	stackSlotBytes = 280
	stackProbes    = 32
)

// newStackTable makes a table of at most budget bytes, at least 64 slots.
func newStackTable(budget int) *stackTable {
	n := 64
	for n*2*stackSlotBytes <= budget {
		n *= 2
	}
	return &stackTable{slots: make([]stackSlot, n)}
}

func hashPCs(pcs []uintptr) uint64 {
	h := uint64(len(pcs))
	for _, pc := range pcs {
		h = (h ^ uint64(pc)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	if h == 0 {
		h = 1
	}
	return h
}

// insert returns the hash under which the stack is known, or 0 when it is empty or the table is full.
func (t *stackTable) insert(pcs []uintptr) uint64 {
	if len(pcs) == 0 {
		return 0
	}
	h := hashPCs(pcs)
	mask := uint64(len(t.slots) - 1)
	for i := range uint64(stackProbes) {
		s := &t.slots[(h+i)&mask]
		have := s.hash.Load()
		if have == 0 {
			if s.hash.CompareAndSwap(0, h) {
				copy(s.pcs[:], pcs)
				s.n.Store(uint32(len(pcs)))
				t.used.Add(1)
				return h
			}
			have = s.hash.Load()
		}
		if have == h {
			return h
		}
	}
	diagStackTableFull.add()
	return 0
}

// slot returns the slot of a stack, or nil.
func (t *stackTable) slot(h uint64) *stackSlot {
	mask := uint64(len(t.slots) - 1)
	for i := range uint64(stackProbes) {
		switch s := &t.slots[(h+i)&mask]; s.hash.Load() {
		case h:
			return s
		case 0:
			return nil
		}
	}
	return nil
}

// lookup returns the counters of a stack. ready is false while its first capturer is still writing.
func (t *stackTable) lookup(h uint64) (pcs []uintptr, known, ready bool) {
	s := t.slot(h)
	if s == nil {
		return nil, false, false
	}
	n := s.n.Load()
	return s.pcs[:n], true, n != 0
}
