package sdk

import (
	"context"
	"sync/atomic"
	"time"
)

// session is this runtime's part in one recording: the rings, what is owed, what was dropped, what was already told.
// The worker owns it; the fields that others touch are atomic.
type session struct {
	id     string
	ctx    context.Context // of its requests; ends some time after the recording
	cancel context.CancelFunc
	ending atomic.Bool // the gate named another recording or none
	ended  time.Time   // when; guarded by Runtime.mu

	shards   []shardSession // index 0 is the ringless shard 0
	stacks   *stackTable
	enc      *encoder
	detached bool      // rings are out of the shards: nothing more comes in
	paused   time.Time // since when the gate is out of reach; zero: it is not
	nextBeat time.Time // when to send a heartbeat if nothing else was sent
	nextNews time.Time // when to take a clock sample and tell diagnostics again
}

// shardSession is one shard's account in a recording.
type shardSession struct {
	ring                               *ring
	base, baseFull, baseOther          uint64 // at the recording's begin
	emitted, droppedFull, droppedOther uint64 // at the last snapshot
	head, sideHead                     uint64 // of the ring, at the last snapshot
	droppedSend                        uint64
	inBatch                            uint64 // records in the batch being built or sent
}

// begin opens the rings for a recording. Callers see them from the last statement on.
func (rt *Runtime) begin(v verdict) {
	clock.calibrate()
	limit := rt.cfg.MemoryLimit
	records, side := ringSizes(ringBudget(limit), len(rt.shards))
	s := &session{
		id:     v.reply.RecordingID,
		shards: make([]shardSession, len(rt.shards)+1),
		stacks: newStackTable(stackBudget(limit)),
	}
	s.ctx, s.cancel = context.WithCancel(rt.ctx)
	s.enc = newEncoder(rt, s)
	c := rt.contended.Load()
	s.shards[0] = shardSession{base: c, baseOther: c, emitted: c, droppedOther: c}
	rt.stacks.Store(s.stacks)
	for i := range rt.shards {
		sh, acc := &rt.shards[i], &s.shards[i+1]
		acc.ring = newRing(records, side)
		sh.acquire()
		acc.base, acc.baseFull, acc.baseOther = sh.n, sh.droppedFull, sh.droppedOther
		acc.emitted, acc.droppedFull, acc.droppedOther = sh.n, sh.droppedFull, sh.droppedOther
		sh.ring = acc.ring
		sh.unlock()
	}
	if l := rt.last; l != nil && l.id == s.id {
		s.inherit(l)
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.cur = s
	rt.defs, rt.defined = nil, nil
	// The gate may have changed its mind since v; then the worker hears of it next.
	if !rt.closing && rt.want.state == StateRecording && rt.want.reply.RecordingID == s.id {
		rt.active.Store(uint32(v.originMode()))
	}
}

// inherit continues the account of an earlier session of the same recording, so that its base and its drops are not
// forgotten. Nothing was numbered in between.
func (s *session) inherit(l *session) {
	for i := range s.shards {
		a, b := &s.shards[i], &l.shards[i]
		a.base, a.baseFull, a.baseOther, a.droppedSend = b.base, b.baseFull, b.baseOther, b.droppedSend
	}
}

// detach takes the rings out of the shards. After it the snapshot is final: emitted is exactly what was ever numbered.
func (rt *Runtime) detach(s *session) {
	if s.detached {
		return
	}
	rt.active.Store(0)
	rt.stacks.Store(nil)
	for i := range rt.shards {
		sh := &rt.shards[i]
		sh.acquire()
		s.shards[i+1].read(sh)
		sh.ring = nil
		sh.unlock()
	}
	s.readContended(rt)
	s.detached = true
}

// snapshot reads every shard's counts. Records up to the heads that it saw may be read without locks.
func (rt *Runtime) snapshot(s *session) {
	if s.detached {
		return
	}
	for i := range rt.shards {
		sh := &rt.shards[i]
		sh.acquire()
		s.shards[i+1].read(sh)
		sh.unlock()
	}
	s.readContended(rt)
}

func (a *shardSession) read(sh *shard) {
	a.emitted, a.droppedFull, a.droppedOther = sh.n, sh.droppedFull, sh.droppedOther
	a.head, a.sideHead = a.ring.head, a.ring.sideHead
}

func (s *session) readContended(rt *Runtime) {
	c := rt.contended.Load()
	s.shards[0].emitted, s.shards[0].droppedOther = c, c
}

// empty reports whether every record of the last snapshot was taken.
func (s *session) empty() bool {
	for i := range s.shards {
		if a := &s.shards[i]; a.ring != nil && a.ring.tail.Load() != a.head {
			return false
		}
	}
	return true
}

// end says that the recording is over for this runtime. What is queued may be sent for another d.
func (s *session) end(d time.Duration) {
	if !s.ending.Swap(true) {
		s.ended = time.Now()
		time.AfterFunc(d, s.cancel)
	}
}

// discard drops what is left in detached rings and returns how much it was.
func (s *session) discard() (n uint64) {
	for i := range s.shards {
		if a := &s.shards[i]; a.ring != nil {
			left := a.head - a.ring.tail.Load()
			a.droppedSend += left
			n += left
			a.ring.sideTail.Store(a.sideHead)
			a.ring.tail.Store(a.head)
		}
	}
	return n
}
