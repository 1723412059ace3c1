//go:build linux

package bench

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sys/unix"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/semconv"
)

// The rows of the SDK's speed table, each beside what it is compared with. caller-ns/op is the CPU time of the calling
// thread, the figure to compare: it does not grow with what else the machine does. all-ns/op is that of the process,
// worker, sending and the discarding collector included. For stax the rings are emptied outside the measured time before
// they can fill, and a dropped record fails the benchmark.

func BenchmarkGateOff(b *testing.B) {
	// Written out: a closure would cost more than what it measures.
	b.Run("stax/Report", func(b *testing.B) {
		rt := sdk.NewRuntime(sdk.Config{Endpoint: "off"})
		lane := rt.NewLane("lane", sdk.LaneGPU)
		name := lane.Name("kernel")
		c := startClock(b)
		for b.Loop() {
			lane.Report(name, 1, 2)
		}
		c.report(b)
	})
	b.Run("stax/Dispatch", func(b *testing.B) {
		rt := sdk.NewRuntime(sdk.Config{Endpoint: "off"})
		lane := rt.NewLane("lane", sdk.LaneGPU)
		name, ctx := lane.Name("kernel"), b.Context()
		c := startClock(b)
		for b.Loop() {
			d := lane.Dispatch(name)
			d.CaptureOrigin(ctx)
			d.Report(1, 2)
		}
		c.report(b)
	})
	b.Run("otel/noop", func(b *testing.B) {
		tracer := noop.NewTracerProvider().Tracer("bench")
		ctx := b.Context()
		measure(b, func() {
			_, span := tracer.Start(ctx, "kernel")
			span.End()
		})
	})
	b.Run("otel/noop+options", func(b *testing.B) {
		measure(b, otelSpan(b, noop.NewTracerProvider()))
	})
}

func BenchmarkRecorded(b *testing.B) {
	b.Run("otel/SDK+batcher", func(b *testing.B) {
		tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(discard{}))
		b.Cleanup(func() { _ = tp.Shutdown(context.Background()) })
		measure(b, otelSpan(b, tp))
	})
	b.Run("stax/Report", func(b *testing.B) {
		rt, lane, name := recorded(b, sdk.OriginOff)
		measureRings(b, rt, func() { lane.Report(name, 1, 2) })
	})
	b.Run("stax/Dispatch+thread", func(b *testing.B) {
		rt, lane, name := recorded(b, sdk.OriginThread)
		ctx := b.Context()
		measureRings(b, rt, func() {
			d := lane.Dispatch(name)
			d.CaptureOrigin(ctx)
			d.Report(1, 2)
		})
	})
	b.Run("stax/Dispatch+stack8", func(b *testing.B) {
		rt, lane, name := recorded(b, sdk.OriginStack)
		ctx := b.Context()
		measureRings(b, rt, func() { deep(ctx, 5, lane, name) })
	})
}

// deep dispatches at the bottom of a few frames: with the benchmark's own callers the stack has about eight.
//
//go:noinline
func deep(ctx context.Context, n int, lane *sdk.Lane, name sdk.Name) int {
	if n > 1 {
		return deep(ctx, n-1, lane, name) + 1
	}
	d := lane.Dispatch(name)
	d.CaptureOrigin(ctx)
	d.Report(1, 2)
	return 0
}

// otelSpan is one span as an instrumentation without stax reports known times: 3 attributes, 2 links.
func otelSpan(b *testing.B, tp trace.TracerProvider) func() {
	tracer := tp.Tracer("bench")
	ctx := b.Context()
	cause := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})
	start, end := time.Now(), time.Now().Add(time.Millisecond)
	return func() {
		_, span := tracer.Start(ctx, "kernel", trace.WithTimestamp(start),
			trace.WithLinks(trace.Link{SpanContext: cause}, trace.Link{SpanContext: cause}),
			trace.WithAttributes(attribute.String("lane", "gpu0"), attribute.Int64("thread.id", 42), attribute.Int64("bytes", 4096)))
		span.End(trace.WithTimestamp(end))
	}
}

type discard struct{}

func (discard) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                             { return nil }

// cpuClock takes CPU times. Its goroutine stays on its thread.
type cpuClock struct{ caller, all, callerSum, allSum time.Duration }

func startClock(b *testing.B) *cpuClock {
	b.ReportAllocs()
	runtime.LockOSThread()
	b.Cleanup(runtime.UnlockOSThread)
	c := &cpuClock{}
	c.resume(b)
	return c
}

func (c *cpuClock) resume(b *testing.B) {
	c.all = readClock(b, unix.CLOCK_PROCESS_CPUTIME_ID)
	c.caller = readClock(b, unix.CLOCK_THREAD_CPUTIME_ID)
}

func (c *cpuClock) pauseCaller(b *testing.B) {
	c.callerSum += readClock(b, unix.CLOCK_THREAD_CPUTIME_ID) - c.caller
}

func (c *cpuClock) pauseAll(b *testing.B) {
	c.allSum += readClock(b, unix.CLOCK_PROCESS_CPUTIME_ID) - c.all
}

func (c *cpuClock) report(b *testing.B) {
	c.pauseCaller(b)
	c.pauseAll(b)
	c.metrics(b)
}

func (c *cpuClock) metrics(b *testing.B) {
	b.ReportMetric(float64(c.callerSum)/float64(b.N), "caller-ns/op")
	b.ReportMetric(float64(c.allSum)/float64(b.N), "all-ns/op")
}

func readClock(b *testing.B, id int32) time.Duration {
	var ts unix.Timespec
	require.NoError(b, unix.ClockGettime(id, &ts))
	return time.Duration(ts.Nano())
}

func measure(b *testing.B, f func()) {
	c := startClock(b)
	for b.Loop() {
		f()
	}
	c.report(b)
}

// measureRings is measure for a recorded runtime: between bursts that the rings hold it waits until they are empty.
func measureRings(b *testing.B, rt *sdk.Runtime, f func()) {
	const burst = 2048
	c := startClock(b)
	left := burst
	for b.Loop() {
		if left == 0 {
			b.StopTimer()
			c.pauseCaller(b)
			require.NoError(b, rt.Flush(b.Context()))
			c.pauseAll(b)
			left = burst
			c.resume(b)
			b.StartTimer()
		}
		left--
		f()
	}
	c.pauseCaller(b)
	require.NoError(b, rt.Flush(b.Context()))
	c.pauseAll(b)
	c.metrics(b)
	require.Zero(b, rt.Stats().Dropped, "records were dropped: the figure would flatter")
}

// recorded is a runtime that a collector wants to have recorded; the collector discards what it gets.
func recorded(b *testing.B, origins sdk.OriginMode) (*sdk.Runtime, *sdk.Lane, sdk.Name) {
	dir, err := os.MkdirTemp("", "stax") //nolint:usetesting // the path of b.TempDir is too long for a socket
	require.NoError(b, err)
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	require.NoError(b, err)
	require.NoError(b, os.Chmod(dir, 0o700))
	var off atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+semconv.GatePath, func(w http.ResponseWriter, r *http.Request) {
		req, err := gate.ParseRequest(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		id := "0123456789abcdef"
		if off.Load() {
			id = ""
		}
		if req.Have == id {
			select {
			case <-time.After(req.Wait):
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"recording_id":"`+id+`","schema_version":1}`)
	})
	mux.HandleFunc("POST /v1/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	})
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()

	rt := sdk.NewRuntime(sdk.Config{Endpoint: "unix://" + socket})
	b.Cleanup(func() {
		off.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = rt.Shutdown(ctx)
		_ = server.Close()
		_ = os.RemoveAll(dir)
	})
	lane := rt.NewLane("lane", sdk.LaneGPU, sdk.WithOrigins(origins))
	require.Eventually(b, lane.Active, 5*time.Second, time.Millisecond)
	return rt, lane, lane.Name("kernel")
}
