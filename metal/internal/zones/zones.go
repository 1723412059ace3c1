//go:build (darwin || linux) && (amd64 || arm64)

// Package zones is the first of the three Metal surfaces: begin and end of each dispatch by stamps in a timestamp heap
// (Metal 4 only). It knows nothing of counters and captures, and gives times, never counter values.
//
// The order of things: reserve a pair with the dispatch's id, stamp, dispatch, stamp, commit, and only when Metal's
// feedback says that the work ended, resolve the pairs and place them on the mach timeline. Stamps of command buffers
// are never used here: they do not compare with stamps inside encoders.
package zones

import (
	"errors"
	"fmt"
	"sync"

	"github.com/stax-otel/stax/metal/clock"
	"github.com/stax-otel/stax/metal/internal/mtl"
	"github.com/stax-otel/stax/metal/ring"
)

// Options configure zones. The zero value has the defaults.
type Options struct {
	Entries     uint64 // of each of the two heaps; 0: ring.DefaultEntries
	Mode        ring.Mode
	Granularity ring.Granularity
}

// Zones is safe for concurrent use; each [Batch] belongs to one goroutine.
type Zones struct {
	sys   *mtl.System
	dev   *mtl.Device
	ring  *ring.Ring
	heaps [2]*mtl.Heap

	mu    sync.Mutex
	clock clock.Identity
	known error // why stamps cannot be placed, nil when they can
}

// ErrNoClock says that stamps cannot be placed on the CPU's timeline.
var ErrNoClock = errors.New("the unit of the timestamps is not known")

// Open makes the two heaps. Open it when recording begins and Close it when it ends: no heap exists while the gate is
// off. Intervals have no times until [Zones.Calibrate] succeeded.
func Open(sys *mtl.System, dev *mtl.Device, o Options) (*Zones, error) {
	if err := dev.SupportsMetal4(); err != nil {
		return nil, fmt.Errorf("timestamp zones: %w", err)
	}
	n := o.Entries
	if n == 0 {
		n = ring.DefaultEntries
	}
	z := &Zones{sys: sys, dev: dev, known: ErrNoClock}
	for i := range z.heaps {
		h, err := dev.NewHeap(n, fmt.Sprintf("stax zones %d", i))
		if err != nil {
			z.release()
			return nil, fmt.Errorf("timestamp zones: %w", err)
		}
		z.heaps[i] = h
	}
	r, err := ring.New(z.heaps[0], z.heaps[1], n, o.Mode, o.Granularity)
	if err != nil {
		z.release()
		return nil, err
	}
	z.ring = r
	return z, nil
}

func (z *Zones) release() {
	for _, h := range z.heaps {
		if h != nil {
			h.Release()
		}
	}
}

// Close stops giving out pairs and releases the heaps. It returns false and releases nothing while a commit is out: call
// it again after that one's intervals were delivered.
func (z *Zones) Close() bool {
	if !z.ring.Close() {
		return false
	}
	z.release()
	z.heaps = [2]*mtl.Heap{}
	return true
}

// Stats are the ring's counters.
func (z *Zones) Stats() ring.Stats { return z.ring.Stats() }

// Clock tells the unit of the stamps, or why it is not known.
func (z *Zones) Clock() (clock.Unit, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.clock.Unit, z.known
}

// Batch collects the dispatches of one commit.
type Batch struct {
	z      *Zones
	commit *ring.Commit
}

// Begin begins a batch. End it with Commit or Abandon.
func (z *Zones) Begin() *Batch { return &Batch{z, z.ring.Begin()} }

// Abandon gives the batch up: its work must never be committed.
func (b *Batch) Abandon() { b.commit.Abandon() }

// Dispatch encodes stamps around what dispatch encodes, which must be one dispatch: an encoder without any loses its
// stamps. Without room nothing but the dispatch is encoded.
func (b *Batch) Dispatch(e *mtl.ComputeEncoder4, id ring.Identity, dispatch func()) (stamped bool) {
	slot := b.commit.Reserve(id)
	if !slot.Ok() {
		dispatch()
		return false
	}
	mode, granularity := b.z.ring.Mode()
	heap, g := slot.Heap.(*mtl.Heap), mtl.Granularity(granularity)
	if mode == ring.Pair {
		e.WriteTimestamp(g, heap, slot.Start)
	}
	dispatch()
	e.WriteTimestamp(g, heap, slot.End)
	return true
}

// Interval is what became of one dispatch. Times are mach nanoseconds and lie within Bound of the truth. With an error
// they mean nothing: it says why there is no time.
type Interval struct {
	ring.Identity
	Start, End, Bound uint64
	Granularity       ring.Granularity
	Err               error // wraps ring.ErrNoTime or ErrNoClock
}

// Commit commits command buffers with the batch's dispatches. done is called once, on a thread of the system, after the
// work ended: with an interval for every dispatch that had a pair and with Metal's feedback.
func (b *Batch) Commit(q *mtl.Queue4, buffers []*mtl.CommandBuffer4, done func([]Interval, mtl.Feedback)) error {
	before := b.z.sys.MachAbsolute()
	err := q.Commit(buffers, func(f mtl.Feedback) {
		samples := b.commit.Complete()
		done(b.z.place(samples, before, b.z.sys.MachAbsolute()), f)
	})
	if err != nil {
		b.Abandon()
	}
	return err
}

// place turns samples into intervals. Each block is checked against its bracket first: the first violation ends all trust
// in the clock.
func (z *Zones) place(samples []ring.Sample, before, after uint64) []Interval {
	z.mu.Lock()
	defer z.mu.Unlock()
	mode, _ := z.ring.Mode()
	if z.known == nil {
		for _, s := range samples {
			t := clock.Trial{Before: before, After: after, Start: s.Start, End: s.End}
			if mode == ring.EndOnly {
				t.Start = s.End
			}
			if s.Err == nil && !z.clock.Verify(t) {
				z.known = fmt.Errorf("clock.suspect: a stamp outside [%d, %d]: %w", before, after, ErrNoClock)
			}
		}
	}
	out := make([]Interval, len(samples))
	for i, s := range samples {
		out[i] = Interval{Identity: s.Identity, Granularity: s.Granularity, Err: s.Err}
		if s.Err != nil {
			continue
		}
		if z.known != nil {
			out[i].Err = z.known
			continue
		}
		if mode == ring.Pair {
			out[i].Start, _ = z.clock.Nanos(s.Start)
		}
		out[i].End, out[i].Bound = z.clock.Nanos(s.End)
	}
	return out
}

// trialSource is the smallest kernel there is.
const trialSource = "#include <metal_stdlib>\nusing namespace metal;\nkernel void stax_trial() {}\n"

// trials is how often the clock is tried, and trialTimeoutMS how long each may take.
const (
	trials         = clock.MinTrials + 2
	trialTimeoutMS = 2000
)

// Calibrate runs tiny dispatches on the queue, each bracketed by readings of the mach clock, and finds the unit of the
// stamps. Errors say what the device did wrong; then intervals stay without times. It blocks for the length of the
// trials, at most 10 s.
func (z *Zones) Calibrate(q *mtl.Queue4) error {
	hz, err := z.dev.TimestampFrequency()
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	var tried []clock.Trial
	err = z.try(q, func(t clock.Trial) { tried = append(tried, t) })
	if err != nil {
		return z.unknown(fmt.Errorf("calibrate: %w: %w", err, ErrNoClock))
	}
	n, d := z.sys.Timebase()
	tb := clock.Timebase{Numer: n, Denom: d}
	unit, err := clock.Decide(tb, hz, tried)
	if err != nil {
		return z.unknown(fmt.Errorf("calibrate: %w: %w", err, ErrNoClock))
	}
	if unit == clock.UnitFree {
		return z.unknown(fmt.Errorf("calibrate: stamps of %d Hz follow neither mach ticks (%d Hz) nor nanoseconds: %w", hz, tb.Hz(), ErrNoClock))
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.clock, z.known = clock.Identity{Timebase: tb, Unit: unit}, nil
	return nil
}

func (z *Zones) unknown(err error) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.known = err
	return err
}

// try runs the trials with objects of its own: nothing of the program is touched.
func (z *Zones) try(q *mtl.Queue4, add func(clock.Trial)) error {
	var owned []interface{ Release() }
	defer func() {
		for _, o := range owned {
			o.Release()
		}
	}()
	lib, err := z.dev.NewLibrary(trialSource, mtl.CompileOptions{})
	if err != nil {
		return err
	}
	owned = append(owned, lib)
	fn, err := lib.NewFunction("stax_trial")
	if err != nil {
		return err
	}
	owned = append(owned, fn)
	pipe, err := z.dev.NewPipeline(fn)
	if err != nil {
		return err
	}
	owned = append(owned, pipe)
	table, err := z.dev.NewArgumentTable(1)
	if err != nil {
		return err
	}
	owned = append(owned, table)
	heap, err := z.dev.NewHeap(2*trials, "stax clock trials")
	if err != nil {
		return err
	}
	owned = append(owned, heap)
	event, err := z.dev.NewSharedEvent()
	if err != nil {
		return err
	}
	owned = append(owned, event)
	alloc, err := z.dev.NewAllocator()
	if err != nil {
		return err
	}
	owned = append(owned, alloc)
	cb, err := z.dev.NewCommandBuffer4("stax clock trial")
	if err != nil {
		return err
	}
	owned = append(owned, cb)
	one := mtl.Size{Width: 1, Height: 1, Depth: 1}
	for i := range uint64(trials) {
		cb.Begin(alloc)
		enc, err := cb.ComputeEncoder("stax clock trial")
		if err != nil {
			return err
		}
		enc.SetPipeline(pipe)
		enc.SetArguments(table)
		enc.WriteTimestamp(mtl.Precise, heap, 2*i)
		enc.DispatchThreads(one, one)
		enc.WriteTimestamp(mtl.Precise, heap, 2*i+1)
		enc.End()
		cb.End()
		t := clock.Trial{Before: z.sys.MachAbsolute()}
		if err := q.Commit([]*mtl.CommandBuffer4{cb}, nil); err != nil {
			return err
		}
		q.Signal(event, i+1)
		if !event.Wait(i+1, trialTimeoutMS) {
			owned = nil // the device may still use all of it: leaked on purpose
			return fmt.Errorf("the work of trial %d did not end within %d ms", i, trialTimeoutMS)
		}
		t.After = z.sys.MachAbsolute()
		stamps, err := heap.Resolve(2*i, 2)
		if err != nil {
			return err
		}
		t.Start, t.End = stamps[0], stamps[1]
		add(t)
	}
	return nil
}
