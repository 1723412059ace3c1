// Package load makes and sends the load of the load test: OTLP export requests that are encoded before the run and of which
// only ids, numbers and times change from batch to batch, so that the generator costs little beside the servers.
package load

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// Truth is what was sent. Sums are modulo 2^64 and let a reader check every record without keeping them.
type Truth struct {
	Dispatches, Buffers, Waits, Counters uint64

	DispatchIDs  uint64 // sum of span ids
	BufferIDs    uint64
	WaitIDs      uint64
	DispatchTime uint64 // sum of durations, ns
	Parents      uint64 // sum over dispatches of the command buffer's id

	Emitted map[string][]uint64 // by runtime: records of each shard, from shard 1 on
	Bytes   uint64              // sent
}

// Records is the number of spans that count: dispatches, command buffers and waits.
func (t *Truth) Records() uint64 { return t.Dispatches + t.Buffers + t.Waits }

func (t *Truth) add(o *Truth) {
	t.Dispatches += o.Dispatches
	t.Buffers += o.Buffers
	t.Waits += o.Waits
	t.Counters += o.Counters
	t.DispatchIDs += o.DispatchIDs
	t.BufferIDs += o.BufferIDs
	t.WaitIDs += o.WaitIDs
	t.DispatchTime += o.DispatchTime
	t.Parents += o.Parents
	t.Bytes += o.Bytes
	for runtime, emitted := range o.Emitted {
		if t.Emitted == nil {
			t.Emitted = make(map[string][]uint64)
		}
		t.Emitted[runtime] = emitted
	}
}

// Stream makes the requests of one connection, which plays one target process. Not for concurrent use.
type Stream struct {
	shape     Shape
	runtime   string
	templates []*template // two for each content: without and with segment roots
	batch     int

	// State of a run.
	rng      *rand.Rand
	clock    [lanes]int64 // when the lane is free, Unix ns
	n        [lanes + 1]uint64
	nextID   uint64
	segment  [lanes]uint64
	traces   [lanes + 1][16]byte
	left     int // records of the segments
	ids      []uint64
	start    []int64
	end      []int64
	origins  []int64
	seqs     []uint64
	truth    Truth
	requests int
}

// NewStream encodes the templates of one connection.
func NewStream(shape Shape, batch, index int) *Stream {
	s := &Stream{
		shape: shape, batch: batch,
		runtime: fmt.Sprintf("%032x", 0x5eed0000+index),
		ids:     make([]uint64, batch), start: make([]int64, batch), end: make([]int64, batch),
		origins: make([]int64, batch), seqs: make([]uint64, batch),
	}
	contents := max(distinct/batch, 8)
	for i := range contents {
		for _, roots := range []bool{false, true} {
			if roots && i >= max(contents/8, 1) {
				continue // new segments are rare
			}
			rng := rand.New(rand.NewPCG(uint64(index), uint64(i)))
			zipf := rand.NewZipf(rng, 1.3, 4, names-1)
			s.templates = append(s.templates, buildTemplate(shape, batch, roots, s.runtime, os.Getpid(), rng, zipf))
		}
	}
	s.Reset(0)
	return s
}

// Reset starts a new run: the same run number gives the same ids and durations.
func (s *Stream) Reset(run uint64) {
	s.rng = rand.New(rand.NewPCG(run, 0x57a7))
	s.rng = rand.New(rand.NewPCG(s.rng.Uint64(), binary.BigEndian.Uint64([]byte(s.runtime[24:]))))
	now := time.Now().UnixNano()
	for i := range s.clock {
		s.clock[i] = now
	}
	s.n = [lanes + 1]uint64{}
	s.nextID = s.rng.Uint64() >> 8 // like the SDK: random start, then counted
	s.left = 0
	s.truth = Truth{}
	s.requests = 0
}

// Registrations is the logs request to send before the spans; nil: none.
func (s *Stream) Registrations() []byte {
	if s.shape != ShapeStax {
		return nil
	}
	return registrations(s.runtime, os.Getpid(), time.Now().UnixNano())
}

// Next is the next export request; it is valid until the next call.
func (s *Stream) Next() []byte {
	t := s.pick()
	s.time(t)
	for _, p := range t.p {
		b := t.b[p.off:]
		switch p.kind {
		case patchID:
			fill(b, s.ids[p.arg])
		case patchIDHex:
			putHex(b[:16], s.ids[p.arg])
		case patchStart:
			binary.LittleEndian.PutUint64(b, uint64(s.start[p.arg]))
		case patchEnd:
			binary.LittleEndian.PutUint64(b, uint64(s.end[p.arg]))
		case patchOriginNow:
			putVarint(b, 9, uint64(s.origins[p.arg]))
		case patchSeq:
			putVarint(b, seqWidth(int(s.seqs[p.arg]>>48)), s.seqs[p.arg])
		default:
			s.patchShared(p, b)
		}
	}
	s.truth.Bytes += uint64(len(t.b))
	s.requests++
	return t.b
}

func (s *Stream) patchShared(p patch, b []byte) {
	switch p.kind {
	case patchTrace:
		copy(b, s.traces[p.arg][:])
	case patchSegment:
		fill(b, s.segment[p.arg])
	case patchSegHex:
		putHex(b[:16], s.segment[p.arg])
	case patchSegBegin:
		binary.LittleEndian.PutUint64(b, uint64(s.clock[p.arg]))
	case patchNow:
		putVarint(b, 9, uint64(time.Now().UnixNano()))
	case patchEmitted:
		putVarint(b, 5, s.n[p.arg])
	}
}

// pick takes a random template and, when the lanes' segments are full, one that begins new ones.
func (s *Stream) pick() *template {
	renew := s.left < s.batch
	if renew {
		s.left = perSegment * lanes
		for i := range s.segment {
			s.segment[i] = 0xff<<56 | s.rng.Uint64()>>8
		}
		for i := range s.traces {
			fill(s.traces[i][:8], s.rng.Uint64())
			fill(s.traces[i][8:], s.rng.Uint64()|1)
		}
	}
	s.left -= s.batch
	for {
		if t := s.templates[s.rng.IntN(len(s.templates))]; t.roots == renew {
			return t
		}
	}
}

// time gives the template's records ids, numbers and times: each lane executes its dispatches one after the other.
// Ids are counted as the SDK counts them, so that neighbours compress as they do in life.
func (s *Stream) time(t *template) {
	first := s.nextID
	s.nextID += uint64((s.batch/lanes + 2) * (lanes + 1))
	var inLane [lanes + 1]uint64
	for i, r := range t.records {
		lane := int(r.lane)
		id := first + inLane[lane]*(lanes+1) + uint64(lane) // the lanes' ids interleave
		inLane[lane]++
		s.n[lane]++
		s.ids[i], s.seqs[i] = id, uint64(shardOf(lane))<<48|s.n[lane]
		switch r.kind {
		case kindDispatch:
			random := s.rng.Uint32()
			s.start[i] = s.clock[lane] + int64(random>>20)
			s.end[i] = s.start[i] + int64(r.dur)*int64(512+random&1023)>>10
			s.origins[i] = s.start[i] - 20_000 - int64(random>>14&0xffff)
			s.clock[lane] = s.end[i]
			s.truth.DispatchIDs += id
			s.truth.DispatchTime += uint64(s.end[i] - s.start[i])
		case kindBuffer:
			first := int(r.of)
			s.start[i], s.end[i] = s.clock[lane], s.clock[lane]+1
			if first < i {
				s.start[i], s.end[i] = s.start[first], s.end[i-1]
			}
			s.origins[i] = s.start[i] - 15_000
			s.truth.BufferIDs += id
			s.truth.Parents += id * uint64(i-first)
		case kindWait:
			s.start[i], s.end[i] = s.start[r.of]+1000, s.end[r.of]+15_000
			s.origins[i] = s.start[i]
			s.truth.WaitIDs += id
		}
	}
	s.truth.Dispatches += t.counted.Dispatches
	s.truth.Buffers += t.counted.Buffers
	s.truth.Waits += t.counted.Waits
	s.truth.Counters += t.counted.Counters
}

// Final is the last request of a run: the heartbeat with which a target takes its leave; nil: the target has none.
func (s *Stream) Final() []byte {
	if s.shape != ShapeStax {
		return nil
	}
	var e encoder
	e.message(1, func(e *encoder) {
		e.message(1, func(e *encoder) { resource(e, s.shape, s.runtime, os.Getpid()) })
		e.message(2, func(e *encoder) { heartbeat(e, true) })
	})
	for _, p := range e.p {
		s.patchShared(p, e.b[p.off:])
	}
	return e.b
}

// Truth is what Next handed out since Reset.
func (s *Stream) Truth() Truth {
	t := s.truth
	if s.shape == ShapeStax {
		t.Emitted = map[string][]uint64{s.runtime: append([]uint64(nil), s.n[:]...)}
	}
	return t
}
