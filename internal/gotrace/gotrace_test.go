package gotrace

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/semconv"
)

// cutter cuts the stream of a trace into generations, as a target does.
type cutter struct {
	mu     sync.Mutex
	header []byte
	open   []byte
	done   [][]byte
}

func (c *cutter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	if need := headerLen - len(c.header); need > 0 {
		need = min(need, len(p))
		c.header = append(c.header, p[:need]...)
		p = p[need:]
	}
	c.open = append(c.open, p...)
	if n == 1 {
		c.done = append(c.done, slices.Concat(c.header, c.open))
		c.open = nil
	}
	return n, nil
}

// recorder records this process; cut ends a generation at once.
type recorder struct {
	t      testing.TB
	cutter cutter
	flight *trace.FlightRecorder
}

func record(t testing.TB) *recorder {
	t.Helper()
	r := &recorder{t: t, flight: trace.NewFlightRecorder(trace.FlightRecorderConfig{})}
	require.NoError(t, r.flight.Start())
	require.NoError(t, trace.Start(&r.cutter))
	return r
}

func (r *recorder) cut() {
	r.t.Helper()
	_, err := r.flight.WriteTo(io.Discard)
	require.NoError(r.t, err)
}

func (r *recorder) stop() [][]byte {
	trace.Stop()
	r.flight.Stop()
	r.cutter.mu.Lock()
	defer r.cutter.mu.Unlock()
	return r.cutter.done
}

// mark writes the event of a captured origin and returns the origin's instant, which is its identity here.
func mark() int64 {
	now := time.Now().UnixNano()
	trace.Log(context.Background(), semconv.TraceLogOrigin, strconv.FormatInt(now, 10))
	return now
}

// parseAll parses generations in their order with one session.
func parseAll(t testing.TB, s *Session, gens [][]byte) []*Generation {
	t.Helper()
	out := make([]*Generation, 0, len(gens))
	for _, payload := range gens {
		g, err := s.Parse(payload)
		require.NoError(t, err)
		s.Deliver(g)
		out = append(out, g)
	}
	return out
}

type all struct {
	waits   []archive.OffCPU
	samples []archive.Sample
	origins map[int64]archive.OriginEvent
	stacks  map[archive.StackID][]Frame
}

func merge(gens []*Generation) all {
	a := all{origins: map[int64]archive.OriginEvent{}, stacks: map[archive.StackID][]Frame{}}
	for _, g := range gens {
		a.waits = append(a.waits, g.Waits...)
		a.samples = append(a.samples, g.Samples...)
		for _, o := range g.OriginEvents {
			a.origins[o.TimeNanos] = o
		}
		for _, s := range g.Stacks {
			a.stacks[s.ID] = s.Frames
		}
	}
	return a
}

func (a all) hasFrame(id archive.StackID, function string) bool {
	return slices.ContainsFunc(a.stacks[id], func(f Frame) bool { return f.Function == function })
}

const pkg = "github.com/stax-otel/stax/internal/gotrace."

// waits are the kinds of waits with ground truth. prepare returns what blocks and what ends it.
var waits = []struct {
	name    string
	reason  string
	detail  string
	wakerIs bool // the waker is the goroutine that ends it
	prepare func(t *testing.T) (wait, end func())
}{
	{"chan receive", semconv.WaitReasonIPC, "chan receive", true, func(*testing.T) (wait, end func()) {
		c := make(chan int)
		return func() { <-c }, func() { c <- 1 }
	}},
	{"chan send", semconv.WaitReasonIPC, "chan send", true, func(*testing.T) (wait, end func()) {
		c := make(chan int)
		return func() { c <- 1 }, func() { <-c }
	}},
	{"select", semconv.WaitReasonIdle, "select", true, func(*testing.T) (wait, end func()) {
		c, d := make(chan int), make(chan int)
		return func() {
			select {
			case <-c:
			case <-d:
			}
		}, func() { close(d) }
	}},
	{"mutex", semconv.WaitReasonLock, "sync", true, func(*testing.T) (wait, end func()) {
		var mu sync.Mutex
		mu.Lock()
		return mu.Lock, mu.Unlock
	}},
	{"wait group", semconv.WaitReasonSem, "sync", true, func(*testing.T) (wait, end func()) {
		var wg sync.WaitGroup
		wg.Add(1)
		return wg.Wait, wg.Done
	}},
	{"cond", semconv.WaitReasonIdle, "sync.(*Cond).Wait", true, func(*testing.T) (wait, end func()) {
		var mu sync.Mutex
		c := sync.NewCond(&mu)
		return func() { mu.Lock(); c.Wait(); mu.Unlock() }, func() { mu.Lock(); c.Signal(); mu.Unlock() }
	}},
	{"sleep", semconv.WaitReasonSleep, "sleep", false, func(*testing.T) (wait, end func()) {
		return func() { time.Sleep(3 * time.Millisecond) }, func() {}
	}},
	{"network", semconv.WaitReasonConn, "network", false, func(t *testing.T) (wait, end func()) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		a, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		b, err := l.Accept()
		require.NoError(t, err)
		t.Cleanup(func() { _ = errors.Join(l.Close(), a.Close(), b.Close()) })
		return func() { _, _ = a.Read(make([]byte, 1)) }, func() { _, _ = b.Write([]byte{1}) }
	}},
	{"pipe", semconv.WaitReasonIORead, "network", false, func(t *testing.T) (wait, end func()) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { _ = errors.Join(r.Close(), w.Close()) })
		return func() { _, _ = r.Read(make([]byte, 1)) }, func() { _, _ = w.Write([]byte{1}) }
	}},
	{"syscall", semconv.WaitReasonSyscall, "syscall.read", false, func(t *testing.T) (wait, end func()) {
		var fds [2]int
		require.NoError(t, syscall.Pipe(fds[:]))
		t.Cleanup(func() { _ = errors.Join(syscall.Close(fds[0]), syscall.Close(fds[1])) })
		return func() { _, _ = syscall.Read(fds[0], make([]byte, 1)) }, func() { _, _ = syscall.Write(fds[1], []byte{1}) }
	}},
}

// truth is what a goroutine knows about its own wait.
type truth struct {
	origin, begin, end int64 // Unix ns; origin identifies the goroutine
	tid                int
}

//go:noinline
func waitHere(wait func()) (x truth) {
	runtime.LockOSThread() // so that the thread is the same before and after
	defer runtime.UnlockOSThread()
	x.tid = gettid()
	x.origin = mark()
	x.begin = time.Now().UnixNano()
	wait()
	x.end = time.Now().UnixNano()
	return x
}

// waitingIn counts the goroutines that wait below a function.
func waitingIn(function string) (n int) {
	buf := make([]byte, 1<<20)
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		header, frames, _ := strings.Cut(g, "\n")
		if strings.Contains(frames, "."+function+"(") && !strings.Contains(header, "[running") && !strings.Contains(header, "[runnable") {
			n++
		}
	}
	return n
}

func TestWaits(t *testing.T) {
	for _, split := range []bool{false, true} {
		name := map[bool]string{false: "in one generation", true: "over the border of generations"}[split]
		t.Run(name, func(t *testing.T) {
			r := record(t)
			type pending struct {
				result chan truth
				end    func()
			}
			var begun []pending
			for _, w := range waits {
				wait, end := w.prepare(t)
				p := pending{make(chan truth, 1), end}
				go func() { p.result <- waitHere(wait) }()
				begun = append(begun, p)
			}
			require.Eventually(t, func() bool {
				done := 0
				for _, p := range begun {
					done += len(p.result)
				}
				return done+waitingIn("waitHere") == len(begun)
			}, time.Minute, time.Millisecond)
			if split {
				r.cut()
			}
			enderOrigin := mark()
			var truths []truth
			for _, p := range begun {
				p.end()
				truths = append(truths, <-p.result)
			}
			gens := parseAll(t, NewSession(Options{}), r.stop())
			require.Greater(t, len(gens), map[bool]int{false: 0, true: 1}[split])
			a := merge(gens)
			for i, x := range truths {
				w := waits[i]
				o, ok := a.origins[x.origin]
				require.True(t, ok, w.name)
				if x.tid != 0 {
					require.Equal(t, int64(x.tid), o.ThreadID, "%s: the thread is not gettid's", w.name)
				}
				require.True(t, a.hasFrame(o.Stack, pkg+"waitHere"), w.name)
				require.Equal(t, pkg+"mark", a.stacks[o.Stack][0].Function, "frames that write the event come off")
				require.InDelta(t, x.origin, o.EventNanos, 5e6)

				var best archive.OffCPU
				for _, row := range a.waits {
					inside := row.BeginNanos > x.begin-1e6 && row.EndNanos < x.end+1e6
					if row.GoroutineID == o.GoroutineID && row.Detail == w.detail && inside && row.EndNanos-row.BeginNanos > best.EndNanos-best.BeginNanos {
						best = row
					}
				}
				require.NotZero(t, best, "%s: no wait of goroutine %d", w.name, o.GoroutineID)
				require.Equal(t, w.reason, best.Reason, w.name)
				require.Equal(t, w.detail, best.Detail, w.name)
				require.Equal(t, o.ThreadID, best.ThreadID, w.name)
				require.Equal(t, o.ThreadID, best.ResumeThreadID, w.name)
				require.True(t, a.hasFrame(best.Stack, pkg+"waitHere"), "%s: %v", w.name, a.stacks[best.Stack])
				require.Less(t, best.BeginNanos-x.begin, int64(2e6), w.name)
				require.Less(t, x.end-best.EndNanos, int64(2e6), w.name)
				require.True(t, best.BeginNanos <= best.WakeNanos && best.WakeNanos <= best.EndNanos, w.name)
				if w.wakerIs {
					require.Equal(t, a.origins[enderOrigin].GoroutineID, best.WakerGoroutine, w.name)
					require.NotZero(t, best.WakerStack, w.name)
				} else {
					require.Zero(t, best.WakerGoroutine, w.name)
				}
			}
		})
	}
}

// processTime is the processor time that this process has used.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func spin(d time.Duration) {
	for begin := processTime(); processTime()-begin < d; {
		for i := range 100_000 {
			runtime.KeepAlive(i)
		}
	}
}

//go:noinline
func burn(d time.Duration) int64 {
	origin := mark()
	spin(d)
	return origin
}

func TestSessionsHaveSamples(t *testing.T) {
	s := NewSession(Options{Period: 10 * time.Millisecond})
	for i := range 3 {
		require.NoError(t, pprof.StartCPUProfile(io.Discard))
		r := record(t)
		origin := burn(300 * time.Millisecond)
		payloads := r.stop()
		pprof.StopCPUProfile()
		gens := parseAll(t, s, payloads)
		a := merge(gens)
		var n int
		var cpu int64
		for _, x := range a.samples {
			if x.GoroutineID == a.origins[origin].GoroutineID && a.hasFrame(x.Stack, pkg+"burn") {
				n++
				cpu += x.CPUNanos
				require.NotZero(t, x.ThreadID)
			}
		}
		require.Greater(t, n, 8, "session %d", i)
		require.InDelta(t, 300e6, cpu, 250e6, "session %d", i) // the profiler's own work counts as well
	}
}

func TestHashIsTheSDKs(t *testing.T) {
	for _, frames := range [][]Frame{{}, {{"main.f", "/a/b.go", 12}, {"", "", 0}}, {{"main.f", "", -3}}} {
		var want []sdk.Frame
		for _, f := range frames {
			want = append(want, sdk.Frame{Function: f.Function, File: f.File, Line: int(f.Line)})
		}
		require.Equal(t, archive.StackID(sdk.StackID(want)), HashFrames(frames))
	}
}

// sleeper waits in a known way over several generations.
func generations(t testing.TB, n int) (payloads [][]byte, origin int64) {
	r := record(t)
	c := make(chan int)
	done := make(chan int64)
	go func() {
		origin := mark()
		<-c
		done <- origin
	}()
	for range n - 1 {
		time.Sleep(time.Millisecond)
		r.cut()
	}
	c <- 1
	origin = <-done
	payloads = r.stop()
	require.GreaterOrEqual(t, len(payloads), n)
	return payloads, origin
}

func waitsOf(gens []*Generation, goroutine int64, detail string) (out []archive.OffCPU) {
	for _, g := range gens {
		for _, w := range g.Waits {
			if w.GoroutineID == goroutine && w.Detail == detail {
				out = append(out, w)
			}
		}
	}
	return out
}

func TestLostAndLateGenerations(t *testing.T) {
	payloads, origin := generations(t, 4)
	s := NewSession(Options{})
	gens := parseAll(t, s, payloads)
	g := merge(gens).origins[origin].GoroutineID
	require.Len(t, waitsOf(gens, g, "chan receive"), 1, "over all generations")

	t.Run("dropped", func(t *testing.T) {
		got := parseAll(t, NewSession(Options{}), slices.Delete(slices.Clone(payloads), 1, 2))
		require.Empty(t, waitsOf(got, g, "chan receive"), "nobody knows whether it waited without a break")
		require.True(t, got[1].Stats.Gap)
		unknown := uint64(0)
		for _, g := range got[1:] {
			unknown += g.Stats.WaitsUnknown
		}
		require.NotZero(t, unknown)
	})
	t.Run("late", func(t *testing.T) {
		order := [][]byte{payloads[0], payloads[2], payloads[1], payloads[3]}
		got := parseAll(t, NewSession(Options{}), order)
		require.Empty(t, waitsOf(got, g, "chan receive"))
		require.True(t, got[2].Stats.Gap)
		require.False(t, got[3].Stats.Gap, "a late one does not disturb")
	})
	t.Run("again until delivered", func(t *testing.T) {
		s := NewSession(Options{})
		for i, p := range payloads {
			first, err := s.Parse(p)
			require.NoError(t, err)
			second, err := s.Parse(p)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(first, second, cmp.AllowUnexported(Generation{}, generationID{})), "generation %d", i)
			require.Equal(t, gens[i].Waits, first.Waits)
			s.Deliver(second)
			_, err = s.Parse(p)
			require.ErrorIs(t, err, ErrRepeated)
		}
	})
	t.Run("a restarted trace", func(t *testing.T) {
		s := NewSession(Options{})
		first, origin := generations(t, 1)
		_ = parseAll(t, s, first)
		r := record(t)
		time.Sleep(time.Millisecond)
		second := parseAll(t, s, r.stop())
		require.Empty(t, waitsOf(second, origin, "chan receive"))
		for _, w := range second[0].Waits {
			require.GreaterOrEqual(t, w.BeginNanos, second[0].BeginNanos-1e6, "%v began before the trace", w)
		}
	})
}

func TestGarbage(t *testing.T) {
	payloads, _ := generations(t, 2)
	s := NewSession(Options{})
	for name, p := range map[string][]byte{
		"empty":     nil,
		"text":      []byte("GET / HTTP/1.1\r\n\r\n and more of it"),
		"header":    payloads[0][:headerLen],
		"old":       append([]byte("go 1.11 trace\x00\x00\x00"), payloads[0][headerLen:]...),
		"truncated": payloads[0][:len(payloads[0])-len(payloads[0])/3],
		"no end":    payloads[0][:len(payloads[0])-1],
		"two":       slices.Concat(payloads[0], payloads[1][headerLen:]),
		"zeros":     append(slices.Clone(payloads[0][:headerLen]), make([]byte, 100)...),
	} {
		_, err := s.Parse(p)
		require.Error(t, err, name)
	}
	_ = parseAll(t, s, payloads) // undisturbed
}

func TestShortWaits(t *testing.T) {
	r := record(t)
	ping, pong := make(chan int), make(chan int)
	go func() {
		for v := range ping {
			pong <- v
		}
		close(pong)
	}()
	for range 500 {
		ping <- 1
		<-pong
	}
	mark()
	close(ping)
	<-pong
	payloads := r.stop()

	keep := parseAll(t, NewSession(Options{ShortWait: -1}), payloads)
	cut := parseAll(t, NewSession(Options{}), payloads)
	for i := range keep {
		k, c := keep[i].Stats, cut[i].Stats
		require.Zero(t, k.WaitsShort)
		require.Equal(t, k.Waits, c.Waits)
		require.Len(t, keep[i].Waits, int(k.Waits))
		require.Len(t, cut[i].Waits, int(c.Waits-c.WaitsShort))
		var short int64
		for _, w := range keep[i].Waits {
			short += w.EndNanos - w.BeginNanos
		}
		for _, w := range cut[i].Waits {
			short -= w.EndNanos - w.BeginNanos
		}
		require.Equal(t, short, c.ShortNanos)
	}
	require.NotZero(t, cut[0].Stats.WaitsShort)
}

func TestOriginEvents(t *testing.T) {
	r := record(t)
	ctx := context.Background()
	trace.Log(ctx, semconv.TraceLogSpan, "00000000000000ff")
	for _, bad := range []string{"", "x", "-4", "12345678901234567890123"} {
		trace.Log(ctx, semconv.TraceLogOrigin, bad)
	}
	for _, bad := range []string{"ff", "0000000000000000", "00000000000000fg"} {
		trace.Log(ctx, semconv.TraceLogSpan, bad)
	}
	trace.Log(ctx, "other", "1")
	gens := parseAll(t, NewSession(Options{}), r.stop())
	require.Len(t, gens[0].OriginEvents, 1)
	require.Equal(t, uint64(0xff), gens[0].OriginEvents[0].Span)
	require.Zero(t, gens[0].OriginEvents[0].TimeNanos)
	require.Equal(t, uint64(7), gens[0].Stats.OriginsMalformed)
}

func TestCaps(t *testing.T) {
	r := record(t)
	for i := range 50 {
		if i%2 == 0 {
			mark()
		} else {
			burn(0)
		}
		time.Sleep(100 * time.Microsecond)
	}
	payloads := r.stop()
	g := parseAll(t, NewSession(Options{MaxWaits: 3, MaxOrigins: 5, MaxStacks: 1, MaxGoroutines: 1}), payloads)[0]
	require.Len(t, g.OriginEvents, 5)
	require.EqualValues(t, 45, g.Stats.OriginsDropped)
	require.Len(t, g.Stacks, 1)
	require.NotZero(t, g.Stats.StacksDropped)
	require.NotZero(t, g.Stats.GoroutinesDropped)
	require.LessOrEqual(t, len(g.Waits), 3)
}

func TestClock(t *testing.T) {
	const day = 86_400_000_000_000
	type reading struct {
		offset, bracket int64 // of the snapshot
		used            int64
		rejected        bool
		step            int64
	}
	for name, readings := range map[string][]reading{
		"quiet":               {{0, 0, 0, false, 0}, {100, 7, 100, false, 0}, {-60, 0, -60, false, 0}},
		"interrupted reading": {{0, 0, 0, false, 0}, {10, 0, 10, false, 0}, {50_000, 0, 10, true, 0}, {20, 0, 20, false, 0}},
		"interrupted for long": {
			{0, 0, 0, false, 0}, {10, 0, 10, false, 0}, {5_000_000, 4_999_000, 10, true, 0}, {20, 0, 20, false, 0},
		},
		"big step":   {{0, 0, 0, false, 0}, {day, 0, day, false, day}, {day + 9, 0, day + 9, false, 0}},
		"small step": {{0, 0, 0, false, 0}, {50_000, 0, 0, true, 0}, {50_010, 0, 50_010, false, 50_010}, {50_000, 0, 50_000, false, 0}},
		"back":       {{0, 0, 0, false, 0}, {-2_000_000, 0, -2_000_000, false, -2_000_000}},
	} {
		t.Run(name, func(t *testing.T) {
			var c clock
			for i, r := range readings {
				var got Clock
				got, c = c.next(snapshot(int64(i)*1e9, r.offset, r.bracket))
				require.Equal(t, r.used, got.OffsetNanos, "reading %d", i)
				require.Equal(t, r.rejected, got.Rejected, "reading %d", i)
				require.Equal(t, r.step, got.StepNanos, "reading %d", i)
				require.Positive(t, got.ErrorNanos)
				require.LessOrEqual(t, got.ErrorNanos, int64(maxOffsetDeviation+clockGrain))
			}
		})
	}
}

func TestPanicIsAnError(t *testing.T) {
	s := NewSession(Options{})
	s.stacks = nil // writing to it panics
	payloads, _ := generations(t, 1)
	_, err := s.Parse(payloads[0])
	require.ErrorContains(t, err, "the parser failed")
}

var update = flag.Bool("update", false, "write testdata anew")

// TestCommittedTrace parses a trace that another build of Go wrote.
func TestCommittedTrace(t *testing.T) {
	const file = "testdata/go1.26.trace"
	if *update { // with go test -trimpath: the trace names source files
		r := record(t)
		c := make(chan int)
		go func() { mark(); c <- 1 }()
		time.Sleep(time.Millisecond)
		<-c
		require.NoError(t, os.WriteFile(file, r.stop()[0], 0o644))
	}
	payload, err := os.ReadFile(file)
	require.NoError(t, err)
	g := parseAll(t, NewSession(Options{}), [][]byte{payload})[0]
	require.Len(t, g.OriginEvents, 1)
	require.Len(t, waitsOf([]*Generation{g}, g.OriginEvents[0].GoroutineID, "chan send"), 1)
	require.InDelta(t, g.OriginEvents[0].TimeNanos, g.OriginEvents[0].EventNanos, 1e6)
}

func FuzzParse(f *testing.F) {
	payload, err := os.ReadFile("testdata/go1.26.trace")
	require.NoError(f, err)
	f.Add(payload)
	f.Add(payload[:len(payload)/2])
	f.Add(payload[:headerLen])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, payload []byte) {
		s := NewSession(Options{MaxGoroutines: 100, MaxWaits: 100})
		g, err := s.Parse(payload)
		if err != nil {
			return
		}
		if len(g.Waits) > 100 {
			t.Fatal("cap")
		}
		ids := map[archive.StackID]bool{0: true}
		for _, st := range g.Stacks {
			ids[st.ID] = true
		}
		for _, w := range g.Waits {
			if !ids[w.Stack] || !ids[w.WakerStack] {
				t.Fatal("a stack is missing")
			}
		}
	})
}

// BenchmarkParse parses a generation of a program that does little but send over channels.
func BenchmarkParse(b *testing.B) {
	r := record(b)
	const stages = 8
	chans := make([]chan int, stages+1)
	for i := range chans {
		chans[i] = make(chan int)
	}
	for i := range stages {
		go func() {
			for v := range chans[i] {
				chans[i+1] <- v
			}
			close(chans[i+1])
		}()
	}
	go func() {
		for i := range 20_000 {
			if i%10 == 0 {
				mark()
			}
			chans[0] <- i
		}
		close(chans[0])
	}()
	for v := range chans[stages] {
		_ = v
	}
	payloads := r.stop()
	payload := slices.MaxFunc(payloads, func(a, b []byte) int { return len(a) - len(b) })
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	var events, waits uint64
	for b.Loop() {
		g, err := NewSession(Options{}).Parse(payload)
		if err != nil {
			b.Fatal(err)
		}
		events += g.Stats.Events
		waits += g.Stats.Waits
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(waits)/float64(b.N), "waits/op")
}
