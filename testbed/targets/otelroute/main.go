// Otelroute is a target whose lanes go through the program's own OpenTelemetry pipeline, and whose CPU samples go to stax:
// requests are ordinary spans, and each queues one piece of work on a lane and waits for it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/stax-otel/stax/sdk"
	_ "github.com/stax-otel/stax/sdk/cputrace/auto"
	"github.com/stax-otel/stax/sdk/otelsdk"
)

func main() {
	n := flag.Int("n", 300, "requests")
	flag.Parse()
	if err := run(context.Background(), *n); err != nil {
		fmt.Fprintln(os.Stderr, "otelroute:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, n int) error {
	exporter, err := otlptracehttp.New(ctx) // the environment says where
	if err != nil {
		return err
	}
	tp := sdktrace.NewTracerProvider(
		sdktrace.WithResource(otelsdk.Resource()),
		sdktrace.WithSpanProcessor(otelsdk.NewSpanProcessor(nil)),
		sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(1<<16)),
	)
	rt := otelsdk.NewRuntime(tp, otelsdk.Options{})
	lane := rt.NewLane("pool", sdk.LaneThreadPool)
	tracer := tp.Tracer("otelroute")
	for range n {
		ctx, span := tracer.Start(ctx, "request")
		handle(ctx, rt, lane)
		span.End()
	}
	return errors.Join(rt.Shutdown(ctx), tp.Shutdown(ctx), sdk.Shutdown(ctx))
}

// handle queues work and waits for it.
func handle(ctx context.Context, rt *sdk.Runtime, lane *sdk.Lane) {
	buffer := lane.CommandBuffer(lane.Name("batch"))
	d := lane.Dispatch(lane.Name("job"))
	d.CaptureOrigin(ctx)
	d.CommandBuffer(buffer.ID())
	done := make(chan struct{})
	queued := sdk.Now()
	go func() {
		defer close(done)
		start := sdk.Now()
		for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
			continue
		}
		d.Report(start, sdk.Now())
		buffer.Report(queued, sdk.Now())
	}()
	w := rt.BeginWait(ctx, lane.Name("wait for job"))
	w.Await(d.ID())
	<-done
	w.End()
}
