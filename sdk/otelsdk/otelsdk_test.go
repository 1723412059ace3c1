package otelsdk

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime/trace"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/internal/collectortest"
	"github.com/stax-otel/stax/sdk/internal/link"
	"github.com/stax-otel/stax/sdk/semconv"
)

func TestMain(m *testing.M) {
	_ = os.Setenv(semconv.EnvEndpoint, "off")
	os.Exit(m.Run())
}

func newProvider(t *testing.T, o ...sdktrace.TracerProviderOption) (*sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	limits := sdktrace.NewSpanLimits()
	limits.AttributeCountLimit = 1000
	tp := sdktrace.NewTracerProvider(append(o, sdktrace.WithSyncer(exporter), sdktrace.WithRawSpanLimits(limits))...)
	t.Cleanup(func() { _ = tp.Shutdown(context.Background()) })
	return tp, exporter
}

func shutdown(t *testing.T, rt *sdk.Runtime) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := rt.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// fact is what both routes say about one record. References to other records are their tags.
type fact struct {
	Lane, Name   string
	Kind         int
	Start, End   int64
	Attrs        map[string]any
	Buffer       string
	Awaits       []string
	Failed       bool
	Message      string
	Events       []string
	Links        []string
	Trace, Above string // of a wait
}

const tag = "record"

func sorted(m map[string]any) string {
	var out []string
	for k, v := range m {
		out = append(out, fmt.Sprintf("%s=%v", k, v))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// clean takes out what is special to one route, and returns the record's tag.
func clean(attrs map[string]any, resolve func(id string) string) (name string, f fact) {
	name, _ = attrs[tag].(string)
	if id, ok := attrs[semconv.CommandBufferIDKey].(string); ok {
		f.Buffer = resolve(id)
	}
	if list, ok := attrs[semconv.WaitAwaitsKey].([]string); ok {
		for _, a := range list {
			if prefix, id, _ := strings.Cut(a, ":"); prefix != "queue" {
				a = prefix + ":" + resolve(id)
			}
			f.Awaits = append(f.Awaits, a)
		}
	}
	for _, k := range []string{semconv.SeqKey, semconv.CommandBufferIDKey, semconv.WaitAwaitsKey, semconv.OriginStackIDKey} {
		delete(attrs, k)
	}
	if attrs[semconv.SpanTypeKey] == semconv.SpanTypeWait { // a wait captures its own thread and instant
		for _, k := range []string{semconv.ThreadIDKey, semconv.OriginThreadIDKey, semconv.OriginTimeKey} {
			if v, ok := attrs[k].(int64); ok && v > 0 {
				attrs[k] = "captured"
			}
		}
	}
	f.Attrs = attrs
	return name, f
}

func raw(list []attribute.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range list {
		m[string(kv.Key)] = kv.Value.AsInterface()
	}
	return m
}

func factsOfWire(t *testing.T, v collectortest.View) map[string]fact {
	t.Helper()
	spans := v.Spans()
	tags := map[string]string{}
	for _, s := range spans {
		tags[s.SpanID], _ = s.Attrs[tag].(string)
	}
	resolve := func(id string) string { return tags[id] }
	out := map[string]fact{}
	for _, s := range spans {
		name, f := clean(s.Attrs, resolve)
		f.Lane, f.Name, f.Kind, f.Start, f.End = sorted(without(s.Scope, semconv.SegmentIDKey)), s.Name, s.Kind, s.Start, s.End
		f.Failed, f.Message = s.StatusCode == 2, s.StatusMessage
		if f.Attrs[semconv.SpanTypeKey] == semconv.SpanTypeWait {
			f.Start, f.End, f.Trace, f.Above = 0, 0, s.TraceID, s.Parent
			if s.Parent == "" {
				f.Trace = ""
			}
		} else {
			f.Buffer = tags[s.Parent]
		}
		for _, e := range s.Events {
			f.Events = append(f.Events, fmt.Sprint(e.Name, e.Time, sorted(e.Attrs)))
		}
		for _, l := range s.Links {
			f.Links = append(f.Links, fmt.Sprint(l.TraceID, l.SpanID, sorted(l.Attrs)))
		}
		out[name] = f
	}
	return out
}

func without(m map[string]any, key string) map[string]any {
	delete(m, key)
	return m
}

func factsOfProvider(t *testing.T, spans tracetest.SpanStubs) (out map[string]fact, roots int) {
	t.Helper()
	tags := map[string]string{}
	for _, s := range spans {
		for _, kv := range s.Attributes {
			if kv.Key == tag {
				tags[s.SpanContext.SpanID().String()] = kv.Value.AsString()
			}
		}
	}
	resolve := func(id string) string { return tags[id] }
	out = map[string]fact{}
	for _, s := range spans {
		attrs := raw(s.Attributes)
		if attrs[semconv.SpanTypeKey] == semconv.SpanTypeSegment {
			roots++
			if s.Parent.IsValid() || s.EndTime.Before(s.StartTime) {
				t.Errorf("root %+v", s)
			}
			continue
		}
		name, f := clean(attrs, resolve)
		scope := map[string]any{}
		for _, kv := range s.InstrumentationScope.Attributes.ToSlice() {
			scope[string(kv.Key)] = kv.Value.AsInterface()
		}
		f.Lane, f.Name, f.Kind = sorted(scope), s.Name, int(s.SpanKind)
		f.Start, f.End = s.StartTime.UnixNano(), s.EndTime.UnixNano()
		f.Failed, f.Message = s.Status.Code == codes.Error, s.Status.Description
		if f.Attrs[semconv.SpanTypeKey] == semconv.SpanTypeWait {
			f.Start, f.End = 0, 0
			if s.Parent.IsValid() {
				f.Trace, f.Above = s.SpanContext.TraceID().String(), s.Parent.SpanID().String()
			}
		} else if !s.Parent.IsValid() {
			t.Errorf("%s has no parent", s.Name)
		}
		for _, e := range s.Events {
			f.Events = append(f.Events, fmt.Sprint(e.Name, e.Time.UnixNano(), sorted(raw(e.Attributes))))
		}
		for _, l := range s.Links {
			f.Links = append(f.Links, fmt.Sprint(l.SpanContext.TraceID(), l.SpanContext.SpanID(), sorted(raw(l.Attributes))))
		}
		if _, twice := out[name]; twice {
			t.Errorf("%s twice", name)
		}
		out[name] = f
	}
	return out, roots
}

// program reports random records to rt. The same seed reports the same.
func program(rt *sdk.Runtime, seed uint64, n int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	pick := func(n int) bool { return rng.IntN(n) == 0 }
	lanes := []*sdk.Lane{
		rt.NewLane("pool", sdk.LaneThreadPool), rt.NewLane("gpu", sdk.LaneMetal, sdk.WithQueue("default"), sdk.WithClockError(1500)),
		rt.NewLane(strings.Repeat("long ", 50), sdk.LaneGeneric, sdk.WithOrigins(sdk.OriginThread)),
	}
	set := sdk.NewCounterSet("otelsdk", "Set", sdk.Counter{Name: "a/b", Unit: sdk.UnitBytes}, sdk.Counter{Name: "c", Unit: sdk.UnitPercent})
	name, key := sdk.NewKey(tag), sdk.NewKey("tag")
	var dispatched []sdk.DispatchID
	for i := range n {
		id := fmt.Sprint(i)
		sc := oteltrace.NewSpanContext(oteltrace.SpanContextConfig{TraceID: oteltrace.TraceID{1, 15: byte(i)}, SpanID: oteltrace.SpanID{1, 7: byte(i)}})
		ctx := context.Background()
		if pick(3) {
			ctx = oteltrace.ContextWithSpanContext(ctx, sc)
		}
		lane := lanes[rng.IntN(len(lanes))]
		start, end := sdk.Time(rng.Int64()), sdk.Time(rng.Int64())
		if pick(6) && len(dispatched) > 0 {
			w := rt.BeginWait(ctx, lane.Name("wait "+id))
			w.Tag(name, id)
			for range rng.IntN(3) {
				w.Await(dispatched[rng.IntN(len(dispatched))])
			}
			if pick(2) {
				w.AwaitQueue(sdk.NewQueue("q"), uint64(i))
				w.AwaitQueue(sdk.NewQueue("p"), 0)
			}
			if pick(3) {
				w.EndTimedOut()
			} else {
				w.End()
			}
			continue
		}
		d := lane.Dispatch(lane.Name(fmt.Sprintf("kernel %d", i%7)))
		d.Tag(name, id)
		dispatched = append(dispatched, d.ID())
		var buffer sdk.CommandBuffer
		if pick(3) {
			buffer = lane.CommandBuffer(lane.Name("buffer"))
			buffer.Tag(name, "buffer of "+id)
			buffer.Queue(sdk.NewQueue("q"), uint64(i))
			d.CommandBuffer(buffer.ID())
			if pick(2) {
				buffer.Report(start-1, end+1) // before its dispatch
			}
		}
		if pick(2) {
			o := sdk.OriginAt(int64(i+1), sdk.Time(i+2)).WithGoroutine(int64(i + 3))
			if pick(2) {
				o = o.WithThreadLocked()
			}
			d.Origin(o)
		}
		if pick(3) {
			d.Shader(sdk.NewShader("shader"))
			d.Queue(sdk.NewQueue("q"), uint64(i))
		}
		if pick(2) {
			d.TagInt(key, int64(rng.Uint64()))
			d.Tag(key, "the first one wins")
		}
		if pick(4) {
			d.TagFloat(sdk.NewKey("float"), []float64{0, math.Inf(1), -1.5}[rng.IntN(3)])
		}
		if pick(2) {
			d.Counters(set, sdk.AfterDispatch, sdk.IntValue(int64(i)), sdk.FloatValue(0.25))
			d.Counters(set, "custom", sdk.CounterError(), sdk.CounterUnresolved())
		}
		if pick(4) {
			d.Fault([]string{"", "broken"}[rng.IntN(2)])
			d.FaultOrigin(sdk.OriginAt(7, 8))
		}
		if pick(4) {
			d.Completion(sdk.OriginAt(9, 10).WithGoroutine(11))
		}
		d.Report(start, end)
		buffer.Report(start-1, end+1)
	}
}

// TestSameAsWire reports the same random records through a TracerProvider and over the wire: both say the same.
func TestSameAsWire(t *testing.T) {
	for seed := range uint64(5) {
		c := collectortest.New(t)
		c.Record("r")
		wire := sdk.NewRuntime(sdk.Config{Endpoint: c.Endpoint(), MemoryLimit: 32 << 20})
		program(wire, seed, 2000)
		shutdown(t, wire)
		tp, exporter := newProvider(t)
		rt := NewRuntime(tp, Options{MemoryLimit: 32 << 20})
		program(rt, seed, 2000)
		shutdown(t, rt)

		var want map[string]fact
		c.See(func(v collectortest.View) { want = factsOfWire(t, v) })
		got, roots := factsOfProvider(t, exporter.GetSpans())
		if len(want) < 2000 || len(got) != len(want) || roots < 3 {
			t.Fatalf("%d records, want %d; %d roots", len(got), len(want), roots)
		}
		for id, w := range want {
			if g := got[id]; !reflect.DeepEqual(g, w) {
				t.Fatalf("seed %d, record %s:\nprovider %+v\nwire     %+v", seed, id, g, w)
			}
		}
		if st := rt.Stats(); st.Sent != uint64(len(want)) || st.Emitted != st.Sent || st.Queued != 0 {
			t.Errorf("stats %+v", st)
		}
	}
}

// TestHeldBack reports a wait and a dispatch before what they refer to, and one that refers to nothing.
func TestHeldBack(t *testing.T) {
	tp, exporter := newProvider(t)
	clock := time.Unix(1, 0)
	s := &sink{provider: tp, plain: tp.Tracer(scopeName), lanes: map[uint32]*lane{}, now: func() time.Time { return clock }}
	l := &link.Lane{Index: 1, Name: "l"}
	emitted := func() (out []string) {
		s.Drained(false)
		for _, sp := range exporter.GetSpans() {
			out = append(out, sp.Name)
		}
		return out
	}
	s.Take(&link.Span{ID: 9, Name: "wait", Awaits: []link.Await{{Prefix: "dispatch:", ID: 1}, {Prefix: "command_buffer:", ID: 2}}})
	s.Take(&link.Span{ID: 1, Name: "dispatch", Lane: l, CommandBuffer: 2})
	s.Take(&link.Span{ID: 8, Name: "lost", Awaits: []link.Await{{Prefix: "dispatch:", ID: 77}}})
	if got := emitted(); len(got) != 0 {
		t.Fatalf("emitted %v", got)
	}
	s.Take(&link.Span{ID: 2, Name: "buffer", Lane: l, IsBuffer: true})
	if got := emitted(); !slices.Equal(got, []string{"buffer", "dispatch", "wait"}) {
		t.Fatalf("emitted %v", got)
	}
	clock = clock.Add(holdFor + 1)
	if got := emitted(); !slices.Equal(got[3:4], []string{"lost"}) {
		t.Fatalf("emitted %v", got)
	}
	awaits := map[string][]string{}
	var dispatch, buffer tracetest.SpanStub
	for _, sp := range exporter.GetSpans() {
		awaits[sp.Name], _ = raw(sp.Attributes)[semconv.WaitAwaitsKey].([]string)
		switch sp.Name {
		case "dispatch":
			dispatch = sp
		case "buffer":
			buffer = sp
		}
	}
	id := func(sp tracetest.SpanStub) string { return sp.SpanContext.SpanID().String() }
	if want := []string{"dispatch:" + id(dispatch), "command_buffer:" + id(buffer)}; !slices.Equal(awaits["wait"], want) {
		t.Errorf("awaits %v, want %v", awaits["wait"], want)
	}
	if want := []string{"dispatch:000000000000004d"}; !slices.Equal(awaits["lost"], want) {
		t.Errorf("awaits %v, want %v", awaits["lost"], want)
	}
	if raw(dispatch.Attributes)[semconv.CommandBufferIDKey] != id(buffer) || dispatch.Parent.SpanID() != buffer.SpanContext.SpanID() {
		t.Errorf("dispatch %+v", dispatch)
	}
	s.Drained(true)
}

func TestLogSpanDoesNotAllocate(t *testing.T) {
	if err := trace.Start(io.Discard); err != nil {
		t.Skip(err)
	}
	defer trace.Stop()
	id := oteltrace.SpanID{1, 2, 3}
	if got := testing.AllocsPerRun(1000, func() { logSpan(t.Context(), id) }); got != 0 && !raceEnabled {
		t.Errorf("%v allocations, want 0", got)
	}
}

func TestResource(t *testing.T) {
	attrs := raw(Resource().Attributes())
	if attrs[semconv.ProcessPIDKey] != int64(os.Getpid()) || attrs[semconv.ServiceNameKey] == nil || attrs[semconv.ClockErrorNanosKey] == nil {
		t.Errorf("attributes %v", attrs)
	}
}

func TestFlush(t *testing.T) {
	tp, exporter := newProvider(t)
	rt := NewRuntime(tp, Options{})
	lane := rt.NewLane("l", sdk.LaneGeneric)
	if !lane.Active() {
		t.Fatal("inactive")
	}
	lane.Report(lane.Name("x"), 1, 2)
	if err := rt.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := exporter.GetSpans(); len(got) != 2 {
		t.Errorf("%d spans, want a dispatch and its segment", len(got))
	}
	shutdown(t, rt)
	lane.Report(lane.Name("x"), 1, 2)
	if lane.Active() || len(exporter.GetSpans()) != 2 {
		t.Error("active after Shutdown")
	}
}

//go:noinline
func startSpan(tp oteltrace.TracerProvider) oteltrace.Span {
	_, span := tp.Tracer("test").Start(context.Background(), "work")
	return span
}

func TestSpanProcessor(t *testing.T) {
	c := collectortest.New(t)
	rt := sdk.NewRuntime(sdk.Config{Endpoint: c.Endpoint()})
	t.Cleanup(func() { shutdown(t, rt) })
	tp, exporter := newProvider(t, sdktrace.WithSpanProcessor(NewSpanProcessor(rt)))
	startSpan(tp).End()
	if got := exporter.GetSpans()[0].Attributes; len(got) != 0 {
		t.Errorf("not recorded: attributes %v", got)
	}
	heard := make(chan string, 8)
	rt.Subscribe(func(r sdk.Recording) { heard <- r.ID })
	c.Record("r")
	for <-heard != "r" {
	}
	for !rt.ReportingActive() {
		time.Sleep(time.Millisecond)
	}
	exporter.Reset()
	var traced bytes.Buffer
	if err := trace.Start(&traced); err != nil {
		t.Fatal(err)
	}
	link.Tracing.Store(true)
	span := startSpan(tp)
	link.Tracing.Store(false)
	trace.Stop()
	span.End()
	attrs := raw(exporter.GetSpans()[0].Attributes)
	at, _ := attrs[semconv.OriginTimeKey].(int64)
	if attrs[semconv.ThreadIDKey] == nil || attrs[semconv.ThreadIDKey] != attrs[semconv.OriginThreadIDKey] || time.Since(time.Unix(0, at)).Abs() > time.Minute {
		t.Errorf("attributes %v", attrs)
	}
	if id := span.SpanContext().SpanID().String(); !bytes.Contains(traced.Bytes(), []byte(id)) || !bytes.Contains(traced.Bytes(), []byte(semconv.TraceLogSpan)) {
		t.Errorf("span %s does not stand in the execution trace", id)
	}
	c.Until("the stack", func(v collectortest.View) bool {
		for _, r := range v.Records(semconv.EventStack) {
			if r.Attrs[semconv.StackIDKey] == attrs[semconv.OriginStackIDKey] {
				functions, _ := r.Attrs[semconv.StackFunctionsKey].([]string)
				if !strings.HasSuffix(functions[0], "otelsdk.startSpan") {
					t.Errorf("leaf %s", functions[0])
				}
				return true
			}
		}
		return false
	})
	exporter.Reset()
	through := NewRuntime(tp, Options{})
	lane := through.NewLane("l", sdk.LaneGeneric)
	d := lane.Dispatch(lane.Name("x"))
	d.Origin(sdk.OriginAt(1, 2))
	d.Report(3, 4)
	shutdown(t, through)
	_, own := tp.Tracer("test").Start(t.Context(), "own", oteltrace.WithAttributes(attribute.Int64(semconv.OriginThreadIDKey, 5)))
	own.End()
	for _, s := range exporter.GetSpans() {
		attrs := raw(s.Attributes)
		if want := map[string]any{"x": int64(1), "own": int64(5), "l": nil}[s.Name]; attrs[semconv.OriginThreadIDKey] != want || attrs[semconv.ThreadIDKey] != nil {
			t.Errorf("the processor changed the origin of %s: %v", s.Name, attrs)
		}
	}
	if err := tp.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func BenchmarkSpanProcessor(b *testing.B) {
	for name, processors := range map[string][]sdktrace.TracerProviderOption{
		"without": nil,
		"off":     {sdktrace.WithSpanProcessor(NewSpanProcessor(sdk.NewRuntime(sdk.Config{Endpoint: "off"})))},
	} {
		b.Run(name, func(b *testing.B) {
			tp := sdktrace.NewTracerProvider(append(processors, sdktrace.WithSpanProcessor(tracetest.NewSpanRecorder()))...)
			tracer := tp.Tracer("bench")
			b.ReportAllocs()
			for b.Loop() {
				_, span := tracer.Start(context.Background(), "x")
				_ = span
			}
		})
	}
}

func BenchmarkSink(b *testing.B) {
	tp := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()))
	rt := NewRuntime(tp, Options{})
	lane := rt.NewLane("l", sdk.LaneGeneric)
	n := lane.Name("x")
	b.ReportAllocs()
	for b.Loop() {
		lane.Report(n, 1, 2)
	}
	_ = rt.Shutdown(context.Background())
	b.ReportMetric(float64(rt.Stats().Sent)/float64(b.N), "sent/op")
}
