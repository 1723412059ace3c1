package timeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// fullTick is a tick with everything in it.
func fullTick() *Recorder {
	c := &fakeClock{t: 1234567 * time.Microsecond}
	bus := &fakeBus{channels: []ChannelPressure{{Channel: "input", Capacity: 10}, {Channel: "world", Capacity: 100, Published: 7}}}
	collections, pause := uint64(3), 5*ms
	r := enabled(c, func(o *Options) {
		o.Events, o.StepBudget = bus, 100*ms
		o.GC = func() (uint64, time.Duration) { return collections, pause }
	})
	slow := func() error {
		c.advance(60 * ms)
		collections, pause = collections+1, pause+250*time.Microsecond
		bus.channels[0].InUse = 9
		bus.channels[0].Published += 11
		bus.channels[0].Dropped += 2
		return nil
	}
	for n := range int64(2) {
		bus.channels[0].InUse = 1
		r.BeginTick(TickStart{Tick: 41 + n, HostFrame: 33333 * time.Microsecond, LagBefore: 120 * ms, Pending: 3})
		r.CapturePhase(PhaseCommands, func() { c.advance(1500 * time.Microsecond) })
		r.CapturePhase(PhaseEventsBeforeSystems, func() { c.advance(250 * time.Microsecond) })
		_ = r.CaptureSystem("physics", slow)
		_ = r.CaptureSystem("save", func() error {
			c.advance(ms)
			return fmt.Errorf("save: %w", fs.ErrPermission)
		})
		r.CapturePhase(PhaseEventsAfterSystems, func() { c.advance(ms) })
		r.AddPhase("flush", 500*time.Microsecond)
		r.CapturePhase(PhasePublish, func() { c.advance(40 * ms) })
		r.EndTick(TickEnd{LagAfter: 20 * ms, Queue: Queue{Drained: 2, Accepted: 5, Dropped: 1, Rejected: 4}})
	}
	return r
}

func TestResultJSON(t *testing.T) {
	res := fullTick().ReadDelta(1)
	golden(t, "result.json", indented(t, res))
	var back Result
	b, _ := json.Marshal(res)
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	again, _ := json.Marshal(back)
	equal(t, "JSON after a round trip", string(again), string(b))
}

func TestFormat(t *testing.T) {
	e := latest(t, fullTick())
	e.Unfinished, e.Truncated = true, 2
	golden(t, "format.txt", []byte(Format(e)))
}

func TestMillisecondsJSON(t *testing.T) {
	for in, want := range map[time.Duration]string{
		0: "0", ms: "1", 1500 * time.Microsecond: "1.5", 1*ms + 1*time.Microsecond: "1.001", 499: "0", 500: "0.001",
		-1500 * time.Microsecond: "-1.5", time.Hour: "3600000",
	} {
		b, err := json.Marshal(Milliseconds(in))
		if err != nil || string(b) != want {
			t.Errorf("%v: got %s, %v, want %s", in, b, err, want)
		}
		var back Milliseconds
		if err := json.Unmarshal(b, &back); err != nil || back.Duration() != in.Round(time.Microsecond) {
			t.Errorf("%s: read back as %v, %v", b, back, err)
		}
	}
	var m Milliseconds
	if json.Unmarshal([]byte(`"x"`), &m) == nil {
		t.Error("a text is no time")
	}
}

func TestPhasesAndSystems(t *testing.T) {
	c := &fakeClock{}
	r := enabled(c)
	c.advance(7 * ms)
	r.BeginTick(TickStart{Tick: 1})
	c.advance(ms)
	r.CapturePhase("commands", func() {
		c.advance(2 * ms)
		r.CapturePhase("nested", func() { c.advance(ms) })
	})
	_ = r.CaptureSystem("ai", c.work(ms))
	r.EndTick(TickEnd{})
	e := latest(t, r)
	equal(t, "start", e.StartedAt, Milliseconds(7*ms))
	equal(t, "duration", e.Duration, Milliseconds(5*ms))
	equal(t, "phases", e.Phases, []Phase{
		{"commands", Milliseconds(ms), Milliseconds(3 * ms)},
		{"nested", Milliseconds(3 * ms), Milliseconds(ms)},
		{"system:ai", Milliseconds(4 * ms), Milliseconds(ms)},
	})
	equal(t, "systems", e.Systems, []System{{ID: "ai", Duration: Milliseconds(ms), offset: Milliseconds(4 * ms)}})
}

func TestOverBudget(t *testing.T) {
	for _, tc := range []struct {
		name           string
		budget, option time.Duration // of the tick, of the options
		took           time.Duration
		want           bool
	}{
		{"exactly the step", 0, 0, 10 * ms, false},
		{"more than the step", 0, 0, 10*ms + 1, true},
		{"the tick's own step", 20 * ms, 0, 15 * ms, false},
		{"a limit of its own", 0, 4 * ms, 5 * ms, true},
		{"a limit above the step", 0, 40 * ms, 15 * ms, false},
	} {
		c, tel := &fakeClock{}, &told{}
		r := enabled(c, tel.option(), func(o *Options) { o.SlowTickBudget = tc.option })
		r.BeginTick(TickStart{Tick: 5, StepBudget: tc.budget})
		c.advance(tc.took)
		r.EndTick(TickEnd{})
		if got := latest(t, r).Warnings&ExceededStepBudget != 0; got != tc.want || len(tel.ticks) == 1 != tc.want {
			t.Errorf("%s: warned %v, told %v, want %v", tc.name, got, tel.ticks, tc.want)
		}
	}
}

// TestSystemSlow: the rule is 2 slow of the last 3 executions of the same system, and the present one is slow.
func TestSystemSlow(t *testing.T) {
	for _, tc := range []struct {
		name, runs, want string // s: slow, f: fast, -: does not run in this tick; w: warned
		window, samples  int
	}{
		{name: "one is not enough", runs: "sff", want: "..."},
		{name: "two in a row", runs: "ss", want: ".w"},
		{name: "two of three", runs: "sfs", want: "..w"},
		{name: "two of four", runs: "sffs", want: "...."},
		{name: "a fast run does not warn", runs: "ssf", want: ".w."},
		{name: "as long as it lasts", runs: "ssss", want: ".www"},
		{name: "a rare system has its own window", runs: "s----s", want: ".....w"},
		{name: "1 of 1", runs: "fsf", want: ".w.", window: 1, samples: 1},
		{name: "4 of 5", runs: "ssfss", want: "....w", window: 5, samples: 4},
		{name: "more samples than window", runs: "ssf", want: ".w.", window: 2, samples: 9},
		{name: "64 of 64", runs: strings.Repeat("s", 64), want: strings.Repeat(".", 63) + "w", window: 999, samples: 64},
	} {
		c, tel := &fakeClock{}, &told{}
		r := enabled(c, tel.option(), func(o *Options) { o.SlowSystemWindow, o.SlowSystemSamples = tc.window, tc.samples })
		got := ""
		for i, run := range tc.runs {
			tick(r, int64(i), func() {
				_ = r.CaptureSystem("other", c.work(ms/10)) // must not dilute the window
				switch run {
				case 's':
					_ = r.CaptureSystem("ai", c.work(2500*time.Microsecond+1))
				case 'f':
					_ = r.CaptureSystem("ai", c.work(2500*time.Microsecond))
				}
			})
			e := latest(t, r)
			if run != '-' && e.Systems[1].Slow != (run == 's') {
				t.Errorf("%s: run %d slow is %v", tc.name, i, e.Systems[1].Slow)
			}
			if e.Warnings&SystemSlow != 0 {
				got += "w"
				if !e.Systems[1].Warned() || e.Systems[0].Warned() {
					t.Errorf("%s: the wrong system warned", tc.name)
				}
			} else {
				got += "."
			}
		}
		if got != tc.want || len(tel.systems) != strings.Count(tc.want, "w") {
			t.Errorf("%s: runs %s: got %s, want %s; told %v", tc.name, tc.runs, got, tc.want, tel.systems)
		}
	}
}

func TestSlowSystemThreshold(t *testing.T) {
	c, tel := &fakeClock{}, &told{}
	r := enabled(c, tel.option(), func(o *Options) {
		o.SlowSystemThreshold, o.SlowSystemSamples, o.SystemLabels = 5*ms, 1, []string{"known"}
	})
	tick(r, 9, func() { _ = r.CaptureSystem("known", c.work(5*ms)) })
	equal(t, "at the threshold", tel.systems, []SystemSlowWarning(nil))
	tick(r, 10, func() {
		_ = r.CaptureSystem("known", c.work(6*ms))
		_ = r.CaptureSystem("made at run time", c.work(7*ms))
	})
	// Only a registered system may become a label.
	equal(t, "told", tel.systems, []SystemSlowWarning{
		{Tick: 10, System: "known", Label: "known", Duration: 6 * ms, Threshold: 5 * ms, Slow: 1, Window: 2},
		{Tick: 10, System: "made at run time", Duration: 7 * ms, Threshold: 5 * ms, Slow: 1, Window: 1},
	})
	equal(t, "over budget", tel.ticks, []TickOverBudget{{Tick: 10, Duration: 13 * ms, Budget: 10 * ms}})
	equal(t, "names", latest(t, r).Warnings.Names(), []string{"EXCEEDED_STEP_BUDGET", "SYSTEM_SLOW"})
}

func TestQueueStarvation(t *testing.T) {
	for _, tc := range []struct {
		pending, drained int64
		want             Warnings
	}{{0, 0, 0}, {3, 0, QueueStarvation}, {3, 1, 0}, {0, 2, 0}} {
		r := enabled(&fakeClock{})
		r.BeginTick(TickStart{Pending: tc.pending})
		r.EndTick(TickEnd{Queue: Queue{PendingBefore: 99, Drained: tc.drained}})
		e := latest(t, r)
		equal(t, fmt.Sprint(tc), e.Warnings, tc.want)
		equal(t, "pending", e.Queue.PendingBefore, tc.pending)
	}
}

func TestQueueMeter(t *testing.T) {
	pending := int64(0)
	m := NewQueueMeter(func() int64 { return pending })
	r := enabled(&fakeClock{}, func(o *Options) { o.Queue, o.Enabled = m, false })
	m.Accepted(7) // while disabled nothing is counted
	tick(r, 1)
	r.SetEnabled(true)
	m.Accepted(1)
	r.BeginTick(TickStart{})
	m.Accepted(2)
	r.EndTick(TickEnd{})
	equal(t, "the first tick counts from its begin", latest(t, r).Queue, Queue{Accepted: 2})
	m.Accepted(4) // between the ticks
	m.Rejected(1)
	pending = 6
	r.BeginTick(TickStart{Pending: 99})
	m.Drained(3)
	m.Dropped(2)
	r.EndTick(TickEnd{Queue: Queue{Drained: 99}})
	equal(t, "second tick", latest(t, r).Queue, Queue{PendingBefore: 6, Accepted: 4, Rejected: 1, Drained: 3, Dropped: 2})
	r.SetEnabled(false)
	tick(r, 3)
	m.Accepted(100)
	r.SetEnabled(true)
	tick(r, 4)
	equal(t, "after a pause", latest(t, r).Queue, Queue{PendingBefore: 6})
	var none *QueueMeter
	none.Accepted(1)
	none.Drained(1)
}

type fakeBus struct {
	channels []ChannelPressure
	asked    int
}

func (b *fakeBus) Utilization() (u float64) {
	for _, c := range b.channels {
		u = max(u, float64(c.InUse)/float64(c.Capacity))
	}
	return u
}

func (b *fakeBus) AppendPressure(dst []ChannelPressure) []ChannelPressure {
	b.asked++
	return append(dst, b.channels...)
}

func TestEventPressure(t *testing.T) {
	c := &fakeClock{}
	bus := &fakeBus{channels: []ChannelPressure{{Channel: "a", Capacity: 10}, {Channel: "b", Capacity: 10}}}
	r := enabled(c, func(o *Options) { o.Events = bus })
	tick(r, 1, func() { _ = r.CaptureSystem("calm", c.work(0)) })
	equal(t, "snapshots of a calm tick", bus.asked, 2)
	equal(t, "calm deltas", latest(t, r).Events.Deltas, []EventDelta(nil))
	tick(r, 2,
		func() {
			_ = r.CaptureSystem("fill", func() error { bus.channels[0].InUse, bus.channels[0].Published = 8, 8; return nil })
		},
		func() { _ = r.CaptureSystem("idle", c.work(0)) },
		func() {
			_ = r.CaptureSystem("spill", func() error { bus.channels[0].Dropped++; bus.channels[1].InUse = 1; return nil })
		},
		func() { _ = r.CaptureSystem("relief", func() error { bus.channels[0].InUse = 0; return nil }) },
	)
	e := latest(t, r).Events
	equal(t, "before", e.Before, []ChannelPressure{{Channel: "a", Capacity: 10}, {Channel: "b", Capacity: 10}})
	equal(t, "deltas", e.Deltas, []EventDelta{
		{System: "fill", Utilization: .8, Channels: []ChannelPressure{{Channel: "a", Capacity: 10, InUse: 8, Published: 8}}},
		{System: "spill", Utilization: .8, Channels: []ChannelPressure{{Channel: "a", Capacity: 10, Dropped: 1}, {Channel: "b", Capacity: 10, InUse: 1}}},
	})
	equal(t, "final", e.Final, bus.channels)
}

func TestRollover(t *testing.T) {
	r := enabled(&fakeClock{}) // 8 entries
	for n := range int64(5) {
		tick(r, n)
	}
	res := r.ReadDelta(0)
	equal(t, "not yet full", []any{len(res.Entries), res.Head, res.Dropped}, []any{5, uint64(5), uint64(0)})
	for n := range int64(15) {
		tick(r, 5+n)
	}
	res = r.ReadDelta(0)
	equal(t, "head and dropped", []any{res.Head, res.Dropped}, []any{uint64(20), uint64(12)})
	for i, e := range res.Entries {
		equal(t, "order", e.Tick, int64(12+i))
	}
	equal(t, "kept", len(res.Entries), 8)
}

func TestDelta(t *testing.T) {
	r := enabled(&fakeClock{})
	for n := range int64(20) {
		tick(r, n)
	}
	for _, tc := range []struct {
		since, dropped uint64
		first          int64
		n              int
	}{
		{20, 0, 0, 0}, {19, 0, 19, 1}, {14, 0, 14, 6}, // across the wrap: slots 6, 7, 0 … 3
		{12, 0, 12, 8}, {11, 1, 12, 8}, {0, 12, 12, 8}, {21, 12, 12, 8}, // 21: a cursor of another recorder
	} {
		res := r.ReadDelta(tc.since)
		if len(res.Entries) != tc.n || res.Dropped != tc.dropped || res.Head != 20 || (tc.n > 0 && res.Entries[0].Tick != tc.first) {
			t.Errorf("since %d: %d entries, %d dropped, head %d", tc.since, len(res.Entries), res.Dropped, res.Head)
		}
		if res.Entries == nil {
			t.Errorf("since %d: JSON would say null", tc.since)
		}
	}
}

func TestResultIsACopy(t *testing.T) {
	r := fullTick()
	before := indented(t, r.ReadDelta(0))
	res := r.ReadDelta(0)
	for i := range res.Entries {
		e := &res.Entries[i]
		e.Phases[0].Name, e.Systems[1].Error.Message, e.Stalls[0].In = "x", "x", "x"
		e.Events.Before[0].Channel, e.Events.Final[0].Channel, e.Events.Deltas[0].Channels[0].Channel = "x", "x", "x"
	}
	equal(t, "the ring after a reader wrote into its result", string(indented(t, r.ReadDelta(0))), string(before))
	kept := indented(t, res)
	for n := range int64(30) { // the pool reuses every entry
		tick(r, n)
	}
	equal(t, "the result after the ring moved on", string(indented(t, res)), string(kept))
}

func TestEnableDuringTick(t *testing.T) {
	c := &fakeClock{}
	r := enabled(c, func(o *Options) { o.Enabled = false })
	tick(r, 1, func() { r.SetEnabled(true); _ = r.CaptureSystem("ai", c.work(ms)) })
	if _, ok := r.Latest(); ok {
		t.Error("a tick that began disabled was recorded")
	}
	tick(r, 2, func() {
		_ = r.CaptureSystem("ai", c.work(ms))
		r.SetEnabled(false)
		_ = r.CaptureSystem("sound", c.work(ms))
	})
	tick(r, 3)
	res := r.ReadDelta(0)
	if len(res.Entries) != 1 || res.Entries[0].Tick != 2 || len(res.Entries[0].Systems) != 2 || res.Entries[0].Unfinished {
		t.Errorf("a tick that began enabled must be whole, and the next not there: %+v", res.Entries)
	}
	equal(t, "configuration", res.Configuration.Enabled, false)
	r.SetEnabled(true)
	tick(r, 4, func() { r.SetEnabled(false); r.SetEnabled(true) })
	equal(t, "head goes on", r.ReadDelta(1).Entries[0].Tick, int64(4))
	// Enabled inside a phase of a disabled tick.
	r.SetEnabled(false)
	tick(r, 5, func() { r.CapturePhase("p", func() { r.SetEnabled(true) }) })
	equal(t, "head", r.ReadDelta(0).Head, uint64(2))
}

var errOfTest = errors.New("out of fuel")

type badError struct{}

func (badError) Error() string { panic("no message for you") }

func TestPanickingSystem(t *testing.T) {
	for _, tc := range []struct {
		value any
		want  ErrorLike
	}{
		{"boom", ErrorLike{Name: "panic", Message: "boom"}},
		{errOfTest, ErrorLike{Name: "*errors.errorString", Message: "out of fuel"}},
		{fmt.Errorf("fly: %w", errOfTest), ErrorLike{Name: "*fmt.wrapError", Message: "fly: out of fuel", Cause: "out of fuel"}},
	} {
		c := &fakeClock{}
		r := enabled(c)
		tick(r, 1, func() {
			func() {
				defer func() {
					if v := recover(); v != tc.value {
						t.Errorf("raised again as %v, want %v", v, tc.value)
					}
				}()
				_ = r.CaptureSystem("rocket", func() error { c.advance(2 * ms); return explode(tc.value) })
			}()
			_ = r.CaptureSystem("later", c.work(ms))
		})
		e := latest(t, r)
		got := *e.Systems[0].Error
		if !strings.HasPrefix(got.Stack, "github.com/stax-otel/stax/sdk/timeline.explode recorder_test.go:") {
			t.Errorf("stack does not begin where it panicked:\n%s", got.Stack)
		}
		if strings.Contains(got.Stack, "captureSystem") || strings.Contains(got.Stack, "tRunner") {
			t.Errorf("stack has frames of the recorder or above:\n%s", got.Stack)
		}
		got.Stack = ""
		equal(t, "error", got, tc.want)
		equal(t, "duration", e.Systems[0].Duration, Milliseconds(2*ms))
		equal(t, "later system", []any{e.Systems[1].ID, e.Systems[1].Error, e.Systems[1].Duration}, []any{"later", (*ErrorLike)(nil), Milliseconds(ms)})
		equal(t, "unfinished", e.Unfinished, false)
	}
}

//go:noinline
func explode(v any) error { panic(v) }

var noMap map[int]int

func TestRuntimeErrorAndGoexit(t *testing.T) {
	c := &fakeClock{}
	r := enabled(c)
	var wg sync.WaitGroup
	wg.Go(func() {
		r.BeginTick(TickStart{Tick: 1})
		_ = r.CaptureSystem("leaver", func() error { runtime.Goexit(); return nil })
	})
	wg.Wait()
	_ = r.CaptureSystem("later", c.work(0))
	func() {
		defer func() { _ = recover() }()
		_ = r.CaptureSystem("nil map", func() error { noMap[1] = 2; return nil })
	}()
	_ = r.CaptureSystem("bad error", func() error { return badError{} })
	r.EndTick(TickEnd{})
	s := latest(t, r).Systems
	equal(t, "Goexit", s[0].Error.Name, "Goexit")
	equal(t, "later", s[1].Error, (*ErrorLike)(nil))
	equal(t, "runtime error", s[2].Error.Message, "assignment to entry in nil map")
	if !strings.Contains(s[3].Error.Message, "no message for you") {
		t.Errorf("an error whose method panics: %q", s[3].Error.Message)
	}
}

func TestReturnedError(t *testing.T) {
	r := enabled(&fakeClock{})
	long := errors.New(strings.Repeat("ä", maxMessage))
	r.BeginTick(TickStart{})
	if err := r.CaptureSystem("x", func() error { return errOfTest }); err != errOfTest { //nolint:errorlint // the very same
		t.Errorf("got %v", err)
	}
	_ = r.CaptureSystem("y", func() error { return long })
	r.EndTick(TickEnd{})
	s := latest(t, r).Systems
	equal(t, "error", *s[0].Error, ErrorLike{Name: "*errors.errorString", Message: "out of fuel"})
	if n := len(s[1].Error.Message); n > maxMessage || n < maxMessage-4 {
		t.Errorf("message of %d bytes", n)
	}
}

// TestUnfinishedTick: a panic that unwinds past the loop leaves evidence when the next tick begins.
func TestUnfinishedTick(t *testing.T) {
	c := &fakeClock{}
	r := enabled(c)
	func() {
		defer func() { _ = recover() }()
		r.BeginTick(TickStart{Tick: 1, LagBefore: 3 * ms})
		r.CapturePhase("commands", func() { c.advance(4 * ms); panic("x") })
	}()
	c.advance(time.Second)
	tick(r, 2)
	res := r.ReadDelta(0).Entries
	equal(t, "entries", len(res), 2)
	equal(t, "first", []any{res[0].Unfinished, res[0].Duration, res[0].LagAfter}, []any{true, Milliseconds(4 * ms), Milliseconds(3 * ms)})
	equal(t, "phases", res[0].Phases, []Phase{{"commands", 0, Milliseconds(4 * ms)}})
	equal(t, "second", []any{res[1].Tick, res[1].Unfinished, len(res[1].Phases)}, []any{int64(2), false, 0})
}

// TestPhaseOutlivesTick: misuse must not write into another tick.
func TestPhaseOutlivesTick(t *testing.T) {
	c := &fakeClock{}
	r := enabled(c)
	r.EndTick(TickEnd{}) // without a begin
	r.BeginTick(TickStart{Tick: 1})
	r.CapturePhase("outer", func() {
		_ = r.CaptureSystem("inner", func() error {
			r.EndTick(TickEnd{})
			r.BeginTick(TickStart{Tick: 2})
			return nil
		})
	})
	r.EndTick(TickEnd{})
	res := r.ReadDelta(0).Entries
	equal(t, "ticks", []int64{res[0].Tick, res[1].Tick}, []int64{1, 2})
	equal(t, "second", len(res[1].Phases)+len(res[1].Systems), 0)
}

func TestAddPhase(t *testing.T) {
	c := &fakeClock{}
	r := enabled(c)
	c.advance(10 * ms)
	r.AddPhase("save", 4*ms) // between ticks: 6 to 10
	c.advance(2 * ms)
	r.BeginTick(TickStart{})
	c.advance(ms)
	r.CapturePhase("commands", func() {
		c.advance(3 * ms)
		r.AddPhase("sync", 2*ms)
	})
	r.EndTick(TickEnd{})
	equal(t, "phases", latest(t, r).Phases, []Phase{
		{"save", Milliseconds(-6 * ms), Milliseconds(4 * ms)},
		{"commands", Milliseconds(ms), Milliseconds(3 * ms)},
		{"sync", Milliseconds(2 * ms), Milliseconds(2 * ms)},
	})
	r.SetEnabled(false)
	r.AddPhase("late", ms) // the ring may still want it
	tick(r, 2)
	r.AddPhase("nobody", ms)
	r.SetEnabled(true)
	tick(r, 3)
	equal(t, "nothing of the time without recording", len(latest(t, r).Phases), 0)
	for range maxAdded + 10 {
		r.AddPhase("flood", 0)
	}
	tick(r, 4)
	equal(t, "bounded", len(latest(t, r).Phases), maxAdded)
}

func TestStalls(t *testing.T) {
	c := &fakeClock{}
	r := enabled(c)
	r.BeginTick(TickStart{})
	c.advance(50 * ms) // outside of everything
	r.CapturePhase("commands", func() {
		c.advance(49 * ms)
		r.CapturePhase("nested", func() { c.advance(49 * ms) })
		c.advance(60 * ms) // in commands again
	})
	_ = r.CaptureSystem("ai", c.work(70*ms))
	_ = r.CaptureSystem("fast", c.work(49*ms))
	r.EndTick(TickEnd{})
	equal(t, "stalls", latest(t, r).Stalls, []Stall{
		{0, Milliseconds(50 * ms), ""},
		{Milliseconds(148 * ms), Milliseconds(60 * ms), "commands"},
		{Milliseconds(208 * ms), Milliseconds(70 * ms), "system:ai"},
	})
}

func TestGC(t *testing.T) {
	r := New(Options{Enabled: true})
	r.BeginTick(TickStart{})
	runtime.GC()
	runtime.GC()
	r.EndTick(TickEnd{})
	if g := latest(t, r).GC; g.Cycles < 2 || g.Pause <= 0 {
		t.Errorf("two collections in a tick: %+v", g)
	}
	// A replay must not depend on the collector.
	r = enabled(&fakeClock{})
	tick(r, 1, runtime.GC)
	equal(t, "with a clock of its own", latest(t, r).GC, GC{})
}

func TestBoundedTick(t *testing.T) {
	c := &fakeClock{}
	r := enabled(c)
	r.BeginTick(TickStart{})
	for range maxSegments + 5 {
		_ = r.CaptureSystem("x", c.work(0))
	}
	r.CapturePhase("p", func() {})
	r.EndTick(TickEnd{})
	e := latest(t, r)
	equal(t, "kept", []int{len(e.Phases), len(e.Systems), e.Truncated}, []int{maxSegments, maxSegments, 11})
	// Systems are not kept without their phases, and run and fail all the same.
	r.BeginTick(TickStart{})
	for range maxSegments - 1 {
		r.CapturePhase("p", func() {})
	}
	for range 2 {
		if err := r.CaptureSystem("x", func() error { return errOfTest }); !errors.Is(err, errOfTest) {
			t.Error(err)
		}
	}
	r.EndTick(TickEnd{})
	e = latest(t, r)
	equal(t, "after many phases", []int{len(e.Phases), len(e.Systems), e.Truncated}, []int{maxSegments, 1, 2})
	for i := range maxSystems + 10 {
		tick(r, int64(i), func() { _ = r.CaptureSystem(fmt.Sprint("made ", i), c.work(0)) })
	}
	equal(t, "windows", len(r.systems), maxSystems)
}

func TestNilRecorder(t *testing.T) {
	var r *Recorder
	ran := 0
	tick(r, 1, func() { r.CapturePhase("p", func() { ran++ }) }, func() {
		if err := r.CaptureSystem("s", func() error { ran++; return errOfTest }); !errors.Is(err, errOfTest) {
			t.Error(err)
		}
	})
	r.AddPhase("p", 1)
	r.SetEnabled(true)
	equal(t, "ran", ran, 2)
	equal(t, "result", r.ReadDelta(0), Result{Entries: []Entry{}})
	equal(t, "enabled", r.Enabled(), false)
}

// TestConcurrentReaders: readers, switches and AddPhase beside a running loop, for the race detector.
func TestConcurrentReaders(t *testing.T) {
	m := NewQueueMeter(func() int64 { return 1 })
	r := New(Options{Enabled: true, Capacity: 16, Queue: m})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			seen, lost, head := uint64(0), uint64(0), uint64(0)
			for last := int64(-1); ; {
				res := r.ReadDelta(head)
				seen, lost, head = seen+uint64(len(res.Entries)), lost+res.Dropped, res.Head
				for _, e := range res.Entries {
					if e.Tick <= last || len(e.Systems) != 2 || e.Systems[1].ID != "b" {
						t.Errorf("tick %d after %d: %+v", e.Tick, last, e.Systems)
					}
					last = e.Tick
				}
				select {
				case <-stop:
					if seen+lost != head {
						t.Errorf("%d seen and %d lost are not %d", seen, lost, head)
					}
					return
				default:
					runtime.Gosched()
				}
			}
		})
	}
	wg.Go(func() {
		for on := true; ; on = !on {
			select {
			case <-stop:
				r.SetEnabled(true)
				return
			default:
				r.SetEnabled(on)
				r.AddPhase("flush", 1)
				m.Accepted(1)
				r.Configuration()
				r.Latest()
				runtime.Gosched()
			}
		}
	})
	for n := range int64(5000) {
		if n%16 == 0 {
			runtime.Gosched() // where threads are not preempted, as on wasm
		}
		tick(r, n, func() { _ = r.CaptureSystem("a", func() error { return nil }) }, func() { _ = r.CaptureSystem("b", func() error { return nil }) })
	}
	close(stop)
	wg.Wait()
}

// wanting is a sink that wants ticks while it is on.
type wanting struct {
	on     bool
	ticks  []Entry
	starts []time.Time
}

func (s *wanting) BeginTick() bool { return s.on }
func (s *wanting) EndTick(e *Entry, start time.Time) {
	s.ticks, s.starts = append(s.ticks, e.clone()), append(s.starts, start)
}

func TestSink(t *testing.T) {
	c, sink := &fakeClock{}, &wanting{on: true}
	r := enabled(c, func(o *Options) { o.Sink, o.Enabled = sink, false })
	c.advance(3 * time.Second)
	tick(r, 1, func() { _ = r.CaptureSystem("s", c.work(20*ms)) })
	equal(t, "the ring holds nothing of a tick that only the sink wanted", r.ReadDelta(0).Head, uint64(0))
	equal(t, "warnings", sink.ticks[0].Warnings, ExceededStepBudget)
	equal(t, "instant", sink.starts[0].Sub(r.epoch), 3*time.Second)
	r.SetEnabled(true)
	tick(r, 2)
	sink.on = false
	tick(r, 3)
	equal(t, "ring", r.ReadDelta(0).Head, uint64(2))
	equal(t, "sink", len(sink.ticks), 2)
}
