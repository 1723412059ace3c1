package origin

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
)

// scatter deals the rows of a scenario into batches, in random order.
func scatter(sc *scenario, r *rand.Rand) []*archive.Batch {
	batches := make([]*archive.Batch, 1+r.IntN(12))
	for i := range batches {
		batches[i] = &archive.Batch{}
	}
	x := shuffled(sc, r)
	deal(x.Runtimes, r, batches, func(b *archive.Batch) *[]archive.Runtime { return &b.Runtimes })
	deal(x.Lanes, r, batches, func(b *archive.Batch) *[]archive.Lane { return &b.Lanes })
	deal(x.Dispatches, r, batches, func(b *archive.Batch) *[]archive.Dispatch { return &b.Dispatches })
	deal(x.CommandBuffers, r, batches, func(b *archive.Batch) *[]archive.CommandBuffer { return &b.CommandBuffers })
	deal(x.Waits, r, batches, func(b *archive.Batch) *[]archive.Wait { return &b.Waits })
	deal(x.Awaits, r, batches, func(b *archive.Batch) *[]archive.Await { return &b.Awaits })
	deal(x.StackFrames, r, batches, func(b *archive.Batch) *[]archive.StackFrame { return &b.StackFrames })
	deal(x.Samples, r, batches, func(b *archive.Batch) *[]archive.Sample { return &b.Samples })
	deal(x.OffCPU, r, batches, func(b *archive.Batch) *[]archive.OffCPU { return &b.OffCPU })
	deal(x.OriginEvents, r, batches, func(b *archive.Batch) *[]archive.OriginEvent { return &b.OriginEvents })
	deal(x.ProfileSources, r, batches, func(b *archive.Batch) *[]archive.ProfileSource { return &b.ProfileSources })
	deal(x.ClockSamples, r, batches, func(b *archive.Batch) *[]archive.ClockSample { return &b.ClockSamples })
	return batches
}

func deal[T any](rows []T, r *rand.Rand, batches []*archive.Batch, of func(*archive.Batch) *[]T) {
	for _, row := range rows {
		to := of(batches[r.IntN(len(batches))])
		*to = append(*to, row)
	}
}

// verdicts asks for everything that can be asked of a recording.
func (sc *scenario) verdicts(
	certificate func(*archive.Dispatch) archive.Certificate,
	link func(archive.RuntimeID, archive.OwnerKind, uint64, archive.OriginKind, *archive.Origin) archive.Link,
) *collector {
	c := &collector{}
	ask := func(rt archive.RuntimeID, owner archive.OwnerKind, id uint64, kind archive.OriginKind, o *archive.Origin) {
		if o.Present() {
			c.links = append(c.links, link(rt, owner, id, kind, o))
		}
	}
	for i := range sc.Dispatches {
		d := &sc.Dispatches[i]
		c.certificates = append(c.certificates, certificate(d))
		ask(d.Runtime, archive.OwnerDispatch, uint64(d.ID), archive.OriginDispatch, &d.Origin)
	}
	for i := range sc.CommandBuffers {
		b := &sc.CommandBuffers[i]
		ask(b.Runtime, archive.OwnerCommandBuffer, uint64(b.ID), archive.OriginDispatch, &b.Origin)
	}
	for i := range sc.Waits {
		w := &sc.Waits[i]
		ask(w.Runtime, archive.OwnerWait, uint64(w.ID), archive.OriginWait, &w.Origin)
	}
	return c
}

// checkStream compares a Stream to which everything came in some order with an Index of everything.
func checkStream(sc *scenario, r *rand.Rand) error {
	s := NewStream(StreamConfig{Config: sc.config, Recording: sc.Recording})
	s.ix.evidence.tolerances = smallTolerances
	batches := scatter(sc, r)
	for i, b := range batches {
		s.Add(b)
		if r.IntN(4) == 0 { // questions in between change nothing
			for j := range sc.Dispatches {
				s.Certificate(&sc.Dispatches[j])
			}
			s.Add(batches[r.IntN(i+1)]) // and what comes again does not either
		}
	}
	ix := sc.index()
	want, got := sc.verdicts(ix.Certificate, ix.Link), sc.verdicts(s.Certificate, s.Link)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(collector{})); diff != "" {
		return fmt.Errorf("stream (+) and index (-) differ:\n%s", diff)
	}
	if st := s.Stats(); st.Refused() != 0 {
		return fmt.Errorf("refused: %+v", st)
	}
	return nil
}

// TestStream compares a Stream with an Index on random scenarios, in random order of arrival.
func TestStream(t *testing.T) {
	scenarios := uint64(3_000)
	if testing.Short() {
		scenarios = 500
	}
	for seed := range scenarios {
		r := rand.New(rand.NewPCG(seed, 5))
		require.NoError(t, checkStream(randomScenario(randomBytes(r)), r), "seed %d", seed)
	}
}

// scaled makes the nanoseconds of a scenario longer, so that the usual tolerances are as small for it as the small ones.
func scaled(sc *scenario) *scenario {
	const by = minEdgeNanos / 2
	x := *sc
	scale := func(t *int64) {
		if *t > 0 && *t < 1<<40 {
			*t *= by
		}
	}
	origin := func(o *archive.Origin) { scale(&o.TimeNanos) }
	x.Dispatches, x.CommandBuffers, x.Waits = clone(sc.Dispatches), clone(sc.CommandBuffers), clone(sc.Waits)
	x.Samples, x.OffCPU, x.OriginEvents, x.ProfileSources = clone(sc.Samples), clone(sc.OffCPU), clone(sc.OriginEvents), clone(sc.ProfileSources)
	for i := range x.Dispatches {
		d := &x.Dispatches[i]
		scale(&d.StartNanos)
		scale(&d.EndNanos)
		origin(&d.Origin)
	}
	for i := range x.CommandBuffers {
		origin(&x.CommandBuffers[i].Origin)
	}
	for i := range x.Waits {
		scale(&x.Waits[i].BeginNanos)
		scale(&x.Waits[i].EndNanos)
		origin(&x.Waits[i].Origin)
	}
	for i := range x.Samples {
		scale(&x.Samples[i].TimeNanos)
	}
	for i := range x.OffCPU {
		scale(&x.OffCPU[i].BeginNanos)
		scale(&x.OffCPU[i].WakeNanos)
		scale(&x.OffCPU[i].EndNanos)
	}
	for i := range x.OriginEvents {
		scale(&x.OriginEvents[i].TimeNanos)
	}
	for i := range x.ProfileSources {
		scale(&x.ProfileSources[i].PeriodNanos)
	}
	return &x
}

func clone[T any](s []T) []T { return append([]T(nil), s...) }

// TestStreamIsArchive compares a Stream with what is derived from the finished archive of the same rows.
func TestStreamIsArchive(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 6))
		made := randomScenario
		if seed%2 == 1 {
			made = corroboratedScenario
		}
		sc := scaled(made(randomBytes(r)))
		dir, w := create(t, archive.RecordingInfo{ID: "x"}, sc.batches()...)
		require.NoError(t, w.Finish(t.Context(), nil, nil))
		require.NoError(t, DeriveInto(t.Context(), dir))
		reader := open(t, dir)
		want := &collector{all[archive.Link](t, reader), all[archive.Certificate](t, reader)}

		s := NewStream(StreamConfig{Recording: reader.Manifest().Recording})
		for _, b := range scatter(sc, r) {
			s.Add(b)
		}
		got := sc.verdicts(s.Certificate, s.Link)
		require.Empty(t, cmp.Diff(want.certificates, got.certificates), "seed %d", seed)
		require.ElementsMatch(t, want.links, got.links, "seed %d", seed)
		for _, c := range want.certificates {
			seen[c.Corroboration]++
		}
		report, err := Audit(t.Context(), reader, Config{})
		require.NoError(t, err)
		require.Zero(t, report.Problems, "seed %d: %v", seed, report.Examples)
	}
	require.Positive(t, seen[CorroborationSlept], seen)
	require.Positive(t, seen[CorroborationSpun], seen)
}

// second fills a second of a recording: dispatches that are awaited by name and by queue, samples, waits off the CPU, events.
func second(n int64) *archive.Batch {
	b := &archive.Batch{Runtimes: []archive.Runtime{{ID: "r", PID: 7, SDKLanguage: "go"}}}
	for i := range int64(100) {
		at := 1e9*(n+1) + i*1e7
		id := uint64(n*100 + i + 1)
		o := archive.Origin{ThreadID: 1 + i%4, TimeNanos: at, Stack: 1}
		b.Dispatches = append(b.Dispatches, archive.Dispatch{Runtime: "r", Lane: "a", ID: archive.DispatchID(id), StartNanos: at + 1000, EndNanos: at + 5e6, Origin: o, Queue: "q", QueueSeq: id, CommandBuffer: archive.CommandBufferID(id)})
		b.Dispatches = append(b.Dispatches, archive.Dispatch{Runtime: "r", Lane: "silent", ID: archive.DispatchID(1<<40 + id), StartNanos: at, EndNanos: at + 1, Origin: o})
		b.CommandBuffers = append(b.CommandBuffers, archive.CommandBuffer{Runtime: "r", Lane: "a", ID: archive.CommandBufferID(id), EndNanos: at + 5e6})
		b.Waits = append(b.Waits, archive.Wait{Runtime: "r", ID: archive.WaitID(id), BeginNanos: at + 2000, EndNanos: at + 6e6, Origin: archive.Origin{ThreadID: 1, TimeNanos: at + 2000, GoroutineID: 3}})
		b.Awaits = append(b.Awaits, archive.Await{Runtime: "r", Wait: archive.WaitID(id), Kind: archive.AwaitDispatch, Ref: id},
			archive.Await{Runtime: "r", Wait: archive.WaitID(id), Kind: archive.AwaitQueue, Queue: "q", UpTo: id})
		stack := archive.StackID(1000 + uint64(n)) // sampled stacks change with the second
		b.Samples = append(b.Samples, archive.Sample{Runtime: "r", ThreadID: 1 + i%4, GoroutineID: 10*n + i%10, TimeNanos: at + 10, Stack: stack, Source: "go_exectrace"})
		b.OffCPU = append(b.OffCPU, archive.OffCPU{Runtime: "r", ThreadID: 1, GoroutineID: 3, BeginNanos: at + 2500, EndNanos: at + 6e6 - 100, Stack: stack, Source: "go_exectrace"})
		b.OriginEvents = append(b.OriginEvents, archive.OriginEvent{Runtime: "r", ThreadID: 1 + i%4, TimeNanos: at, GoroutineID: 9, Stack: stack})
	}
	for depth, f := range []string{"work", "run", "main.main"} {
		b.StackFrames = append(b.StackFrames, archive.StackFrame{Runtime: "r", Stack: archive.StackID(1000 + uint64(n)), Depth: uint32(depth), Function: f, Line: n})
	}
	b.ClockSamples = []archive.ClockSample{{Runtime: "r", Clock: "monotonic", RawTicks: n * 1e9, UnixNanos: (n + 1) * 1e9}}
	b.ProfileSources = []archive.ProfileSource{{Runtime: "r", Source: "go_exectrace", PeriodNanos: 4e6}}
	return b
}

// TestStreamEvicts runs a recording of twenty minutes through a Stream that holds ten seconds. What is held does not grow, and
// verdicts on what is recent are those of an Index of everything.
func TestStreamEvicts(t *testing.T) {
	const held, seconds = 10, 1200
	s := NewStream(StreamConfig{})
	s.Add(&archive.Batch{StackFrames: []archive.StackFrame{{Runtime: "r", Stack: 1, Function: "main.main"}}}) // comes once
	var early, late StreamStats
	for n := range int64(seconds) {
		b := second(n)
		s.Add(b)
		s.Evict(b.Dispatches[0].StartNanos - held*1e9)
		c := s.Certificate(&b.Dispatches[20])
		require.Equal(t, ClassSynchronous, c.Class)
		require.Equal(t, CorroborationSlept, c.Corroboration)
		l := s.Link("r", archive.OwnerDispatch, 1, archive.OriginDispatch, &b.Dispatches[0].Origin)
		require.Equal(t, archive.StackID(1), l.Stack, "a stack that comes once is kept")
		o := b.Dispatches[0].Origin
		o.Stack = 0
		require.Equal(t, GradeA, s.Link("r", archive.OwnerDispatch, 1, archive.OriginDispatch, &o).Grade)
		if n == 2*held {
			early = s.Stats()
		}
	}
	late = s.Stats()
	for i, c := range late.counts() {
		require.Equal(t, early.counts()[i].Held, c.Held, "kind %d", i)
		require.Zero(t, c.Refused)
	}
	require.Greater(t, late.Samples.Evicted, uint64(seconds-2*held)*90)
	rt := s.runtimes["r"]
	require.LessOrEqual(t, len(rt.dispatch), 101*(held+1))
	require.LessOrEqual(t, len(rt.stacks), held+3)
	require.Less(t, len(s.ix.evidence.names.ids.values)+len(s.ix.evidence.names.stacks.values), 1<<15)

	last := second(seconds - 1)
	ix := NewIndex(Config{}, Facts{
		Runtimes: last.Runtimes, Waits: last.Waits, Awaits: last.Awaits, Dispatches: last.Dispatches, Samples: last.Samples,
		OffCPU: last.OffCPU, OriginEvents: last.OriginEvents, ProfileSources: last.ProfileSources, CommandBuffers: last.CommandBuffers,
		StackFrames: append(last.StackFrames, archive.StackFrame{Runtime: "r", Stack: 1, Function: "main.main"}),
	})
	for i := range last.Dispatches {
		d := &last.Dispatches[i]
		require.Equal(t, ix.Certificate(d), s.Certificate(d))
		require.Equal(t, ix.Link("r", archive.OwnerDispatch, 1, archive.OriginDispatch, &d.Origin), s.Link("r", archive.OwnerDispatch, 1, archive.OriginDispatch, &d.Origin))
	}
}

// TestStreamRefuses fills a Stream with little room. What is too much is counted, and what is held stays right.
func TestStreamRefuses(t *testing.T) {
	const room = 50
	s := NewStream(StreamConfig{MaxRows: room})
	for n := range int64(20) {
		s.Add(second(n))
	}
	st := s.Stats()
	for i, c := range st.counts() {
		require.LessOrEqual(t, c.Held, room+2, "kind %d", i) // the last stack is complete
	}
	for _, c := range []StreamCount{st.Samples, st.OffCPU, st.OriginEvents, st.Waits, st.Awaits, st.CommandBuffers, st.StackFrames} {
		require.Positive(t, c.Refused, "%+v", st)
	}
	require.Positive(t, st.Refused())
	first := second(0)
	require.Equal(t, ClassSynchronous, s.Certificate(&first.Dispatches[0]).Class)
	s.Evict(1 << 60) // forgets everything that has an instant
	require.Equal(t, 0, s.Stats().Waits.Held)
	s.Add(second(30)) // and there is room again
	require.Equal(t, ClassSynchronous, s.Certificate(&second(30).Dispatches[0]).Class)
}

// BenchmarkEvidence measures the memory and the time that samples take, with and without goroutines.
func BenchmarkEvidence(b *testing.B) {
	for _, goroutines := range []int{0, 100} {
		b.Run(map[int]string{0: "threads", 100: "goroutines"}[goroutines], func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			rows := make([]archive.Sample, million)
			for i := range rows {
				at := int64(1_700_000_000e9) + int64(i)*500_000 - r.Int64N(100)*1e6 // late by up to 100 ms
				rows[i] = archive.Sample{Runtime: "r", ThreadID: int64(1 + r.IntN(8)), TimeNanos: at, Stack: archive.StackID(1 + r.IntN(5000))}
				if goroutines > 0 {
					rows[i].GoroutineID = int64(1 + r.IntN(goroutines))
				}
			}
			var e *Evidence
			for b.Loop() {
				e = NewEvidence()
				for i := 0; i < len(rows); i += 4096 {
					e.AddSamples(rows[i:min(i+4096, len(rows))])
				}
				e.settle()
				e.trim()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/sample")
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			runtime.KeepAlive(e)
			e = nil
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(before.HeapAlloc-after.HeapAlloc)/million, "B/sample")
		})
	}
}
