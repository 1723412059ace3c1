//go:build (darwin || linux) && (amd64 || arm64)

package zones_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stax-otel/stax/metal/clock"
	"github.com/stax-otel/stax/metal/internal/mtl"
	"github.com/stax-otel/stax/metal/internal/zones"
	"github.com/stax-otel/stax/metal/metaltest"
	"github.com/stax-otel/stax/metal/ring"
)

type rig struct {
	t     *testing.T
	w     *metaltest.World
	s     *mtl.System
	d     *mtl.Device
	q     *mtl.Queue4
	pipe  *mtl.Pipeline
	table *mtl.ArgumentTable
	buf   *mtl.Buffer
	leaks bool
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func newRig(t *testing.T, p metaltest.Profile) *rig {
	t.Helper()
	r := &rig{t: t, w: metaltest.New(p)}
	r.s = must(mtl.Open(r.w.Lookup))(t)
	r.d = must(r.s.DefaultDevice())(t)
	t.Cleanup(func() {
		for _, v := range r.w.Close() {
			if !r.leaks {
				t.Error(v)
			}
		}
	})
	own := func(o interface{ Release() }) { t.Cleanup(o.Release) }
	own(r.d)
	lib := must(r.d.NewLibrary("kernel void k(device uint *x [[buffer(0)]]) {}", mtl.CompileOptions{}))(t)
	own(lib)
	fn := must(lib.NewFunction("k"))(t)
	own(fn)
	r.pipe = must(r.d.NewPipeline(fn))(t)
	own(r.pipe)
	r.q = must(r.d.NewQueue4())(t)
	own(r.q)
	r.table = must(r.d.NewArgumentTable(1))(t)
	own(r.table)
	r.buf = must(r.d.NewBuffer(64, mtl.StorageShared))(t)
	own(r.buf)
	r.table.SetBuffer(r.buf, 0, 0)
	return r
}

type result struct {
	intervals []zones.Interval
	feedback  mtl.Feedback
}

// commit encodes dispatches of the given threads, with ids from first on, and commits them.
func (r *rig) commit(z *zones.Zones, first uint64, threads ...uint64) <-chan result {
	r.t.Helper()
	alloc := must(r.d.NewAllocator())(r.t)
	cb := must(r.d.NewCommandBuffer4("cb"))(r.t)
	r.t.Cleanup(alloc.Release)
	r.t.Cleanup(cb.Release)
	batch := z.Begin()
	cb.Begin(alloc)
	enc := must(cb.ComputeEncoder("enc"))(r.t)
	enc.SetPipeline(r.pipe)
	enc.SetArguments(r.table)
	for i, n := range threads {
		id := ring.Identity{Dispatch: first + uint64(i), CommandBuffer: 1, Queue: "q", Lane: "gpu"}
		batch.Dispatch(enc, id, func() {
			enc.DispatchThreads(mtl.Size{Width: n, Height: 1, Depth: 1}, mtl.Size{Width: 32, Height: 1, Depth: 1})
		})
	}
	enc.End()
	cb.End()
	done := make(chan result, 1)
	if err := batch.Commit(r.q, []*mtl.CommandBuffer4{cb}, func(i []zones.Interval, f mtl.Feedback) { done <- result{i, f} }); err != nil {
		r.t.Fatal(err)
	}
	return done
}

func (r *rig) zones(o zones.Options) *zones.Zones {
	r.t.Helper()
	z := must(zones.Open(r.s, r.d, o))(r.t)
	r.t.Cleanup(func() {
		if !z.Close() && !r.leaks {
			r.t.Error("zones cannot be closed: a commit is still out")
		}
	})
	return z
}

func TestIntervals(t *testing.T) {
	for _, mode := range []ring.Mode{ring.Pair, ring.EndOnly} {
		r := newRig(t, metaltest.M3())
		z := r.zones(zones.Options{Mode: mode, Granularity: ring.Precise})
		if _, err := z.Clock(); !errors.Is(err, zones.ErrNoClock) {
			t.Errorf("clock before calibration: %v", err)
		}
		if err := z.Calibrate(r.q); err != nil {
			t.Fatal(err)
		}
		if unit, err := z.Clock(); unit != clock.UnitMach || err != nil {
			t.Errorf("clock: %s, %v", unit, err)
		}
		threads := []uint64{1000, 50_000, 3000}
		got := <-r.commit(z, 10, threads...)
		if len(got.intervals) != 3 || got.feedback.Err != nil {
			t.Fatalf("%+v", got)
		}
		last := uint64(got.feedback.Start * 1e9)
		for i, v := range got.intervals {
			want := 2000 + threads[i] // what the fake takes
			if v.Err != nil || v.Dispatch != uint64(10+i) || v.Lane != "gpu" || v.Granularity != ring.Precise || v.Bound != 42 {
				t.Fatalf("%+v", v)
			}
			if mode == ring.EndOnly {
				if v.Start != 0 {
					t.Errorf("a start without a stamp: %+v", v)
				}
				v.Start = last
			}
			if d := v.End - v.Start; d+2*v.Bound < want || d > want+2*v.Bound {
				t.Errorf("dispatch %d took %d ns, want %d", v.Dispatch, d, want)
			}
			if v.Start+v.Bound < last || float64(v.End) > got.feedback.End*1e9+float64(v.Bound) {
				t.Errorf("dispatch %d [%d, %d] is out of order or outside the feedback %+v", v.Dispatch, v.Start, v.End, got.feedback)
			}
			last = v.End
		}
		if st := z.Stats(); st.Reserved != 3 || st.Resolved != 3 {
			t.Errorf("%+v", st)
		}
	}
}

// TestNothingIsReadBeforeCompletion holds the GPU back: no resolve happens, no interval appears; then commits end in
// another order than they were made.
func TestNothingIsReadBeforeCompletion(t *testing.T) {
	r := newRig(t, metaltest.M3())
	z := r.zones(zones.Options{Entries: 8})
	if err := z.Calibrate(r.q); err != nil {
		t.Fatal(err)
	}
	before := r.w.Calls("FakeHeap resolveCounterRange:")
	r.w.Hold()
	first, second := r.commit(z, 1, 100, 200), r.commit(z, 3, 300)
	if n := r.w.Calls("FakeHeap resolveCounterRange:") - before; n != 0 {
		t.Errorf("%d resolves before completion", n)
	}
	select {
	case got := <-first:
		t.Fatalf("intervals before completion: %+v", got)
	default:
	}
	if z.Close() {
		t.Fatal("zones closed while commits are out")
	}
	r.w.Finish(1)
	r.w.Finish(0)
	for i, c := range []<-chan result{first, second} {
		for _, v := range (<-c).intervals {
			if v.Err != nil || v.End <= v.Start {
				t.Errorf("commit %d: %+v", i, v)
			}
		}
	}
	r.w.Resume()
}

func TestRingTurns(t *testing.T) {
	r := newRig(t, metaltest.M3())
	z := r.zones(zones.Options{Entries: 4})
	if err := z.Calibrate(r.q); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(10) {
		for _, v := range (<-r.commit(z, i, 10)).intervals {
			if v.Err != nil {
				t.Errorf("commit %d: %v", i, v.Err)
			}
		}
	}
	if st := z.Stats(); st.Swaps != 4 || st.Resolved != 10 {
		t.Errorf("%+v", st)
	}
	r.w.Hold() // both heaps fill up: what has no room runs without stamps and is counted
	var out []<-chan result
	for i := range uint64(8) {
		out = append(out, r.commit(z, i, 10))
	}
	r.w.Resume()
	n := 0
	for _, c := range out {
		n += len((<-c).intervals)
	}
	if st := z.Stats(); n == 0 || st.NoRoom != uint64(8-n) || st.NoRoom == 0 {
		t.Errorf("%d intervals, %+v", n, st)
	}
}

// TestBrokenDevices: each broken device is named, and none gets a duration.
func TestBrokenDevices(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults metaltest.Faults
		cal    string
	}{
		{"zero stamps", metaltest.Faults{ZeroStamps: true}, "trial 0: both stamps are unwritten"},
		{"error value", metaltest.Faults{ErrorStamps: true}, "a stamp is Metal's error value"},
		{"late start", metaltest.Faults{LateStart: true}, "ticks before the start stamp"},
		{"hung queue", metaltest.Faults{HungQueue: true}, "the work of trial 0 did not end within 2000 ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, metaltest.M3().Broken(c.faults))
			r.leaks = c.faults.HungQueue // a hung device keeps everything
			z := r.zones(zones.Options{})
			err := z.Calibrate(r.q)
			if !errors.Is(err, zones.ErrNoClock) || !strings.Contains(err.Error(), c.cal) {
				t.Errorf("calibrate: %v", err)
			}
			done := r.commit(z, 1, 100)
			if c.faults.HungQueue {
				if z.Close() {
					t.Error("the heaps of a hung queue were released")
				}
				return
			}
			got := <-done
			if v := got.intervals[0]; v.Err == nil || v.Start != 0 || v.End != 0 {
				t.Errorf("an interval was made up: %+v", v)
			}
		})
	}
}

func TestForeignClocks(t *testing.T) {
	p := metaltest.M3()
	p.HeapHz = 1_000_000_000
	r := newRig(t, p)
	z := r.zones(zones.Options{})
	if err := z.Calibrate(r.q); err != nil {
		t.Fatal(err)
	}
	if unit, _ := z.Clock(); unit != clock.UnitNanos {
		t.Errorf("unit %s", unit)
	}
	if v := (<-r.commit(z, 1, 1000)).intervals[0]; v.Err != nil || v.End-v.Start != 3000 {
		t.Errorf("%+v", v)
	}
	p.HeapHz = 12_000_000
	r = newRig(t, p)
	z = r.zones(zones.Options{})
	if err := z.Calibrate(r.q); !errors.Is(err, zones.ErrNoClock) || !strings.Contains(err.Error(), "12000000 Hz") {
		t.Errorf("12 MHz: %v", err)
	}
	if v := (<-r.commit(z, 1, 1000)).intervals[0]; !errors.Is(v.Err, zones.ErrNoClock) || v.End != 0 {
		t.Errorf("%+v", v)
	}
}

// TestClockIsCheckedOnEveryBlock lets a clock that was right go wrong.
func TestClockIsCheckedOnEveryBlock(t *testing.T) {
	r := newRig(t, metaltest.M3())
	z := r.zones(zones.Options{})
	if err := z.Calibrate(r.q); err != nil {
		t.Fatal(err)
	}
	if v := (<-r.commit(z, 1, 10)).intervals[0]; v.Err != nil {
		t.Fatal(v.Err)
	}
	r.w.SkewHeaps(50_000_000) // ns
	for range 2 {
		v := (<-r.commit(z, 2, 10)).intervals[0]
		if !errors.Is(v.Err, zones.ErrNoClock) || !strings.Contains(v.Err.Error(), "clock.suspect") || v.End != 0 {
			t.Errorf("%+v", v)
		}
		r.w.SkewHeaps(0) // trust does not come back by itself
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, p := range map[string]metaltest.Profile{"paravirtual": metaltest.Paravirtual(), "discrete": metaltest.Discrete()} {
		w := metaltest.New(p)
		s := must(mtl.Open(w.Lookup))(t)
		d := must(s.DefaultDevice())(t)
		if _, err := zones.Open(s, d, zones.Options{}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		d.Release()
		if left := w.Close(); len(left) > 0 {
			t.Errorf("%s: %v", name, left)
		}
	}
	r := newRig(t, metaltest.M3())
	if _, err := zones.Open(r.s, r.d, zones.Options{Entries: 1}); err == nil {
		t.Error("heaps of one entry were accepted")
	}
	for _, message := range []string{"MTL4CommitOptions new", "FakeDevice newCommandAllocator", "FakeDevice newCounterHeapWithDescriptor:error:"} {
		r.w.Nil(message)
	}
	if _, err := zones.Open(r.s, r.d, zones.Options{}); !errors.Is(err, mtl.ErrNil) {
		t.Errorf("without heaps: %v", err)
	}
}

// TestTrialsGiveEverythingBack breaks each step of a calibration and looks for leaks.
func TestTrialsGiveEverythingBack(t *testing.T) {
	for _, message := range []string{
		"FakeDevice newLibraryWithSource:options:error:", "FakeLibrary newFunctionWithName:", "FakeDevice newComputePipelineStateWithFunction:error:",
		"FakeDevice newArgumentTableWithDescriptor:error:", "FakeDevice newCounterHeapWithDescriptor:error:", "FakeDevice newSharedEvent",
		"FakeDevice newCommandAllocator", "FakeDevice newCommandBuffer", "FakeCommandBuffer4 computeCommandEncoder", "FakeHeap resolveCounterRange:",
	} {
		r := newRig(t, metaltest.M3())
		z := r.zones(zones.Options{})
		r.w.Nil(message)
		if err := z.Calibrate(r.q); !errors.Is(err, mtl.ErrNil) || !errors.Is(err, zones.ErrNoClock) {
			t.Errorf("without %s: %v", message, err)
		}
	}
	r := newRig(t, metaltest.M3())
	z := r.zones(zones.Options{})
	r.w.RemoveMethod("queryTimestampFrequency")
	if err := z.Calibrate(r.q); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without a frequency: %v", err)
	}
}

func TestFailedCommitIsAbandoned(t *testing.T) {
	r := newRig(t, metaltest.M3())
	z := r.zones(zones.Options{})
	r.w.RemoveClass("MTL4CommitOptions")
	batch := z.Begin()
	alloc := must(r.d.NewAllocator())(t)
	defer alloc.Release()
	cb := must(r.d.NewCommandBuffer4(""))(t)
	defer cb.Release()
	cb.Begin(alloc)
	enc := must(cb.ComputeEncoder(""))(t)
	enc.SetPipeline(r.pipe)
	enc.SetArguments(r.table)
	one := mtl.Size{Width: 1, Height: 1, Depth: 1}
	batch.Dispatch(enc, ring.Identity{}, func() { enc.DispatchThreads(one, one) })
	enc.End()
	cb.End()
	if err := batch.Commit(r.q, []*mtl.CommandBuffer4{cb}, nil); !errors.Is(err, errors.ErrUnsupported) || z.Stats().Abandoned != 1 {
		t.Errorf("%v, %+v", err, z.Stats())
	}
}
