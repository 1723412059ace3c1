//go:build (darwin || linux) && (amd64 || arm64)

// Package counters is the second of the three Metal surfaces: values of a device's counter sets, sampled on the classic
// path into counter sample buffers. It is separate from timestamp zones by name and by code, and it is a profiling mode
// that a program turns on: it takes a part of the process's few sample buffers, and sampling inside an encoder with a
// barrier makes dispatches wait for each other.
//
// Sample buffers cannot be cleared, so each sample is used once: a buffer whose samples are all given out and resolved is
// replaced by a new one. What a device has must be asked: on an M3 Max the only set is "timestamp" and the only point the
// stage boundary (VectorAccelerate report, macOS 26.5.2); paravirtual devices have no sets at all (ocannl #942). Not run
// here.
package counters

import (
	"errors"
	"fmt"
	"sync"

	"github.com/stax-otel/stax/metal/internal/mtl"
	"github.com/stax-otel/stax/metal/ring"
)

// State says what a value is.
type State int

// The states of a value.
const (
	OK        State = iota
	Error           // Metal wrote its error value
	Unwritten       // every counter of the sample is zero: nothing was written, or nothing happened
	Failed          // the resolve failed
)

func (s State) String() string { return [...]string{"ok", "error", "unwritten", "failed"}[s] }

// Point says where a sample was taken.
type Point int

// The points of a sample.
const (
	Begin Point = iota // before the encoder's first work, or before the dispatch
	End                // after it
)

// Sample holds the values of a set at one point, in the order of [Sampler.Counters]. Values mean something when State is
// OK and the value's own state is OK.
type Sample struct {
	ring.Identity
	Point  Point
	Values []Value
	Err    error // why there are none, when State is Failed for all
}

// Value is one counter's value. Value is only meaningful when State is OK.
type Value struct {
	Value uint64
	State State
}

// Stats count what happened; all only grow.
type Stats struct {
	Sampled, NoRoom, Errors, Unwritten, Failed, Replaced uint64
}

// Sampler samples one counter set. It is safe for concurrent use; a [Batch] belongs to one goroutine.
type Sampler struct {
	dev     *mtl.Device
	set     *mtl.CounterSet
	samples uint64
	label   string

	mu     sync.Mutex
	buf    *mtl.SampleBuffer
	next   uint64
	out    int // batches that hold samples of buf
	closed bool
	stats  Stats
}

// Open makes a sampler of a set, with a buffer of n samples (0: the most that Metal allows). Errors wrap
// errors.ErrUnsupported where the device lacks the set, and say which ones it has.
func Open(dev *mtl.Device, set string, n uint64) (*Sampler, error) {
	s := &Sampler{dev: dev, samples: n, label: "stax counters " + set}
	if n == 0 {
		s.samples = mtl.MaxSamples
	}
	if s.samples < 2 {
		return nil, fmt.Errorf("counters: %d samples, want at least 2", n)
	}
	var have []string
	for _, c := range dev.CounterSets() {
		have = append(have, c.Name)
		if c.Name == set && s.set == nil {
			s.set = c
		} else {
			c.Release()
		}
	}
	if s.set == nil {
		if have == nil {
			return nil, fmt.Errorf("counters: the device has no counter sets: %w", errors.ErrUnsupported)
		}
		return nil, fmt.Errorf("counters: the device has no set %q, only %q: %w", set, have, errors.ErrUnsupported)
	}
	b, err := dev.NewSampleBuffer(s.set, s.samples, s.label)
	if err != nil {
		s.set.Release()
		return nil, fmt.Errorf("counters: %w", err)
	}
	s.buf = b
	return s, nil
}

// Counters are the names of the set's counters.
func (s *Sampler) Counters() []string { return s.set.Counters }

// Unit is the unit of the set's counters: ticks of the GPU's own clock, cycles or invocations.
func (s *Sampler) Unit() string {
	switch s.set.Name {
	case "timestamp":
		return "ticks"
	case "stageutilization":
		return "cycles"
	case "statistic":
		return "invocations"
	}
	return "count"
}

// Stats returns a copy of the counters.
func (s *Sampler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Close stops sampling and gives the buffer back to the process's budget. It returns false and keeps it while a batch is
// out: call it again after that one completed.
func (s *Sampler) Close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.out > 0 {
		return false
	}
	if s.buf != nil {
		s.buf.Release()
		s.set.Release()
		s.buf = nil
	}
	return true
}

// Batch collects the samples of one command buffer.
type Batch struct {
	s     *Sampler
	buf   *mtl.SampleBuffer
	pairs []pair
	done  bool
}

type pair struct {
	first uint64
	id    ring.Identity
}

// Begin begins a batch; end it with Complete or Abandon.
func (s *Sampler) Begin() *Batch { return &Batch{s: s} }

// reserve takes two samples. A batch keeps to one buffer.
func (b *Batch) reserve(id ring.Identity) (uint64, bool) {
	s := b.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.done || s.closed || b.buf != nil && b.buf != s.buf {
		s.stats.NoRoom++
		return 0, false
	}
	if s.next+2 > s.samples && !s.replace() {
		s.stats.NoRoom++
		return 0, false
	}
	if b.buf == nil {
		b.buf = s.buf
		s.out++
	}
	first := s.next
	s.next += 2
	b.pairs = append(b.pairs, pair{first, id})
	return first, true
}

// replace takes a new buffer when nobody uses the old one.
func (s *Sampler) replace() bool {
	if s.out > 0 {
		return false
	}
	s.buf.Release()
	b, err := s.dev.NewSampleBuffer(s.set, s.samples, s.label)
	if err != nil {
		s.buf, s.closed = nil, true
		s.set.Release()
		return false
	}
	s.buf, s.next = b, 0
	s.stats.Replaced++
	return true
}

// Pass asks for samples at begin and end of a whole encoder: give the result to CommandBuffer.ComputeEncoder. It returns
// an error wrapping errors.ErrUnsupported where the device cannot sample at stage boundaries, and nil without an error
// when there is no room: then the encoder runs without samples and is counted.
func (b *Batch) Pass(id ring.Identity) (*mtl.PassSamples, error) {
	if !b.s.dev.SupportsSampling(mtl.AtStage) {
		return nil, fmt.Errorf("counters at stage boundary: %w", errors.ErrUnsupported)
	}
	first, ok := b.reserve(id)
	if !ok {
		return nil, nil
	}
	return &mtl.PassSamples{Buffer: b.buf, Start: first, End: first + 1}, nil
}

// Dispatch encodes samples around what dispatch encodes, where the device can sample between dispatches; else it encodes
// the dispatch alone and returns an error wrapping errors.ErrUnsupported. barrier makes the values belong to this
// dispatch alone, and costs the overlap with its neighbours.
func (b *Batch) Dispatch(e *mtl.ComputeEncoder, id ring.Identity, barrier bool, dispatch func()) error {
	if !b.s.dev.SupportsSampling(mtl.AtDispatch) {
		dispatch()
		return fmt.Errorf("counters at dispatch boundary: %w", errors.ErrUnsupported)
	}
	first, ok := b.reserve(id)
	if !ok {
		dispatch()
		return nil
	}
	err := e.SampleCounters(b.buf, first, barrier)
	dispatch()
	return errors.Join(err, e.SampleCounters(b.buf, first+1, barrier))
}

// Abandon gives the batch up: its command buffer was never committed.
func (b *Batch) Abandon() { b.finish(nil) }

// Complete resolves the batch. Call it once its command buffer has completed, never before. It returns two samples per
// pass or dispatch that had room.
func (b *Batch) Complete() (out []Sample) {
	b.finish(func() {
		for _, p := range b.pairs {
			values, err := b.buf.Resolve(p.first, 2)
			for i, point := range []Point{Begin, End} {
				sample := Sample{Identity: p.id, Point: point, Err: err}
				if err == nil {
					sample.Values = judge(values[i])
				} else {
					sample.Values = make([]Value, len(b.s.set.Counters))
					for j := range sample.Values {
						sample.Values[j].State = Failed
					}
				}
				b.s.count(sample)
				out = append(out, sample)
			}
		}
	})
	return out
}

func (b *Batch) finish(resolve func()) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	if b.done {
		return
	}
	b.done = true
	if resolve != nil {
		resolve()
	}
	if b.buf != nil {
		b.s.out--
	}
}

// judge gives each value its state. The error value and a sample of zeros alone are no values.
func judge(raw []uint64) []Value {
	out := make([]Value, len(raw))
	zero := true
	for i, v := range raw {
		out[i] = Value{Value: v}
		if v == mtl.ErrorValue {
			out[i] = Value{State: Error}
		}
		zero = zero && v == 0
	}
	if zero {
		for i := range out {
			out[i].State = Unwritten
		}
	}
	return out
}

func (s *Sampler) count(sample Sample) {
	worst := OK
	for _, v := range sample.Values {
		worst = max(worst, v.State)
	}
	switch worst {
	case Failed:
		s.stats.Failed++
	case Unwritten:
		s.stats.Unwritten++
	case Error:
		s.stats.Errors++
	default:
		s.stats.Sampled++
	}
}

// Delta is the difference of two samples, counter by counter. It has the worse of the two states, and Error for a counter
// that ran backwards: nothing is made up.
func Delta(begin, end []Value) []Value {
	out := make([]Value, min(len(begin), len(end)))
	for i := range out {
		a, b := begin[i], end[i]
		switch s := max(a.State, b.State); {
		case s != OK:
			out[i].State = s
		case b.Value < a.Value:
			out[i].State = Error
		default:
			out[i].Value = b.Value - a.Value
		}
	}
	return out
}
