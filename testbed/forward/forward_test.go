//go:build unix

package forward

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/origin"
	"github.com/stax-otel/stax/sdk/semconv"
)

// maxSegment is the number of spans that a lane trace may have, its root included.
const maxSegment = 4999

// world is one collector with its two backends.
type world struct {
	t          *testing.T
	collector  *process
	jaeger     *jaegerServer
	prometheus *prometheusServer
	targets    string // endpoint for targets
	control    *http.Client
	from, to   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped with -short: needs a collector, a Jaeger and a Prometheus, all of which are built or fetched once")
	}
	dir, err := os.MkdirTemp("", "stx") //nolint:usetesting // t.TempDir is too long for socket paths
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "control.sock")
	p := ports(t, 8)
	w := &world{t: t, from: time.Now().Add(-time.Second), targets: "http://" + p[5]}
	w.jaeger = startJaeger(t, p[0], p[1], p[2])
	w.prometheus = startPrometheus(t, p[3], p[4])
	w.collector = start(t, []string{
		"STAX_DIR=" + dir, "STAX_CONTROL_SOCKET=" + socket, "STAX_TARGET_ENDPOINT=" + p[5], "STAX_TARGET_GRPC_ENDPOINT=" + p[6],
		"STAX_QUERY_ENDPOINT=" + p[7], "JAEGER_ENDPOINT=" + w.jaeger.otlp, "PROMETHEUS_EXPORT_ENDPOINT=" + p[4],
	}, collector(), "--feature-gates=service.profilesSupport", "--config", filepath.Join(root(), "examples", "forward.yaml"))
	w.collector.responds(p[7], "/healthz")
	w.control = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	return w
}

// post calls the control API.
func (w *world) post(path string, in, out any) {
	w.t.Helper()
	body, err := json.Marshal(in)
	require.NoError(w.t, err)
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://stax"+path, bytes.NewReader(body))
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.control.Do(req)
	require.NoError(w.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	require.Less(w.t, resp.StatusCode, 400, "%s", b)
	require.NoError(w.t, json.Unmarshal(b, out))
}

// record records the targets and returns the path of the archive.
func (w *world) record() string {
	w.t.Helper()
	var rec struct{ ID, Token, Path string }
	w.post("/api/v1/recordings", map[string]any{"name": "forward", "sample_hz": 250}, &rec)
	env := []string{"STAX_ENDPOINT=" + w.targets, "STAX_RECORDING=" + rec.Token}
	corpus := start(w.t, env, filepath.Join(bin, "corpus"), "-duration", "6s", "-cputrace")
	sampled := start(w.t, env, filepath.Join(bin, "goroutines"), "-mode", "own", "-duration", "4s")
	traced := start(w.t, env, filepath.Join(bin, "traced"))
	traced.succeeds(60 * time.Second)
	sampled.succeeds(60 * time.Second)
	corpus.succeeds(60 * time.Second)
	var stopped struct{ State string }
	w.post("/api/v1/recordings/"+rec.ID+"/stop", struct{}{}, &stopped)
	require.Equal(w.t, "finished", stopped.State)
	w.to = time.Now().Add(time.Second)
	return rec.Path
}

// recorded is what the archive says.
type recorded struct {
	services   map[archive.RuntimeID]string
	lanes      map[laneKey]archive.Lane
	dispatches map[uint64]archive.Dispatch
	buffers    map[uint64]archive.CommandBuffer
	waits      map[uint64]archive.Wait
	links      map[uint64]archive.Link // of dispatches
	classes    map[uint64]archive.Certificate
	counters   map[string]float64 // sums by counter name
	units      map[string]string
}

type laneKey struct {
	runtime archive.RuntimeID
	lane    archive.LaneID
}

func rows[T archive.Row](t *testing.T, r *archive.Reader, f func(*T)) {
	t.Helper()
	for batch, err := range archive.Scan[T](t.Context(), r) {
		require.NoError(t, err)
		for i := range batch {
			f(&batch[i])
		}
	}
}

func read(t *testing.T, path string) *recorded {
	t.Helper()
	r, err := archive.Open(path, archive.ReaderOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	a := &recorded{
		services: map[archive.RuntimeID]string{}, lanes: map[laneKey]archive.Lane{},
		dispatches: map[uint64]archive.Dispatch{}, buffers: map[uint64]archive.CommandBuffer{}, waits: map[uint64]archive.Wait{},
		links: map[uint64]archive.Link{}, classes: map[uint64]archive.Certificate{}, counters: map[string]float64{}, units: map[string]string{},
	}
	rows(t, r, func(x *archive.Runtime) { a.services[x.ID] = x.ServiceName })
	rows(t, r, func(x *archive.Lane) { a.lanes[laneKey{x.Runtime, x.ID}] = *x })
	rows(t, r, func(x *archive.Dispatch) { a.dispatches[uint64(x.ID)] = *x })
	rows(t, r, func(x *archive.CommandBuffer) { a.buffers[uint64(x.ID)] = *x })
	rows(t, r, func(x *archive.Wait) { a.waits[uint64(x.ID)] = *x })
	rows(t, r, func(x *archive.Certificate) { a.classes[uint64(x.Dispatch)] = *x })
	rows(t, r, func(x *archive.Link) {
		if x.OwnerKind == archive.OwnerDispatch && x.Kind == archive.OriginDispatch {
			a.links[x.Owner] = *x
		}
	})
	rows(t, r, func(x *archive.Counter) { a.units[x.Name] = x.Unit })
	rows(t, r, func(x *archive.CounterSample) {
		if x.State == archive.CounterOK {
			a.counters[x.Name] += float64(x.Int) + x.Float
		}
	})
	rows(t, r, func(x *archive.Drop) { t.Logf("drop: %+v", *x) })
	return a
}

func number(id pcommon.SpanID) uint64 { return binary.BigEndian.Uint64(id[:]) }

func text(m pcommon.Map, key string) string {
	if v, ok := m.Get(key); ok {
		return v.AsString()
	}
	return ""
}

// TestForward records two targets through otelcol-stax and compares what Jaeger and Prometheus have with the archive.
func TestForward(t *testing.T) {
	w := newWorld(t)
	a := read(t, w.record())
	t.Logf("archive: %d dispatches, %d command buffers, %d waits", len(a.dispatches), len(a.buffers), len(a.waits))
	require.Greater(t, len(a.dispatches), 15000)

	inJaeger := w.everything(a)
	t.Run("dispatches equal the archive's", func(t *testing.T) { a.equal(t, inJaeger) })
	t.Run("verdicts equal the archive's", func(t *testing.T) { a.verdicts(t, inJaeger) })
	t.Run("no target span below a CPU span", func(t *testing.T) { w.placed(t, a) })
	t.Run("a link within a trace would be drawn as a parent", w.nested)
	t.Run("prometheus", func(t *testing.T) { w.metrics(t, a, inJaeger) })

	w.collector.stop()
	assert.Zero(t, w.collector.cmd.ProcessState.ExitCode(), "the collector stops in good order")
}

// everything waits until Jaeger has every dispatch, command buffer and wait, and returns them by id. None may be there twice.
func (w *world) everything(a *recorded) map[uint64]span {
	w.t.Helper()
	traces := map[archive.TraceID]bool{}
	for _, d := range a.dispatches {
		traces[d.Trace] = true
	}
	for _, b := range a.buffers {
		traces[b.Trace] = true
	}
	for _, x := range a.waits {
		traces[x.Trace] = true
	}
	want := len(a.dispatches) + len(a.buffers) + len(a.waits)
	out := map[uint64]span{}
	eventually(w.t, 60*time.Second, func() string {
		clear(out)
		for id := range traces {
			for _, s := range w.jaeger.trace(id) {
				n := number(s.SpanID())
				if _, ok := a.dispatches[n]; ok || a.buffers[n].ID != 0 || a.waits[n].ID != 0 {
					if _, again := out[n]; again {
						require.Failf(w.t, "twice", "span %016x %s is in Jaeger twice", n, s.Name())
					}
					out[n] = s
				}
			}
		}
		if len(out) < want {
			return fmt.Sprintf("Jaeger has %d of %d dispatches, command buffers and waits", len(out), want)
		}
		return ""
	})
	w.t.Logf("Jaeger: %d spans in %d traces", len(out), len(traces))
	return out
}

// equal compares the facts: names, times, lanes, origins with their links, queues, counters of every dispatch.
func (a *recorded) equal(t *testing.T, inJaeger map[uint64]span) {
	linked := 0
	for id, d := range a.dispatches {
		s := inJaeger[id]
		attrs := s.Attributes()
		lane := a.lanes[laneKey{d.Runtime, d.Lane}]
		got := []any{
			s.Name(), int64(s.StartTimestamp()), int64(s.EndTimestamp()), s.Kind(), s.Status().Code() == ptrace.StatusCodeError,
			archive.TraceID(s.TraceID()), text(s.resource, semconv.ServiceNameKey), text(s.scope, semconv.LaneNameKey), text(s.scope, semconv.LaneKindKey),
			text(attrs, semconv.OriginThreadIDKey), text(attrs, semconv.OriginTimeKey), text(attrs, semconv.OriginStackIDKey),
			text(attrs, semconv.OriginSpanIDKey), text(attrs, semconv.QueueIDKey), text(attrs, semconv.ShaderIDKey),
		}
		want := []any{
			d.Name, d.StartNanos, d.EndNanos, ptrace.SpanKindConsumer, d.Faulted,
			d.Trace, a.services[d.Runtime], lane.Name, lane.Kind,
			decimal(d.Origin.ThreadID), decimal(d.Origin.TimeNanos), hexOr(uint64(d.Origin.Stack)),
			hexOr(d.Origin.CPUSpan), string(d.Queue), string(d.Shader),
		}
		require.Equal(t, want, got, "dispatch %016x", id)
		if d.Origin.CPUSpan == 0 {
			continue
		}
		linked++
		require.Equal(t, 1, s.Links().Len(), "dispatch %016x has the link to its CPU span", id)
		link := s.Links().At(0)
		require.Equal(t, d.Origin.CPUSpan, number(link.SpanID()))
		require.Equal(t, d.Origin.CPUTrace, archive.TraceID(link.TraceID()))
		require.Equal(t, semconv.OriginKindDispatch, text(link.Attributes(), semconv.OriginKindKey), "the link keeps its attributes")
	}
	require.GreaterOrEqual(t, linked, 600, "dispatches with a CPU span")
	t.Logf("%d dispatches equal, %d with a link to a CPU span", len(a.dispatches), linked)
}

func decimal(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func hexOr(n uint64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", n)
}

// verdicts compares what the linker said within its hold time with what the archive says over the whole recording. They may
// differ where evidence came later than the hold time; a proof of the linker must be one of the archive.
func (a *recorded) verdicts(t *testing.T, inJaeger map[uint64]span) {
	classes, origins, functions, linked, corroborated, slept := 0, 0, 0, 0, 0, 0
	differ, grades := map[string]int{}, map[string]int{}
	for id, c := range a.classes {
		s := inJaeger[id]
		got := text(s.Attributes(), semconv.ContainmentClassKey)
		if got == c.Class {
			classes++
		} else {
			differ[got+" in Jaeger, "+c.Class+" in the archive"]++
		}
		said := text(s.Attributes(), semconv.ContainmentCorroborationKey)
		require.Equal(t, c.Corroboration == "", said == "", "dispatch %016x", id)
		if said == origin.CorroborationSlept {
			slept++
		}
		if said == c.Corroboration {
			corroborated++
		} else {
			differ[fmt.Sprintf("%s %q in Jaeger, %q in the archive", c.Class, said, c.Corroboration)]++
		}
		if got == origin.ClassSynchronous {
			require.Equal(t, c.Class, got, "dispatch %016x: a proof that the archive does not have", id)
			require.Equal(t, fmt.Sprintf("%016x", uint64(c.Wait)), text(s.Attributes(), semconv.ContainmentWaitIDKey))
			require.Equal(t, strconv.FormatInt(c.OwnedNanos, 10), text(s.Attributes(), semconv.ContainmentOwnedNanosKey))
		}
	}
	for id, l := range a.links {
		attrs := inJaeger[id].Attributes()
		if text(attrs, semconv.OriginStatusKey) == l.Status && text(attrs, semconv.OriginGradeKey) == l.Grade {
			origins++
		} else {
			differ[fmt.Sprintf("%s %s in Jaeger, %s %s in the archive", text(attrs, semconv.OriginStatusKey), text(attrs, semconv.OriginGradeKey), l.Status, l.Grade)]++
		}
		grades[l.Status+" "+l.Grade]++
		if l.Status == origin.StatusLinked {
			linked++
			if text(attrs, semconv.CodeFunctionNameKey) != "" {
				functions++
			}
		}
	}
	t.Logf("classes: %d of %d equal, corroboration: %d; origins: %d of %d equal, %v; %d of %d linked ones with their function; differences: %v",
		classes, len(a.classes), corroborated, origins, len(a.links), grades, functions, linked, differ)
	assert.Positive(t, slept, "waits that CPU evidence confirms")
	assert.GreaterOrEqual(t, corroborated*1000, len(a.classes)*995, "evidence that came within the hold time: %v", differ)
	assert.Greater(t, grades["linked A"], 1000)
	assert.Greater(t, grades["linked B"], 100, "samples reach the linker in time")
	assert.GreaterOrEqual(t, classes*100, len(a.classes)*99)
	assert.GreaterOrEqual(t, origins*100, len(a.links)*99)
	assert.GreaterOrEqual(t, functions*100, linked*99)
	assert.NotEmpty(t, a.links)
}

// placed looks at every trace as Jaeger finds it, by the real parent and by the parent that its user interface chooses.
func (w *world) placed(t *testing.T, a *recorded) {
	var all []span
	for _, service := range slices.Compact(slices.Sorted(maps.Values(a.services))) {
		found := w.jaeger.search(service, w.from, w.to)
		require.NotEmpty(t, found, service)
		all = append(all, found...)
	}
	traces := map[pcommon.TraceID][]span{}
	byID := map[pcommon.SpanID]span{}
	cpuSpans := 0
	for _, s := range all {
		traces[s.TraceID()] = append(traces[s.TraceID()], s)
		byID[s.SpanID()] = s
		if s.Name() == "frame" && s.Kind() == ptrace.SpanKindProducer {
			cpuSpans++
		}
	}
	require.GreaterOrEqual(t, cpuSpans, 200, "there are CPU spans that dispatches could be below")
	seen := 0
	isTarget := func(id pcommon.SpanID) bool {
		n := number(id)
		_, dispatch := a.dispatches[n]
		_, buffer := a.buffers[n]
		s, known := byID[id]
		return dispatch || buffer || known && text(s.Attributes(), semconv.SpanTypeKey) == semconv.SpanTypeSegment
	}
	largest := 0
	for id, spans := range traces {
		targets := 0
		for _, s := range spans {
			if !isTarget(s.SpanID()) {
				continue
			}
			targets++
			if _, ok := a.dispatches[number(s.SpanID())]; ok {
				seen++
			}
			parent := s.ParentSpanID()
			isSegment := text(s.Attributes(), semconv.SpanTypeKey) == semconv.SpanTypeSegment
			require.Equal(t, isSegment, parent.IsEmpty(), "%s: exactly the segments are roots", s.Name())
			if !parent.IsEmpty() {
				require.True(t, isTarget(parent), "%s: its parent is a target span", s.Name())
				require.Equal(t, s.TraceID(), byID[parent].TraceID())
			}
			for _, link := range s.Links().All() {
				if !isTarget(link.SpanID()) {
					require.NotEqual(t, s.TraceID(), link.TraceID(), "%s: a link to the CPU within the trace", s.Name())
				}
			}
		}
		if targets == 0 {
			continue
		}
		require.Len(t, spans, targets, "trace %s: a lane trace has target spans only", id)
		require.LessOrEqual(t, len(spans), maxSegment, "trace %s", id)
		largest = max(largest, len(spans))
		legacy := w.jaeger.legacy(id)
		require.Len(t, legacy, len(spans))
		require.Empty(t, misplaced(legacy, func(hexID string) bool {
			var sid pcommon.SpanID
			_, err := hex.Decode(sid[:], []byte(hexID))
			require.NoError(t, err)
			return isTarget(sid)
		}))
	}
	assert.Equal(t, len(a.dispatches), seen, "the search finds all of them")
	assert.Greater(t, largest, maxSegment/2, "the burst fills a segment")
	t.Logf("%d traces with %d spans; the largest lane trace has %d", len(traces), len(all), largest)
}

// nested shows that the check can fail, and why target spans have traces of their own: Jaeger draws a span without a parent
// below the span of its trace that it links to.
func (w *world) nested(t *testing.T) {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr(semconv.ServiceNameKey, "negative")
	spans := rs.ScopeSpans().AppendEmpty().Spans()
	add := func(id byte) ptrace.Span {
		s := spans.AppendEmpty()
		s.SetTraceID(pcommon.TraceID{9})
		s.SetSpanID(pcommon.SpanID{id})
		s.SetName("span")
		s.SetStartTimestamp(pcommon.NewTimestampFromTime(w.from))
		s.SetEndTimestamp(pcommon.NewTimestampFromTime(w.to))
		return s
	}
	cpu := add(1)
	link := add(2).Links().AppendEmpty()
	link.SetTraceID(cpu.TraceID())
	link.SetSpanID(cpu.SpanID())
	conn, err := grpc.NewClient(w.jaeger.otlp, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	_, err = ptraceotlp.NewGRPCClient(conn).Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(td))
	require.NoError(t, err)
	eventually(t, 10*time.Second, func() string {
		if len(w.jaeger.trace(archive.TraceID{9})) < 2 {
			return "the trace is not there"
		}
		return ""
	})
	found := misplaced(w.jaeger.legacy(cpu.TraceID()), func(id string) bool { return id == "0200000000000000" })
	require.Len(t, found, 1)
	t.Log(found[0])
}

// metrics compares what Prometheus scraped, and follows exemplars to Jaeger.
func (w *world) metrics(t *testing.T, a *recorded, inJaeger map[uint64]span) {
	counts, seconds := map[string]float64{}, map[string]float64{}
	for _, d := range a.dispatches {
		name := a.lanes[laneKey{d.Runtime, d.Lane}].Name
		counts[name]++
		seconds[name] += float64(d.EndNanos-d.StartNanos) / 1e9
	}
	p := w.prometheus
	const lane = "stax_lane_name"
	eventually(t, 20*time.Second, func() string {
		if got := p.values("sum by (stax_lane_name) (stax_dispatches_total)", lane); !assert.ObjectsAreEqual(counts, got) {
			return fmt.Sprintf("stax_dispatches_total is %v, want %v", got, counts)
		}
		return ""
	})
	assert.Equal(t, counts, p.values("sum by (stax_lane_name) (stax_dispatch_duration_seconds_count)", lane))
	assert.Equal(t, counts, p.values(`sum by (stax_lane_name) (stax_dispatch_duration_seconds_bucket{le="+Inf"})`, lane))
	assert.InDeltaMapValues(t, seconds, p.values("sum by (stax_lane_name) (stax_dispatch_duration_seconds_sum)", lane), 1e-6)
	assert.InDeltaMapValues(t, seconds, p.values("sum by (stax_lane_name) (stax_dispatch_time_nanoseconds_total) / 1e9", lane), 1e-6)
	assert.Len(t, p.values("histogram_quantile(0.95, sum by (stax_lane_name, le) (stax_dispatch_duration_seconds_bucket))", lane), len(counts))
	assert.Equal(t, map[string]float64{"unknown_service:corpus": 5, "unknown_service:traced": 2, "traced": 1, "unknown_service:goroutines": 1}, p.values("count by (job) (stax_dispatches_total)", "job"),
		"one series per lane, whatever the process")

	counters := map[string]float64{}
	for name, sum := range a.counters {
		if a.units[name] != semconv.CounterUnitPercent { // those are averages
			counters[name] = sum
		}
	}
	require.NotEmpty(t, counters)
	assert.InDeltaMapValues(t, counters, p.values(
		`sum by (stax_counter_name) ({__name__=~"stax_counter_.*_total", stax_counter_set!=""} unless {__name__="stax_counter_unavailable_total"})`,
		"stax_counter_name"), 1e-6)

	for _, series := range []string{"stax_dispatch_duration_seconds_bucket", "stax_dispatch_time_nanoseconds_total"} {
		found := p.exemplars(series, w.from, w.to.Add(time.Minute))
		require.NotEmpty(t, found, series)
		for _, x := range found {
			id, err := hex.DecodeString(x.labels["span_id"])
			require.NoError(t, err)
			s, ok := inJaeger[binary.BigEndian.Uint64(id)]
			require.True(t, ok, "%s: exemplar %v leads nowhere", series, x)
			require.Equal(t, x.labels["trace_id"], s.TraceID().String())
			require.Equal(t, x.series[lane], text(s.scope, semconv.LaneNameKey))
			nanos := float64(s.EndTimestamp() - s.StartTimestamp())
			if series == "stax_dispatch_duration_seconds_bucket" {
				nanos /= 1e9
			}
			require.InEpsilon(t, nanos, x.value, 1e-6, "its value is the duration of the dispatch")
		}
		t.Logf("%s: %d exemplars, each leads to its dispatch in Jaeger, such as %v", series, len(found), found[0])
	}
}
