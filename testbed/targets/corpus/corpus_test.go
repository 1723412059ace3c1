package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"

	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/semconv"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// The test binary plays the corpus when it is asked to.
const envPlay = "CORPUS_TEST_PLAY"

func TestMain(m *testing.M) {
	if os.Getenv(envPlay) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// wire is a collector that keeps what arrives.
type wire struct {
	mu         sync.Mutex
	lanes      map[string]string // id → name
	dispatches map[truth.ID]ptrace.Span
	lane       map[truth.ID]string // span → lane name
	buffers    map[truth.ID]ptrace.Span
	waits      []ptrace.Span
	stacks     map[string]truth.Site // leaf
	seqs       map[int64]bool
	emitted    map[int64]int64
	final      bool
}

func listen(t *testing.T) (w *wire, endpoint string) {
	t.Helper()
	w = &wire{
		lanes: map[string]string{}, dispatches: map[truth.ID]ptrace.Span{}, lane: map[truth.ID]string{},
		buffers: map[truth.ID]ptrace.Span{}, stacks: map[string]truth.Site{}, seqs: map[int64]bool{}, emitted: map[int64]int64{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc(semconv.GatePath, func(rw http.ResponseWriter, r *http.Request) {
		if q, err := gate.ParseRequest(r.URL.Query()); err == nil && q.Have != "" {
			select { // nothing changes
			case <-r.Context().Done():
			case <-time.After(q.Wait):
			}
		}
		_ = json.NewEncoder(rw).Encode(gate.Reply{RecordingID: "test", SchemaVersion: semconv.SchemaVersion})
	})
	mux.HandleFunc("/v1/traces", func(rw http.ResponseWriter, r *http.Request) {
		req := ptraceotlp.NewExportRequest()
		if body, err := io.ReadAll(r.Body); assert.NoError(t, err) && assert.NoError(t, req.UnmarshalProto(body)) {
			w.traces(t, req.Traces())
		}
		out, _ := ptraceotlp.NewExportResponse().MarshalProto()
		rw.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = rw.Write(out)
	})
	mux.HandleFunc("/v1/logs", func(rw http.ResponseWriter, r *http.Request) {
		req := plogotlp.NewExportRequest()
		if body, err := io.ReadAll(r.Body); assert.NoError(t, err) && assert.NoError(t, req.UnmarshalProto(body)) {
			w.logs(req)
		}
		out, _ := plogotlp.NewExportResponse().MarshalProto()
		rw.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = rw.Write(out)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return w, "http://" + l.Addr().String()
}

func text(m pcommon.Map, key string) string {
	if v, ok := m.Get(key); ok && v.Type() == pcommon.ValueTypeStr {
		return v.Str()
	}
	return ""
}

func number(m pcommon.Map, key string) int64 {
	if v, ok := m.Get(key); ok {
		return v.Int()
	}
	return 0
}

func spanID(s ptrace.Span) truth.ID { return truth.ID(beUint64(s.SpanID())) }

func beUint64(id pcommon.SpanID) (n uint64) {
	for _, b := range id {
		n = n<<8 | uint64(b)
	}
	return n
}

func (w *wire) traces(t *testing.T, td ptrace.Traces) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			a := ss.Scope().Attributes()
			if ss.Scope().Name() == semconv.ScopeHeartbeat {
				w.heartbeat(a)
				continue
			}
			if id := text(a, semconv.LaneIDKey); id != "" {
				w.lanes[id] = text(a, semconv.LaneNameKey)
			}
			for _, s := range ss.Spans().All() {
				kind := text(s.Attributes(), semconv.SpanTypeKey)
				if kind == semconv.SpanTypeSegment {
					continue
				}
				seq := number(s.Attributes(), semconv.SeqKey)
				assert.NotZero(t, seq, "a record without number")
				assert.False(t, w.seqs[seq], "number %d twice", seq)
				w.seqs[seq] = true
				w.lane[spanID(s)] = text(a, semconv.LaneNameKey)
				switch kind {
				case "", semconv.SpanTypeDispatch:
					w.dispatches[spanID(s)] = s
				case semconv.SpanTypeCommandBuffer:
					w.buffers[spanID(s)] = s
				case semconv.SpanTypeWait:
					w.waits = append(w.waits, s)
				}
			}
		}
	}
}

func (w *wire) heartbeat(a pcommon.Map) {
	shards, _ := a.Get(semconv.HeartbeatShardsKey)
	emitted, _ := a.Get(semconv.HeartbeatEmittedKey)
	for i := range shards.Slice().Len() {
		w.emitted[shards.Slice().At(i).Int()] = emitted.Slice().At(i).Int()
	}
	if v, ok := a.Get(semconv.HeartbeatFinalKey); ok && v.Bool() {
		w.final = true
	}
}

func (w *wire) logs(req plogotlp.ExportRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, rl := range req.Logs().ResourceLogs().All() {
		for _, sl := range rl.ScopeLogs().All() {
			for _, r := range sl.LogRecords().All() {
				if r.EventName() != semconv.EventStack {
					continue
				}
				a := r.Attributes()
				functions, _ := a.Get(semconv.StackFunctionsKey)
				files, _ := a.Get(semconv.StackFilesKey)
				lines, _ := a.Get(semconv.StackLinesKey)
				w.stacks[text(a, semconv.StackIDKey)] = truth.Site{
					Function: functions.Slice().At(0).Str(), File: files.Slice().At(0).Str(), Line: int(lines.Slice().At(0).Int()),
				}
			}
		}
	}
}

// play runs the corpus in a child process and returns its truth.
func playChild(t *testing.T, endpoint string, during func(*exec.Cmd), args ...string) *truth.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "truth.jsonl")
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-truth", path}, args...)...)
	cmd.Env = append(os.Environ(), envPlay+"=1", semconv.EnvEndpoint+"="+endpoint)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	during(cmd)
	err = cmd.Wait()
	said, _ := os.ReadFile(out.Name())
	t.Logf("%s", said)
	require.NoError(t, err)
	f, err := truth.Read(path)
	require.NoError(t, err)
	return f
}

func TestTruthAgreesWithTheWire(t *testing.T) {
	w, endpoint := listen(t)
	f := playChild(t, endpoint, func(*exec.Cmd) {}, "-duration", "1500ms", "-scale", "2")
	require.NotNil(t, f.End)
	require.Equal(t, "ok", f.End.Shutdown)

	require.Greater(t, len(f.Dispatches), 500)
	assert.True(t, w.final, "final heartbeat")
	var emitted int64
	for _, n := range w.emitted {
		emitted += n
	}
	assert.EqualValues(t, f.Records(), emitted, "emitted by the heartbeats")
	assert.Len(t, w.seqs, f.Records(), "records on the wire")
	assert.EqualValues(t, f.Records(), f.End.SDK.Sent)
	assert.Len(t, w.waits, len(f.Waits))

	for _, id := range truth.SortedIDs(f.Dispatches) {
		d := f.Dispatches[id]
		s, ok := w.dispatches[id]
		if !assert.True(t, ok, "dispatch %s of %s is missing", id, d.Scenario) {
			continue
		}
		if problem := differs(w, d, s); problem != "" {
			t.Errorf("dispatch %s %s/%s: %s", id, d.Scenario, d.Name, problem)
		}
	}
	for _, id := range truth.SortedIDs(f.CommandBuffers) {
		c := f.CommandBuffers[id]
		s, ok := w.buffers[id]
		if assert.True(t, ok, "command buffer %s is missing", id) {
			assert.Equal(t, []int64{c.StartNanos, c.EndNanos}, []int64{int64(s.StartTimestamp()), int64(s.EndTimestamp())})
			assert.Equal(t, c.Fault != "", s.Status().Code() == ptrace.StatusCodeError)
		}
	}

	// Every scenario and every combination of class and flags was played.
	seen := map[string]int{}
	for id, v := range f.Verdicts {
		seen[fmt.Sprintf("%s %s faulted=%t cross=%t different=%t", f.Dispatches[id].Scenario, v.Class, v.Faulted, v.CrossThread, v.DifferentStack)]++
	}
	for _, k := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%5d %s", seen[k], k)
	}
	for _, want := range []string{
		"sync synchronous faulted=false cross=false different=false",
		"async asynchronous faulted=false cross=false different=false",
		"async asynchronous faulted=true cross=false different=false",
		"late waited_late faulted=false cross=false different=false",
		"timeout timed_out faulted=false cross=false different=false",
		"overrun timed_out faulted=false cross=false different=false",
		"retry synchronous faulted=false cross=false different=false",
		"fault synchronous faulted=true cross=false different=false",
		"partial synchronous faulted=false cross=false different=false",
		"partial waited_late faulted=false cross=false different=false",
		"queue synchronous faulted=false cross=false different=false",
		"queue waited_late faulted=false cross=true different=false",
		"drain synchronous faulted=false cross=false different=false",
		"stranger synchronous faulted=false cross=false different=true",
		"cross synchronous faulted=false cross=true different=true",
		"twin synchronous faulted=false cross=true different=false",
		"job unproven faulted=false cross=false different=false",
	} {
		assert.Positive(t, seen[want], want)
	}
	judge(t, w, f)
}

// differs compares a dispatch with its span and returns the first difference.
func differs(w *wire, d truth.Dispatch, s ptrace.Span) string {
	a := s.Attributes()
	start, end := int64(s.StartTimestamp()), int64(s.EndTimestamp())
	switch {
	case s.Name() != d.Name || w.lane[d.ID] != d.Lane:
		return fmt.Sprintf("is %s on %s", s.Name(), w.lane[d.ID])
	case d.Bracketed && (start < d.StartNanos || start > d.Origin.NotAfter || end < start || end > d.EndNanos):
		return fmt.Sprintf("times %d %d outside %d %d", start, end, d.StartNanos, d.EndNanos)
	case !d.Bracketed && (start != d.StartNanos || end != d.EndNanos):
		return fmt.Sprintf("times %d %d, want %d %d", start, end, d.StartNanos, d.EndNanos)
	case (s.Status().Code() == ptrace.StatusCodeError) != (d.Fault != "") || s.Status().Message() != d.Fault:
		return fmt.Sprintf("status %q, want %q", s.Status().Message(), d.Fault)
	case text(a, semconv.QueueIDKey) != d.Queue || number(a, semconv.QueueSeqKey) != int64(d.QueueSeq):
		return fmt.Sprintf("queue %s@%d, want %s@%d", text(a, semconv.QueueIDKey), number(a, semconv.QueueSeqKey), d.Queue, d.QueueSeq)
	case text(a, semconv.ShaderIDKey) != d.Shader:
		return fmt.Sprintf("shader %q, want %q", text(a, semconv.ShaderIDKey), d.Shader)
	case d.CommandBuffer != 0 && beUint64(s.ParentSpanID()) != uint64(d.CommandBuffer):
		return fmt.Sprintf("parent %x, want command buffer %s", beUint64(s.ParentSpanID()), d.CommandBuffer)
	}
	for k, v := range d.Tags {
		if text(a, k) != v {
			return fmt.Sprintf("tag %s = %q, want %q", k, text(a, k), v)
		}
	}
	if problem := differentCounters(d, a); problem != "" {
		return problem
	}
	if d.Origin == nil {
		return ""
	}
	site, ok := w.stacks[text(a, semconv.OriginStackIDKey)]
	at := number(a, semconv.OriginTimeKey)
	switch {
	case !ok:
		return "stack is not defined"
	case site != d.Origin.Site:
		return fmt.Sprintf("origin %v, want %v", site, d.Origin.Site)
	case d.Origin.Thread != 0 && number(a, semconv.OriginThreadIDKey) != d.Origin.Thread:
		return fmt.Sprintf("thread %d, want %d", number(a, semconv.OriginThreadIDKey), d.Origin.Thread)
	case at < d.Origin.NotBefore || at > d.Origin.NotAfter:
		return fmt.Sprintf("origin at %d, want within %d to %d", at, d.Origin.NotBefore, d.Origin.NotAfter)
	case text(a, semconv.OriginSpanIDKey) != d.Origin.CPUSpan || text(a, semconv.OriginTraceIDKey) != d.Origin.CPUTrace:
		return fmt.Sprintf("CPU span %s, want %s", text(a, semconv.OriginSpanIDKey), d.Origin.CPUSpan)
	}
	return ""
}

func differentCounters(d truth.Dispatch, a pcommon.Map) string {
	n := 0
	for k := range a.All() {
		if strings.HasPrefix(k, semconv.CounterPrefix) {
			n++
		}
	}
	if n != len(d.Counters) {
		return fmt.Sprintf("%d counter values, want %d", n, len(d.Counters))
	}
	for _, c := range d.Counters {
		v, ok := a.Get(semconv.CounterPrefix + c.Set + "/" + c.Point + "/" + c.Name)
		good := false
		switch {
		case !ok:
		case c.State != "ok":
			good = v.Type() == pcommon.ValueTypeStr && v.Str() == c.State
		case c.IsFloat:
			good = v.Type() == pcommon.ValueTypeDouble && math.Float64bits(v.Double()) == math.Float64bits(c.Float)
		default:
			good = v.Type() == pcommon.ValueTypeInt && v.Int() == c.Int
		}
		if !good {
			return fmt.Sprintf("counter %s = %s, want %+v", c.Name, v.AsString(), c)
		}
	}
	return ""
}

// judge applies the table of containment classes, word by word, to what was on the wire. It shows that the scenarios
// really are what they claim, before anybody else's verdicts are compared with them.
func judge(t *testing.T, w *wire, f *truth.File) {
	t.Helper()
	covering := map[truth.ID][]ptrace.Span{}
	byBuffer := map[truth.ID][]truth.ID{}
	byQueue := map[string][]truth.ID{}
	for id, d := range f.Dispatches {
		byBuffer[d.CommandBuffer] = append(byBuffer[d.CommandBuffer], id)
		byQueue[d.Queue] = append(byQueue[d.Queue], id)
	}
	for _, s := range w.waits {
		awaits, _ := s.Attributes().Get(semconv.WaitAwaitsKey)
		for _, ref := range awaits.Slice().All() {
			kind, rest, _ := strings.Cut(ref.Str(), ":")
			var id truth.ID
			switch kind + ":" {
			case semconv.AwaitDispatchPrefix:
				require.NoError(t, id.UnmarshalText([]byte(rest)))
				covering[id] = append(covering[id], s)
			case semconv.AwaitCommandBufferPrefix:
				require.NoError(t, id.UnmarshalText([]byte(rest)))
				for _, d := range byBuffer[id] {
					covering[d] = append(covering[d], s)
				}
			case semconv.AwaitQueuePrefix:
				queue, upTo, limited := strings.Cut(rest, "@")
				n, _ := strconv.ParseUint(upTo, 10, 64)
				for _, d := range byQueue[queue] {
					before := f.Dispatches[d].Origin.NotAfter <= int64(s.StartTimestamp())
					if limited && f.Dispatches[d].QueueSeq <= n || !limited && before {
						covering[d] = append(covering[d], s)
					}
				}
			}
		}
	}
	for _, id := range truth.SortedIDs(f.Verdicts) {
		v, d := f.Verdicts[id], f.Dispatches[id]
		class, owned := unproven, int64(0)
		if f.Lanes[d.Lane].ReportsWaits {
			class, owned = tableClass(d, covering[id])
		}
		if class != v.Class || owned < v.OwnedMin || owned > v.OwnedMax {
			t.Errorf("dispatch %s of %s: the table says %s owning %d, the scenario %+v", id, d.Scenario, class, owned, v)
		}
	}
}

func tableClass(d truth.Dispatch, waits []ptrace.Span) (class string, owned int64) {
	const e = int64(clockError)
	late := len(waits) > 0
	class = asynchronous
	for _, w := range waits {
		begin, end := int64(w.StartTimestamp()), int64(w.EndTimestamp())
		if d.Origin.NotAfter+e < begin && begin+e < d.EndNanos && d.EndNanos+e < end {
			owned = max(owned, min(end, d.EndNanos)-max(begin, d.StartNanos))
			class = synchronous
		} else if begin+e < d.EndNanos && end+e < d.EndNanos && class != synchronous {
			class = timedOut
		}
		late = late && begin > d.EndNanos+e
	}
	if late {
		class = waitedLate
	}
	return class, owned
}

func TestObeysSIGTERM(t *testing.T) {
	w, endpoint := listen(t)
	f := playChild(t, endpoint, func(cmd *exec.Cmd) {
		require.Eventually(t, func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.dispatches) > 20
		}, 20*time.Second, 5*time.Millisecond)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	}, "-duration", "1h")
	require.NotNil(t, f.End)
	assert.Equal(t, "signal terminated", f.End.Reason)
	assert.Len(t, w.seqs, f.Records(), "everything is flushed")
	assert.True(t, w.final)
}

func TestWithoutCollector(t *testing.T) {
	f := playChild(t, "unix://"+filepath.Join(t.TempDir(), "nobody.sock"), func(*exec.Cmd) {}, "-duration", "200ms")
	assert.Empty(t, f.Dispatches)
	assert.Empty(t, f.Waits)
	assert.Positive(t, f.End.Unrecorded)
}
