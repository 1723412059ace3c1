//go:build (darwin || linux) && (amd64 || arm64)

package metaltest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stax-otel/stax/metal/internal/mtl"
	"github.com/stax-otel/stax/metal/internal/objc"
	"github.com/stax-otel/stax/metal/metaltest"
)

type extra struct {
	Length  func(objc.ID) uint64                  `objc:"-X length"`
	Unknown func(objc.ID)                         `objc:"-X thisDoesNotExist"`
	Class   func(objc.Class)                      `objc:"+X thisDoesNotExist"`
	Stamp   func(objc.ID, int64, objc.ID, uint64) `objc:"-X writeTimestampWithGranularity:intoHeap:atIndex:"`
	Sample  func(objc.ID, objc.ID, uint64, bool)  `objc:"-X sampleCountersInBuffer:atSampleIndex:withBarrier:"`
	Labels  func(objc.ID) objc.ID                 `objc:"-X commandBuffer"`
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// panics runs fn and returns what it panicked with.
func panics(fn func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	fn()
	return ""
}

// TestStrict: what would crash or abort a program on a Mac panics here with class and selector.
func TestStrict(t *testing.T) {
	w := metaltest.New(metaltest.M3())
	s := must(mtl.Open(w.Lookup))
	var x extra
	if err := s.Runtime().Bind(&x); err != nil {
		t.Fatal(err)
	}
	d := must(s.DefaultDevice())
	q := must(d.NewQueue("q"))
	q4 := must(d.NewQueue4())
	buf := must(d.NewBuffer(64, 0))
	alloc := must(d.NewAllocator())
	cb := must(d.NewCommandBuffer4("cb"))
	heap := must(d.NewHeap(4, "heap"))
	event := must(d.NewSharedEvent())
	classic := must(q.CommandBuffer())
	freed := must(d.NewBuffer(64, 0))
	freedID := freed.ID()
	freed.Release()
	one := mtl.Size{Width: 1, Height: 1, Depth: 1}
	for _, c := range []struct {
		want string
		do   func()
	}{
		{"[FakeBuffer thisDoesNotExist]: unrecognized selector", func() { x.Unknown(buf.ID()) }},
		{"+[NSString thisDoesNotExist]: unrecognized selector", func() { x.Class(must(s.Runtime().Class("NSString"))) }},
		{"length used a freed FakeBuffer", func() { x.Length(freedID) }},
		{"objc_release used a freed FakeBuffer", func() { s.Runtime().Release(freedID) }},
		{"objc_retain used 0x5, which is no object", func() { s.Runtime().Retain(5) }},
		{"a FakeCommandBuffer was autoreleased with no pool in place", func() { x.Labels(q.ID()) }},
		{"_Block_release of 0x5", func() { s.Runtime().ReleaseBlock(5) }},
		{"commit of a command buffer that is recording", func() {
			cb.Begin(alloc)
			_ = q4.Commit([]*mtl.CommandBuffer4{cb}, nil)
		}},
		{"begin of a command buffer that is recording", func() { cb.Begin(alloc) }},
		{"timestamp index 4 of 4", func() { cb.WriteTimestamp(heap, 4) }},
		{"endCommandBuffer with an open encoder", func() {
			enc := must(cb.ComputeEncoder(""))
			defer enc.Release()
			for _, c := range []struct {
				want string
				do   func()
			}{
				{"no compute pipeline is set", func() { enc.DispatchThreads(one, one) }},
				{"timestamp index 9 of 4", func() { enc.WriteTimestamp(mtl.Relaxed, heap, 9) }},
				{"granularity 2", func() { enc.WriteTimestamp(2, heap, 0) }},
				{"A command encoder is already encoding", func() { must(cb.ComputeEncoder("")) }},
				{"outside the buffer", func() { enc.Fill(buf, 60, 8, 0) }},
			} {
				if got := panics(c.do); !strings.Contains(got, c.want) {
					t.Errorf("want %q, got %q", c.want, got)
				}
			}
			defer func() {
				r := recover()
				s.Runtime() // the world is still usable after a panic
				enc.End()
				enc2 := must(cb.ComputeEncoder(""))
				enc2.End()
				panic(r)
			}()
			cb.End()
		}},
		{"waitUntilCompleted before commit", func() { _ = classic.Wait() }},
		{"sampleCountersInBuffer:atSampleIndex:withBarrier: is not supported on this device", func() {
			enc := must(classic.ComputeEncoder(d, nil))
			defer enc.End()
			x.Sample(enc.ID(), 0, 0, true)
		}},
		{"commit an already committed command buffer", func() {
			classic.Commit()
			_ = classic.Wait()
			classic.Commit()
		}},
		{"Completed handler provided after commit", func() {
			b := s.Runtime().NewBlock(func(objc.ID) {})
			defer s.Runtime().ReleaseBlock(b)
			classic.OnCompleted(func() {})
		}},
	} {
		if got := panics(c.do); !strings.Contains(got, c.want) {
			t.Errorf("want %q, got %q", c.want, got)
		}
	}
	cb.End()
	for _, o := range []interface{ Release() }{classic, event, heap, cb, alloc, buf, q4, q, d} {
		o.Release()
	}
	// The refused handler's block, and the command buffer that found no pool.
	if left := w.Close(); !slices.Equal(left, []string{"leaked 1 blocks", "leaked FakeCommandBuffer (1 references)"}) {
		t.Error(left)
	}
}

func TestAllocatorResetInFlight(t *testing.T) {
	w := metaltest.New(metaltest.M3())
	s := must(mtl.Open(w.Lookup))
	d := must(s.DefaultDevice())
	q := must(d.NewQueue4())
	alloc := must(d.NewAllocator())
	cb := must(d.NewCommandBuffer4(""))
	heap := must(d.NewHeap(4, ""))
	w.Hold()
	cb.Begin(alloc)
	cb.WriteTimestamp(heap, 0)
	cb.End()
	if err := q.Commit([]*mtl.CommandBuffer4{cb}, nil); err != nil {
		t.Fatal(err)
	}
	if got := panics(alloc.Reset); !strings.Contains(got, "whose work is in flight") {
		t.Errorf("reset: %q", got)
	}
	heap.Invalidate(0, 4)
	if w.Pending() != 1 {
		t.Errorf("%d pending", w.Pending())
	}
	w.Resume()
	if v := must(heap.Resolve(0, 1)); v[0] != 0 {
		t.Errorf("a wiped stamp was written: %d", v[0])
	}
	alloc.Reset()
	for _, o := range []interface{ Release() }{heap, cb, alloc, q, d} {
		o.Release()
	}
	if got := w.Close(); !slices.Equal(got, []string{"a heap was invalidated while work that uses it was in flight"}) {
		t.Errorf("%q", got)
	}
}

// TestCloseReportsLeaks: forgotten objects, blocks and work are named.
func TestCloseReportsLeaks(t *testing.T) {
	w := metaltest.New(metaltest.M3())
	s := must(mtl.Open(w.Lookup))
	d := must(s.DefaultDevice())
	must(d.NewBuffer(16, 0))
	must(d.NewSharedEvent())
	s.Runtime().NewBlock(func(objc.ID) {})
	if n := w.Live("FakeBuffer"); n != 1 {
		t.Errorf("%d live buffers", n)
	}
	if n := w.Calls("FakeDevice newSharedEvent"); n != 1 {
		t.Errorf("%d calls", n)
	}
	want := []string{"leaked 1 blocks", "leaked FakeBuffer (1 references)", "leaked FakeDevice (1 references)", "leaked FakeSharedEvent (1 references)"}
	if got := w.Close(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := panics(func() { s.MachAbsolute() }); !strings.Contains(got, "closed world") {
		t.Errorf("after Close: %q", got)
	}
}

func TestVirtualTime(t *testing.T) {
	w := metaltest.New(metaltest.Discrete())
	s := must(mtl.Open(w.Lookup))
	d := must(s.DefaultDevice())
	a, c := s.MachAbsolute(), s.MachContinuous()
	w.Advance(time.Second)
	w.Sleep(time.Hour)
	if b := s.MachAbsolute(); b-a < 24e6 || b-a > 24e6+100 {
		t.Errorf("a second has %d ticks", b-a)
	}
	if b := s.MachContinuous(); b-c < 3601*24e6 || b-c > 3601*24e6+100 {
		t.Errorf("an hour and a second have %d ticks", b-c)
	}
	cpu1, gpu1 := d.SampleTimestamps()
	w.Advance(100 * time.Second)
	cpu2, gpu2 := d.SampleTimestamps()
	if period := float64(cpu2-cpu1) / float64(gpu2-gpu1); period > 83.333333 || period < 83.33 {
		t.Errorf("a GPU tick has %f ns: 20 ppm fast is expected", period)
	}
	d.Release()
	if left := w.Close(); len(left) > 0 {
		t.Error(left)
	}
}

// TestSlotsAreUsedAgain: worlds come and go without eating up the process's callbacks.
func TestSlotsAreUsedAgain(t *testing.T) {
	for range 500 {
		w := metaltest.New()
		if _, err := w.Lookup("objc_msgSend"); err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
}

func TestCaptureFile(t *testing.T) {
	w := metaltest.New(metaltest.M3())
	w.EnableCapture()
	s := must(mtl.Open(w.Lookup))
	d := must(s.DefaultDevice())
	m := must(s.CaptureManager())
	path := filepath.Join(t.TempDir(), "x.gputrace")
	if err := m.Start(d, path); err != nil {
		t.Fatal(err)
	}
	m.Stop()
	m.Stop()
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if err := m.Start(d, path); err == nil {
		t.Error("a capture overwrote a file")
	}
	if err := m.Start(d, filepath.Join(t.TempDir(), "no", "x.gputrace")); err != nil {
		t.Error(err)
	}
	m.Stop()
	m.Release()
	d.Release()
	if left := w.Close(); len(left) != 1 || !strings.Contains(left[0], "capture: ") {
		t.Errorf("%q", left)
	}
}
