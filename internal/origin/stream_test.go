package origin

import (
	"fmt"
	"math/rand/v2"
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
