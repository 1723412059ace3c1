package origin

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// source turns bytes into choices; when they run out, every choice is the first.
type source struct{ b []byte }

func (s *source) below(n int) int {
	if len(s.b) == 0 || n <= 1 {
		return 0
	}
	v := int(s.b[0])
	s.b = s.b[1:]
	return v % n
}

func (s *source) chance(percent int) bool { return s.below(100) >= 100-percent }

// pick returns one of the choices.
func pick[T any](s *source, choices ...T) T { return choices[s.below(len(choices))] }

// randomScenario makes a small scenario in which instants collide, awaits overlap, and some facts are
// missing or absurd.
func randomScenario(b []byte) *scenario {
	s, sc := &source{b}, &scenario{}
	span := pick(s, 12, 40, 200)
	instant := func() int64 {
		if s.chance(3) {
			return pick(s, int64(0), -1, 1<<62, 1<<63-1)
		}
		return int64(1 + s.below(span))
	}
	interval := func() (int64, int64) {
		a, b := instant(), instant()
		if a > b && !s.chance(4) {
			a, b = b, a
		}
		return a, b
	}
	originOf := func() (o archive.Origin) {
		if s.chance(85) {
			o.TimeNanos, o.ThreadID, o.Stack = instant(), int64(s.below(3)), archive.StackID(s.below(4))
			o.GoroutineID, o.ThreadLocked = pick(s, int64(0), 0, 1, 2), s.chance(20)
		}
		return o
	}
	queues, lanes := []archive.QueueID{"", "p", "q"}, []archive.LaneID{"a", "b", "c"}
	for i := range uint64(1 + s.below(2)) {
		rt := archive.RuntimeID([]string{"r", "s"}[i])
		sc.Runtimes = append(sc.Runtimes, archive.Runtime{
			ID: rt, ClockErrorNanos: pick(s, int64(0), 1, 4, -1), PID: pick(s, int64(7), 7, 8, 0), SDKLanguage: pick(s, "", "go"),
		})
		for _, l := range lanes[:2] { // c is not registered
			sc.Lanes = append(sc.Lanes, archive.Lane{Runtime: rt, ID: l, ClockErrorNanos: pick(s, int64(0), 0, 1, 5, -1)})
		}
		if s.chance(40) { // stacks that part deep, so that samples can contradict waits
			for i, functions := range [][]string{{"wait", "help", "go", "run", "main"}, {"burn", "other", "run", "main"}, {"poll", "wait", "help", "go", "run", "main"}} {
				for depth, f := range functions {
					sc.StackFrames = append(sc.StackFrames, archive.StackFrame{Runtime: rt, Stack: archive.StackID(1 + i), Depth: uint32(depth), Function: f})
				}
			}
		} else {
			sc.randomStacks(s, rt)
		}
		buffers := s.below(4)
		for id := range buffers {
			sc.CommandBuffers = append(sc.CommandBuffers, archive.CommandBuffer{
				Runtime: rt, ID: archive.CommandBufferID(id + 1), Lane: pick(s, lanes...), Queue: pick(s, queues...), QueueSeq: uint64(s.below(4)), Origin: originOf(),
			})
		}
		dispatches := 1 + s.below(pick(s, 4, 9))
		for id := range dispatches {
			d := archive.Dispatch{
				Runtime: rt, ID: archive.DispatchID(id + 1), Lane: pick(s, lanes...), Faulted: s.chance(10), Origin: originOf(),
				CommandBuffer: archive.CommandBufferID(s.below(buffers + 2)), Queue: pick(s, queues...), QueueSeq: uint64(s.below(4)),
			}
			d.StartNanos, d.EndNanos = interval()
			sc.Dispatches = append(sc.Dispatches, d)
		}
		waits := s.below(pick(s, 3, 6, 60))
		for id := range waits {
			w := archive.Wait{Runtime: rt, ID: archive.WaitID(id + 1), TimedOut: s.chance(20), Origin: originOf()}
			w.BeginNanos, w.EndNanos = interval()
			if !s.chance(3) {
				sc.Waits = append(sc.Waits, w)
			}
			for range s.below(4) {
				a := archive.Await{Runtime: rt, Wait: w.ID, Kind: pick(s, archive.AwaitDispatch, archive.AwaitCommandBuffer, archive.AwaitQueue)}
				switch a.Kind {
				case archive.AwaitDispatch:
					a.Ref = uint64(1 + s.below(dispatches+1))
				case archive.AwaitCommandBuffer:
					a.Ref = uint64(1 + s.below(buffers+1))
				case archive.AwaitQueue:
					a.Queue, a.UpTo = pick(s, "p", "q", "p", "q", queues[s.below(3)]), uint64(s.below(4))
				}
				sc.Awaits = append(sc.Awaits, a)
			}
		}
	}
	sc.addEvidence(s, instant, interval)
	return sc
}

// randomStacks defines three stacks.
func (sc *scenario) randomStacks(s *source, rt archive.RuntimeID) {
	for id := range archive.StackID(3) {
		for depth := range uint32(pick(s, 1, 2, 5, 6, 7)) {
			sc.StackFrames = append(sc.StackFrames, archive.StackFrame{
				Runtime: rt, Stack: 1 + id, Depth: depth, Function: pick(s, "f", "g", "h", "i", "j", "k", "l", "m", "runtime.goexit"), Line: int64(s.below(2)),
			})
		}
	}
}

// addEvidence adds samples, intervals off the CPU and exact events around the origins that there are.
func (sc *scenario) addEvidence(s *source, instant func() int64, interval func() (int64, int64)) {
	if s.chance(30) {
		return
	}
	runtime := func() archive.RuntimeID { return pick[archive.RuntimeID](s, "r", "r", "s", "t") } // t has no row
	name := func() string {
		return pick(s, semconv.ProfileSourceGoExecTrace, semconv.ProfileSourceGoExecTrace, semconv.ProfileSourceGoExecTrace, "other")
	}
	if s.chance(80) {
		sc.ProfileSources = append(sc.ProfileSources, archive.ProfileSource{Runtime: runtime(), Source: name(), PeriodNanos: pick(s, int64(0), 1, 4), ClockErrorNanos: pick(s, int64(0), 0, 0, 0, 1, -1)})
	}
	favourite := archive.StackID(s.below(4)) // stacks repeat, or nothing would ever agree
	stack := func() archive.StackID {
		if s.chance(70) {
			return favourite
		}
		return archive.StackID(s.below(4))
	}
	for i := range sc.Waits { // evidence that is about waits
		w := &sc.Waits[i]
		if w.Runtime != "r" || w.Origin.GoroutineID == 0 && w.Origin.ThreadID == 0 || !areTimes(w.BeginNanos, w.EndNanos) || w.EndNanos-w.BeginNanos < 8 || s.chance(30) {
			continue
		}
		length, source := w.EndNanos-w.BeginNanos, name()
		if s.chance(40) {
			from := w.BeginNanos + int64(s.below(8))
			sc.OffCPU = append(sc.OffCPU, archive.OffCPU{
				Runtime: w.Runtime, ThreadID: w.Origin.ThreadID, GoroutineID: w.Origin.GoroutineID, Source: source, Stack: stack(),
				BeginNanos: from, WakeNanos: max(from, w.EndNanos-2), EndNanos: max(from, w.EndNanos-int64(s.below(4))),
			})
			continue
		}
		for range s.below(8) {
			sc.Samples = append(sc.Samples, archive.Sample{
				Runtime: w.Runtime, ThreadID: w.Origin.ThreadID, GoroutineID: w.Origin.GoroutineID, Source: source, Stack: stack(),
				TimeNanos: w.BeginNanos + 1 + int64(s.below(int(length))),
			})
		}
	}
	for range s.below(pick(s, 3, 20, 120)) {
		x := archive.Sample{Runtime: runtime(), ThreadID: int64(s.below(3)), GoroutineID: int64(s.below(3)), TimeNanos: instant(), Stack: stack(), Source: name()}
		if s.chance(3) {
			x.TimeNanos = 0
		}
		sc.Samples = append(sc.Samples, x)
	}
	for range s.below(pick(s, 3, 20)) {
		x := archive.OffCPU{Runtime: runtime(), ThreadID: int64(s.below(3)), GoroutineID: int64(s.below(3)), Stack: stack(), Source: name()}
		x.BeginNanos, x.EndNanos = interval()
		x.WakeNanos = pick(s, 0, x.BeginNanos, x.EndNanos, instant())
		sc.OffCPU = append(sc.OffCPU, x)
	}
	event := func(rt archive.RuntimeID, o *archive.Origin) {
		if s.chance(40) {
			sc.OriginEvents = append(sc.OriginEvents, archive.OriginEvent{Runtime: rt, ThreadID: o.ThreadID, TimeNanos: o.TimeNanos, GoroutineID: int64(s.below(3)), Stack: archive.StackID(s.below(4))})
		}
	}
	for i := range sc.Dispatches {
		event(sc.Dispatches[i].Runtime, &sc.Dispatches[i].Origin)
	}
	for i := range sc.Waits {
		event(sc.Waits[i].Runtime, &sc.Waits[i].Origin)
	}
	for range s.below(3) {
		sc.ClockSamples = append(sc.ClockSamples, archive.ClockSample{Runtime: runtime(), Clock: "monotonic", RawTicks: pick(s, int64(0), 1, 2e6), UnixNanos: instant()})
	}
}

func randomBytes(r *rand.Rand) []byte {
	b := make([]byte, 300+r.IntN(8000))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// checkScenario compares every verdict with the oracle's and with what must hold of any.
func checkScenario(sc *scenario) error {
	ix, o := sc.index(), oracle{sc}
	for i := range sc.Dispatches {
		d := &sc.Dispatches[i]
		c := ix.Certificate(d)
		class, wait := o.class(d)
		if c.Wait != 0 {
			if want := o.corroboration(d.Runtime, c.Wait); want != c.Corroboration {
				return fmt.Errorf("dispatch %d: want %s\ngot  %s", d.ID, want, certificateText(c))
			}
		}
		if c.Class != class || wait != 0 && c.Wait != wait {
			return fmt.Errorf("dispatch %d %+v:\nwant %s wait=%d\ngot  %s", d.ID, *d, class, wait, certificateText(c))
		}
		if err := lawful(sc, &c, d); err != nil {
			return fmt.Errorf("%s: %w", certificateText(c), err)
		}
		if err := Recheck(&c, o.raw(d, c.Wait)); err != nil {
			return fmt.Errorf("%s: recheck: %w", certificateText(c), err)
		}
	}
	dc := NewDecomposer(ix, nil)
	dc.Add(sc.Dispatches)
	for _, p := range dc.Parts() {
		w := &sc.Waits[slices.IndexFunc(sc.Waits, func(w archive.Wait) bool { return w.Runtime == p.Runtime && w.ID == p.Wait })]
		sum := p.ExecutingNanos + p.QueuedNanos + p.IdleNanos + p.WakeUpNanos + p.UnknownNanos
		if !areTimes(w.BeginNanos, w.EndNanos) {
			if sum != 0 {
				return fmt.Errorf("wait without times has parts: %s", partsText(p))
			}
			continue
		}
		if sum != w.EndNanos-w.BeginNanos || min(p.ExecutingNanos, p.QueuedNanos, p.IdleNanos, p.WakeUpNanos, p.UnknownNanos) < 0 {
			return fmt.Errorf("parts do not add up: %s", partsText(p))
		}
		if want := o.parts(w); [6]int64{want.ExecutingNanos, want.QueuedNanos, want.IdleNanos, want.WakeUpNanos, want.UnknownNanos, want.Pending} !=
			[6]int64{p.ExecutingNanos, p.QueuedNanos, p.IdleNanos, p.WakeUpNanos, p.UnknownNanos, p.Pending} {
			return fmt.Errorf("wait %d:\nwant %s\ngot  %s", w.ID, partsText(want), partsText(p))
		}
		signal, schedule, back, ok := o.wakeUp(w, p)
		if ok != p.Woken || signal != p.SignalNanos || schedule != p.ScheduleNanos || back != p.ReturnNanos || ok && signal+schedule+back != p.WakeUpNanos {
			return fmt.Errorf("wake-up of %s: want %d %d %d", partsText(p), signal, schedule, back)
		}
	}
	return nil
}

// lawful checks what holds of every certificate.
func lawful(sc *scenario, c *archive.Certificate, d *archive.Dispatch) error {
	covering := oracle{sc}.awaiting(d)
	if (c.Reason != "") != (c.Class == ClassUnproven) {
		return fmt.Errorf("a reason belongs to unproven and to nothing else")
	}
	if c.OwnedNanos < 0 || c.OwnedNanos > max(d.EndNanos-d.StartNanos, 0) || c.OwnedNanos != 0 && c.Class != ClassSynchronous {
		return fmt.Errorf("owned time")
	}
	if c.Class == ClassSynchronous {
		// The deciding wait covers the dispatch, and lasted until it had ended, beyond the error.
		i := slices.IndexFunc(covering, func(w oracleWait) bool { return w.id == c.Wait })
		if i < 0 || covering[i].covers != yes || c.EndNanos < d.EndNanos+c.ClockErrorNanos || c.BeginNanos < c.OriginNanos {
			return fmt.Errorf("the deciding wait proves nothing")
		}
		ended := slices.ContainsFunc(covering, func(w oracleWait) bool {
			return w.row != nil && areTimes(w.row.BeginNanos, w.row.EndNanos) && w.row.EndNanos >= d.EndNanos+c.ClockErrorNanos
		})
		if !ended {
			return fmt.Errorf("every covering wait ended before the work did")
		}
	}
	return nil
}

// shuffled returns the same facts in another order.
func shuffled(sc *scenario, r *rand.Rand) *scenario {
	x := *sc
	x.Dispatches, x.CommandBuffers, x.Waits, x.Awaits, x.StackFrames, x.Lanes, x.Runtimes = shuffle(sc.Dispatches, r), shuffle(sc.CommandBuffers, r),
		shuffle(sc.Waits, r), shuffle(sc.Awaits, r), shuffle(sc.StackFrames, r), shuffle(sc.Lanes, r), shuffle(sc.Runtimes, r)
	x.Samples, x.OffCPU, x.OriginEvents = shuffle(sc.Samples, r), shuffle(sc.OffCPU, r), shuffle(sc.OriginEvents, r)
	x.ProfileSources, x.ClockSamples = shuffle(sc.ProfileSources, r), shuffle(sc.ClockSamples, r)
	return &x
}

func shuffle[T any](s []T, r *rand.Rand) []T {
	s = slices.Clone(s)
	r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	return s
}

func (sc *scenario) answers() (certificates []archive.Certificate, links []archive.Link, parts []WaitParts) {
	ix := sc.index()
	for i := range sc.Dispatches {
		d := &sc.Dispatches[i]
		certificates = append(certificates, ix.Certificate(d))
		links = append(links, ix.Link(d.Runtime, archive.OwnerDispatch, uint64(d.ID), archive.OriginDispatch, &d.Origin))
	}
	byID := func(a, b archive.RuntimeID, x, y uint64) int {
		return slices.Compare([]byte(fmt.Sprint(a, x)), []byte(fmt.Sprint(b, y)))
	}
	slices.SortFunc(certificates, func(a, b archive.Certificate) int {
		return byID(a.Runtime, b.Runtime, uint64(a.Dispatch), uint64(b.Dispatch))
	})
	slices.SortFunc(links, func(a, b archive.Link) int { return byID(a.Runtime, b.Runtime, a.Owner, b.Owner) })
	dc := NewDecomposer(ix, nil)
	dc.Add(sc.Dispatches)
	return certificates, links, dc.Parts()
}

func checkOrder(sc *scenario, r *rand.Rand) error {
	c1, l1, p1 := sc.answers()
	c2, l2, p2 := shuffled(sc, r).answers()
	if diff := cmp.Diff(c1, c2) + cmp.Diff(l1, l2) + cmp.Diff(p1, p2); diff != "" {
		return fmt.Errorf("the order of the rows changed the answer:\n%s", diff)
	}
	return nil
}

// TestProperties compares thousands of random scenarios with the oracle. Each class must occur.
func TestProperties(t *testing.T) {
	scenarios := 6_000
	if testing.Short() {
		scenarios = 1_000
	}
	seen := map[string]int{}
	for seed := range uint64(scenarios) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := randomBytes(r)
		sc := randomScenario(b)
		require.NoError(t, checkScenario(sc), "seed %d", seed)
		if seed%10 == 0 {
			require.NoError(t, checkOrder(sc, r), "seed %d", seed)
		}
		ix := sc.index()
		for i := range sc.Dispatches {
			c := ix.Certificate(&sc.Dispatches[i])
			seen[c.Class+c.Reason]++
			seen[c.Corroboration]++
		}
	}
	for _, want := range []string{
		ClassSynchronous, ClassTimedOut, ClassWaitedLate, ClassAsynchronous, ClassUnproven + ReasonNoWaits, ClassUnproven + ReasonNoOrigin,
		ClassUnproven + ReasonClockError, ClassUnproven + ReasonBadTimes, ClassUnproven + ReasonNoQueueSeq,
		ClassUnproven + ReasonOriginAfterBegin, ClassUnproven + ReasonWaitMissing,
	} {
		require.Greater(t, seen[want], scenarios/2000, "%s hardly occurs: %v", want, seen)
	}
}

// corroboratedScenario makes waits that await work, and evidence that is about them.
func corroboratedScenario(b []byte) *scenario {
	s, sc := &source{b}, &scenario{}
	sc.Runtimes = []archive.Runtime{{ID: "r", PID: 7, SDKLanguage: pick(s, "go", "go", "")}, {ID: "s", PID: 7}}
	for i, functions := range [][]string{
		{"wait", "help", "go", "run", "main", "runtime.goexit"},
		{"burn", "other", "run", "main", "runtime.goexit"},
		{"poll", "wait", "help", "go", "run", "main", "runtime.goexit"},
	} {
		rt := pick[archive.RuntimeID](s, "r", "r", "s")
		for depth, f := range functions {
			sc.StackFrames = append(sc.StackFrames, archive.StackFrame{Runtime: rt, Stack: archive.StackID(1 + i), Depth: uint32(depth), Function: f})
		}
	}
	sc.ProfileSources = []archive.ProfileSource{{Runtime: "r", Source: semconv.ProfileSourceGoExecTrace, PeriodNanos: pick(s, int64(4), 4, 0), ClockErrorNanos: pick(s, int64(0), 0, 3, -1)}}
	for i := range 1 + s.below(5) {
		begin := int64(100 + s.below(100))
		end := begin + int64(s.below(100))
		o := archive.Origin{TimeNanos: begin, ThreadID: int64(1 + s.below(2)), GoroutineID: int64(s.below(3)), Stack: pick(s, archive.StackID(1), 1, 2, 0), ThreadLocked: s.chance(20)}
		w := archive.Wait{Runtime: "r", ID: archive.WaitID(i + 1), BeginNanos: begin, EndNanos: end, Origin: o}
		goroutine := o.GoroutineID
		if s.chance(50) {
			goroutine = int64(1 + s.below(2))
			sc.OriginEvents = append(sc.OriginEvents, archive.OriginEvent{Runtime: "r", ThreadID: o.ThreadID, TimeNanos: begin, GoroutineID: goroutine, Stack: pick(s, archive.StackID(1), 2, 0)})
		}
		sc.Waits = append(sc.Waits, w)
		sc.Awaits = append(sc.Awaits, archive.Await{Runtime: "r", Wait: w.ID, Kind: archive.AwaitDispatch, Ref: uint64(1 + s.below(3))})
		rt, source := pick[archive.RuntimeID](s, "r", "r", "s"), pick(s, semconv.ProfileSourceGoExecTrace, semconv.ProfileSourceGoExecTrace, "other")
		mostly := pick(s, archive.StackID(2), 3, 0)
		for range s.below(pick(s, 1, 12, 30)) {
			sc.Samples = append(sc.Samples, archive.Sample{
				Runtime: rt, ThreadID: o.ThreadID, GoroutineID: goroutine, Source: source,
				Stack: pick(s, mostly, mostly, mostly, mostly, archive.StackID(s.below(4))), TimeNanos: begin + int64(s.below(int(end-begin)+2)),
			})
		}
		if s.chance(40) {
			sc.OffCPU = append(sc.OffCPU, archive.OffCPU{
				Runtime: rt, ThreadID: o.ThreadID, GoroutineID: goroutine, Source: source, Stack: pick(s, archive.StackID(1), 2, 3, 0),
				BeginNanos: begin + int64(s.below(20)), WakeNanos: end - int64(s.below(20)), EndNanos: end - int64(s.below(12)),
			})
		}
	}
	for i := range 3 {
		start := int64(90 + s.below(60))
		sc.Dispatches = append(sc.Dispatches, archive.Dispatch{
			Runtime: "r", Lane: "a", ID: archive.DispatchID(i + 1), StartNanos: start, EndNanos: start + int64(s.below(60)),
			Origin: archive.Origin{TimeNanos: int64(90 + s.below(30)), ThreadID: 1, Stack: pick(s, archive.StackID(1), 2, 0), GoroutineID: int64(s.below(2))},
		})
	}
	return sc
}

// TestCorroboration is TestProperties with scenarios that are about what evidence says of waits.
func TestCorroboration(t *testing.T) {
	scenarios := uint64(3_000)
	if testing.Short() {
		scenarios = 1_000
	}
	seen := map[string]uint64{}
	for seed := range scenarios {
		r := rand.New(rand.NewPCG(seed, 7))
		sc := corroboratedScenario(randomBytes(r))
		require.NoError(t, checkScenario(sc), "seed %d", seed)
		require.NoError(t, checkStream(sc, r), "seed %d", seed)
		ix := sc.index()
		for i := range sc.Dispatches {
			d := &sc.Dispatches[i]
			c := ix.Certificate(d)
			seen[c.Corroboration]++
			seen[c.Class+c.Reason]++
			if x := ix.ExplainCertificate(d); x.Certificate != c || x.Corroboration != nil && x.Corroboration.Verdict != c.Corroboration {
				t.Fatalf("seed %d: explained otherwise: %s", seed, certificateText(x.Certificate))
			}
			l := ix.Link(d.Runtime, archive.OwnerDispatch, uint64(d.ID), archive.OriginDispatch, &d.Origin)
			require.Equal(t, l, ix.ExplainLink(d.Runtime, archive.OwnerDispatch, uint64(d.ID), archive.OriginDispatch, &d.Origin).Link)
		}
	}
	for _, want := range []string{
		CorroborationClaimed, CorroborationSlept, CorroborationSpun, CorroborationContradicted, ClassSynchronous, ClassUnproven + ReasonContradicted,
	} {
		require.Greater(t, seen[want], scenarios/200, "%s hardly occurs: %v", want, seen)
	}
}

// FuzzScenario does the same with scenarios made of arbitrary bytes.
func FuzzScenario(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(rand.New(rand.NewPCG(seed, 2))))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		sc := randomScenario(b)
		if len(b) > 0 && b[0]%2 == 1 {
			sc = corroboratedScenario(b[1:])
		}
		if err := checkScenario(sc); err != nil {
			t.Fatal(err)
		}
		if err := checkOrder(sc, rand.New(rand.NewPCG(1, 1))); err != nil {
			t.Fatal(err)
		}
		if err := checkStream(sc, rand.New(rand.NewPCG(1, 1))); err != nil {
			t.Fatal(err)
		}
	})
}
