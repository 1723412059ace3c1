// Traced is a program with ordinary OpenTelemetry spans on the CPU and dispatches on lanes that they cause: the case in
// which a viewer would draw target work below CPU work, were it to follow the links. The dispatches of one lane are sent as a
// plain OpenTelemetry SDK would: as children of the CPU span, in its trace. It also sends one burst of dispatches that is
// larger than a segment of a lane trace may be.
//
// The CPU spans go to the recorder as OTLP/HTTP, as an OpenTelemetry SDK sends them.
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/trace"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/otlp"
)

func main() {
	frames := flag.Int("frames", 200, "CPU spans, each with one dispatch that it waits for and one that it does not")
	burst := flag.Int("burst", 12000, "dispatches of the burst")
	flag.Parse()
	if err := run(*frames, *burst); err != nil {
		fmt.Fprintln(os.Stderr, "traced:", err)
		os.Exit(1)
	}
}

func run(frames, burst int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lane := sdk.NewLane("render", sdk.LaneGPU)
	flood := sdk.NewLane("burst", sdk.LaneGeneric)
	for deadline := time.Now().Add(10 * time.Second); !sdk.ReportingActive(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("not recorded within 10 s")
		}
	}
	cpu := newCPUSpans()
	for range frames {
		frame(ctx, cpu, lane)
	}
	name := flood.Name("tiny")
	for i := range burst {
		if i%500 == 0 { // the ring is emptied about as fast
			time.Sleep(10 * time.Millisecond)
		}
		d := flood.Dispatch(name)
		d.CaptureOrigin(ctx)
		now := sdk.Now()
		d.Report(now, now+1000)
	}
	if err := cpu.send(ctx); err != nil {
		return err
	}
	return sdk.Shutdown(ctx)
}

// frame is a CPU span that queues two dispatches and waits for the first.
func frame(ctx context.Context, cpu *cpuSpans, lane *sdk.Lane) {
	ctx, end := cpu.begin(ctx, "frame")
	defer end()
	draw, blur := lane.Name("draw"), lane.Name("blur")
	first := lane.Dispatch(draw)
	first.CaptureOrigin(ctx)
	second := lane.Dispatch(blur)
	second.CaptureOrigin(ctx)
	w := sdk.BeginWait(ctx, sdk.NewName("wait for draw"))
	w.Await(first.ID())
	start := sdk.Now()
	time.Sleep(500 * time.Microsecond)
	now := sdk.Now()
	first.Report(start, now)
	w.End()
	second.Report(now, now+sdk.Time(200*time.Microsecond))
	cpu.foreign(ctx, "upscale", start, now)
}

// cpuSpans makes spans as any tracer does, and sends them as any exporter does.
type cpuSpans struct {
	traces ptrace.Traces
	spans  ptrace.SpanSlice
	lane   ptrace.SpanSlice // of a tracer whose scope is a lane
}

func newCPUSpans() *cpuSpans {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "traced")
	rs.Resource().Attributes().PutInt("process.pid", int64(os.Getpid()))
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("traced/cpu")
	lane := rs.ScopeSpans().AppendEmpty()
	lane.Scope().SetName("traced/lane")
	lane.Scope().Attributes().PutStr("stax.lane.id", "upscaler")
	lane.Scope().Attributes().PutStr("stax.lane.name", "upscaler")
	lane.Scope().Attributes().PutStr("stax.lane.kind", "gpu")
	return &cpuSpans{traces: td, spans: ss.Spans(), lane: lane.Spans()}
}

// foreign reports a dispatch as a child of the CPU span in ctx.
func (c *cpuSpans) foreign(ctx context.Context, name string, start, end sdk.Time) {
	parent := trace.SpanContextFromContext(ctx)
	var id pcommon.SpanID
	_, _ = rand.Read(id[:]) // never fails
	s := c.lane.AppendEmpty()
	s.SetTraceID(pcommon.TraceID(parent.TraceID()))
	s.SetSpanID(id)
	s.SetParentSpanID(pcommon.SpanID(parent.SpanID()))
	s.SetName(name)
	s.SetKind(ptrace.SpanKindConsumer)
	s.SetStartTimestamp(pcommon.Timestamp(start))
	s.SetEndTimestamp(pcommon.Timestamp(end))
}

// begin starts a root span. end ends it.
func (c *cpuSpans) begin(ctx context.Context, name string) (_ context.Context, end func()) {
	var cfg trace.SpanContextConfig
	_, _ = rand.Read(cfg.TraceID[:]) // never fails
	_, _ = rand.Read(cfg.SpanID[:])
	cfg.TraceFlags = trace.FlagsSampled
	s := c.spans.AppendEmpty()
	s.SetTraceID(pcommon.TraceID(cfg.TraceID))
	s.SetSpanID(pcommon.SpanID(cfg.SpanID))
	s.SetName(name)
	s.SetKind(ptrace.SpanKindProducer)
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(time.Now()))
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(cfg)), func() {
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(time.Now()))
	}
}

func (c *cpuSpans) send(ctx context.Context) error {
	body, err := ptraceotlp.NewExportRequestFromTraces(c.traces).MarshalProto()
	if err != nil {
		return err
	}
	client, err := otlp.NewClient(os.Getenv("STAX_ENDPOINT"), otlp.Options{Token: os.Getenv("STAX_RECORDING")})
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Traces(ctx, body)
	return err
}
