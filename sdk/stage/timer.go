package stage

import (
	"math"
	"sync/atomic"
	"time"
)

// Kind is the type of a stage.
type Kind string

// The kinds of stages.
const (
	KindSource    Kind = "source"
	KindTap       Kind = "tap"
	KindLink      Kind = "link"
	KindTransform Kind = "transform"
)

// timer counts and times the calls of one stage.
type timer struct {
	on       uint32 // atomic; 1: calls that begin are timed. The type's method is not inlined in generic closures
	g        *Registry
	kind     Kind
	index    int // among the record's stages of its kind
	name     string
	declared time.Duration

	inFlight  atomic.Int64
	busySince atomic.Int64 // when inFlight last left 0
	counts    atomic.Pointer[counts]
}

// counts are those of the time since a reset, which replaces them as a whole. All times are nanoseconds. The padding
// keeps the stages of two goroutines on cache lines of their own.
type counts struct {
	calls, errors, aborted atomic.Uint64
	total, min, max        atomic.Int64
	first, last            atomic.Int64 // ends of a source's calls; first is none before the first one
	maxInFlight            atomic.Int64
	_                      [56]byte
}

// none is no instant. Others may be negative: clocks have any origin.
const none = math.MinInt64

func newTimer(g *Registry, k Kind) *timer {
	s := &timer{g: g, kind: k}
	s.reset()
	return s
}

func (s *timer) reset() {
	c := &counts{}
	c.min.Store(math.MaxInt64)
	c.max.Store(math.MinInt64)
	c.first.Store(none)
	c.maxInFlight.Store(s.inFlight.Load())
	s.counts.Store(c)
}

var base = time.Now()

func (s *timer) now() int64 {
	if s.g.opt.Clock != nil {
		return int64(s.g.opt.Clock())
	}
	return int64(time.Since(base))
}

// call is one timed call. It lives on the stack of the wrapper.
type call struct {
	s        *timer
	start    int64
	returned bool
	failed   bool
}

// begin notes that a call begins and returns when.
func (s *timer) begin() int64 {
	start := s.now()
	n := s.inFlight.Add(1)
	if n == 1 {
		s.busySince.Store(start)
	}
	if c := s.counts.Load(); n > c.maxInFlight.Load() {
		raise(&c.maxInFlight, n)
	}
	return start
}

// end counts the call. It is deferred: then a call that did not return is leaving by a panic or Goexit.
func (c *call) end() {
	s := c.s
	n := s.counts.Load()
	if !c.returned {
		n.aborted.Add(1)
		s.inFlight.Add(-1)
		return
	}
	now := s.now()
	d := now - c.start
	n.total.Add(d)
	if d < n.min.Load() {
		lower(&n.min, d)
	}
	if d > n.max.Load() {
		raise(&n.max, d)
	}
	if s.kind == KindSource {
		if n.first.Load() == none {
			n.first.CompareAndSwap(none, now)
		}
		n.last.Store(now)
	}
	if c.failed {
		n.errors.Add(1)
	}
	n.calls.Add(1) // last: who sees the call sees its time
	s.inFlight.Add(-1)
}

// cancel forgets a call that turned out to be none.
func (c *call) cancel() { c.s.inFlight.Add(-1) }

func raise(a *atomic.Int64, v int64) {
	for old := a.Load(); v > old && !a.CompareAndSwap(old, v); old = a.Load() {
	}
}

func lower(a *atomic.Int64, v int64) {
	for old := a.Load(); v < old && !a.CompareAndSwap(old, v); old = a.Load() {
	}
}
