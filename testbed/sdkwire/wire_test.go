package sdkwire

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/semconv"
)

// fact is what a test told the SDK about one dispatch or command buffer, in the shape of the decoded span.
type fact struct {
	Name, Parent string
	Kind         ptrace.SpanKind
	Start, End   uint64
	Attributes   map[string]any
	Status       ptrace.StatusCode
	Message      string
	Events       []map[string]any
	Dropped      uint32
}

func factOf(d span) fact {
	f := fact{
		Name: d.Name(), Parent: d.ParentSpanID().String(), Kind: d.Kind(), Start: uint64(d.StartTimestamp()), End: uint64(d.EndTimestamp()),
		Attributes: d.Attributes().AsRaw(), Status: d.Status().Code(), Message: d.Status().Message(), Dropped: d.DroppedAttributesCount(),
	}
	delete(f.Attributes, semconv.SeqKey)
	for _, e := range d.Events().All() {
		m := e.Attributes().AsRaw()
		m["event"], m["time"] = e.Name(), int64(e.Timestamp())
		f.Events = append(f.Events, m)
	}
	return f
}

// TestRandomRecords reports a few thousand random dispatches with strings and numbers of every size and compares every
// decoded span with what was said.
func TestRandomRecords(t *testing.T) {
	s, url := newSink(t)
	rt := target(t, url)
	rng := rand.New(rand.NewPCG(1, 2))
	lanes := []*sdk.Lane{
		rt.NewLane("pool", sdk.LaneThreadPool), rt.NewLane(strings.Repeat("long name ", 60), sdk.LaneMetal, sdk.WithQueue("default")),
	}
	set := sdk.NewCounterSet("sdkwire", "Set", sdk.Counter{Name: "a/b", Unit: sdk.UnitBytes}, sdk.Counter{Name: "c", Unit: sdk.UnitPercent})
	ints := []int64{0, 1, -1, 127, 128, math.MaxInt64, math.MinInt64}
	floats := []float64{0, 1.5, math.Inf(1), math.SmallestNonzeroFloat64, -math.MaxFloat64}
	texts := []string{"", "x", strings.Repeat("é", 63), strings.Repeat("y", 127), strings.Repeat("z", 128), strings.Repeat("w", 4000)}
	pick := func(n int) bool { return rng.IntN(n) == 0 }

	want := map[string]fact{}
	laneOf := map[string]string{}
	for i := range 3000 {
		lane := lanes[rng.IntN(len(lanes))]
		name := fmt.Sprintf("kernel %d", i%97)
		d := lane.Dispatch(lane.Name(name))
		f := fact{Name: name, Kind: ptrace.SpanKindConsumer, Attributes: map[string]any{}}
		if lane == lanes[1] {
			f.Attributes[semconv.QueueIDKey] = "default"
		}
		if pick(3) {
			d.Queue(sdk.NewQueue("q"), uint64(i))
			f.Attributes[semconv.QueueIDKey] = "q"
			if i > 0 {
				f.Attributes[semconv.QueueSeqKey] = int64(i)
			}
		}
		if pick(3) {
			d.Shader(sdk.NewShader("shader " + name))
			f.Attributes[semconv.ShaderIDKey] = "shader " + name
		}
		for k := range rng.IntN(5) {
			key := fmt.Sprintf("tag.%d", k)
			switch rng.IntN(3) {
			case 0:
				v := texts[rng.IntN(len(texts))]
				d.Tag(sdk.NewKey(key), v)
				f.Attributes[key] = v
			case 1:
				v := ints[rng.IntN(len(ints))]
				d.TagInt(sdk.NewKey(key), v)
				f.Attributes[key] = v
			case 2:
				v := floats[rng.IntN(len(floats))]
				d.TagFloat(sdk.NewKey(key), v)
				f.Attributes[key] = v
			}
		}
		if pick(2) {
			d.Counters(set, sdk.AfterDispatch, sdk.IntValue(int64(i)), sdk.FloatValue(float64(i)/4))
			f.Attributes["stax.counter.sdkwire/after_dispatch/a/b"] = int64(i)
			f.Attributes["stax.counter.sdkwire/after_dispatch/c"] = float64(i) / 4
		}
		if pick(4) {
			d.Counters(set, "custom", sdk.CounterError(), sdk.CounterUnresolved())
			f.Attributes["stax.counter.sdkwire/custom/a/b"] = "error"
			f.Attributes["stax.counter.sdkwire/custom/c"] = "unresolved"
		}
		if pick(5) {
			d.Counters(set, sdk.BeforeDispatch, sdk.IntValue(1))
			d.Counters(set, sdk.BeforeDispatch, sdk.IntValue(2)) // the first wins
			f.Attributes["stax.counter.sdkwire/before_dispatch/a/b"] = int64(1)
			f.Dropped++
		}
		if pick(2) {
			o := sdk.OriginAt(int64(i+1), sdk.Time(i+5))
			if i%2 == 0 {
				o = o.WithGoroutine(int64(i + 2)).WithThreadLocked()
				f.Attributes[semconv.OriginGoroutineIDKey] = int64(i + 2)
				f.Attributes[semconv.OriginThreadLockedKey] = true
			}
			d.Origin(o)
			f.Attributes[semconv.OriginThreadIDKey] = int64(i + 1)
			f.Attributes[semconv.OriginTimeKey] = int64(i + 5)
		}
		if pick(6) {
			msg := texts[rng.IntN(len(texts))]
			d.Fault(msg)
			f.Status, f.Message = ptrace.StatusCodeError, msg
			d.FaultOrigin(sdk.OriginAt(7, 8))
			f.Events = append(f.Events, map[string]any{"event": "stax.fault", "time": int64(8), semconv.OriginThreadIDKey: int64(7), semconv.OriginTimeKey: int64(8)})
		}
		if pick(6) {
			d.Completion(sdk.OriginAt(9, 10))
			f.Events = append(f.Events, map[string]any{"event": "stax.completion", "time": int64(10), semconv.OriginThreadIDKey: int64(9), semconv.OriginTimeKey: int64(10)})
		}
		f.Start, f.End = uint64(rng.Int64()), uint64(rng.Int64())
		if pick(20) {
			f.Start, f.End = math.MaxUint64, 0
		}
		if pick(3) {
			cb := lane.CommandBuffer(lane.Name("buffer"))
			d.CommandBuffer(cb.ID())
			f.Parent = cb.ID().String()
			cb.TagInt(sdk.NewKey("cb"), int64(i))
			cb.Report(sdk.Time(i), sdk.Time(i+1))
			attrs := map[string]any{"cb": int64(i), semconv.SpanTypeKey: semconv.SpanTypeCommandBuffer}
			if lane == lanes[1] {
				attrs[semconv.QueueIDKey] = "default"
			}
			want[f.Parent] = fact{Name: "buffer", Kind: ptrace.SpanKindConsumer, Start: uint64(i), End: uint64(i + 1), Attributes: attrs}
			laneOf[f.Parent] = lane.ID()
		}
		d.Report(sdk.Time(f.Start), sdk.Time(f.End))
		want[d.ID().String()] = f
		laneOf[d.ID().String()] = lane.ID()
		if i%500 == 0 {
			require.NoError(t, rt.Flush(t.Context()))
		}
	}
	stop(t, rt)

	got, roots, heartbeats := s.spans(t)
	require.Len(t, got, len(want))
	seqs := map[int64]bool{}
	for id, w := range want {
		d, ok := got[id]
		require.True(t, ok, "dispatch %s is missing", id)
		g := factOf(d)
		root, topLevel := roots[g.Parent]
		if w.Parent == "" {
			require.True(t, topLevel, "parent of %s is %s, which is no segment root", id, g.Parent)
			g.Parent = ""
			assert.Equal(t, root.TraceID(), d.TraceID())
		} else {
			assert.Equal(t, got[w.Parent].TraceID(), d.TraceID(), "a segment cuts command buffer %s", w.Parent)
		}
		if diff := cmp.Diff(w, g); diff != "" {
			t.Fatalf("dispatch %s (-told +decoded):\n%s", id, diff)
		}
		assert.Equal(t, laneOf[id], d.scope[semconv.LaneIDKey])
		seq, _ := d.Attributes().Get(semconv.SeqKey)
		assert.False(t, seqs[seq.Int()], "sequence number %#x twice", seq.Int())
		seqs[seq.Int()] = true
	}
	last := heartbeats[len(heartbeats)-1]
	assert.Equal(t, true, last[semconv.HeartbeatFinalKey])
	total := int64(0)
	emitted, base := last[semconv.HeartbeatEmittedKey].([]any), last[semconv.HeartbeatBaseKey].([]any)
	shards := last[semconv.HeartbeatShardsKey].([]any)
	for i := range shards {
		total += emitted[i].(int64) - base[i].(int64)
		for _, key := range []string{semconv.HeartbeatDroppedFullKey, semconv.HeartbeatDroppedSendKey, semconv.HeartbeatDroppedOtherKey} {
			assert.Zero(t, last[key].([]any)[i])
		}
	}
	assert.EqualValues(t, len(want), total)
}

// TestResourceAndRegistrations checks what is told once per recording.
func TestResourceAndRegistrations(t *testing.T) {
	s, url := newSink(t)
	rt := target(t, url)
	lane := rt.NewLane("codec", sdk.LaneCodec, sdk.WithClockError(1500))
	sdk.NewCounterSet("sdkwire-reg", "Registered", sdk.Counter{Name: "n", Unit: sdk.UnitNanos})
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 15: 2}, SpanID: trace.SpanID{3, 7: 4}})
	ctx := trace.ContextWithSpanContext(t.Context(), sc)
	d := lane.Dispatch(lane.Name("encode"))
	d.CaptureOrigin(ctx)
	_, file, line, _ := runtime.Caller(0)
	d.Report(sdk.Now(), sdk.Now())
	w := rt.BeginWait(ctx, lane.Name("frame done"))
	w.Await(d.ID())
	w.AwaitQueue(sdk.NewQueue("q"), 3)
	w.End()
	stop(t, rt)

	got, _, _ := s.spans(t)
	dispatch := got[d.ID().String()]
	require.Equal(t, 1, dispatch.Links().Len())
	link := dispatch.Links().At(0)
	assert.Equal(t, sc.TraceID().String(), link.TraceID().String())
	assert.Equal(t, sc.SpanID().String(), link.SpanID().String())
	assert.Equal(t, map[string]any{semconv.OriginKindKey: semconv.OriginKindDispatch}, link.Attributes().AsRaw())
	assert.Equal(t, sc.TraceID().String(), dispatch.Attributes().AsRaw()[semconv.OriginTraceIDKey])

	r := dispatch.resource
	assert.EqualValues(t, os.Getpid(), r[semconv.ProcessPIDKey])
	assert.Equal(t, "sdkwire", r[semconv.ServiceNameKey])
	assert.Equal(t, "stax", r[semconv.TelemetrySDKNameKey])
	assert.Equal(t, "go", r[semconv.TelemetrySDKLanguageKey])
	assert.Equal(t, sdk.Version, r[semconv.TelemetrySDKVersionKey])
	assert.Equal(t, rt.ID(), r[semconv.RuntimeIDKey])
	assert.Equal(t, recordingID, r[semconv.RecordingIDKey])
	assert.Contains(t, r, semconv.ClockErrorNanosKey)

	for _, sp := range got {
		if sp.Attributes().AsRaw()[semconv.SpanTypeKey] != semconv.SpanTypeWait {
			continue
		}
		assert.Equal(t, ptrace.SpanKindInternal, sp.Kind())
		assert.Equal(t, sc.TraceID().String(), sp.TraceID().String())
		assert.Equal(t, sc.SpanID().String(), sp.ParentSpanID().String())
		assert.Equal(t, []any{"dispatch:" + d.ID().String(), "queue:q@3"}, sp.Attributes().AsRaw()[semconv.WaitAwaitsKey])
		assert.Empty(t, sp.scope)
		assert.GreaterOrEqual(t, sp.EndTimestamp(), sp.StartTimestamp())
	}

	stack := dispatch.Attributes().AsRaw()[semconv.OriginStackIDKey]
	found := false
	for _, e := range s.events(t, semconv.EventStack) {
		if e[semconv.StackIDKey] != stack {
			continue
		}
		found = true
		assert.Contains(t, e[semconv.StackFunctionsKey].([]any)[0], "sdkwire.TestResourceAndRegistrations")
		assert.Equal(t, file, e[semconv.StackFilesKey].([]any)[0])
		assert.EqualValues(t, line-1, e[semconv.StackLinesKey].([]any)[0])
	}
	assert.True(t, found, "stack %v is not defined", stack)

	assert.Contains(t, s.events(t, semconv.EventLane), map[string]any{
		semconv.LaneIDKey: lane.ID(), semconv.LaneNameKey: "codec", semconv.LaneKindKey: "codec", semconv.LaneClockErrorNanosKey: int64(1500),
	})
	assert.Contains(t, s.events(t, semconv.EventCounterSet), map[string]any{
		semconv.CounterSetIDKey: "sdkwire-reg", semconv.CounterSetNameKey: "Registered",
		semconv.CounterSetNamesKey: []any{"n"}, semconv.CounterSetUnitsKey: []any{"ns"},
	})
	samples := s.events(t, semconv.EventClockSample)
	require.NotEmpty(t, samples)
	assert.Equal(t, "monotonic", samples[0][semconv.ClockNameKey])
	assert.Positive(t, samples[0][semconv.ClockUnixNanosKey])
}
