// Plainotel is a foreign target: it reports the work of package work through the plain OpenTelemetry SDK and exporter,
// from the environment variables that every OpenTelemetry SDK obeys, and knows of stax nothing but the attribute names in
// docs/semantic-conventions.md.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stax-otel/stax/testbed/internal/truth"
	"github.com/stax-otel/stax/testbed/internal/work"
)

func main() {
	n := flag.Int("n", 120, "pieces of work per goroutine")
	seed := flag.Uint64("seed", 1, "seed of the random choices")
	side := flag.String("truth", os.Getenv(truth.EnvPath), "write the ground truth to `file`")
	hold := flag.Bool("hold", false, `when all is exported, print "ready", the endpoint and the headers, and wait for SIGTERM`)
	flag.Parse()
	if err := run(*n, *seed, *side, *hold); err != nil {
		fmt.Fprintln(os.Stderr, "plainotel:", err)
		os.Exit(1)
	}
}

func run(n int, seed uint64, side string, hold bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return err
	}
	process, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithProcessPID(), resource.WithFromEnv(),
		resource.WithAttributes(attribute.String("service.name", "plainotel")))
	if err != nil {
		return err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(process), sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(1<<16), sdktrace.WithBatchTimeout(100*time.Millisecond)))
	w, err := truth.Create(side, truth.Process{PID: os.Getpid(), ParentPID: os.Getppid(), Program: "plainotel", Seed: seed})
	if err != nil {
		return err
	}
	work.Play(newReporter(provider), w, seed, n)
	if err := provider.ForceFlush(ctx); err != nil {
		return err
	}
	if _, err := w.Close(truth.End{Reason: "done", Shutdown: "ok"}); err != nil {
		return err
	}
	if hold {
		fmt.Println("ready", os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"))
		<-ctx.Done()
	}
	return provider.Shutdown(context.WithoutCancel(ctx))
}

// reporter has one tracer per lane, and one for the waits.
type reporter struct {
	lanes map[string]trace.Tracer
	waits trace.Tracer
}

func newReporter(p trace.TracerProvider) *reporter {
	lane := func(name, kind string) trace.Tracer {
		return p.Tracer("plainotel", trace.WithInstrumentationAttributes(
			attribute.String("stax.lane.id", name), attribute.String("stax.lane.name", name), attribute.String("stax.lane.kind", kind),
		))
	}
	return &reporter{
		lanes: map[string]trace.Tracer{work.Render: lane(work.Render, "gpu"), work.Disk: lane(work.Disk, "storage")},
		waits: p.Tracer("plainotel"),
	}
}

// origin says where the calling goroutine is: its thread and the instant. A goroutine that is locked to its thread says
// so, for then a sample of the thread is a sample of it.
func origin(locked bool) []attribute.KeyValue {
	a := []attribute.KeyValue{
		attribute.Int64("stax.origin.thread_id", truth.Thread()),
		attribute.Int64("stax.origin.time_unix_nano", time.Now().UnixNano()),
	}
	if locked {
		a = append(a, attribute.Bool("stax.origin.thread_locked", true))
	}
	return a
}

// dispatch has its span id before it has a span: a wait must name the work before its start and end are known, and a span
// cannot be told its start later.
type dispatch struct {
	tracer trace.Tracer
	name   string
	origin []attribute.KeyValue
	id     trace.SpanID
}

// Queue implements work.Reporter.
func (r *reporter) Queue(lane, name string, locked bool) work.Dispatch {
	d := &dispatch{tracer: r.lanes[lane], name: name, id: newSpanID()}
	d.origin = origin(locked)
	return d
}

func (d *dispatch) ID() uint64 { return binary.BigEndian.Uint64(d.id[:]) }

func (d *dispatch) Report(start, end int64, fault string) {
	ctx := context.WithValue(context.Background(), reservedID{}, d.id)
	_, span := d.tracer.Start(ctx, d.name, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithTimestamp(time.Unix(0, start)), trace.WithAttributes(d.origin...))
	if fault != "" {
		span.SetStatus(codes.Error, fault)
	}
	span.End(trace.WithTimestamp(time.Unix(0, end)))
}

// ids gives a span the id that its context reserves.
type ids struct{}

type reservedID struct{}

func (ids) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	binary.BigEndian.PutUint64(t[:], rand.Uint64())
	binary.BigEndian.PutUint64(t[8:], rand.Uint64()|1)
	return t, ids{}.NewSpanID(ctx, t)
}

func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if s, ok := ctx.Value(reservedID{}).(trace.SpanID); ok {
		return s
	}
	return newSpanID()
}

func newSpanID() (s trace.SpanID) {
	binary.BigEndian.PutUint64(s[:], rand.Uint64()|1)
	return s
}

type wait struct{ span trace.Span }

// BeginWait implements work.Reporter.
func (r *reporter) BeginWait(name string, locked bool, d work.Dispatch) work.Wait {
	_, span := r.waits.Start(context.Background(), name, trace.WithSpanKind(trace.SpanKindInternal), trace.WithAttributes(
		append(origin(locked),
			attribute.Int64("thread.id", truth.Thread()),
			attribute.String("stax.span.type", "wait"),
			attribute.StringSlice("stax.wait.awaits", []string{fmt.Sprintf("dispatch:%016x", d.ID())}),
		)...))
	return wait{span}
}

func (w wait) End(timedOut bool) {
	if timedOut {
		w.span.SetAttributes(attribute.Bool("stax.wait.timed_out", true))
	}
	w.span.End()
}
