package origin

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
)

// collector is a Sink that keeps everything.
type collector struct {
	links        []archive.Link
	certificates []archive.Certificate
}

func (c *collector) Links(rows []archive.Link) error {
	c.links = append(c.links, rows...)
	return nil
}

func (c *collector) Certificates(rows []archive.Certificate) error {
	c.certificates = append(c.certificates, rows...)
	return nil
}

func (sc *scenario) batches() []*archive.Batch {
	// Two frames, the waits in the first and the dispatches in the second: records come in any order.
	return []*archive.Batch{
		{Waits: sc.Waits, Awaits: sc.Awaits, Lanes: sc.Lanes, ExtraOrigins: sc.extra},
		{Runtimes: sc.Runtimes, Dispatches: sc.Dispatches, CommandBuffers: sc.CommandBuffers, StackFrames: sc.StackFrames},
		{Samples: sc.Samples, OffCPU: sc.OffCPU, OriginEvents: sc.OriginEvents, ProfileSources: sc.ProfileSources, ClockSamples: sc.ClockSamples},
	}
}

func create(t *testing.T, info archive.RecordingInfo, batches ...*archive.Batch) (string, *archive.Writer) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "r.stax")
	w, err := archive.Create(dir, info, archive.WriterOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	for _, b := range batches {
		require.NoError(t, w.Append(b))
	}
	return dir, w
}

func open(t *testing.T, dir string) *archive.Reader {
	t.Helper()
	r, err := archive.Open(dir, archive.ReaderOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func derive(t *testing.T, r *archive.Reader) *collector {
	t.Helper()
	c := &collector{}
	require.NoError(t, Derive(t.Context(), r, Config{}, c))
	return c
}

func all[T archive.Row](t *testing.T, r *archive.Reader) (out []T) {
	t.Helper()
	for rows, err := range archive.Scan[T](t.Context(), r) {
		require.NoError(t, err)
		out = append(out, rows...)
	}
	return out
}

// TestDerive compares an archive that is being written, the same archive closed, and its stored
// tables with verdicts on the rows in memory.
func TestDerive(t *testing.T) {
	for seed := range uint64(20) {
		sc := randomScenario(randomBytes(rand.New(rand.NewPCG(seed, 3))))
		sc.extra = []archive.ExtraOrigin{{
			Runtime: "r", OwnerKind: archive.OwnerDispatch, Owner: 1, Kind: archive.OriginCompletion,
			Origin: archive.Origin{ThreadID: 1, TimeNanos: 5, Stack: 1},
		}}
		dir, w := create(t, archive.RecordingInfo{ID: "x"}, sc.batches()...)
		live := derive(t, open(t, dir))

		ix := sc.index()
		var want []archive.Certificate
		for i := range sc.Dispatches {
			want = append(want, ix.Certificate(&sc.Dispatches[i]))
		}
		require.Empty(t, cmp.Diff(want, live.certificates), "seed %d", seed)
		origins := 1
		for i := range sc.Dispatches {
			if sc.Dispatches[i].Origin.Present() {
				origins++
			}
		}
		for i := range sc.CommandBuffers {
			if sc.CommandBuffers[i].Origin.Present() {
				origins++
			}
		}
		for i := range sc.Waits {
			if sc.Waits[i].Origin.Present() {
				origins++
			}
		}
		require.Len(t, live.links, origins)

		require.NoError(t, w.Finish(t.Context(), nil, nil))
		require.NoError(t, DeriveInto(t.Context(), dir))
		r := open(t, dir)
		version, ok := r.HasDerived()
		require.True(t, ok)
		require.Equal(t, Version, version)
		require.Empty(t, cmp.Diff(live.certificates, all[archive.Certificate](t, r)), "seed %d", seed)
		require.Empty(t, cmp.Diff(live.links, all[archive.Link](t, r)), "seed %d", seed)
		require.Empty(t, cmp.Diff(live, derive(t, r), cmp.AllowUnexported(collector{})), "seed %d", seed)

		parts, err := Decompose(t.Context(), r, ix, nil)
		require.NoError(t, err)
		_, _, inMemory := sc.answers()
		require.Empty(t, cmp.Diff(inMemory, parts), "seed %d", seed)

		report, err := Audit(t.Context(), r, Config{})
		require.NoError(t, err)
		require.Zero(t, report.Problems, "seed %d: %v", seed, report.Examples)
		require.Equal(t, int64(len(want)), report.Certificates)
		require.Equal(t, int64(origins), report.Links)
		require.True(t, report.Current)
	}
}

// TestAudit changes stored rows, one at a time. Each change must be found.
func TestAudit(t *testing.T) {
	sc, err := parseScenario(`
		lane gpu
		stack 1 main.submit@1 main.step@2 main.main@3 runtime.goexit@4
		stack 2 main.drain@1 main.stop@2 main.main@3 runtime.goexit@4
		dispatch 1 gpu 100..200 origin=50/7/1
		dispatch 2 gpu 300..400 origin=250/7/1 faulted
		dispatch 3 gpu 500..600 origin=450/7/1
		wait 1 60..250 origin=60/7/1
		await 1 dispatch=1
		wait 2 401..450 origin=401/8/2
		await 2 dispatch=2`)
	require.NoError(t, err)
	dir, w := create(t, archive.RecordingInfo{ID: "x"}, sc.batches()...)
	require.NoError(t, w.Finish(t.Context(), nil, nil))
	good := derive(t, open(t, dir))
	require.Len(t, good.certificates, 3)
	require.Len(t, good.links, 5)

	audit := func(version string, c *collector) AuditReport {
		require.NoError(t, archive.WriteDerived(t.Context(), dir, version, func(w *archive.DerivedWriter) error {
			if err := w.Links(c.links); err != nil {
				return err
			}
			return w.Certificates(c.certificates)
		}))
		report, err := Audit(t.Context(), open(t, dir), Config{})
		require.NoError(t, err)
		return report
	}
	require.Zero(t, audit(Version, good).Problems)
	require.Zero(t, audit("origin/0", good).Problems)
	require.Equal(t, int64(2), audit(Version, good).Rechecked)

	for _, x := range []struct {
		name   string
		change func(c *collector)
		plain  bool // Recheck finds it without deriving again
	}{
		{"class", func(c *collector) { c.certificates[1].Class = ClassSynchronous }, true},
		{"class late", func(c *collector) { c.certificates[0].Class, c.certificates[0].OwnedNanos = ClassWaitedLate, 0 }, true},
		{"class timed out", func(c *collector) { c.certificates[0].Class, c.certificates[0].OwnedNanos = ClassTimedOut, 0 }, true},
		{"synchronous without wait", func(c *collector) { c.certificates[2].Class = ClassSynchronous }, true},
		{"owned", func(c *collector) { c.certificates[0].OwnedNanos++ }, true},
		{"owned without synchronous", func(c *collector) { c.certificates[2].OwnedNanos++ }, true},
		{"origin", func(c *collector) { c.certificates[0].OriginNanos-- }, true},
		{"begin", func(c *collector) { c.certificates[0].BeginNanos-- }, true},
		{"end", func(c *collector) { c.certificates[0].EndNanos++ }, true},
		{"error", func(c *collector) { c.certificates[0].ClockErrorNanos++ }, true},
		{"wait of another", func(c *collector) {
			c.certificates[2].Class, c.certificates[2].Wait, c.certificates[2].BeginNanos, c.certificates[2].EndNanos = ClassTimedOut, 1, 60, 250
		}, true},
		{"no such wait", func(c *collector) { c.certificates[0].Wait = 99 }, true},
		{"faulted", func(c *collector) { c.certificates[1].Faulted = false }, true},
		{"cross_thread", func(c *collector) { c.certificates[1].CrossThread = false }, true},
		{"different_stack", func(c *collector) { c.certificates[1].DifferentStack = false }, true},
		{"reason", func(c *collector) { c.certificates[2].Reason = ReasonNoWaits }, true},
		{"corroboration none", func(c *collector) { c.certificates[0].Corroboration = "" }, true},
		{"contradicted and synchronous", func(c *collector) { c.certificates[0].Corroboration = CorroborationContradicted }, true},
		{"contradicted without samples", func(c *collector) {
			c.certificates[0].Class, c.certificates[0].Reason, c.certificates[0].OwnedNanos = ClassUnproven, ReasonContradicted, 0
		}, true},
		{"corroboration", func(c *collector) { c.certificates[0].Corroboration = CorroborationSlept }, false},
		{"bad times", func(c *collector) { c.certificates[2].Class, c.certificates[2].Reason = ClassUnproven, ReasonBadTimes }, true},
		{"async to unproven", func(c *collector) { c.certificates[2].Class, c.certificates[2].Reason = ClassUnproven, ReasonNoWaits }, false},
		{"row lost", func(c *collector) { c.certificates = c.certificates[:2] }, false},
		{"row more", func(c *collector) { c.certificates = append(c.certificates, c.certificates[0]) }, false},
		{"row other", func(c *collector) { c.certificates[1].Dispatch = 9 }, false},
		{"link status", func(c *collector) { c.links[0].Status = StatusTooFar }, false},
		{"link lost", func(c *collector) { c.links = c.links[:4] }, false},
		{"link more", func(c *collector) { c.links = append(c.links, c.links[0]) }, false},
		{"link other", func(c *collector) { c.links[2].Owner = 9 }, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := &collector{slices.Clone(good.links), slices.Clone(good.certificates)}
			x.change(c)
			report := audit(Version, c)
			require.NotZero(t, report.Problems)
			require.NotEmpty(t, report.Examples)
			t.Log(report.Examples[0])
			require.Equal(t, x.plain, audit("origin/0", c).Problems > 0, "rechecked without comparing")
		})
	}
}

// TestDeriveStops cancels in the middle: the archive keeps the tables it had.
func TestDeriveStops(t *testing.T) {
	sc := randomScenario(randomBytes(rand.New(rand.NewPCG(1, 3))))
	dir, w := create(t, archive.RecordingInfo{ID: "x"}, sc.batches()...)
	require.NoError(t, w.Finish(t.Context(), nil, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, DeriveInto(ctx, dir))
	_, ok := open(t, dir).HasDerived()
	require.False(t, ok)
	require.Error(t, DeriveInto(t.Context(), filepath.Join(dir, "nothing")))
}
