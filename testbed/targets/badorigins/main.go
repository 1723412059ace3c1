// Badorigins reports dispatches whose origins are wrong in every way that a target can get them wrong. The scenario of a
// dispatch is the status that the recording must give to its origin; the recording must also say what the matter is.
//
//	outside_recording    an instant of an hour ago, and of an hour ahead
//	synthetic_thread     the thread id is a lane's
//	bad_thread           no thread id, and a negative one
//	missing_thread       a thread that never ran
//	too_far              the middle of the sleep of a thread
//	stale                long after the last thing that a thread did
//	no_stack             the nearest sample, which a profiler from outside sent, has no stack
//	ambiguous_goroutine  only the thread, and goroutines share it
//	clock_step           the clock of a second runtime in this process stepped by 50 ms at about that instant
//
// It also sends spans in the name of another process: they must be refused as wrong_pid and counted.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/sdk"
	_ "github.com/stax-otel/stax/sdk/cputrace/auto"
	"github.com/stax-otel/stax/sdk/semconv"
	"github.com/stax-otel/stax/testbed/internal/foreign"
	"github.com/stax-otel/stax/testbed/internal/target"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// Threads that cannot exist: Linux numbers threads up to 4194304 at most.
const (
	neverRan    = 5000001
	fromOutside = 5000002
	aLanes      = 0xFFF0_0001
)

func main() {
	side := flag.String("truth", os.Getenv(truth.EnvPath), "write the ground truth to `file`")
	flag.Parse()
	target.Exit("badorigins", target.Run("badorigins", *side, 0, play))
}

type bad struct {
	target *target.Target
	lane   *sdk.Lane
	name   map[string]sdk.Name
}

func play(ctx context.Context, t *target.Target) error {
	b := &bad{target: t, lane: t.Lane("bad", sdk.LaneGeneric, false), name: map[string]sdk.Name{}}
	outside, err := foreign.FromEnvironment()
	if err != nil {
		return err
	}
	defer outside.Close()
	target.Traced(ctx, 2*time.Second)

	busy, sleepy, gone := newThread(), newThread(), newThread()
	defer busy.end()
	defer sleepy.end()
	const spell = 300 * time.Millisecond
	gone.burn(spell)
	gone.end()
	sleepy.burn(spell)
	asleep := sdk.Now()
	busy.burn(2 * spell)
	b.report("ambiguous_goroutine", sdk.OriginAt(busy.id, sdk.Now()-sdk.Time(spell)))
	between := asleep + (sdk.Now()-asleep)/2
	sleepy.burn(spell)
	b.report("too_far", sdk.OriginAt(sleepy.id, between).WithGoroutine(sleepy.goroutine).WithThreadLocked())
	b.report("stale", sdk.OriginAt(gone.id, sdk.Now()).WithThreadLocked())

	now := sdk.Now()
	b.report("outside_recording", sdk.OriginAt(busy.id, now-sdk.Time(time.Hour)))
	b.report("outside_recording", sdk.OriginAt(busy.id, now+sdk.Time(time.Hour)))
	b.report("synthetic_thread", sdk.OriginAt(aLanes, now))
	b.report("bad_thread", sdk.OriginAt(0, now))
	b.report("bad_thread", sdk.OriginAt(-7, now))
	b.report("missing_thread", sdk.OriginAt(neverRan, now))
	if err := outside.Samples(ctx, os.Getpid(), int64(time.Millisecond), []foreign.Sample{
		{Thread: fromOutside, UnixNanos: int64(now)}, {Thread: fromOutside, UnixNanos: int64(now) + int64(time.Millisecond)},
	}); err != nil {
		return fmt.Errorf("send samples: %w", err)
	}
	b.report("no_stack", sdk.OriginAt(fromOutside, now).WithThreadLocked())
	if err := b.stranger(ctx, outside); err != nil {
		return err
	}
	return b.stepped(ctx, outside, busy)
}

// report reports a dispatch with a bad origin three times.
func (b *bad) report(status string, o sdk.Origin) {
	if b.name[status].String() == "" {
		b.name[status] = sdk.NewName(status)
	}
	for range 3 {
		at := sdk.Now()
		d := truth.Dispatch{
			Lane: "bad", Scenario: status, Name: status, StartNanos: int64(at), EndNanos: int64(at) + 1000,
			Origin: &truth.Origin{Thread: o.ThreadID(), NotBefore: int64(o.Time()), NotAfter: int64(o.Time())},
		}
		d.ID = truth.ID(b.lane.ReportFrom(o, b.name[status], at, at+1000))
		b.target.Reported(d)
	}
}

// thread is a goroutine that owns a thread and burns CPU when told to.
type thread struct {
	id        int64
	goroutine int64
	work      chan time.Duration
	done      chan struct{}
}

func newThread() *thread {
	t := &thread{work: make(chan time.Duration), done: make(chan struct{})}
	go t.run()
	<-t.done
	return t
}

func (t *thread) run() {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	defer close(t.done)
	t.id, t.goroutine = truth.Thread(), truth.Goroutine()
	t.done <- struct{}{}
	for d := range t.work {
		burn(d)
		t.done <- struct{}{}
	}
}

// burn burns CPU and returns when d has passed.
func (t *thread) burn(d time.Duration) { t.work <- d; <-t.done }

func (t *thread) end() { close(t.work); <-t.done }

//go:noinline
func burn(d time.Duration) {
	for end := sdk.Now() + sdk.Time(d); sdk.Now() < end; {
		for range 1000 {
			scrap = scrap*6364136223846793005 + 1442695040888963407
		}
	}
}

var scrap uint64

// stranger sends spans in the name of process 1.
func (b *bad) stranger(ctx context.Context, p *foreign.Producer) error {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutInt("process.pid", 1)
	appendDispatch(rs, "stranger", spanID(0xbad, 1), int64(sdk.Now()), nil)
	rejected, why, err := p.Traces(ctx, td)
	if err == nil && rejected != 1 {
		return fmt.Errorf("spans of process 1: %d refused (%s), want 1", rejected, why)
	}
	return nil // a refusal of the whole request is one too
}

// stepped reports dispatches of a second runtime in this process whose clock steps in the middle of it all. The machine's
// clock is left alone: the runtime says that its own stepped, in the words in which the SDK would.
func (b *bad) stepped(ctx context.Context, p *foreign.Producer, busy *thread) error {
	time.Sleep(1500 * time.Millisecond) // a step makes a second before it and after it doubtful, for the whole process
	busy.burn(100 * time.Millisecond)
	now := int64(sdk.Now())
	resource := func(r pcommon.Resource) {
		a := r.Attributes()
		a.PutInt("process.pid", int64(os.Getpid()))
		a.PutStr("telemetry.sdk.language", "go")
		a.PutStr(semconv.RuntimeIDKey, fmt.Sprintf("%032x", now))
	}
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	resource(rl.Resource())
	sl := rl.ScopeLogs().AppendEmpty()
	for i := range int64(10) {
		unix := now + (i-5)*int64(10*time.Millisecond)
		if i >= 5 {
			unix += int64(50 * time.Millisecond)
		}
		r := sl.LogRecords().AppendEmpty()
		r.SetEventName(semconv.EventClockSample)
		r.SetTimestamp(pcommon.Timestamp(unix))
		a := r.Attributes()
		a.PutStr(semconv.ClockNameKey, "monotonic")
		a.PutInt(semconv.ClockRawTicksKey, (i+1)*int64(10*time.Millisecond))
		a.PutInt(semconv.ClockUnixNanosKey, unix)
		a.PutInt(semconv.ClockBracketNanosKey, 100)
	}
	if err := p.Logs(ctx, ld); err != nil {
		return fmt.Errorf("send clock samples: %w", err)
	}
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	resource(rs.Resource())
	for i := range uint64(3) {
		id := spanID(uint64(now), i)
		appendDispatch(rs, "clock_step", id, now, map[string]int64{
			semconv.OriginThreadIDKey: busy.id, semconv.OriginTimeKey: now,
		})
		b.target.Dispatch(truth.Dispatch{
			ID: truth.ID(binary.BigEndian.Uint64(id[:])), Lane: "foreign", Scenario: "clock_step", Name: "clock_step",
			StartNanos: now, EndNanos: now + 1000, Origin: &truth.Origin{Thread: busy.id, NotBefore: now, NotAfter: now},
		})
	}
	rejected, why, err := p.Traces(ctx, td)
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	if rejected != 0 {
		return fmt.Errorf("send spans: %d refused: %s", rejected, why)
	}
	return nil
}

func spanID(a, b uint64) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], a<<8|b+1)
	return id
}

// appendDispatch appends a lane with one dispatch.
func appendDispatch(rs ptrace.ResourceSpans, name string, id pcommon.SpanID, start int64, origin map[string]int64) {
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("foreign")
	a := ss.Scope().Attributes()
	a.PutStr(semconv.LaneIDKey, "foreign")
	a.PutStr(semconv.LaneNameKey, "foreign")
	a.PutStr(semconv.LaneKindKey, semconv.LaneKindGeneric)
	s := ss.Spans().AppendEmpty()
	s.SetName(name)
	s.SetKind(ptrace.SpanKindConsumer)
	s.SetTraceID(pcommon.TraceID{0xf0, 15: 1})
	s.SetSpanID(id)
	s.SetStartTimestamp(pcommon.Timestamp(start))
	s.SetEndTimestamp(pcommon.Timestamp(start + 1000))
	for k, v := range origin {
		s.Attributes().PutInt(k, v)
	}
}
