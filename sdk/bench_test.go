package sdk

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// benchRuntime is recorded without collector: rings drain into nothing through a discarding goroutine.
func benchRuntime(tb testing.TB, mode string) (*Runtime, *Lane) {
	rt := localRuntime(tb, mode)
	return rt, rt.NewLane("bench", LaneGeneric)
}

// localRuntime is a runtime in a recording that exists only locally: nothing asks a gate, nothing is sent, and a
// goroutine empties the rings.
func localRuntime(tb testing.TB, mode string) *Runtime {
	tb.Helper()
	rt := NewRuntime(Config{Endpoint: "off", timing: quick})
	rt.init()
	v := verdict{state: StateRecording}
	v.reply.RecordingID, v.reply.OriginMode = "local", mode
	rt.want = v
	rt.begin(v)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-rt.wakeup:
			case <-time.After(time.Millisecond):
			}
			rt.waking.Store(false)
			rt.snapshot(rt.cur)
			for i := range rt.cur.shards {
				if a := &rt.cur.shards[i]; a.ring != nil {
					a.ring.sideTail.Store(a.sideHead)
					a.ring.tail.Store(a.head)
				}
			}
		}
	}()
	tb.Cleanup(func() { close(stop); <-done })
	return rt
}

func BenchmarkOff(b *testing.B) {
	rt := NewRuntime(Config{Endpoint: "off"})
	lane := rt.NewLane("off", LaneGeneric)
	n := lane.Name("x")
	b.Run("Report", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			lane.Report(n, 1, 2)
		}
	})
	b.Run("Dispatch", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d := lane.Dispatch(n)
			d.CaptureOrigin(context.Background())
			d.Report(1, 2)
		}
	})
	b.Run("ReportingActive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if ReportingActive() {
				b.Fatal("active")
			}
		}
	})
}

func BenchmarkOn(b *testing.B) {
	_, lane := benchRuntime(b, "stack")
	_, thread := benchRuntime(b, "thread")
	n, key := lane.Name("x"), NewKey("layer")
	set := NewCounterSet("bench-set", "Bench", Counter{"a", UnitCount}, Counter{"b", UnitBytes})
	ctx := context.Background()
	b.Run("Report", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			lane.Report(n, 1, 2)
		}
	})
	b.Run("Dispatch", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d := lane.Dispatch(n)
			d.Report(1, 2)
		}
	})
	b.Run("DispatchThread", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d := thread.Dispatch(n)
			d.CaptureOrigin(ctx)
			d.Report(1, 2)
		}
	})
	b.Run("DispatchStack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d := lane.Dispatch(n)
			d.CaptureOrigin(ctx)
			d.Report(1, 2)
		}
	})
	b.Run("DispatchCountersTag", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d := lane.Dispatch(n)
			d.Counters(set, AfterDispatch, IntValue(1), FloatValue(2))
			d.TagInt(key, 3)
			d.Report(1, 2)
		}
	})
	b.Run("Wait", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w := thread.rt.BeginWait(ctx, n)
			w.Await(1)
			w.End()
		}
	})
	b.Run("ReportContended", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(max(1, 8/runtime.GOMAXPROCS(0)))
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				lane.Report(n, 1, 2)
			}
		})
	})
	b.Run("NowOnly", func(b *testing.B) {
		for b.Loop() {
			Now()
		}
	})
}

// BenchmarkEncode is the worker's cost per record: ring to OTLP bytes.
func BenchmarkEncode(b *testing.B) {
	set := NewCounterSet("bench-encode", "Bench", Counter{"a", UnitCount}, Counter{"b", UnitBytes})
	p, _ := points.number(AfterDispatch)
	x := newExtras(1)
	x.tagNumber(sideTagInt, intern("layer"), 12)
	x.tagString(intern("dtype"), "f16")
	x.counters(set, p, []Value{IntValue(12345), FloatValue(0.5)})
	for _, tc := range []struct {
		name string
		side []byte
	}{{"plain", nil}, {"2 tags 2 counters", x.buf}} {
		b.Run(tc.name, func(b *testing.B) {
			rt := localRuntime(b, "")
			lane := rt.NewLane("bench", LaneMetal)
			e := newEncoder(rt, rt.cur)
			now := Now()
			r := record{lane: lane.index, name: NewName("kernel").id, queue: NewQueue("q").id, start: int64(now), end: int64(now) + 1000, thread: 1234, originTime: int64(now)}
			const batch = 4096
			size := 0
			for b.Loop() {
				e.reset(time.Now())
				for i := range uint64(batch) {
					r.id, r.n = i+1, i+1
					e.record(1, &r, tc.side)
				}
				size = len(e.finishTraces(false))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/span")
			b.ReportMetric(float64(size)/batch, "B/span")
		})
	}
}
