package sdk

import (
	"bytes"
	"sync"
	"testing"
	"unsafe"
)

func TestLayout(t *testing.T) {
	if n := unsafe.Sizeof(record{}); n != 128 {
		t.Errorf("record has %d bytes, want 128", n)
	}
	if n := unsafe.Sizeof(shard{}); n != 128 {
		t.Errorf("shard has %d bytes, want 128", n)
	}
	if n := unsafe.Sizeof(stackSlot{}); n != stackSlotBytes {
		t.Errorf("stack slot has %d bytes, want %d", n, stackSlotBytes)
	}
}

func TestMemoryLimit(t *testing.T) {
	for _, p := range []int{1, 2, 3, 8, 64, 512} {
		for _, limit := range []int{minMemoryLimit, DefaultMemoryLimit, 256 << 20} {
			n := shardCount(p, ringBudget(limit))
			records, side := ringSizes(ringBudget(limit), n)
			if n < 1 || n > maxShards || n&(n-1) != 0 || records&(records-1) != 0 || side&(side-1) != 0 || records < 16 || side < maxSideBytes {
				t.Errorf("%d processors, %d bytes: %d shards of %d records and %d bytes", p, limit, n, records, side)
			}
			if used := n * (records*128 + side); used > ringBudget(limit) {
				t.Errorf("%d processors, %d bytes: rings take %d", p, limit, used)
			}
			if used := len(newStackTable(stackBudget(limit)).slots) * stackSlotBytes; used > stackBudget(limit) {
				t.Errorf("%d bytes: stacks take %d", limit, used)
			}
		}
	}
}

// TestRingWraps pushes and drains records with side bytes of many sizes through a small ring.
func TestRingWraps(t *testing.T) {
	r := newRing(16, maxSideBytes)
	var scratch []byte
	put, got := 0, 0
	payload := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, i*37%5000) }
	for put < 5000 {
		for put < 5000 && r.room(len(payload(put))) {
			slot := r.next(payload(put))
			*slot = record{id: uint64(put), side: uint32(len(payload(put)))}
			r.head++
			put++
		}
		if put == got {
			t.Fatalf("no room for record %d in an empty ring", put)
		}
		side := r.sideTail.Load()
		for tail := r.tail.Load(); tail != r.head; tail++ {
			rec := r.recs[int(tail)&15]
			if b := r.sideBytes(side, int(rec.side), &scratch); rec.id != uint64(got) || !bytes.Equal(b, payload(got)) {
				t.Fatalf("record %d came back as %d with %d side bytes", got, rec.id, len(b))
			}
			side += uint64(rec.side)
			got++
		}
		r.sideTail.Store(side)
		r.tail.Store(r.head)
	}
}

// TestContention makes every shard locked: the record is dropped, counted, and still has an id.
func TestContention(t *testing.T) {
	rt := localRuntime(t, "")
	lane := rt.NewLane("l", LaneGeneric)
	for i := range rt.shards {
		rt.shards[i].acquire()
	}
	id := lane.ReportFrom(Origin{}, Name{}, 1, 2)
	for i := range rt.shards {
		rt.shards[i].unlock()
	}
	if st := rt.Stats(); id == 0 || st.Emitted != 1 || st.Dropped.Other != 1 {
		t.Errorf("id %v, stats %+v", id, st)
	}
}

// TestIDsAreUnique takes ids in every way at once.
func TestIDsAreUnique(t *testing.T) {
	rt := localRuntime(t, "")
	rt.idBase = idMask - 500 // the counters wrap inside their class
	lane := rt.NewLane("l", LaneGeneric)
	var mu sync.Mutex
	seen := map[uint64]bool{}
	add := func(ids ...uint64) {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			if id == 0 || seen[id] {
				t.Errorf("id %#x is 0 or not unique", id)
			}
			seen[id] = true
		}
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				d, c := lane.Dispatch(Name{}), lane.CommandBuffer(Name{})
				add(uint64(d.ID()), uint64(c.ID()), uint64(lane.ReportFrom(Origin{}, Name{}, 1, 2)))
			}
		})
	}
	wg.Wait()
	for seg := range uint64(1000) {
		add(rt.segmentID(1, seg), rt.segmentID(2, seg))
	}
}

func TestStackTable(t *testing.T) {
	tab := newStackTable(0)
	var hashes []uint64
	for i := range uintptr(200) {
		if h := tab.insert([]uintptr{i + 1, 2, 3}); h != 0 {
			hashes = append(hashes, h)
			if again := tab.insert([]uintptr{i + 1, 2, 3}); again != h {
				t.Errorf("stack %d: %x, then %x", i, h, again)
			}
			if pcs, known := tab.await(h); !known || len(pcs) != 3 || pcs[0] != i+1 {
				t.Errorf("stack %d came back as %v", i, pcs)
			}
		}
	}
	if len(hashes) != len(tab.slots) {
		t.Errorf("%d stacks in %d slots", len(hashes), len(tab.slots))
	}
	if tab.insert(nil) != 0 {
		t.Error("an empty stack was taken")
	}
	if _, known := tab.await(12345); known {
		t.Error("an unknown stack was found")
	}
}

// TestStackTableRace inserts the same stacks from many goroutines while a reader looks them up.
func TestStackTableRace(t *testing.T) {
	tab := newStackTable(0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range uintptr(30) {
				h := tab.insert([]uintptr{i + 1, i + 2})
				if pcs, known := tab.await(h); h != 0 && (!known || pcs[1] != i+2) {
					t.Errorf("stack %d: %v %v", i, pcs, known)
				}
			}
		})
	}
	wg.Wait()
}
