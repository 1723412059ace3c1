package cputrace

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/internal/collectortest"
	"github.com/stax-otel/stax/sdk/internal/link"
	"github.com/stax-otel/stax/sdk/otlp"
	"github.com/stax-otel/stax/sdk/semconv"
)

const childVariable = "STAX_CPUTRACE_TEST_CHILD"

var children = map[string]func(){
	// short is a 300 ms program with the blank import's effect that shuts down.
	"short": func() {
		Enable(Options{})
		spin(300 * time.Millisecond)
		if err := sdk.Shutdown(context.Background()); err != nil {
			os.Exit(1)
		}
	},
	// quit ends without Shutdown.
	"quit": func() {
		Enable(Options{})
		spin(300 * time.Millisecond)
	},
}

func TestMain(m *testing.M) {
	if f := children[os.Getenv(childVariable)]; f != nil {
		f()
		return
	}
	_ = os.Setenv(semconv.EnvEndpoint, "off")
	os.Exit(m.Run())
}

// spin keeps one processor busy.
func spin(d time.Duration) {
	n := spun.Load()
	for end := time.Now().Add(d); time.Now().Before(end); {
		for range 10_000 {
			n = n*31 + 7
		}
	}
	spun.Store(n)
}

var spun atomic.Uint64

// pingPong passes n values to another goroutine and back.
func pingPong(n int) {
	a, b := make(chan int), make(chan int)
	go func() {
		defer close(b)
		for v := range a {
			b <- v
		}
	}()
	for i := range n {
		a <- i
		<-b
	}
	close(a)
	<-b
}

func recorded(c *collectortest.Collector, id string) {
	c.Reply(gate.Reply{RecordingID: id, SampleHz: 250})
}

func enable(t *testing.T, c *collectortest.Collector, change func(*timing)) *sdk.Runtime {
	t.Helper()
	rt := sdk.NewRuntime(sdk.Config{Endpoint: c.Endpoint(), ServiceName: "svc", Token: "tok"})
	o := Options{Runtime: rt}
	if change != nil {
		change(&o.timing)
	}
	stop := Enable(o)
	t.Cleanup(func() {
		stop()
		_ = rt.Shutdown(context.Background())
		if trace.IsEnabled() || link.Tracing.Load() {
			t.Error("a trace goes on")
		}
		if pprof.StartCPUProfile(io.Discard) != nil {
			t.Error("the CPU profiler is still taken")
		}
		pprof.StopCPUProfile()
	})
	return rt
}

// profiles returns those of a recording, of a source and in a state ("" means any).
func profiles(v collectortest.View, recording, source, state string) (out []collectortest.Profile) {
	for _, p := range v.Profiles() {
		if p.Resource[semconv.RecordingIDKey] == recording && (source == "" || p.Attrs[semconv.ProfileSourceKey] == source) &&
			(state == "" || p.Attrs[semconv.ProfileStateKey] == state) {
			out = append(out, p)
		}
	}
	return out
}

const (
	goTrace   = semconv.ProfileSourceGoExecTrace
	goProfile = semconv.ProfileSourceGoCPUProfile
)

// checkGeneration looks at what is known of a generation without parsing it.
func checkGeneration(t *testing.T, p collectortest.Profile) {
	t.Helper()
	if p.Format != semconv.PayloadGoExecTrace || len(p.Payload) < 64 {
		t.Fatalf("format %q, %d bytes", p.Format, len(p.Payload))
	}
	if !bytes.HasPrefix(p.Payload, []byte("go 1.26 trace\x00\x00\x00")) {
		t.Errorf("header %q", p.Payload[:16])
	}
	if bytes.Contains(p.Payload[16:], p.Payload[:16]) {
		t.Error("the header stands twice")
	}
	const endOfGeneration = 52 // tracev2.EvEndOfGeneration
	if got := p.Payload[len(p.Payload)-1]; got != endOfGeneration {
		t.Errorf("last byte %d, want %d", got, endOfGeneration)
	}
	if p.Duration <= 0 || time.Since(time.Unix(0, p.Time)) > time.Minute {
		t.Errorf("time %d, duration %d", p.Time, p.Duration)
	}
	if p.Attrs[semconv.ProfileCostNanosKey] == nil || (runtime.GOOS == "linux" && p.Attrs[semconv.ProfileProcessCPUNanosKey] == nil) {
		t.Errorf("no ledger: %v", p.Attrs)
	}
	if p.ScopeName != semconv.ScopeCPUTrace || p.Resource[semconv.ServiceNameKey] == nil || p.Resource[semconv.ProcessPIDKey] == nil {
		t.Errorf("scope %s, resource %v", p.ScopeName, p.Resource)
	}
}

func TestRecordings(t *testing.T) {
	c := collectortest.New(t)
	rt := enable(t, c, nil)
	if link.Of(rt).Client() == nil || trace.IsEnabled() {
		t.Fatal("not inert")
	}
	lane := rt.NewLane("l", sdk.LaneGeneric)
	for _, id := range []string{"a", "b", "c"} {
		recorded(c, id)
		c.Until("a generation of "+id, func(v collectortest.View) bool {
			lane.CaptureOrigin(t.Context())
			spin(5 * time.Millisecond)
			return len(profiles(v, id, goTrace, semconv.ProfileStateRunning)) > 0
		})
	}
	c.Record("")
	c.Until("the last word", func(v collectortest.View) bool { return v.Final("c") })
	c.See(func(v collectortest.View) {
		for _, id := range []string{"a", "b", "c"} {
			gens := profiles(v, id, goTrace, semconv.ProfileStateRunning)
			if len(gens) < 2 {
				t.Errorf("%s: %d generations, want the flushed one, too", id, len(gens))
			}
			events := 0
			for i, p := range gens {
				checkGeneration(t, p)
				events += bytes.Count(p.Payload, []byte(semconv.TraceLogOrigin))
				if want := int64(1_000_000_000 / rate(250)); p.Period != want {
					t.Errorf("%s: period %d, want %d", id, p.Period, want)
				}
				if i > 0 && p.Time != gens[i-1].Time+gens[i-1].Duration {
					t.Errorf("%s: generations leave a gap", id)
				}
				if p.Token != "tok" || p.Gzipped {
					t.Errorf("token %q, gzipped %v", p.Token, p.Gzipped)
				}
			}
			if events == 0 {
				t.Errorf("%s: no origin in the trace", id)
			}
			if n := len(profiles(v, id, goTrace, semconv.ProfileStateStopped)); n != 1 {
				t.Errorf("%s: %d last words of the source, want 1", id, n)
			}
		}
		order := v.Order()
		if order[len(order)-1] != "traces" {
			t.Errorf("the recording's last word came before its last profile: %v", order[max(0, len(order)-6):])
		}
	})
}

func TestNotWanted(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r") // 0 Hz
	rt := enable(t, c, nil)
	if rt.Stats().State != sdk.StateRecording || trace.IsEnabled() {
		t.Errorf("state %s, tracing %v", rt.Stats().State, trace.IsEnabled())
	}
}

func child(t *testing.T, c *collectortest.Collector, name string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{childVariable + "=" + name, "HOME=" + t.TempDir(), "STAX_ENDPOINT=" + c.Endpoint(), "STAX_RECORDING=tok"}
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: the program said %q, want silence", err, out)
	}
}

func TestShortProgram(t *testing.T) {
	c := collectortest.NewUnix(t, filepath.Join(t.TempDir(), "s.sock"))
	recorded(c, "r")
	child(t, c, "short")
	c.See(func(v collectortest.View) {
		gens := profiles(v, "r", goTrace, semconv.ProfileStateRunning)
		if len(gens) == 0 || !v.Final("r") {
			t.Fatalf("%d generations, final %v", len(gens), v.Final("r"))
		}
		covered := int64(0)
		for _, p := range gens {
			checkGeneration(t, p)
			covered += p.Duration
		}
		if covered < int64(250*time.Millisecond) {
			t.Errorf("generations cover %s of 300 ms", time.Duration(covered))
		}
	})
	child(t, c, "quit") // delivers nothing and says nothing
}

// TestStepDown lets the trace cost more than its budget.
func TestStepDown(t *testing.T) {
	c := collectortest.New(t)
	c.Reply(gate.Reply{RecordingID: "r", SampleHz: 250, SampleBudgetPermille: 1})
	rt := enable(t, c, func(o *timing) { o.floor, o.slice, o.backoff = 1, 50*time.Millisecond, 300*time.Millisecond })
	c.Until("the way down and up again", func(v collectortest.View) bool {
		pingPong(2000)
		reduced := profiles(v, "r", goTrace, semconv.ProfileStateReduced)
		running := profiles(v, "r", goTrace, semconv.ProfileStateRunning)
		return len(reduced) > 0 && len(profiles(v, "r", goProfile, semconv.ProfileStateRunning)) > 2 &&
			len(running) > 0 && running[len(running)-1].Time > reduced[0].Time
	})
	if err := rt.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	c.See(func(v collectortest.View) {
		reason, _ := profiles(v, "r", goTrace, semconv.ProfileStateReduced)[0].Attrs[semconv.ProfileReasonKey].(string)
		if !strings.Contains(reason, "more than the budget of 0.1 %: a CPU profile alone goes on for 300ms") {
			t.Errorf("reason %q", reason)
		}
		p := profiles(v, "r", goProfile, semconv.ProfileStateRunning)[0]
		z, err := gzip.NewReader(bytes.NewReader(p.Payload))
		if err != nil || p.Format != "pprof" || p.Period != 10_000_000 {
			t.Fatalf("format %q, period %d, payload %v", p.Format, p.Period, err)
		}
		if _, err := io.ReadAll(z); err != nil {
			t.Error(err)
		}
		if len(profiles(v, "r", goTrace, semconv.ProfileStateStopped)) != 1 {
			t.Error("no last word")
		}
	})
}

// TestProgramTraces starts while the program runs an execution trace of its own, and takes over when that ends.
func TestProgramTraces(t *testing.T) {
	if err := trace.Start(io.Discard); err != nil {
		t.Fatal(err)
	}
	c := collectortest.New(t)
	recorded(c, "r")
	enable(t, c, func(o *timing) { o.refused, o.slice = 100*time.Millisecond, 50*time.Millisecond })
	c.Until("the refusal", func(v collectortest.View) bool {
		return len(profiles(v, "r", goTrace, semconv.ProfileStateRefused)) == 1 && len(profiles(v, "r", goProfile, semconv.ProfileStateRunning)) > 3
	})
	trace.Stop()
	c.Until("the trace", func(v collectortest.View) bool {
		return len(profiles(v, "r", goTrace, semconv.ProfileStateRunning)) > 0
	})
	c.See(func(v collectortest.View) {
		refused := profiles(v, "r", goTrace, semconv.ProfileStateRefused)
		if reason := refused[0].Attrs[semconv.ProfileReasonKey]; len(refused) != 1 || !strings.Contains(reason.(string), "of its own") {
			t.Errorf("%d refusals, reason %q", len(refused), reason)
		}
	})
}

// TestProgramProfiles starts while the program runs a CPU profile of its own, which keeps working.
func TestProgramProfiles(t *testing.T) {
	var own bytes.Buffer
	if err := pprof.StartCPUProfile(&own); err != nil {
		t.Fatal(err)
	}
	c := collectortest.New(t)
	recorded(c, "r")
	enable(t, c, func(o *timing) { o.check = 20 * time.Millisecond })
	c.Until("a generation", func(v collectortest.View) bool {
		p := profiles(v, "r", goTrace, semconv.ProfileStateRunning)
		return len(p) > 0 && p[0].Period == 0 && p[0].Attrs[semconv.ProfileReasonKey] == "the program runs a CPU profile of its own: its samples are used"
	})
	pprof.StopCPUProfile()
	if own.Len() == 0 {
		t.Error("the program's profile is empty")
	}
	c.Until("our own samples", func(v collectortest.View) bool {
		p := profiles(v, "r", goTrace, semconv.ProfileStateRunning)
		last := p[len(p)-1]
		return last.Period != 0 && last.Attrs[semconv.ProfileReasonKey] == nil
	})
}

// TestProgramStopsOurProfile calls StopCPUProfile without owning the profile: it is taken back.
func TestProgramStopsOurProfile(t *testing.T) {
	c := collectortest.New(t)
	recorded(c, "r")
	enable(t, c, func(o *timing) { o.check = 10 * time.Millisecond })
	taken := func() bool {
		if pprof.StartCPUProfile(io.Discard) == nil {
			pprof.StopCPUProfile()
			return false
		}
		return true
	}
	for range 20 {
		until(t, "our profile", taken)
		pprof.StopCPUProfile()
		if err := pprof.StartCPUProfile(io.Discard); err == nil { // at once, as continuous profilers do
			pprof.StopCPUProfile()
		}
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

// TestReceiverWithoutProfiles ends the trace where nobody takes it.
func TestReceiverWithoutProfiles(t *testing.T) {
	c := collectortest.New(t)
	c.Force(otlp.ProfilesPath, http.StatusNotFound, nil)
	recorded(c, "r")
	enable(t, c, nil)
	c.Until("an attempt", func(v collectortest.View) bool { return v.Attempts(otlp.ProfilesPath) > 0 })
	until(t, "the end of the trace", func() bool { return !trace.IsEnabled() })
}

// TestCollectorAway loses generations, counts them, and says so when the collector is back.
func TestCollectorAway(t *testing.T) {
	c := collectortest.New(t)
	recorded(c, "r")
	c.Force(otlp.ProfilesPath, http.StatusServiceUnavailable, nil)
	enable(t, c, func(o *timing) {
		o.sendBudget, o.retry, o.maxRetry = 20*time.Millisecond, 5*time.Millisecond, 5*time.Millisecond
	})
	c.Until("attempts", func(v collectortest.View) bool { return v.Attempts(otlp.ProfilesPath) > 6 })
	c.Force(otlp.ProfilesPath, 0, nil)
	c.Until("the loss and a generation", func(v collectortest.View) bool {
		lost := profiles(v, "r", goTrace, semconv.ProfileStateLost)
		return len(lost) > 0 && len(profiles(v, "r", goTrace, semconv.ProfileStateRunning)) > 0
	})
	c.See(func(v collectortest.View) {
		p := profiles(v, "r", goTrace, semconv.ProfileStateLost)[0]
		if n, _ := p.Attrs[semconv.ProfileLostGenerationsKey].(int64); n < 1 || p.Duration <= 0 || p.Attrs[semconv.ProfileLostBytesKey] == nil ||
			p.Attrs[semconv.ProfileReasonKey] == nil || len(p.Payload) > 0 {
			t.Errorf("loss %+v", p)
		}
	})
}

func TestCompressed(t *testing.T) {
	c := collectortest.New(t)
	recorded(c, "r")
	rt := enable(t, c, func(o *timing) { o.compress = true })
	c.Until("a generation", func(v collectortest.View) bool {
		return len(profiles(v, "r", goTrace, semconv.ProfileStateRunning)) > 0
	})
	if err := rt.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	c.See(func(v collectortest.View) {
		for _, p := range profiles(v, "r", goTrace, semconv.ProfileStateRunning) {
			checkGeneration(t, p)
			if !p.Gzipped {
				t.Error("not compressed")
			}
		}
	})
}

func TestInert(t *testing.T) {
	c := collectortest.New(t)
	before := runtime.NumGoroutine()
	rt := sdk.NewRuntime(sdk.Config{Endpoint: c.Endpoint()})
	rt.NewLane("l", sdk.LaneGeneric)
	without := runtime.NumGoroutine() - before
	t.Cleanup(func() { _ = rt.Shutdown(context.Background()) })
	stop := Enable(Options{Runtime: rt})
	again := Enable(Options{Runtime: rt})
	until(t, "the runtime's goroutines alone", func() bool { return runtime.NumGoroutine()-before <= without })
	if trace.IsEnabled() || link.Tracing.Load() {
		t.Error("a trace runs although nothing records")
	}
	stop()
	stop()
	recorded(c, "r")
	until(t, "the trace of the second user", trace.IsEnabled)
	again()
	if trace.IsEnabled() {
		t.Error("a trace runs although nobody wants it")
	}
}

func TestSplitter(t *testing.T) {
	header := []byte("go 1.26 trace\x00\x00\x00")
	var got []*generation
	s := newSplitter(&bufferList{}, func(g *generation) { got = append(got, g) })
	write := func(p ...byte) {
		if n, err := s.Write(p); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
		clear(p) // the tracer reuses its buffer
	}
	big := func() []byte { return bytes.Repeat([]byte{7}, 64<<10) }
	write(slices.Clone(header)...)
	write(1, 2, 3)
	write(46)
	write(4, 5)
	write(6, 7)
	write(46)
	for range maxGeneration >> 16 {
		write(big()...)
	}
	write(46)
	write(8, 9)
	write(46)
	write(1, 1)
	s.finish()
	s.finish()
	want := []struct {
		data  []byte
		bytes int64
	}{
		{[]byte{1, 2, 3, 46}, 4},
		{[]byte{4, 5, 6, 7, 46}, 5},
		{nil, maxGeneration + 1},
		{[]byte{8, 9, 46}, 3},
		{nil, 2},
	}
	if len(got) != len(want) {
		t.Fatalf("%d generations, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if w.data == nil {
			if g.data != nil || g.reason == "" || g.bytes != w.bytes {
				t.Errorf("%d: %+v, want it dropped", i, g)
			}
			continue
		}
		if !bytes.Equal(g.data, append(slices.Clone(header), w.data...)) || g.bytes != w.bytes || g.reason != "" {
			t.Errorf("%d: %q (%d bytes, %s), want %q", i, g.data, g.bytes, g.reason, w.data)
		}
	}
}

func TestQueue(t *testing.T) {
	q := newQueue()
	payload := func(i int) *entry {
		return &entry{begin: sdk.Time(i), end: sdk.Time(i + 1), source: goTrace, state: semconv.ProfileStateRunning, payload: []byte{1, 2}, costNanos: 3}
	}
	for i := range maxQueued {
		if !q.add(payload(i)) {
			t.Fatalf("payload %d found no room", i)
		}
	}
	for i := range 3 {
		e := payload(maxQueued + i)
		if q.add(e) {
			t.Fatal("one more found room")
		}
		q.add(e.loss("full"))
	}
	for i := range maxQueued {
		if got := q.next(); len(got) != 1 || got[0].begin != sdk.Time(i) {
			t.Fatalf("next %d: %+v", i, got)
		}
		q.drop(1)
	}
	got := q.next()
	if len(got) != 1 || got[0].lostBytes != 6 || got[0].generations != 3 || got[0].costNanos != 9 || got[0].begin != 4 || got[0].end != 7 {
		t.Errorf("the loss: %+v", got[0])
	}
	q.add(payload(9))
	if got := q.next(); len(got) != 2 || got[1].begin != 9 {
		t.Errorf("note and payload: %+v", got)
	}
	q.fail(2, "full", false)
	if got := q.next(); len(got) != 1 || got[0].generations != 4 || got[0].end != 10 {
		t.Errorf("with one more: %+v", got[0])
	}
	q.add(payload(10).loss("full"))
	if got := q.next(); len(got) != 2 {
		t.Errorf("a loss was merged into one that is being sent: %+v", got)
	}
	q.fail(2, "full", false)
	if got := q.next(); len(got) != 1 || got[0].generations != 5 {
		t.Errorf("merged afterwards: %+v", got[0])
	}
	q.fail(1, "full", true)
	if got := q.next(); len(got) != 0 || q.payloads != 0 || q.bytes != 0 {
		t.Errorf("refused for itself: %+v, %d payloads of %d bytes", got, q.payloads, q.bytes)
	}
}

func TestBudget(t *testing.T) {
	s := &session{timing: timing{}.withDefaults()}
	const second = 1_000_000_000
	for _, tc := range []struct {
		permille     int
		bytes, cpu   int64
		over, reason string
	}{
		{0, 10_000_000, 1_400_000_000, "over", "the execution trace cost about 357 ms of 1400 ms processor time (26 %) in 1000 ms, more than the budget of 5 %: a CPU profile alone goes on for 30s"},
		{0, 10_000_000, 0, "over", "the execution trace cost about 357 ms of 1000 ms time (36 %) in 1000 ms, more than the budget of 5 %: a CPU profile alone goes on for 30s"},
		{25, 1_000_000, 1_000_000_000, "over", "the execution trace cost about 36 ms of 1000 ms processor time (4 %) in 1000 ms, more than the budget of 2.5 %: a CPU profile alone goes on for 30s"},
		{0, 1_000_000, 1_000_000_000, "", ""},
		{0, 100_000, 5_000_000, "", ""}, // most of nearly nothing
		{1000, 10_000_000, 1_000_000_000, "", ""},
	} {
		s.setBudget(tc.permille)
		g := &generation{begin: 1, end: 1 + second, bytes: tc.bytes, processCPU: tc.cpu}
		if got := s.judge(g, 30*time.Second); got != tc.reason {
			t.Errorf("%+v: got %q", tc, got)
		}
	}
}
