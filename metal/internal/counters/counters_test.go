//go:build (darwin || linux) && (amd64 || arm64)

package counters

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stax-otel/stax/metal/internal/mtl"
	"github.com/stax-otel/stax/metal/metaltest"
	"github.com/stax-otel/stax/metal/ring"
)

type rig struct {
	t    *testing.T
	w    *metaltest.World
	d    *mtl.Device
	q    *mtl.Queue
	pipe *mtl.Pipeline
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
	t.Cleanup(func() {
		for _, left := range r.w.Close() {
			t.Error(left)
		}
	})
	own := func(o interface{ Release() }) { t.Cleanup(o.Release) }
	s := must(mtl.Open(r.w.Lookup))(t)
	r.d = must(s.DefaultDevice())(t)
	own(r.d)
	lib := must(r.d.NewLibrary("kernel void k() {}", mtl.CompileOptions{}))(t)
	own(lib)
	fn := must(lib.NewFunction("k"))(t)
	own(fn)
	r.pipe = must(r.d.NewPipeline(fn))(t)
	own(r.pipe)
	r.q = must(r.d.NewQueue(""))(t)
	own(r.q)
	return r
}

func (r *rig) sampler(set string, n uint64) *Sampler {
	r.t.Helper()
	s := must(Open(r.d, set, n))(r.t)
	r.t.Cleanup(func() {
		for range 2 { // a second call does nothing
			if !s.Close() {
				r.t.Error("the sampler cannot be closed: a batch is still out")
			}
		}
	})
	return s
}

func size(n uint64) mtl.Size { return mtl.Size{Width: n, Height: 1, Depth: 1} }

// run encodes one command buffer with an encoder and waits for it.
func (r *rig) run(samples *mtl.PassSamples, encode func(e *mtl.ComputeEncoder)) {
	r.t.Helper()
	cb := must(r.q.CommandBuffer())(r.t)
	defer cb.Release()
	enc := must(cb.ComputeEncoder(r.d, samples))(r.t)
	enc.SetPipeline(r.pipe)
	encode(enc)
	enc.End()
	cb.Commit()
	if err := cb.Wait(); err != nil {
		r.t.Fatal(err)
	}
}

func TestPassSamples(t *testing.T) {
	r := newRig(t, metaltest.M3())
	s := r.sampler("timestamp", 4)
	if s.Unit() != "ticks" || !slices.Equal(s.Counters(), []string{"GPUTimestamp"}) {
		t.Errorf("%s of %q", s.Unit(), s.Counters())
	}
	for i := range uint64(6) { // 3 buffers: each sample is used once
		b := s.Begin()
		p := must(b.Pass(ring.Identity{Dispatch: i + 1, Lane: "gpu"}))(t)
		r.run(p, func(e *mtl.ComputeEncoder) { e.DispatchThreads(size(1000), size(32)) })
		got := b.Complete()
		if len(got) != 2 || got[0].Point != Begin || got[1].Point != End || got[1].Dispatch != i+1 || got[1].Lane != "gpu" {
			t.Fatalf("%+v", got)
		}
		if d := Delta(got[0].Values, got[1].Values); d[0] != (Value{Value: 3000}) {
			t.Errorf("pass %d: %+v", i, d)
		}
		if b.Complete() != nil {
			t.Error("completed twice")
		}
	}
	if st := s.Stats(); st != (Stats{Sampled: 12, Replaced: 2}) {
		t.Errorf("%+v", st)
	}
	b := s.Begin()
	defer b.Abandon()
	r.run(nil, func(e *mtl.ComputeEncoder) {
		ran := false
		err := b.Dispatch(e, ring.Identity{}, true, func() { ran = true; e.DispatchThreads(size(1), size(1)) })
		if !errors.Is(err, errors.ErrUnsupported) || !ran {
			t.Errorf("sampling between dispatches: %v, dispatched %t", err, ran)
		}
	})
}

func TestDispatchSamples(t *testing.T) {
	r := newRig(t, metaltest.Discrete())
	s := r.sampler("statistic", 0)
	kernel := slices.Index(s.Counters(), "KernelInvocations")
	b := s.Begin()
	if p, err := b.Pass(ring.Identity{}); p != nil || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("sampling at stage boundary: %v", err)
	}
	r.run(nil, func(e *mtl.ComputeEncoder) {
		e.DispatchThreads(size(5), size(1)) // so that the first sample is not all zeros
		for i := range uint64(2) {
			if err := b.Dispatch(e, ring.Identity{Dispatch: i}, true, func() { e.DispatchThreads(size(10*(i+1)), size(1)) }); err != nil {
				t.Error(err)
			}
		}
	})
	got := b.Complete()
	for i := range uint64(2) {
		d := Delta(got[2*i].Values, got[2*i+1].Values)[kernel]
		if want := 10 * (i + 1) * uint64(kernel+1); d != (Value{Value: want}) || got[2*i].Dispatch != i { // the fake multiplies
			t.Errorf("dispatch %d: %+v, want %d", i, d, want)
		}
	}
	if s.Unit() != "invocations" || r.sampler("stageutilization", 2).Unit() != "cycles" || (&Sampler{set: &mtl.CounterSet{Name: "x"}}).Unit() != "count" {
		t.Error("units")
	}
}

func TestNoRoom(t *testing.T) {
	r := newRig(t, metaltest.M3())
	s := r.sampler("timestamp", 4)
	one, two := s.Begin(), s.Begin()
	first := must(one.Pass(ring.Identity{}))(t)
	second := must(two.Pass(ring.Identity{}))(t)
	if first.Start == second.Start {
		t.Error("two passes share a sample")
	}
	third := s.Begin()
	if p := must(third.Pass(ring.Identity{}))(t); p != nil {
		t.Error("samples were given out twice")
	}
	if s.Close() {
		t.Error("closed while batches are out")
	}
	one.Abandon()
	one.Abandon()
	two.Abandon()
	if p := must(one.Pass(ring.Identity{}))(t); p != nil {
		t.Error("an abandoned batch has samples")
	}
	if st := s.Stats(); st.NoRoom != 2 {
		t.Errorf("%+v", st)
	}
	// In-encoder without room: the dispatch still runs.
	r2 := newRig(t, metaltest.Discrete())
	s2 := r2.sampler("timestamp", 2)
	b := s2.Begin()
	n := 0
	r2.run(nil, func(e *mtl.ComputeEncoder) {
		for range 2 {
			if err := b.Dispatch(e, ring.Identity{}, false, func() { n++; e.DispatchThreads(size(1), size(1)) }); err != nil {
				t.Error(err)
			}
		}
	})
	if got := b.Complete(); n != 2 || len(got) != 2 || s2.Stats().NoRoom != 1 {
		t.Errorf("%d dispatches, %d samples, %+v", n, len(got), s2.Stats())
	}
}

func TestBrokenDevices(t *testing.T) {
	for state, f := range map[State]metaltest.Faults{Unwritten: {ZeroStamps: true}, Error: {ErrorStamps: true}} {
		r := newRig(t, metaltest.M3().Broken(f))
		s := r.sampler("timestamp", 4)
		b := s.Begin()
		p := must(b.Pass(ring.Identity{}))(t)
		r.run(p, func(e *mtl.ComputeEncoder) { e.DispatchThreads(size(8), size(8)) })
		got := b.Complete()
		if d := Delta(got[0].Values, got[1].Values); d[0] != (Value{State: state}) {
			t.Errorf("%s: %+v", state, d)
		}
		if st := s.Stats(); st.Sampled != 0 || st.Errors+st.Unwritten != 2 {
			t.Errorf("%s: %+v", state, st)
		}
	}
	r := newRig(t, metaltest.M3())
	s := r.sampler("timestamp", 4)
	b := s.Begin()
	p := must(b.Pass(ring.Identity{}))(t)
	r.run(p, func(*mtl.ComputeEncoder) {}) // without a dispatch Metal drops the encoder and its samples
	r.w.Nil("FakeSampleBuffer resolveCounterRange:")
	got := b.Complete()
	if len(got) != 2 || got[0].Err == nil || got[0].Values[0].State != Failed || s.Stats().Failed != 2 {
		t.Errorf("failed resolve: %+v, %+v", got, s.Stats())
	}
}

func TestOpenRefuses(t *testing.T) {
	r := newRig(t, metaltest.M3())
	if _, err := Open(r.d, "statistic", 0); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), `only ["timestamp"]`) {
		t.Errorf("statistic on an M3: %v", err)
	}
	if _, err := Open(r.d, "timestamp", 1); err == nil {
		t.Error("one sample was accepted")
	}
	if _, err := Open(r.d, "timestamp", 5000); err == nil {
		t.Error("5000 samples were accepted")
	}
	p := newRig(t, metaltest.Paravirtual())
	if _, err := Open(p.d, "timestamp", 0); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "no counter sets") {
		t.Errorf("paravirtual: %v", err)
	}
	// A buffer that cannot be replaced ends the sampler, not the program.
	s := must(Open(r.d, "timestamp", 2))(t)
	b := s.Begin()
	must(b.Pass(ring.Identity{}))(t)
	b.Abandon()
	r.w.Nil("FakeDevice newCounterSampleBufferWithDescriptor:error:")
	if got := must(s.Begin().Pass(ring.Identity{}))(t); got != nil || s.Stats().NoRoom != 1 || !s.Close() {
		t.Errorf("%+v, %+v", got, s.Stats())
	}
}

func TestDelta(t *testing.T) {
	got := Delta([]Value{{Value: 1}, {Value: 9}, {State: Error}, {}}, []Value{{Value: 4}, {Value: 3}, {Value: 3}, {State: Unwritten}})
	if want := []Value{{Value: 3}, {State: Error}, {State: Error}, {State: Unwritten}}; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if Failed.String() != "failed" {
		t.Error(Failed)
	}
}
