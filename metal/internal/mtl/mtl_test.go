//go:build (darwin || linux) && (amd64 || arm64)

package mtl_test

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stax-otel/stax/metal/internal/mtl"
	"github.com/stax-otel/stax/metal/internal/objc"
	"github.com/stax-otel/stax/metal/metaltest"
)

const source = `
#include <metal_stdlib>
using namespace metal;
kernel void twice(device uint *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] *= 2; }
kernel void unlinkable() {}
`

func twice(bufs [][]byte, threads uint64) {
	for i := range int(threads) {
		p := bufs[0][4*i:]
		binary.LittleEndian.PutUint32(p, 2*binary.LittleEndian.Uint32(p))
	}
}

// open makes a world and fails the test for what is left at its end.
func open(t *testing.T, devices ...metaltest.Profile) (*metaltest.World, *mtl.System) {
	t.Helper()
	w := metaltest.New(devices...)
	w.Kernel("twice", twice)
	s, err := mtl.Open(w.Lookup)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, v := range w.Close() {
			t.Error(v)
		}
		if n := s.Runtime().LiveBlocks(); n > 0 {
			t.Errorf("%d Go functions of blocks are still held", n)
		}
	})
	return w, s
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

func device(t *testing.T, s *mtl.System) *mtl.Device {
	t.Helper()
	d := must(s.DefaultDevice())(t)
	t.Cleanup(d.Release)
	return d
}

func pipeline(t *testing.T, d *mtl.Device) *mtl.Pipeline {
	t.Helper()
	lib := must(d.NewLibrary(source, mtl.CompileOptions{}))(t)
	defer lib.Release()
	fn := must(lib.NewFunction("twice"))(t)
	defer fn.Release()
	p := must(d.NewPipeline(fn))(t)
	t.Cleanup(p.Release)
	return p
}

func TestSystem(t *testing.T) {
	w, s := open(t, metaltest.M3(), metaltest.Discrete())
	if n, d := s.Timebase(); n != 125 || d != 3 {
		t.Errorf("timebase %d/%d", n, d)
	}
	a := s.MachAbsolute()
	w.Sleep(time.Second)
	if b, c := s.MachAbsolute(), s.MachContinuous(); b <= a || c-b < 24_000_000 {
		t.Errorf("absolute %d then %d, continuous %d", a, b, c)
	}
	v, text, err := s.Runtime().OSVersion()
	if err != nil || v != (objc.OSVersion{Major: 26, Minor: 5, Patch: 2}) || !strings.Contains(text, "26.5.2") {
		t.Errorf("OS version %v %q %v", v, text, err)
	}
	for name, want := range map[string]string{"MTLCommonCounterSetTimestamp": "timestamp", "MTLCaptureErrorDomain": "MTLCaptureErrorDomain"} {
		if got, err := s.Runtime().ExternString(name); got != want || err != nil {
			t.Errorf("%s = %q, %v", name, got, err)
		}
	}
	if _, err := s.Runtime().ExternString("MTLNothing"); err == nil {
		t.Error("a symbol that does not exist was found")
	}
	var names []string
	for _, d := range s.Devices() {
		names = append(names, d.Info().Name)
		d.Release()
		d.Release() // a second call does nothing
	}
	if want := []string{"Apple M3 Max", "Intel(R) UHD Graphics 630"}; !slices.Equal(names, want) {
		t.Errorf("devices %q, want %q", names, want)
	}
}

func TestNoDevice(t *testing.T) {
	_, s := open(t)
	if _, err := s.DefaultDevice(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("DefaultDevice: %v", err)
	}
	if d := s.Devices(); len(d) != 0 {
		t.Errorf("%d devices", len(d))
	}
}

func TestMissingSymbolIsNamed(t *testing.T) {
	w := metaltest.New()
	defer w.Close()
	for _, name := range []string{"objc_msgSend", "_Block_copy", "MTLCopyAllDevices", "mach_timebase_info", "sel_registerName"} {
		_, err := mtl.Open(func(n string) (uintptr, error) {
			if n == name {
				return 0, errors.New("gone")
			}
			return w.Lookup(n)
		})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
		_, err = mtl.Open(func(n string) (uintptr, error) {
			if n == name {
				return 0, nil
			}
			return w.Lookup(n)
		})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("with %s at 0: %v", name, err)
		}
	}
}

func TestDeviceInfo(t *testing.T) {
	for _, c := range []struct {
		p      metaltest.Profile
		metal4 bool
		arch   string
		points []mtl.SamplingPoint
		sets   []string
	}{
		{metaltest.M3(), true, "applegpu_g15s", []mtl.SamplingPoint{mtl.AtStage}, []string{"timestamp"}},
		{metaltest.Paravirtual(), false, "", nil, nil},
		{metaltest.Discrete(), false, "", []mtl.SamplingPoint{mtl.AtDraw, mtl.AtDispatch, mtl.AtBlit}, []string{"timestamp", "stageutilization", "statistic"}},
	} {
		t.Run(c.p.Name, func(t *testing.T) {
			_, s := open(t, c.p)
			d := device(t, s)
			i := d.Info()
			if i.Name != c.p.Name || i.Architecture != c.arch || i.UnifiedMemory != c.p.UnifiedMemory || i.LowPower != c.p.LowPower ||
				i.MaxThreads != (mtl.Size{Width: 1024, Height: 1024, Depth: 1024}) || i.RecommendedWorkingSet != 96<<30 {
				t.Errorf("info %+v", i)
			}
			if !slices.Equal(i.Families, c.p.Families) {
				t.Errorf("families %v, want %v", i.Families, c.p.Families)
			}
			if err := d.SupportsMetal4(); (err == nil) != c.metal4 || err != nil && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("SupportsMetal4: %v", err)
			}
			var points []mtl.SamplingPoint
			for p := mtl.AtStage; p <= mtl.AtBlit; p++ {
				if d.SupportsSampling(p) {
					points = append(points, p)
				}
			}
			if !slices.Equal(points, c.points) {
				t.Errorf("sampling points %v, want %v", points, c.points)
			}
			var sets []string
			for j, set := range d.CounterSets() {
				sets = append(sets, set.Name)
				if !slices.Equal(set.Counters, c.p.Sets[j].Counters) {
					t.Errorf("set %s: counters %q", set.Name, set.Counters)
				}
				set.Release()
			}
			if !slices.Equal(sets, c.sets) {
				t.Errorf("sets %q, want %q", sets, c.sets)
			}
			if _, err := d.TimestampFrequency(); (err == nil) != c.metal4 {
				t.Errorf("TimestampFrequency: %v", err)
			}
			cpu, gpu := d.SampleTimestamps()
			if cpu == 0 || gpu == 0 || (gpu == cpu) != (c.p.GPUPeriod == 1) {
				t.Errorf("timestamps %d, %d", cpu, gpu)
			}
			if !c.metal4 {
				for name, make := range map[string]func() error{
					"queue":     func() error { _, err := d.NewQueue4(); return err },
					"heap":      func() error { _, err := d.NewHeap(8, ""); return err },
					"allocator": func() error { _, err := d.NewAllocator(); return err },
					"buffer":    func() error { _, err := d.NewCommandBuffer4(""); return err },
					"table":     func() error { _, err := d.NewArgumentTable(1); return err },
				} {
					if err := make(); !errors.Is(err, errors.ErrUnsupported) {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		})
	}
}

func TestLibrary(t *testing.T) {
	_, s := open(t, metaltest.M3())
	d := device(t, s)
	_, err := d.NewLibrary("int x;", mtl.CompileOptions{})
	var e *objc.Error
	if !errors.As(err, &e) || e.Domain != "MTLLibraryErrorDomain" || e.Code != 3 || !strings.Contains(err.Error(), "program_source:1:1") {
		t.Errorf("bad source: %v", err)
	}
	if _, err := d.OpenLibrary("/nowhere/x.metallib"); !errors.As(err, &e) || e.Code != 6 || !strings.Contains(e.Text, "/nowhere/x.metallib") {
		t.Errorf("no file: %v", err)
	}
	lib := must(d.NewLibrary(source, mtl.CompileOptions{LanguageVersion: 0x40000, SetMathMode: true, MathMode: 1, SetOptimization: true}))(t)
	defer lib.Release()
	lib.SetLabel("lib")
	if got := lib.FunctionNames(); !slices.Equal(got, []string{"twice", "unlinkable"}) {
		t.Errorf("functions %q", got)
	}
	if _, err := lib.NewFunction("thrice"); !errors.Is(err, mtl.ErrNil) {
		t.Errorf("unknown function: %v", err)
	}
	fn := must(lib.NewFunction("twice"))(t)
	defer fn.Release()
	if fn.Name() != "twice" || fn.Type() != 3 {
		t.Errorf("function %s of type %d", fn.Name(), fn.Type())
	}
	p := must(d.NewPipeline(fn))(t)
	defer p.Release()
	if i := p.Info(); i.MaxTotalThreads != 1024 || i.ExecutionWidth != 32 || i.ThreadgroupMemory != 512 || i.ResourceID != uint64(p.ID())>>4 || i.Label != "" {
		t.Errorf("pipeline %+v", i)
	}
	bad := must(lib.NewFunction("unlinkable"))(t)
	defer bad.Release()
	if _, err := d.NewPipeline(bad); !errors.As(err, &e) {
		t.Errorf("unlinkable: %v", err)
	}
	if c := p.ClassName(); c != "FakePipeline" {
		t.Errorf("class %s", c)
	}
}

func TestBuffers(t *testing.T) {
	_, s := open(t, metaltest.M3())
	d := device(t, s)
	b := must(d.NewBuffer(4096, mtl.StorageShared))(t)
	defer b.Release()
	b.SetLabel("data")
	if b.Length() != 4096 || len(b.Contents()) != 4096 || b.GPUAddress() == 0 {
		t.Errorf("buffer: %d, %d bytes at %#x", b.Length(), len(b.Contents()), b.GPUAddress())
	}
	private := must(d.NewBuffer(16, mtl.StoragePrivate))(t)
	if private.Contents() != nil {
		t.Error("a private buffer shows its memory")
	}
	if d.Info().Allocated != 4112 {
		t.Errorf("%d bytes allocated", d.Info().Allocated)
	}
	private.Release()
	if d.Info().Allocated != 4096 {
		t.Errorf("%d bytes allocated after release", d.Info().Allocated)
	}
	if _, err := d.NewBuffer(1<<40, 0); !errors.Is(err, mtl.ErrNil) {
		t.Errorf("huge buffer: %v", err)
	}
}

func TestClassicDispatch(t *testing.T) {
	_, s := open(t, metaltest.M3())
	d := device(t, s)
	p := pipeline(t, d)
	q := must(d.NewQueue("main"))(t)
	defer q.Release()
	buf := must(d.NewBuffer(64, mtl.StorageShared))(t)
	defer buf.Release()
	event := must(d.NewSharedEvent())(t)
	defer event.Release()
	for i := range 16 {
		binary.LittleEndian.PutUint32(buf.Contents()[4*i:], uint32(i))
	}
	sets := d.CounterSets()
	defer sets[0].Release()
	samples := must(d.NewSampleBuffer(sets[0], 4, "samples"))(t)
	defer samples.Release()

	cb := must(q.CommandBuffer())(t)
	defer cb.Release()
	cb.SetLabel("cb")
	done := make(chan struct{})
	cb.OnCompleted(func() { close(done) })
	enc := must(cb.ComputeEncoder(d, &mtl.PassSamples{Buffer: samples, Start: 0, End: 1}))(t)
	enc.SetLabel("enc")
	enc.PushDebugGroup("group")
	enc.SetPipeline(p)
	enc.SetBuffer(buf, 16, 0)
	enc.SetBytes([]byte{1, 2, 3}, 1)
	enc.DispatchThreads(mtl.Size{Width: 4, Height: 1, Depth: 1}, mtl.Size{Width: 4, Height: 1, Depth: 1})
	enc.Barrier()
	enc.DispatchThreadgroups(mtl.Size{Width: 2, Height: 1, Depth: 1}, mtl.Size{Width: 2, Height: 1, Depth: 1})
	enc.PopDebugGroup()
	if err := enc.SampleCounters(samples, 2, true); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("sampling at dispatch boundary: %v", err)
	}
	enc.End()
	resolved := must(d.NewBuffer(32, mtl.StorageShared))(t)
	defer resolved.Release()
	if err := cb.ResolveInto(samples, 0, 2, resolved, 8); err != nil {
		t.Fatal(err)
	}
	if err := cb.Fill(resolved, 24, 8, 0xee); err != nil {
		t.Fatal(err)
	}
	cb.Signal(event, 7)
	if cb.Status() != mtl.StatusNotEnqueued {
		t.Errorf("status %d before commit", cb.Status())
	}
	cb.Commit()
	if err := cb.Wait(); err != nil {
		t.Fatal(err)
	}
	if !event.Wait(7, 1000) || event.Value() != 7 {
		t.Errorf("event %d", event.Value())
	}
	<-done
	if cb.Status() != mtl.StatusCompleted {
		t.Errorf("status %d", cb.Status())
	}
	for i := range 8 {
		want := uint32(i)
		if i >= 4 {
			want *= 4
		}
		if got := binary.LittleEndian.Uint32(buf.Contents()[4*i:]); got != want {
			t.Errorf("out[%d] = %d, want %d", i, got, want)
		}
	}
	v := must(samples.Resolve(0, 2))(t)
	start, end := cb.GPUTimes()
	if v[0][0] == 0 || v[1][0]-v[0][0] != 2*2004 || float64(v[0][0])/1e9 < start-1e-9 || float64(v[1][0])/1e9 > end+1e-9 {
		t.Errorf("samples %v, command buffer %f to %f", v, start, end)
	}
	raw := resolved.Contents()
	if binary.LittleEndian.Uint64(raw[8:]) != v[0][0] || binary.LittleEndian.Uint64(raw[16:]) != v[1][0] || raw[24] != 0xee {
		t.Errorf("resolved by blit: %x", raw)
	}
	if _, err := samples.Resolve(3, 2); !errors.Is(err, mtl.ErrNil) {
		t.Errorf("resolve past the end: %v", err)
	}
	event.SetValue(9)
	if !event.Wait(9, 1) || event.Wait(10, 1) {
		t.Error("wait for a value set by the CPU")
	}
}

func TestStatisticCounters(t *testing.T) {
	_, s := open(t, metaltest.Discrete())
	d := device(t, s)
	p := pipeline(t, d)
	q := must(d.NewQueue(""))(t)
	defer q.Release()
	sets := d.CounterSets()
	defer func() {
		for _, set := range sets {
			set.Release()
		}
	}()
	statistic := sets[2]
	samples := must(d.NewSampleBuffer(statistic, 2, ""))(t)
	defer samples.Release()
	buf := must(d.NewBuffer(64, mtl.StorageShared))(t)
	defer buf.Release()
	cb := must(q.CommandBuffer())(t)
	defer cb.Release()
	enc := must(cb.ComputeEncoder(d, nil))(t)
	enc.SetPipeline(p)
	enc.SetBuffer(buf, 0, 0)
	for i := range uint64(2) {
		enc.DispatchThreads(mtl.Size{Width: 8, Height: 1, Depth: 1}, mtl.Size{Width: 8, Height: 1, Depth: 1})
		if err := enc.SampleCounters(samples, i, true); err != nil {
			t.Fatal(err)
		}
	}
	enc.End()
	cb.Commit()
	if err := cb.Wait(); err != nil {
		t.Fatal(err)
	}
	v := must(samples.Resolve(0, 2))(t)
	if i := slices.Index(statistic.Counters, "KernelInvocations"); v[0][i] != 64 || v[1][i] != 128 {
		t.Errorf("KernelInvocations (×8 in the fake): %d, %d", v[0][i], v[1][i])
	}
}

func TestSampleBufferLimits(t *testing.T) {
	_, s := open(t, metaltest.M3())
	d := device(t, s)
	set := d.CounterSets()[0]
	defer set.Release()
	for _, n := range []uint64{0, 4097} {
		if _, err := d.NewSampleBuffer(set, n, ""); err == nil {
			t.Errorf("%d samples were accepted", n)
		}
	}
	var all []*mtl.SampleBuffer
	for range mtl.MaxSampleBuffers {
		all = append(all, must(d.NewSampleBuffer(set, 1, ""))(t))
	}
	if _, err := d.NewSampleBuffer(set, 1, ""); !errors.Is(err, mtl.ErrBudget) {
		t.Errorf("one too many: %v", err)
	}
	for _, b := range all {
		b.Release()
		b.Release()
	}
	again := must(d.NewSampleBuffer(set, 4096, ""))(t)
	again.Release()
}

// metal4 is a ready Metal 4 path.
type metal4 struct {
	d      *mtl.Device
	q      *mtl.Queue4
	alloc  *mtl.Allocator
	cb     *mtl.CommandBuffer4
	table  *mtl.ArgumentTable
	buf    *mtl.Buffer
	heap   *mtl.Heap
	event  *mtl.SharedEvent
	set    *mtl.ResidencySet
	pipe   *mtl.Pipeline
	signal uint64
}

func newMetal4(t *testing.T, s *mtl.System) *metal4 {
	t.Helper()
	m := &metal4{d: device(t, s)}
	m.pipe = pipeline(t, m.d)
	m.q = must(m.d.NewQueue4())(t)
	m.alloc = must(m.d.NewAllocator())(t)
	m.cb = must(m.d.NewCommandBuffer4("cb"))(t)
	m.table = must(m.d.NewArgumentTable(4))(t)
	m.buf = must(m.d.NewBuffer(256, mtl.StorageShared))(t)
	m.heap = must(m.d.NewHeap(64, "heap"))(t)
	m.event = must(m.d.NewSharedEvent())(t)
	m.set = must(m.d.NewResidencySet(4, "set"))(t)
	m.set.Add(m.buf)
	m.set.Commit()
	m.q.AddResidencySet(m.set)
	m.table.SetBuffer(m.buf, 0, 0)
	t.Cleanup(func() {
		for _, o := range []interface{ Release() }{m.set, m.event, m.heap, m.buf, m.table, m.cb, m.alloc, m.q} {
			o.Release()
		}
	})
	return m
}

// run encodes n stamped dispatches, commits and waits.
func (m *metal4) run(t *testing.T, n int, feedback func(mtl.Feedback)) bool {
	t.Helper()
	m.cb.Begin(m.alloc)
	enc := must(m.cb.ComputeEncoder("enc"))(t)
	enc.SetPipeline(m.pipe)
	enc.SetArguments(m.table)
	for i := range uint64(n) {
		enc.WriteTimestamp(mtl.Precise, m.heap, 2*i)
		enc.DispatchThreads(mtl.Size{Width: 16, Height: 2, Depth: 1}, mtl.Size{Width: 16, Height: 1, Depth: 1})
		enc.Barrier()
		enc.WriteTimestamp(mtl.Precise, m.heap, 2*i+1)
	}
	enc.End()
	m.cb.End()
	if err := m.q.Commit([]*mtl.CommandBuffer4{m.cb}, feedback); err != nil {
		t.Fatal(err)
	}
	m.signal++
	m.q.Signal(m.event, m.signal)
	return m.event.Wait(m.signal, 1000)
}

func TestMetal4Dispatch(t *testing.T) {
	_, s := open(t, metaltest.M3())
	m := newMetal4(t, s)
	if m.heap.Count() != 64 || m.alloc.Size() == 0 || !m.set.Contains(m.buf) || m.set.Count() != 1 {
		t.Errorf("heap %d, allocator %d, residency %d", m.heap.Count(), m.alloc.Size(), m.set.Count())
	}
	if hz := must(m.d.TimestampFrequency())(t); hz != 24_000_000 {
		t.Errorf("frequency %d", hz)
	}
	m.buf.Contents()[4] = 5
	fb := make(chan mtl.Feedback, 1)
	before := s.MachAbsolute()
	if !m.run(t, 3, func(f mtl.Feedback) { fb <- f }) {
		t.Fatal("the event was not signalled")
	}
	after := s.MachAbsolute()
	if m.buf.Contents()[4] != 40 {
		t.Errorf("out[1] = %d, want 40", m.buf.Contents()[4])
	}
	stamps := must(m.heap.Resolve(0, 6))(t)
	if !slices.IsSorted(stamps) || stamps[0] < before || stamps[5] > after {
		t.Errorf("stamps %v outside [%d, %d]", stamps, before, after)
	}
	for i := range 3 {
		if d := stamps[2*i+1] - stamps[2*i]; d < 48 || d > 49 { // 2000 ns + 32 threads
			t.Errorf("dispatch %d took %d ticks", i, d)
		}
	}
	f := <-fb
	if f.Err != nil || f.End <= f.Start || uint64(f.Start*24e6) > stamps[0]+1 || uint64(f.End*24e6) < stamps[5]-1 {
		t.Errorf("feedback %+v", f)
	}
	m.heap.Invalidate(0, 6)
	if got := must(m.heap.Resolve(0, 6))(t); !slices.Equal(got, make([]uint64, 6)) {
		t.Errorf("after invalidation %v", got)
	}
	m.alloc.Reset()

	// Command-buffer stamps, the resolve whose arguments do not fit the registers, fill, groups.
	m.cb.Begin(m.alloc)
	m.cb.WriteTimestamp(m.heap, 10)
	enc := must(m.cb.ComputeEncoder(""))(t)
	enc.PushDebugGroup("g")
	enc.Fill(m.buf, 8, 4, 0x7f)
	enc.PopDebugGroup()
	enc.SetPipeline(m.pipe)
	enc.SetArguments(m.table)
	enc.DispatchThreadgroups(mtl.Size{Width: 1, Height: 1, Depth: 1}, mtl.Size{Width: 1, Height: 1, Depth: 1})
	enc.End()
	m.cb.WriteTimestamp(m.heap, 11)
	m.cb.ResolveHeap(m.heap, 10, 2, m.buf, 128)
	m.cb.End()
	if err := m.q.Commit([]*mtl.CommandBuffer4{m.cb}, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.q.Commit(nil, nil); err != nil {
		t.Fatal(err)
	}
	m.q.WaitFor(m.event, m.signal)
	m.q.Signal(m.event, 100)
	if !m.event.Wait(100, 1000) {
		t.Fatal("the event was not signalled")
	}
	got := must(m.heap.Resolve(10, 2))(t)
	if raw := m.buf.Contents(); binary.LittleEndian.Uint64(raw[128:]) != got[0] || binary.LittleEndian.Uint64(raw[136:]) != got[1] ||
		got[0] == 0 || got[1] <= got[0] || raw[8] != 0x7f || raw[11] != 0x7f || raw[12] != 0 {
		t.Errorf("stamps %v, memory %x", got, raw[:144])
	}
	if _, err := m.heap.Resolve(60, 8); !errors.Is(err, mtl.ErrNil) {
		t.Errorf("resolve past the end: %v", err)
	}
	m.set.Remove(m.buf)
	m.set.Commit()
	m.set.EndResidency()
	m.q.RemoveResidencySet(m.set)
}

func TestMetal4WithoutResidencyReadsZeros(t *testing.T) {
	_, s := open(t, metaltest.M3())
	m := newMetal4(t, s)
	m.q.RemoveResidencySet(m.set)
	m.buf.Contents()[0] = 3
	if !m.run(t, 1, nil) || m.buf.Contents()[0] != 3 {
		t.Errorf("out[0] = %d: the dispatch reached memory that is not resident", m.buf.Contents()[0])
	}
}

func TestEmptyEncoderLosesItsStamps(t *testing.T) {
	_, s := open(t, metaltest.M3())
	m := newMetal4(t, s)
	m.cb.Begin(m.alloc)
	enc := must(m.cb.ComputeEncoder(""))(t)
	enc.WriteTimestamp(mtl.Relaxed, m.heap, 0)
	enc.End()
	m.cb.End()
	if err := m.q.Commit([]*mtl.CommandBuffer4{m.cb}, nil); err != nil {
		t.Fatal(err)
	}
	m.q.Signal(m.event, 1)
	if v := must(m.heap.Resolve(0, 1))(t); !m.event.Wait(1, 1000) || v[0] != 0 {
		t.Errorf("stamp %d", v[0])
	}
}

func TestFaults(t *testing.T) {
	stamps := func(t *testing.T, f metaltest.Faults) []uint64 {
		_, s := open(t, metaltest.M3().Broken(f))
		m := newMetal4(t, s)
		if !m.run(t, 1, nil) {
			return nil
		}
		return must(m.heap.Resolve(0, 2))(t)
	}
	if v := stamps(t, metaltest.Faults{ZeroStamps: true}); v[0] != 0 || v[1] != 0 {
		t.Errorf("zero stamps: %v", v)
	}
	if v := stamps(t, metaltest.Faults{ErrorStamps: true}); v[0] != mtl.ErrorValue {
		t.Errorf("error stamps: %v", v)
	}
	if v := stamps(t, metaltest.Faults{LateStart: true}); v[0] <= v[1] {
		t.Errorf("late start: %v", v)
	}
	if v := stamps(t, metaltest.Faults{HungQueue: true}); v != nil {
		t.Errorf("hung queue: %v", v)
	}
}

func TestCommandBufferStampsOutOfOrder(t *testing.T) {
	_, s := open(t, metaltest.M3().Broken(metaltest.Faults{CBStampsOutOfOrder: true}))
	m := newMetal4(t, s)
	m.cb.Begin(m.alloc)
	m.cb.WriteTimestamp(m.heap, 4)
	enc := must(m.cb.ComputeEncoder(""))(t)
	enc.SetPipeline(m.pipe)
	enc.SetArguments(m.table)
	enc.WriteTimestamp(mtl.Precise, m.heap, 5)
	enc.DispatchThreads(mtl.Size{Width: 1, Height: 1, Depth: 1}, mtl.Size{Width: 1, Height: 1, Depth: 1})
	enc.End()
	m.cb.End()
	if err := m.q.Commit([]*mtl.CommandBuffer4{m.cb}, nil); err != nil {
		t.Fatal(err)
	}
	m.q.Signal(m.event, 1)
	if !m.event.Wait(1, 1000) {
		t.Fatal("not signalled")
	}
	if v := must(m.heap.Resolve(4, 2))(t); v[0] <= v[1] {
		t.Errorf("command-buffer stamp %d before encoder stamp %d", v[0], v[1])
	}
}

func TestHungClassicQueue(t *testing.T) {
	_, s := open(t, metaltest.M3().Broken(metaltest.Faults{HungQueue: true}))
	d := device(t, s)
	q := must(d.NewQueue(""))(t)
	defer q.Release()
	cb := must(q.CommandBuffer())(t)
	defer cb.Release()
	cb.OnCompleted(func() { t.Error("the work completed") })
	cb.Commit()
	var e *objc.Error
	if err := cb.Wait(); !errors.As(err, &e) || e.Code != 2 || cb.Status() != mtl.StatusError {
		t.Errorf("Wait: %v, status %d", err, cb.Status())
	}
}

func TestNilWithoutError(t *testing.T) {
	p := metaltest.M3().Broken(metaltest.Faults{NilErrors: true})
	_, s := open(t, p)
	d := device(t, s)
	set := d.CounterSets()[0]
	defer set.Release()
	for name, err := range map[string]error{
		"library":       second(d.NewLibrary(source, mtl.CompileOptions{})),
		"open library":  second(d.OpenLibrary("/x")),
		"heap":          second(d.NewHeap(8, "")),
		"residency set": second(d.NewResidencySet(1, "")),
		"table":         second(d.NewArgumentTable(1)),
		"sample buffer": second(d.NewSampleBuffer(set, 1, "")),
	} {
		if !errors.Is(err, mtl.ErrNil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestErrorsCarryMetalsText(t *testing.T) {
	_, s := open(t, metaltest.M3())
	d := device(t, s)
	var e *objc.Error
	if _, err := d.NewArgumentTable(99); !errors.As(err, &e) || !strings.Contains(e.Text, "99") {
		t.Errorf("table: %v", err)
	}
	if _, err := d.NewHeap(0, ""); !errors.As(err, &e) || e.Domain != "MTLDeviceErrorDomain" {
		t.Errorf("heap: %v", err)
	}
}

func TestCapture(t *testing.T) {
	w, s := open(t, metaltest.M3())
	d := device(t, s)
	q := must(d.NewQueue(""))(t)
	defer q.Release()
	q4 := must(d.NewQueue4())(t)
	defer q4.Release()
	m := must(s.CaptureManager())(t)
	defer m.Release()
	path := filepath.Join(t.TempDir(), "a.gputrace")
	var e *objc.Error
	if err := m.Start(d, path); m.Supports(mtl.ToGPUTrace) || !m.Supports(mtl.ToDeveloperTools) || !errors.As(err, &e) || e.Code != 1 {
		t.Errorf("without MTL_CAPTURE_ENABLED: %v", err)
	}
	w.EnableCapture()
	if !m.Supports(mtl.ToGPUTrace) {
		t.Error("captures to files are not supported")
	}
	if err := m.Start(d, path+".txt"); !errors.As(err, &e) || e.Code != 3 {
		t.Errorf("bad path: %v", err)
	}
	for _, of := range []mtl.Captured{d, q, q4} {
		if err := m.Start(of, path); err != nil || !m.IsCapturing() {
			t.Fatalf("%T: %v", of, err)
		}
		if err := m.Start(of, path+"2.gputrace"); !errors.As(err, &e) || e.Code != 2 {
			t.Errorf("second capture: %v", err)
		}
		m.Stop()
		if m.IsCapturing() {
			t.Error("still capturing")
		}
		path += "x.gputrace"
	}
	for _, of := range []mtl.Captured{d, q} {
		scope := must(m.NewScope(of, "scope"))(t)
		scope.Begin()
		scope.End()
		if err := m.Start(scope, path); err != nil {
			t.Error(err)
		}
		m.Stop()
		path += "x.gputrace"
		if _, err := m.NewScope(scope, ""); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("scope of a scope: %v", err)
		}
		scope.Release()
	}
	if _, err := m.NewScope(q4, ""); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("scope of a Metal 4 queue: %v", err)
	}
}

// TestNothingWhereAnObjectIsExpected makes each creating message return nil and each class absent in turn.
func TestNothingWhereAnObjectIsExpected(t *testing.T) {
	w, s := open(t, metaltest.M3())
	m := newMetal4(t, s)
	q := must(m.d.NewQueue("q"))(t)
	defer q.Release()
	cb := must(q.CommandBuffer())(t)
	defer cb.Release()
	manager := must(s.CaptureManager())(t)
	defer manager.Release()
	set := m.d.CounterSets()[0]
	defer set.Release()
	samples := must(m.d.NewSampleBuffer(set, 2, ""))(t)
	defer samples.Release()
	pass := &mtl.PassSamples{Buffer: samples}
	for _, c := range []struct {
		nils string
		try  func() error
	}{
		{"FakeDevice newCommandQueue", func() error { return second(m.d.NewQueue("")) }},
		{"FakeDevice newSharedEvent", func() error { return second(m.d.NewSharedEvent()) }},
		{"FakeDevice newMTL4CommandQueue", func() error { return second(m.d.NewQueue4()) }},
		{"FakeDevice newCommandAllocator", func() error { return second(m.d.NewAllocator()) }},
		{"FakeDevice newCommandBuffer", func() error { return second(m.d.NewCommandBuffer4("")) }},
		{"FakeQueue commandBuffer", func() error { return second(q.CommandBuffer()) }},
		{"FakeCommandBuffer computeCommandEncoder", func() error { return second(cb.ComputeEncoder(m.d, nil)) }},
		{"FakeCommandBuffer blitCommandEncoder", func() error { return cb.Fill(m.buf, 0, 1, 0) }},
		{"FakeCommandBuffer blitCommandEncoder", func() error { return cb.ResolveInto(samples, 0, 1, m.buf, 0) }},
		{"FakeCommandBuffer4 computeCommandEncoder", func() error { return second(m.cb.ComputeEncoder("")) }},
		{"MTLCaptureManager newCaptureScopeWithDevice:", func() error { return second(manager.NewScope(m.d, "")) }},
		{"MTLCaptureManager startCaptureWithDescriptor:error:", func() error { return manager.Start(m.d, "x.gputrace") }},
		{"MTLCaptureManager sharedCaptureManager", func() error { return second(s.CaptureManager()) }},
		{"FakeHeap resolveCounterRange:", func() error { return second(m.heap.Resolve(0, 1)) }},
		{"MTL4CounterHeapDescriptor new", func() error { return second(m.d.NewHeap(1, "")) }},
		{"MTL4CommitOptions new", func() error { return m.q.Commit([]*mtl.CommandBuffer4{m.cb}, func(mtl.Feedback) {}) }},
	} {
		w.Nil(c.nils)
		if err := c.try(); !errors.Is(err, mtl.ErrNil) {
			t.Errorf("%s: %v", c.nils, err)
		}
	}
	for _, c := range []struct {
		class string
		try   func() error
	}{
		{"MTL4CounterHeapDescriptor", func() error { return second(m.d.NewHeap(1, "")) }},
		{"MTLResidencySetDescriptor", func() error { return second(m.d.NewResidencySet(1, "")) }},
		{"MTL4ArgumentTableDescriptor", func() error { return second(m.d.NewArgumentTable(1)) }},
		{"MTLCounterSampleBufferDescriptor", func() error { return second(m.d.NewSampleBuffer(set, 1, "")) }},
		{"MTLCompileOptions", func() error { return second(m.d.NewLibrary(source, mtl.CompileOptions{LanguageVersion: 1})) }},
		{"MTLComputePassDescriptor", func() error { return second(cb.ComputeEncoder(m.d, pass)) }},
		{"MTLCaptureDescriptor", func() error { return manager.Start(m.d, "x.gputrace") }},
		{"MTLCaptureManager", func() error { return second(s.CaptureManager()) }},
		{"MTL4CommitOptions", func() error { return m.q.Commit([]*mtl.CommandBuffer4{m.cb}, func(mtl.Feedback) {}) }},
	} {
		w.RemoveClass(c.class)
		if err := c.try(); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), c.class) {
			t.Errorf("without %s: %v", c.class, err)
		}
	}
	w.RemoveMethod("newResidencySetWithDescriptor:error:")
	w.RemoveMethod("newCommandAllocator")
	for _, err := range []error{second(m.d.NewResidencySet(1, "")), m.d.SupportsMetal4()} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "FakeDevice does not respond to new") {
			t.Error(err)
		}
	}
}

func TestUnexpectedSizes(t *testing.T) {
	p := metaltest.M3()
	p.HeapEntryBytes = 16
	_, s := open(t, p)
	d := device(t, s)
	if _, err := d.NewHeap(4, ""); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("entries of 16 bytes: %v", err)
	}
	set := d.CounterSets()[0]
	defer set.Release()
	b := must(d.NewSampleBuffer(set, 2, ""))(t)
	defer b.Release()
	set.Counters = append(set.Counters, "one more than the device has")
	if _, err := b.Resolve(0, 2); err == nil || !strings.Contains(err.Error(), "16 bytes, want 32") {
		t.Errorf("resolve of an unknown layout: %v", err)
	}
}

func TestFeedbackError(t *testing.T) {
	p := metaltest.M3().Broken(metaltest.Faults{GPUError: true})
	_, s := open(t, p)
	m := newMetal4(t, s)
	fb := make(chan mtl.Feedback, 1)
	m.run(t, 1, func(f mtl.Feedback) { fb <- f })
	var e *objc.Error
	if f := <-fb; !errors.As(f.Err, &e) || e.Domain != "MTL4CommandQueueErrorDomain" || e.Code != 3 {
		t.Errorf("feedback %+v", f)
	}
}
