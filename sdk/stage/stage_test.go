package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const ms = time.Millisecond

type fakeClock struct{ t atomic.Int64 }

func (c *fakeClock) now() time.Duration      { return time.Duration(c.t.Load()) }
func (c *fakeClock) advance(d time.Duration) { c.t.Add(int64(d)) }

// one returns a record with a clock that only the test moves.
func one(m Mode) (*Record, *fakeClock) {
	c := &fakeClock{}
	return NewRegistry(Options{Mode: m, Buffers: true, Clock: c.now}).Record("camera.Frame"), c
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (rewrite with -update):\n%s", path, got)
	}
}

// numbers are the parts of a stage that most tests look at: calls, total, avg, min (-1: absent), max in ms.
func numbers(i Info) [5]int64 {
	least := int64(-1)
	if i.MinTimeNanos != nil {
		least = *i.MinTimeNanos / int64(ms)
	}
	return [5]int64{int64(i.CallCount), i.TotalTimeNanos / int64(ms), i.AvgTimeNanos / int64(ms), least, i.MaxTimeNanos / int64(ms)}
}

func TestCounts(t *testing.T) {
	r, c := one(On)
	tap := Tap(r, func(d time.Duration) { c.advance(d) }, Named("x"))
	equal(t, "before the first call", numbers(r.Snapshot().Stages[0]), [5]int64{0, 0, 0, -1, 0})
	for _, d := range []time.Duration{4 * ms, 2 * ms, 9 * ms} {
		tap(d)
	}
	equal(t, "after three", numbers(r.Snapshot().Stages[0]), [5]int64{3, 15, 5, 2, 9})
	r.Reset()
	equal(t, "after the reset", numbers(r.Snapshot().Stages[0]), [5]int64{0, 0, 0, -1, 0})
	b, _ := json.Marshal(r.Snapshot())
	if bytes.Contains(b, []byte("min_time_ns")) || bytes.Contains(b, []byte("bottleneck")) {
		t.Errorf("without calls there is no minimum and no bottleneck: %s", b)
	}
	tap(0)
	equal(t, "a call of no time", numbers(r.Snapshot().Stages[0]), [5]int64{1, 0, 0, 0, 0})
}

// TestOffIsTheFunctionItself: nothing is wrapped, nothing is registered.
func TestOffIsTheFunctionItself(t *testing.T) {
	r, _ := one(Off)
	ctx := context.Background()
	check := func(what string, got, want any) {
		t.Helper()
		if reflect.ValueOf(got).Pointer() != reflect.ValueOf(want).Pointer() || reflect.TypeOf(got) != reflect.TypeOf(want) {
			t.Errorf("%s was wrapped", what)
		}
	}
	source, sourceErr := func() int { return 1 }, func() (int, error) { return 1, nil }
	sourceCtx := func(context.Context) (int, error) { return 1, nil }
	tap, tapErr := func(int) {}, func(int) error { return nil }
	tapCtx := func(context.Context, int) error { return nil }
	tr, trErr := func(int) string { return "" }, func(int) (string, error) { return "", nil }
	trCtx := func(context.Context, int) (string, error) { return "", nil }
	seq := iter.Seq[int](func(func(int) bool) {})
	for _, r := range []*Record{r, nil, (*Registry)(nil).Record("x")} {
		check("Source", Source(r, source), source)
		check("SourceErr", SourceErr(r, sourceErr), sourceErr)
		check("SourceCtx", SourceCtx(r, sourceCtx), sourceCtx)
		check("SourceSeq", SourceSeq(r, seq), seq)
		check("Tap", Tap(r, tap, Named("x")), tap)
		check("TapErr", TapErr(r, tapErr), tapErr)
		check("TapCtx", TapCtx(r, tapCtx), tapCtx)
		check("TapSeq", TapSeq(r, seq), seq)
		check("Link", Link(r, tap), tap)
		check("LinkErr", LinkErr(r, tapErr), tapErr)
		check("LinkCtx", LinkCtx(r, tapCtx), tapCtx)
		check("LinkSeq", LinkSeq(r, seq), seq)
		check("Transform", Transform(r, tr), tr)
		check("TransformErr", TransformErr(r, trErr), trErr)
		check("TransformCtx", TransformCtx(r, trCtx), trCtx)
		r.Reset()
		equal(t, "stages", len(r.Snapshot().Stages), 0)
	}
	_ = ctx
}

// TestEveryForm calls each wrapper three times for 1 ms; the second call fails where it can.
func TestEveryForm(t *testing.T) {
	ctx, bad := context.Background(), errors.New("bad")
	for name, form := range map[string]struct {
		kind   Kind
		errors uint64
		run    func(r *Record, c *fakeClock)
	}{
		"Source": {KindSource, 0, func(r *Record, c *fakeClock) {
			f := Source(r, func() int { c.advance(ms); return 7 })
			equal(t, "value", []int{f(), f(), f()}, []int{7, 7, 7})
		}},
		"SourceErr": {KindSource, 1, func(r *Record, c *fakeClock) {
			n := 0
			f := SourceErr(r, func() (int, error) { c.advance(ms); n++; return n, on(n == 2, bad) })
			for i := 1; i <= 3; i++ {
				v, err := f()
				equal(t, "value", []any{v, err}, []any{i, on(i == 2, bad)})
			}
		}},
		"SourceCtx": {KindSource, 1, func(r *Record, c *fakeClock) {
			n := 0
			f := SourceCtx(r, func(context.Context) (int, error) { c.advance(ms); n++; return n, on(n == 2, bad) })
			for i := 1; i <= 3; i++ {
				v, err := f(ctx)
				equal(t, "value", []any{v, err}, []any{i, on(i == 2, bad)})
			}
		}},
		"SourceSeq": {KindSource, 0, func(r *Record, c *fakeClock) {
			seq := SourceSeq(r, func(yield func(int) bool) {
				for i := range 3 {
					c.advance(ms)
					if !yield(i) {
						return
					}
				}
				c.advance(50 * ms) // the search for the end
			})
			for range seq {
				c.advance(20 * ms) // the consumer's time
			}
		}},
		"SourceChan": {KindSource, 0, func(r *Record, c *fakeClock) {
			in := filled()
			for range SourceChan(r, in) {
			}
			c.advance(3 * ms)
		}},
		"Tap": {KindTap, 0, func(r *Record, c *fakeClock) {
			f := Tap(r, func(int) { c.advance(ms) })
			f(1)
			f(2)
			f(3)
		}},
		"TapErr": {KindTap, 1, func(r *Record, c *fakeClock) {
			f := TapErr(r, func(v int) error { c.advance(ms); return on(v == 2, bad) })
			equal(t, "errors", []error{f(1), f(2), f(3)}, []error{nil, bad, nil})
		}},
		"LinkCtx": {KindLink, 1, func(r *Record, c *fakeClock) {
			f := LinkCtx(r, func(_ context.Context, v int) error { c.advance(ms); return on(v == 2, bad) })
			equal(t, "errors", []error{f(ctx, 1), f(ctx, 2), f(ctx, 3)}, []error{nil, bad, nil})
		}},
		"TapSeq": {KindTap, 0, func(r *Record, c *fakeClock) {
			for v := range TapSeq(r, slices.Values([]int{1, 2, 3, 4})) {
				c.advance(ms)
				if v == 3 {
					break // its body ran, so it counts
				}
			}
		}},
		"LinkChan": {KindLink, 0, func(r *Record, c *fakeClock) {
			for range LinkChan(r, filled()) {
				c.advance(ms)
			}
		}},
		"Transform": {KindTransform, 0, func(r *Record, c *fakeClock) {
			f := Transform(r, func(v int) int { c.advance(ms); return 2 * v })
			equal(t, "values", []int{f(1), f(2), f(3)}, []int{2, 4, 6})
		}},
		"TransformErr": {KindTransform, 1, func(r *Record, c *fakeClock) {
			f := TransformErr(r, func(v int) (int, error) { c.advance(ms); return 2 * v, on(v == 2, bad) })
			for i := 1; i <= 3; i++ {
				v, err := f(i)
				equal(t, "value", []any{v, err}, []any{2 * i, on(i == 2, bad)})
			}
		}},
		"TransformCtx": {KindTransform, 1, func(r *Record, c *fakeClock) {
			f := TransformCtx(r, func(_ context.Context, v int) (int, error) { c.advance(ms); return 2 * v, on(v == 2, bad) })
			for i := 1; i <= 3; i++ {
				v, err := f(ctx, i)
				equal(t, "value", []any{v, err}, []any{2 * i, on(i == 2, bad)})
			}
		}},
		"TransformChan": {KindTransform, 0, func(r *Record, c *fakeClock) {
			equal(t, "values", slices.Collect(TransformChan(r, filled(), func(v int) int { c.advance(ms); return 2 * v })), []int{2, 4, 6})
		}},
	} {
		for _, mode := range []Mode{On, Switchable} {
			r, c := one(mode)
			if mode == Switchable {
				r.g.SetEnabled(true)
			}
			form.run(r, c)
			want := [5]int64{3, 3, 1, 1, 1}
			if name == "SourceChan" { // its time passes in the other goroutine
				want = [5]int64{3, 0, 0, 0, 0}
			}
			s := r.Snapshot().Stages[0]
			equal(t, name, numbers(s), want)
			equal(t, name+" details", []any{s.StageType, s.ErrorCount, s.AbortedCount, s.InFlight}, []any{form.kind, form.errors, uint64(0), int64(0)})
		}
	}
}

func on(cond bool, err error) error {
	if cond {
		return err
	}
	return nil
}

func filled() chan int {
	c := make(chan int, 3)
	c <- 1
	c <- 2
	c <- 3
	close(c)
	return c
}

func TestSwitchable(t *testing.T) {
	r, c := one(Switchable)
	calls := 0
	tap := Tap(r, func(toggle bool) {
		calls++
		c.advance(ms)
		if toggle {
			r.g.SetEnabled(!r.g.Enabled())
		}
	})
	tap(false) // off
	tap(true)  // begins off
	tap(false) // on
	tap(true)  // begins on
	tap(false) // off
	equal(t, "calls", calls, 5)
	equal(t, "timed", numbers(r.Snapshot().Stages[0]), [5]int64{2, 2, 1, 1, 1})
	equal(t, "in flight", r.Snapshot().Stages[0].InFlight, int64(0))
	fixed, _ := one(On)
	fixed.g.SetEnabled(false)
	equal(t, "On cannot be switched", fixed.g.Enabled(), true)
}

func TestPanicAndGoexit(t *testing.T) {
	r, c := one(On)
	tap := Tap(r, func(v any) {
		c.advance(ms)
		switch {
		case v == "exit":
			runtime.Goexit()
		case v != nil:
			panic(v)
		}
	})
	var wg sync.WaitGroup
	wg.Go(func() { tap("exit") })
	wg.Wait()
	func() {
		defer func() { equal(t, "the panic passes", recover(), any("boom")) }()
		tap("boom")
	}()
	tap(nil)
	s := r.Snapshot().Stages[0]
	equal(t, "only the call that returned is timed", numbers(s), [5]int64{1, 1, 1, 1, 1})
	equal(t, "aborted", []any{s.AbortedCount, s.InFlight}, []any{uint64(2), int64(0)})
}

func TestSequencePanics(t *testing.T) {
	r, c := one(On)
	source := SourceSeq(r, func(yield func(int) bool) {
		c.advance(ms)
		if yield(1) {
			panic("source")
		}
	})
	func() {
		defer func() { equal(t, "source", recover(), any("source")) }()
		for range source {
		}
	}()
	func() {
		defer func() { equal(t, "consumer", recover(), any("consumer")) }()
		for range TapSeq(r, source) {
			panic("consumer")
		}
	}()
	s := r.Snapshot().Stages
	equal(t, "source", []uint64{s[0].CallCount, s[0].AbortedCount}, []uint64{2, 1})
	equal(t, "tap", []uint64{s[1].CallCount, s[1].AbortedCount}, []uint64{0, 1})
	equal(t, "in flight", s[0].InFlight+s[1].InFlight, int64(0))
}

// TestNeverReturns: a call that hangs is seen, and named, before it returns.
func TestNeverReturns(t *testing.T) {
	r, c := one(On)
	release, entered := make(chan struct{}), make(chan struct{})
	tap := Tap(r, func(hang bool) {
		c.advance(2 * ms)
		if hang {
			close(entered)
			<-release
		}
	}, Named("uploader"))
	tap(false)
	var wg sync.WaitGroup
	wg.Go(func() { tap(true) })
	<-entered
	c.advance(30 * time.Second)
	snap := r.Snapshot()
	s := snap.Stages[0]
	equal(t, "running", []int64{s.InFlight, s.BusyNanos, int64(s.CallCount)}, []int64{1, int64(30*time.Second + 2*ms), 1})
	equal(t, "verdict", snap.Bottleneck.Verdict, Stuck)
	equal(t, "text", snap.Bottleneck.Recommendation, "Tap 'uploader' has been in a call for 30 s without returning.")
	r.Reset()
	equal(t, "after a reset it still hangs", r.Snapshot().Bottleneck.Verdict, Stuck)
	close(release)
	wg.Wait()
	equal(t, "then it counts where it ended", numbers(r.Snapshot().Stages[0]), [5]int64{1, 30002, 30002, 30002, 30002})
}

// camera plays a source and a tap that run side by side.
func camera(sourceEvery, tapTakes time.Duration, frames int, declare ...Option) *Record {
	r, c := one(On)
	source := Source(r, func() int { return 0 }, append(declare, Named("camera_capture"))...)
	tap := Tap(r, func(d time.Duration) { c.advance(d) }, Named("frame_processor"))
	var at, free time.Duration
	for range frames {
		at += sourceEvery
		c.t.Store(int64(at))
		source()
		if at >= free { // else the frame is dropped
			tap(tapTakes)
			free = at + tapTakes
		}
	}
	return r
}

func TestBottleneck(t *testing.T) {
	parallel := func() *Record {
		r := camera(33*ms, 40*ms, 300)
		r.stages[1].counts.Load().maxInFlight.Store(2)
		return r
	}
	several := func() *Record {
		r, c := one(On)
		a, b := Source(r, func() int { return 0 }), Source(r, func() int { return 0 })
		for range 100 {
			c.advance(20 * ms)
			a()
			b()
		}
		Transform(r, func(int) int { c.advance(15 * ms); return 0 }, Named("merge"))(0)
		return r
	}
	for _, tc := range []struct {
		name    string
		r       *Record
		verdict Verdict
		text    string
	}{
		{
			"the tap is slower than the source", camera(33*ms, 40*ms, 900), CannotKeepUp,
			"Tap 'frame_processor' takes 40 ms per call, but the source delivers every 33 ms (30.3 per second): it cannot keep up with 33 ms. " +
				"It manages 25 per second at most; the rest (18%) piles up or is dropped. Make it faster, run it in parallel, or let the source deliver less.",
		},
		{
			"the declared pace counts", camera(40*ms, 40*ms, 900, Every(33333333)), CannotKeepUp,
			"Tap 'frame_processor' takes 40 ms per call, but the source delivers every 33.3 ms (30 per second): it cannot keep up with 33.3 ms. " +
				"It manages 25 per second at most; the rest (17%) piles up or is dropped. Make it faster, run it in parallel, or let the source deliver less.",
		},
		{
			"the source waits for the tap", camera(40*ms, 39*ms, 900), SetsThePace,
			"Tap 'frame_processor' takes 39 ms per call, and a value comes every 40 ms: it has no time left. If the source waits for it, it is what sets the pace.",
		},
		{
			"fast enough", camera(33*ms, 11*ms, 900), KeepsUp,
			"Tap 'frame_processor' takes 11 ms per call, more than any other, and keeps up: a value comes every 33 ms, so it is busy 33% of the time.",
		},
		{
			"two at once", parallel(), KeepsUp,
			"Tap 'frame_processor' takes 40 ms per call (20 ms per value, with up to 2 calls at once), more than any other, and keeps up: a value comes every 33 ms, so it is busy 61% of the time.",
		},
		{
			"two sources", several(), CannotKeepUp,
			"Transform 'merge' takes 15 ms per call, but the source delivers every 10 ms (100 per second): it cannot keep up with 10 ms. " +
				"It manages 66.7 per second at most; the rest (33%) piles up or is dropped. Make it faster, run it in parallel, or let the source deliver less.",
		},
		{
			"one value says nothing of the pace", camera(33*ms, 40*ms, 1), Slowest,
			"Tap 'frame_processor' takes 40 ms per call, more than any other. How often the source delivers is not known.",
		},
	} {
		b := tc.r.Snapshot().Bottleneck
		if b == nil || b.Verdict != tc.verdict || b.Recommendation != tc.text {
			t.Errorf("%s:\n got %+v\nwant %s %s", tc.name, b, tc.verdict, tc.text)
		}
	}
	r, c := one(On)
	Source(r, func() int { c.advance(ms); return 0 })()
	equal(t, "only a source", r.Snapshot().Bottleneck.Recommendation, "Source 0 takes 1 ms per call and is the only kind of stage that was called.")
}

func TestSnapshotJSON(t *testing.T) {
	r := camera(33*ms, 40*ms, 900)
	Link(r, func(int) {})
	Link(r, func(int) {}, Named("mqtt_publisher"))
	b := NewBuffer[int](r, "frames", 2)
	for i := range 5 {
		b.Offer(i)
	}
	for range b.All() {
		break
	}
	j, err := json.MarshalIndent(r.Snapshot(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "snapshot.json", append(j, '\n'))
	golden(t, "snapshot.txt", []byte(Format(r.Snapshot())))
}

func TestIndexAndRegistry(t *testing.T) {
	g := NewRegistry(Options{Mode: On})
	a, b := g.Record("a"), g.Record("b")
	equal(t, "same record", g.Record("a") == a, true)
	Tap(a, func(int) {})
	Source(a, func() int { return 0 })
	Tap(a, func(int) {})
	Tap(b, func(int) {})(1)
	var got []string
	for _, s := range g.Snapshot() {
		for _, i := range s.Stages {
			got = append(got, s.Record+" "+i.title())
		}
	}
	equal(t, "indices", got, []string{"a Tap 0", "a Source 0", "a Tap 1", "b Tap 0"})
	g.Reset()
	equal(t, "reset", b.Snapshot().Stages[0].CallCount, uint64(0))
	var none *Registry
	none.Reset()
	none.SetEnabled(true)
	equal(t, "nil", []any{none.Enabled(), len(none.Snapshot())}, []any{false, 0})
}

func TestBuffersAreIndependent(t *testing.T) {
	for _, tc := range []struct {
		o       Options
		stages  int
		buffers int
	}{{Options{}, 0, 0}, {Options{Mode: On}, 1, 0}, {Options{Buffers: true}, 0, 1}, {Options{Mode: Switchable, Buffers: true}, 1, 1}} {
		r := NewRegistry(tc.o).Record("r")
		Tap(r, func(int) {})
		b := NewBuffer[int](r, "b", 1)
		equal(t, "room", []bool{b.Offer(1), b.Offer(2)}, []bool{true, false})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		equal(t, "send without room", b.Send(ctx, 3), context.Canceled)
		equal(t, "held", b.Len(), 1)
		b.Close()
		equal(t, "values", slices.Collect(b.All()), []int{1})
		s := r.Snapshot()
		equal(t, "counts", []int{len(s.Stages), len(s.Buffers)}, []int{tc.stages, tc.buffers})
		if tc.buffers == 1 {
			equal(t, "buffer", s.Buffers[0], Buffered{Name: "b", Capacity: 1, ProducedCount: 3, ConsumedCount: 1, DroppedCount: 2})
		}
	}
}

func TestBufferReset(t *testing.T) {
	r, _ := one(Off)
	b := NewBuffer[int](r, "b", 4)
	own := r.Buffer("own", 9, nil)
	for i := range 6 {
		b.Offer(i)
		own.Produced(1)
	}
	own.Consumed(2)
	r.Reset()
	s := r.Snapshot().Buffers
	equal(t, "what it holds stays", s[0], Buffered{Name: "b", Capacity: 4, ProducedCount: 4, Occupancy: 4})
	equal(t, "without a way to ask", s[1], Buffered{Name: "own", Capacity: 9, ProducedCount: 4, Occupancy: 4})
}

// TestConcurrent: counts are exact whatever runs side by side, for the race detector too.
func TestConcurrent(t *testing.T) {
	r := NewRegistry(Options{Mode: On, Buffers: true}).Record("r")
	const goroutines, calls = 8, 2000
	tap := TapErr(r, func(v int) error { return on(v%2 == 0, context.Canceled) })
	b := NewBuffer[int](r, "b", 16)
	var readers, writers, wg sync.WaitGroup
	stop := make(chan struct{})
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.Gosched() // where threads are not preempted, as on wasm
				for _, s := range r.Snapshot().Stages {
					if s.CallCount > 0 && (s.MinTimeNanos == nil || *s.MinTimeNanos > s.MaxTimeNanos || *s.MinTimeNanos > s.AvgTimeNanos) {
						t.Errorf("impossible: %+v", s)
					}
				}
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for range b.All() {
			}
		})
	}
	for range goroutines {
		writers.Go(func() {
			for i := range calls {
				_ = tap(i)
				b.Offer(i)
			}
		})
	}
	writers.Wait()
	b.Close()
	wg.Wait()
	close(stop)
	readers.Wait()
	s := r.Snapshot()
	equal(t, "calls", []uint64{s.Stages[0].CallCount, s.Stages[0].ErrorCount}, []uint64{goroutines * calls, goroutines * calls / 2})
	equal(t, "in flight", s.Stages[0].InFlight, int64(0))
	u := s.Buffers[0]
	equal(t, "buffer", []int64{u.ProducedCount, u.Occupancy, u.ConsumedCount + u.DroppedCount}, []int64{goroutines * calls, 0, goroutines * calls})
}

func TestConcurrentReset(t *testing.T) {
	r := NewRegistry(Options{Mode: On}).Record("r")
	tap := Tap(r, func(int) {})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 2000 {
				tap(i)
			}
		})
	}
	for range 200 {
		r.Reset()
	}
	wg.Wait()
	r.Reset()
	tap(1)
	s := r.Snapshot().Stages[0]
	equal(t, "after all", []int64{int64(s.CallCount), s.InFlight, s.MaxInFlight}, []int64{1, 0, 1})
}

func TestShow(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 ns", 999: "999 ns", 1250: "1.25 µs", 33 * ms: "33 ms", 33333333: "33.3 ms", 40 * ms: "40 ms", 999999999: "1 s", 90 * time.Second: "90 s", 1234 * time.Second: "1234 s",
	} {
		equal(t, d.String(), show(d), want)
	}
}

func TestFormatWithoutCalls(t *testing.T) {
	r, c := one(On)
	Tap(r, func(int) {}, Named(strings.Repeat("x", 40)))
	f := TapErr(r, func(int) error { c.advance(ms); return errors.New("x") })
	_ = f(1)
	if got := Format(r.Snapshot()); !strings.Contains(got, "- ") || !strings.Contains(got, "1 errors") {
		t.Error(got)
	}
}

var sink int

func TestNoAllocations(t *testing.T) {
	for _, mode := range []Mode{On, Switchable} {
		r := NewRegistry(Options{Mode: mode, Buffers: true}).Record("r")
		tap, tr := Tap(r, func(v int) { sink += v }), Transform(r, func(v int) int { return v + 1 })
		ctxErr := LinkCtx(r, func(context.Context, int) error { return nil })
		src := SourceErr(r, func() (int, error) { return 1, nil })
		b := NewBuffer[int](r, "b", 1)
		ctx := context.Background()
		if n := testing.AllocsPerRun(200, func() {
			v, _ := src()
			tap(tr(v))
			_ = ctxErr(ctx, v)
			b.Offer(v)
		}); n != 0 {
			t.Errorf("mode %d: %v allocations per round, want 0", mode, n)
		}
	}
}

//go:noinline
func work(v int) { sink += v }

// forward is a wrapper that does nothing: what a call through any wrapper costs.
func forward(f func(int)) func(int) { return func(v int) { f(v) } }

func BenchmarkTap(b *testing.B) {
	off := NewRegistry(Options{Mode: Switchable}).Record("r")
	timed := NewRegistry(Options{Mode: On}).Record("r")
	fixed := NewRegistry(Options{Mode: On, Clock: func() time.Duration { return 1 }}).Record("r")
	for _, tc := range []struct {
		name string
		f    func(int)
	}{{"plain", work}, {"empty wrapper", forward(work)}, {"off at wrap time", Tap(nil, work)}, {"switched off", Tap(off, work)}, {"on", Tap(timed, work)}, {"on without clock", Tap(fixed, work)}} {
		b.Run(tc.name, func(b *testing.B) {
			f := tc.f
			b.ReportAllocs()
			for b.Loop() {
				f(1)
			}
		})
	}
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			sink += int(time.Since(base))
		}
	})
	b.Run("source on", func(b *testing.B) {
		f := Source(timed, func() int { return 1 })
		b.ReportAllocs()
		for b.Loop() {
			f()
		}
	})
}
