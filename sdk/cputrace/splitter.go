package cputrace

import (
	"bytes"
	"sync"

	"github.com/stax-otel/stax/sdk"
)

const (
	headerBytes     = 16      // of an execution trace
	maxGeneration   = 8 << 20 // bytes; larger generations are dropped whole
	maxQueued       = 4       // generations that wait to be sent
	maxQueuedBytes  = 32 << 20
	keepBufferBytes = 1 << 20 // larger buffers are not kept for reuse
)

// generation is one stretch of the execution trace.
type generation struct {
	begin, end sdk.Time
	data       []byte // header and generation; nil: dropped
	bytes      int64  // as traced
	processCPU int64  // ns of the whole process; 0: unknown
	reason     string // why it was dropped
}

// costNanos is about the processor time that the tracer spent on it: 200 ns per event of 5.6 bytes.
func (g *generation) costNanos() int64 { return g.bytes * 2000 / 56 }

// splitter is the writer of the execution trace. The tracer hands it the header first, then whole batches, and ends each
// generation with a write of a single byte (Go 1.26: EvEndOfGeneration). The splitter copies, because the tracer reuses
// its buffer, and never blocks, because the tracer queues without bound meanwhile.
type splitter struct {
	deliver func(*generation) // of every generation, dropped ones included; must not block
	buffers *bufferList

	header   []byte
	cur      []byte
	bytes    int64
	overflow bool
	begin    sdk.Time
	cpu      int64
}

func newSplitter(buffers *bufferList, deliver func(*generation)) *splitter {
	return &splitter{deliver: deliver, buffers: buffers, begin: sdk.Now(), cpu: processCPU()}
}

// Write takes one write of the tracer. It never fails: the tracer ignores errors.
func (s *splitter) Write(p []byte) (int, error) {
	if len(s.header) < headerBytes {
		n := min(headerBytes-len(s.header), len(p))
		s.header = append(s.header, p[:n]...)
		if rest := p[n:]; len(rest) > 0 {
			s.take(rest)
		}
		return len(p), nil
	}
	s.take(p)
	return len(p), nil
}

func (s *splitter) take(p []byte) {
	s.bytes += int64(len(p))
	switch {
	case s.overflow:
	case headerBytes+s.bytes > maxGeneration:
		s.overflow = true
		s.buffers.put(s.cur)
		s.cur = nil
	default:
		if s.cur == nil {
			s.cur = append(s.buffers.get(), s.header...)
		}
		s.cur = append(s.cur, p...)
	}
	if len(p) == 1 {
		s.cut()
	}
}

// cut ends the generation.
func (s *splitter) cut() {
	now, cpu := sdk.Now(), processCPU()
	g := &generation{begin: s.begin, end: now, data: s.cur, bytes: s.bytes}
	if s.cpu > 0 && cpu > s.cpu {
		g.processCPU = cpu - s.cpu
	}
	if s.overflow {
		g.reason = "a generation of the execution trace was larger than 8 MiB"
	}
	s.begin, s.cpu, s.cur, s.bytes, s.overflow = now, cpu, nil, 0, false
	s.deliver(g)
}

// finish accounts for what the tracer left without an end; nothing writes any more.
func (s *splitter) finish() {
	if s.bytes == 0 {
		return
	}
	s.overflow = true
	s.buffers.put(s.cur)
	s.cur = nil
	now := sdk.Now()
	s.deliver(&generation{begin: s.begin, end: now, bytes: s.bytes, reason: "the execution trace ended within a generation"})
	s.bytes = 0
}

// bufferList keeps a few buffers for reuse: a generation has about the size of the one before.
type bufferList struct {
	mu   sync.Mutex
	free [][]byte
}

func (l *bufferList) get() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.free); n > 0 {
		b := l.free[n-1]
		l.free = l.free[:n-1]
		return b
	}
	return make([]byte, 0, 64<<10)
}

func (l *bufferList) put(b []byte) {
	if cap(b) == 0 || cap(b) > keepBufferBytes {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) < 2 {
		l.free = append(l.free, b[:0])
	}
}

// boundedBuffer is a bytes.Buffer that drops what exceeds a limit.
type boundedBuffer struct {
	bytes.Buffer
	dropped bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.dropped || b.Len()+len(p) > maxGeneration {
		b.dropped = true
		return len(p), nil
	}
	return b.Buffer.Write(p)
}
