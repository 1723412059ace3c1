package sdk

// record is what the hot path copies into a ring: 128 bytes without pointers, so that the garbage collector never scans
// a ring. What does not fit (tags, counters, awaits, extra origins) rides in the ring's side bytes; see side.go.
type record struct {
	id         uint64 // 0: take shardID
	n          uint64 // number in the shard, set by push
	parent     uint64 // command buffer; 0: none
	start, end int64
	queueSeq   uint64

	stack      uint64 // origin
	originTime int64
	goroutine  int64
	thread     int64
	cpuTrace   [16]byte
	cpuSpan    [8]byte

	lane, name, queue, shader uint32

	side    uint32 // bytes in the side ring
	kind    recordKind
	flags   recordFlags
	dropped uint16 // attributes that did not fit
}

type recordKind uint8

const (
	kindDispatch recordKind = iota
	kindCommandBuffer
	kindWait
)

type recordFlags uint8

const (
	flagFaulted recordFlags = 1 << iota
	flagTimedOut
	flagThreadLocked // of the origin
)

func (r *record) setOrigin(o *Origin) {
	r.thread, r.goroutine, r.originTime, r.stack = o.thread, o.goroutine, o.time, o.stack
	r.cpuTrace, r.cpuSpan = o.cpuTrace, o.cpuSpan
	r.flags &^= flagThreadLocked
	if o.locked {
		r.flags |= flagThreadLocked
	}
}

func (r *record) origin() Origin {
	return Origin{
		thread: r.thread, goroutine: r.goroutine, time: r.originTime, stack: r.stack, cpuTrace: r.cpuTrace, cpuSpan: r.cpuSpan,
		locked: r.flags&flagThreadLocked != 0,
	}
}
