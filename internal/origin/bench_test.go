package origin

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
)

const million = 1_000_000

// workload is n dispatches on two lanes in almost the order of time, fed from 8 threads, and a wait
// for every 100 of them: for a dispatch, a command buffer, or a queue. ids are random, as in life.
func workload(n int) *scenario {
	r := rand.New(rand.NewPCG(1, 1))
	sc := &scenario{}
	sc.Runtimes = []archive.Runtime{{ID: "4f0c2a5d9b7e4a3c8d1e6f7a8b9c0d1e", PID: 100}}
	rt := sc.Runtimes[0].ID
	sc.Lanes = []archive.Lane{{Runtime: rt, ID: "gpu", ClockErrorNanos: 200}, {Runtime: rt, ID: "pool"}}
	for id := range archive.StackID(64) {
		for depth, f := range []string{"leaf", "step", "main.run", "main.main", "runtime.main", "runtime.goexit"} {
			sc.StackFrames = append(sc.StackFrames, archive.StackFrame{Runtime: rt, Stack: id + 1, Depth: uint32(depth), Function: f, Line: int64(id)})
		}
	}
	now, seq := int64(1_700_000_000e9), uint64(0)
	for i := range n {
		now += 10_000 + r.Int64N(2_000)
		d := archive.Dispatch{
			Runtime: rt, Lane: "gpu", ID: archive.DispatchID(r.Uint64() | 1), StartNanos: now, EndNanos: now + 8_000,
			Origin: archive.Origin{ThreadID: 1 + int64(i%8), TimeNanos: now - 50_000 - r.Int64N(5_000), Stack: 1 + archive.StackID(r.IntN(64))},
		}
		switch i % 4 {
		case 0:
			d.Lane = "pool"
		case 1:
			seq++
			d.Queue, d.QueueSeq = "q", seq
		case 2:
			d.CommandBuffer = archive.CommandBufferID(1 + i/64)
		}
		sc.Dispatches = append(sc.Dispatches, d)
		if i%100 == 99 {
			w := archive.Wait{Runtime: rt, ID: archive.WaitID(i), BeginNanos: now - 40_000, EndNanos: now + 20_000, Origin: archive.Origin{ThreadID: 1 + int64(i%8), Stack: 1 + archive.StackID(r.IntN(64))}}
			sc.Waits = append(sc.Waits, w)
			sc.Awaits = append(sc.Awaits,
				archive.Await{Runtime: rt, Wait: w.ID, Kind: archive.AwaitDispatch, Ref: uint64(d.ID)},
				archive.Await{Runtime: rt, Wait: w.ID, Kind: archive.AwaitCommandBuffer, Ref: uint64(1 + i/64)},
				archive.Await{Runtime: rt, Wait: w.ID, Kind: archive.AwaitQueue, Queue: "q", UpTo: seq})
		}
	}
	return sc
}

func BenchmarkCertificate(b *testing.B) {
	sc := workload(million)
	ix := sc.index()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		ix.Certificate(&sc.Dispatches[i])
		if i++; i == len(sc.Dispatches) {
			i = 0
		}
	}
}

// BenchmarkLink links a million origins, almost in order, with a million samples of 1, 8 or 64 threads.
func BenchmarkLink(b *testing.B) {
	for _, threads := range []int{1, 8, 64} {
		b.Run(map[int]string{1: "threads=1", 8: "threads=8", 64: "threads=64"}[threads], func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			samples := NewEvidence()
			samples.AddProfileSources([]archive.ProfileSource{{Runtime: "r", Source: "x", PeriodNanos: 1e6}})
			for t := range threads {
				now := int64(1_700_000_000e9)
				for range million / threads {
					now += 1e6 + r.Int64N(1e5)
					samples.AddSamples([]archive.Sample{{Runtime: "r", ThreadID: int64(t + 1), TimeNanos: now, Stack: archive.StackID(1 + r.IntN(1000))}})
				}
			}
			ix := NewIndex(Config{Evidence: samples}, Facts{Runtimes: []archive.Runtime{{ID: "r", PID: 100}}})
			origins := make([]archive.Origin, million)
			span := int64(million/threads) * 1_050_000
			for i := range origins {
				at := int64(1_700_000_000e9) + int64(float64(span)*float64(i)/million) + r.Int64N(5e6)
				origins[i] = archive.Origin{ThreadID: 1 + int64(r.IntN(threads)), TimeNanos: at}
			}
			b.ReportAllocs()
			i, linked := 0, 0
			for b.Loop() {
				if l := ix.Link("r", archive.OwnerDispatch, uint64(i), archive.OriginDispatch, &origins[i]); l.Grade == GradeC {
					linked++
				}
				if i++; i == len(origins) {
					i = 0
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mlinks/s")
			require.Positive(b, linked)
		})
	}
}

func BenchmarkDecompose(b *testing.B) {
	sc := workload(million)
	ix := sc.index()
	b.ReportAllocs()
	for b.Loop() {
		dc := NewDecomposer(ix, nil)
		dc.Add(sc.Dispatches)
		if len(dc.Parts()) != len(sc.Waits) {
			b.Fatal("waits are missing")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/dispatch")
}

// BenchmarkDeriveInto derives an archive of a million dispatches and stores the result.
func BenchmarkDeriveInto(b *testing.B) {
	sc := workload(million)
	dir := filepath.Join(b.TempDir(), "r.stax")
	w, err := archive.Create(dir, archive.RecordingInfo{ID: "x"}, archive.WriterOptions{})
	require.NoError(b, err)
	for _, batch := range sc.batches() {
		rows := batch.Dispatches
		batch.Dispatches = nil
		require.NoError(b, w.Append(batch))
		for len(rows) > 0 {
			n := min(len(rows), 2048)
			require.NoError(b, w.Append(&archive.Batch{Dispatches: rows[:n]}))
			rows = rows[n:]
		}
	}
	require.NoError(b, w.Finish(b.Context(), nil, nil))
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, DeriveInto(b.Context(), dir))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/dispatch")
	r, err := archive.Open(dir, archive.ReaderOptions{})
	require.NoError(b, err)
	defer r.Close()
	m := r.Manifest()
	for _, t := range m.Derived.Tables {
		b.ReportMetric(float64(t.Bytes)/float64(t.Rows), "B/"+t.Table)
	}
	for _, s := range m.Segments {
		for _, t := range s.Tables {
			if t.Table == "dispatches" {
				b.ReportMetric(float64(t.Bytes)/float64(t.Rows), "B/dispatch")
			}
		}
	}
}
