package collector

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/semconv"
)

// scan returns the rows of a table.
func scan[T archive.Row](t *testing.T, r *archive.Reader) (all []T) {
	t.Helper()
	for rows, err := range archive.Scan[T](t.Context(), r) {
		require.NoError(t, err)
		all = append(all, slices.Clone(rows)...)
	}
	return all
}

// cpuTruth is what a goroutine knows about itself.
type cpuTruth struct {
	origin     int64 // the instant of its origin, which names it
	thread     int64
	begin, end int64 // of its wait
}

// threadTime is the processor time of the calling thread.
func threadTime() time.Duration {
	const thisThread = 1
	var u syscall.Rusage
	if err := syscall.Getrusage(thisThread, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

//go:noinline
func burnAndWait(wantWake chan struct{}, c chan int) (x cpuTruth) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	x.thread = int64(syscall.Gettid())
	x.origin = time.Now().UnixNano()
	trace.Log(context.Background(), semconv.TraceLogOrigin, strconv.FormatInt(x.origin, 10))
	for begin := threadTime(); threadTime()-begin < 200*time.Millisecond; {
		for i := range 100_000 {
			runtime.KeepAlive(i)
		}
	}
	wantWake <- struct{}{}
	x.begin = time.Now().UnixNano()
	<-c
	x.end = time.Now().UnixNano()
	return x
}

// TestExecutionTraceToArchive sends a generation of this process's own execution trace and checks every kind of row against
// what the traced goroutine knows.
func TestExecutionTraceToArchive(t *testing.T) {
	m := newManager(t)
	target, control := sockets(t)
	c, err := Start(t.Context(), Options{Manager: m, TargetSocket: target, ControlSocket: control})
	require.NoError(t, err)
	rec, err := m.Start(t.Context(), recording.StartOptions{Name: "test"})
	require.NoError(t, err)

	var buf bytes.Buffer
	require.NoError(t, pprof.StartCPUProfile(io.Discard))
	require.NoError(t, trace.Start(&buf))
	var truth cpuTruth
	wake := make(chan int)
	var wg sync.WaitGroup
	burnt := make(chan struct{}, 1)
	wg.Go(func() { truth = burnAndWait(burnt, wake) })
	<-burnt
	time.Sleep(20 * time.Millisecond)
	wake <- 1
	wg.Wait()
	trace.Stop()
	pprof.StopCPUProfile()

	pd := pprofile.NewProfiles()
	rp := pd.ResourceProfiles().AppendEmpty()
	rp.Resource().Attributes().PutInt(semconv.ProcessPIDKey, int64(os.Getpid())) // no runtime id
	sp := rp.ScopeProfiles().AppendEmpty()
	sp.Scope().SetName(semconv.ScopeCPUTrace)
	p := sp.Profiles().AppendEmpty()
	p.SetOriginalPayloadFormat(semconv.PayloadGoExecTrace)
	p.OriginalPayload().FromRaw(buf.Bytes())
	body, err := pprofileotlp.NewExportRequestFromProfiles(pd).MarshalProto()
	require.NoError(t, err)
	header := http.Header{"Content-Type": {"application/x-protobuf"}}
	header.Set(semconv.HeaderToken, rec.Token())
	for range 2 { // and again, as after a time-out
		code, answer := do(t, unixClient(target), http.MethodPost, "http://stax/v1development/profiles", header, body)
		require.Equal(t, http.StatusOK, code, string(answer))
	}
	require.NoError(t, c.Shutdown(t.Context()))

	r, err := archive.Open(rec.Path(), archive.ReaderOptions{})
	require.NoError(t, err)
	defer r.Close()
	runtimes := scan[archive.Runtime](t, r)
	require.Len(t, runtimes, 1)
	require.EqualValues(t, os.Getpid(), runtimes[0].PID)
	rt := runtimes[0].ID

	stacks := map[archive.StackID][]string{}
	for _, f := range scan[archive.StackFrame](t, r) {
		require.Equal(t, rt, f.Runtime)
		stacks[f.Stack] = append(stacks[f.Stack], f.Function)
	}
	const me = "github.com/stax-otel/stax/internal/collector.burnAndWait"

	events := scan[archive.OriginEvent](t, r)
	require.Len(t, events, 1)
	e := events[0]
	require.Equal(t, []any{rt, truth.thread, truth.origin}, []any{e.Runtime, e.ThreadID, e.TimeNanos})
	require.InDelta(t, truth.origin, e.EventNanos, 2e6)
	require.Equal(t, me, stacks[e.Stack][0])

	waits := 0
	for _, w := range scan[archive.OffCPU](t, r) {
		if w.GoroutineID != e.GoroutineID || w.Detail != "chan receive" {
			continue
		}
		waits++
		require.Equal(t, []any{rt, truth.thread, truth.thread, semconv.WaitReasonIPC}, []any{w.Runtime, w.ThreadID, w.ResumeThreadID, w.Reason})
		require.InDelta(t, truth.begin, w.BeginNanos, 2e6)
		require.InDelta(t, truth.end, w.EndNanos, 2e6)
		require.True(t, w.BeginNanos <= w.WakeNanos && w.WakeNanos <= w.EndNanos)
		require.Contains(t, stacks[w.Stack], me)
		require.Contains(t, stacks[w.WakerStack], "github.com/stax-otel/stax/internal/collector.TestExecutionTraceToArchive")
	}
	require.Equal(t, 1, waits)

	samples, cpu := 0, int64(0)
	for _, s := range scan[archive.Sample](t, r) {
		require.Equal(t, []any{rt, semconv.ProfileSourceGoExecTrace, uint64(1)}, []any{s.Runtime, s.Source, s.Count})
		if s.GoroutineID == e.GoroutineID && slices.Contains(stacks[s.Stack], me) {
			samples++
			cpu += s.CPUNanos
			require.Equal(t, truth.thread, s.ThreadID)
			require.True(t, s.TimeNanos > truth.origin-1e6 && s.TimeNanos < truth.begin+1e6)
		}
	}
	require.Greater(t, samples, 3)
	require.InDelta(t, 200e6, cpu, 120e6)

	sources := scan[archive.ProfileSource](t, r)
	require.Len(t, sources, 1)
	s := sources[0]
	require.Equal(t, []any{rt, semconv.ProfileSourceGoExecTrace, semconv.ProfileStateRunning, uint64(buf.Len()), uint64(1)},
		[]any{s.Runtime, s.Source, s.State, s.Bytes, s.OriginEvents})
	require.True(t, s.BeginNanos < truth.origin && s.EndNanos >= truth.end)
	require.GreaterOrEqual(t, s.Waits, s.WaitsShort)

	clocks := scan[archive.ClockSample](t, r)
	require.Len(t, clocks, 1)
	require.Equal(t, "go_exectrace", clocks[0].Clock)
	require.Empty(t, scan[archive.Passthrough](t, r))
	for _, d := range scan[archive.Drop](t, r) {
		require.Equal(t, "repeated", d.Reason)
	}
}
