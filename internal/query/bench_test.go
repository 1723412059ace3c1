package query

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/origin"
)

// benchArchive writes a finished archive with n dispatches of 200 names on 4 lanes, one wait for each hundred.
func benchArchive(b *testing.B, n int) *archive.Reader {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "b.stax")
	w, err := archive.Create(dir, archive.RecordingInfo{ID: "b", StartedNanos: 1}, archive.WriterOptions{})
	require.NoError(b, err)
	rng := rand.New(rand.NewPCG(1, 2))
	batch := &archive.Batch{Runtimes: []archive.Runtime{{ID: "r", PID: 1, Sequenced: true}}}
	for i := range 4 {
		batch.Lanes = append(batch.Lanes, archive.Lane{Runtime: "r", ID: archive.LaneID(fmt.Sprint(i)), Name: fmt.Sprint("lane ", i), PseudoTID: pseudoThreads + uint32(i)})
	}
	names := make([]string, 200)
	for i := range names {
		names[i] = fmt.Sprint("kernel_", i)
	}
	for i := range n {
		start := int64(1_000_000_000 + i*1000)
		batch.Dispatches = append(batch.Dispatches, archive.Dispatch{
			Runtime: "r", Lane: batch.Lanes[i%4].ID, ID: archive.DispatchID(rng.Uint64() | 1), Name: names[int(rng.ExpFloat64()*20)%200],
			StartNanos: start, EndNanos: start + int64(rng.ExpFloat64()*5000),
			Origin: archive.Origin{ThreadID: int64(100 + i%8), TimeNanos: start - 500, Stack: archive.StackID(1 + i%50)},
			Seq:    archive.Seq{Shard: uint32(i % 8), N: uint64(i/8 + 1)},
		})
		if i%100 == 99 {
			d := batch.Dispatches[len(batch.Dispatches)-1]
			batch.Waits = append(batch.Waits, archive.Wait{
				Runtime: "r", ID: archive.WaitID(i), BeginNanos: start - 100, EndNanos: d.EndNanos + 100,
				Origin: archive.Origin{ThreadID: 100, TimeNanos: start - 100}, Seq: archive.Seq{Shard: 9, N: uint64(i/100 + 1)},
			})
			batch.Awaits = append(batch.Awaits, archive.Await{Runtime: "r", Wait: archive.WaitID(i), Kind: archive.AwaitDispatch, Ref: uint64(d.ID)})
		}
		if len(batch.Dispatches) == 4096 || i == n-1 {
			require.NoError(b, w.Append(batch))
			lanes := batch.Lanes
			batch = &archive.Batch{Lanes: lanes}
		}
	}
	require.NoError(b, w.Finish(b.Context(), nil, nil))
	require.NoError(b, origin.DeriveInto(b.Context(), dir))
	r, err := archive.Open(dir, archive.ReaderOptions{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, r.Close()) })
	return r
}

func BenchmarkQueries(b *testing.B) {
	const n = 1_000_000
	r := benchArchive(b, n)
	for _, q := range []string{"lanes", "top", "dispatches", "origins", "threads", "waits", "flame", "info", "diagnose", "audit"} {
		b.Run(q, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := Run(b.Context(), r, q, nil)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/dispatch")
		})
	}
}

// benchSamples writes an archive with n CPU samples of 16 threads and 2,000 stacks, n/4 waits of goroutines, and a lane
// with n/10 dispatches.
func benchSamples(b *testing.B, n int) *archive.Reader {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "s.stax")
	w, err := archive.Create(dir, archive.RecordingInfo{ID: "b", StartedNanos: 1}, archive.WriterOptions{})
	require.NoError(b, err)
	rng := rand.New(rand.NewPCG(1, 2))
	batch := &archive.Batch{
		Runtimes: []archive.Runtime{{ID: "r", PID: 1, Sequenced: true, SDKLanguage: "go"}},
		Lanes:    []archive.Lane{{Runtime: "r", ID: "g", Name: "gpu", PseudoTID: pseudoThreads}},
	}
	for stack := range 2000 {
		for depth := range 20 {
			batch.StackFrames = append(batch.StackFrames, archive.StackFrame{
				Runtime: "r", Stack: archive.StackID(stack + 1), Depth: uint32(depth), Function: fmt.Sprintf("pkg.f%d", (stack>>min(depth, 8))+depth), File: "f.go", Line: 1,
			})
		}
	}
	const period = int64(250_000)
	for i := range n {
		at := int64(1_000_000_000) + int64(i)*period
		batch.Samples = append(batch.Samples, archive.Sample{
			Runtime: "r", ThreadID: int64(100 + i%16), GoroutineID: int64(1 + rng.IntN(100_000)), TimeNanos: at,
			Stack: archive.StackID(1 + int(rng.ExpFloat64()*100)%2000), Count: 1, CPUNanos: 4_000_000, Source: "go_exectrace",
		})
		if i%4 == 0 {
			batch.OffCPU = append(batch.OffCPU, archive.OffCPU{
				Runtime: "r", ThreadID: int64(100 + i%16), GoroutineID: int64(1 + rng.IntN(100_000)), BeginNanos: at, EndNanos: at + 4*period,
				Reason: "ipc", Stack: archive.StackID(1 + int(rng.ExpFloat64()*100)%2000), Source: "go_exectrace",
			})
		}
		if i%10 == 0 {
			batch.Dispatches = append(batch.Dispatches, archive.Dispatch{
				Runtime: "r", Lane: "g", ID: archive.DispatchID(i + 1), Name: "k", StartNanos: at, EndNanos: at + 5*period,
				Origin: archive.Origin{ThreadID: int64(100 + i%16), GoroutineID: 1, TimeNanos: at - 500},
			})
		}
		if len(batch.Samples) == 8192 || i == n-1 {
			require.NoError(b, w.Append(batch))
			batch.Reset()
		}
	}
	require.NoError(b, w.Finish(b.Context(), nil, nil))
	require.NoError(b, origin.DeriveInto(b.Context(), dir))
	r, err := archive.Open(dir, archive.ReaderOptions{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, r.Close()) })
	return r
}

func BenchmarkCPUQueries(b *testing.B) {
	const n = 1_000_000
	r := benchSamples(b, n)
	for _, q := range []string{"cpu_top", "flame?mode=cpu", "flame?mode=off_cpu", "gaps?lane=gpu", "threads", "why?dispatch=1"} {
		b.Run(q, func(b *testing.B) {
			b.ReportAllocs()
			name, params, _ := strings.Cut(q, "?")
			v, err := url.ParseQuery(params)
			require.NoError(b, err)
			for b.Loop() {
				_, err := Run(b.Context(), r, name, v)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/sample")
		})
	}
}
