package staxarchiveexporter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/query"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/semconv"
)

// withCounter gives every span a counter and a completion: rows that belong to the dispatch.
func withCounter(td ptrace.Traces) ptrace.Traces {
	for _, sp := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
		sp.Attributes().PutInt(semconv.CounterPrefix+"set/"+semconv.SamplePointAfterDispatch+"/cycles", 7)
		e := sp.Events().AppendEmpty()
		e.SetName(semconv.EventCompletion)
		e.Attributes().PutInt(semconv.OriginThreadIDKey, 3)
		e.Attributes().PutInt(semconv.OriginTimeKey, 3)
	}
	return td
}

// TestRepeatedRequest: a request that the target sends again, since its time-out was shorter than the archive's append, is
// stored once, and the books say so.
func TestRepeatedRequest(t *testing.T) {
	r := newRig(t)
	rec := r.start()
	send := func(id recording.ID, n int, after int64) {
		td := withCounter(renumber(oneDispatch(id, n), after))
		td.ResourceSpans().At(0).Resource().Attributes().PutStr(semconv.TelemetrySDKNameKey, "stax")
		hb := td.ResourceSpans().At(0).ScopeSpans().AppendEmpty().Scope()
		hb.SetName(semconv.ScopeHeartbeat)
		m := hb.Attributes()
		m.PutInt(semconv.HeartbeatTimeKey, 5)
		m.PutBool(semconv.HeartbeatFinalKey, true)
		for key, v := range map[string]int64{
			semconv.HeartbeatShardsKey: 0, semconv.HeartbeatBaseKey: 0, semconv.HeartbeatEmittedKey: 150,
			semconv.HeartbeatDroppedFullKey: 0, semconv.HeartbeatDroppedSendKey: 0, semconv.HeartbeatDroppedOtherKey: 0,
		} {
			m.PutEmptySlice(key).AppendEmpty().SetInt(v)
		}
		require.NoError(t, r.traces.ConsumeTraces(t.Context(), td))
	}
	send(rec.ID(), 100, 0)
	send(rec.ID(), 100, 0)
	send(rec.ID(), 100, 50) // half of it
	send(rec.ID(), 100, 50)
	in := r.stop(rec)
	require.Len(t, in.Drops, 1)
	assert.Equal(t, []any{"archive", "repeated", "dispatch", uint64(250)}, []any{in.Drops[0].Stage, in.Drops[0].Reason, in.Drops[0].Signal, in.Drops[0].Count})
	got := dump(t, rec)
	assert.Equal(t, 150, strings.Count(got, "\ndispatches "))
	assert.Equal(t, 150, strings.Count(got, "\ncounter_samples "))
	assert.Equal(t, 150, strings.Count(got, "\nextra_origins "))

	ar, err := archive.Open(rec.Path(), archive.ReaderOptions{})
	require.NoError(t, err)
	defer ar.Close()
	audit, err := query.Audit(t.Context(), ar)
	require.NoError(t, err)
	assert.Equal(t, query.VerdictClean, audit.Verdict, "%+v", audit.Reasons)
	require.Len(t, audit.Rows, 1)
	assert.Equal(t, []uint64{150, 150, 250, 0}, []uint64{audit.Rows[0].Owed, audit.Rows[0].Archived, audit.Rows[0].Repeated, audit.Rows[0].Duplicates})
}

// TestRepeatedAfterFailure: what was not stored is no copy when it comes again.
func TestRepeatedAfterFailure(t *testing.T) {
	r := newRig(t)
	w := r.fake()
	rec := r.start()
	w.fail(errors.New("disk"))
	require.Error(t, r.traces.ConsumeTraces(t.Context(), oneDispatch(rec.ID(), 5)))
	w.fail(nil)
	require.NoError(t, r.traces.ConsumeTraces(t.Context(), oneDispatch(rec.ID(), 5)))
	require.Len(t, w.batches[len(w.batches)-1].Dispatches, 5)
}

// TestRepeatedMeanwhile: a copy that comes while the first request is being stored has to wait.
func TestRepeatedMeanwhile(t *testing.T) {
	r := newRig(t)
	w := r.fake()
	rec := r.start()
	w.blocked = make(chan struct{})
	first := make(chan error)
	go func() { first <- r.traces.ConsumeTraces(t.Context(), oneDispatch(rec.ID(), 5)) }()
	rs := func() *runtimeState { return r.e.stores[rec.ID()].state.runtime("r") }
	require.Eventually(t, func() bool {
		s := &rs().seqs
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.shards[0] != nil && s.shards[0].high == 5
	}, 10e9, 1e6)
	err := r.traces.ConsumeTraces(t.Context(), renumber(oneDispatch(rec.ID(), 5), 2))
	require.ErrorIs(t, err, errUnderWay)
	require.False(t, consumererror.IsPermanent(err))
	close(w.blocked)
	require.NoError(t, <-first)
	w.blocked = nil
	require.NoError(t, r.traces.ConsumeTraces(t.Context(), renumber(oneDispatch(rec.ID(), 5), 2)))
	require.Len(t, w.batches[1].Dispatches, 2, "6 and 7")
}

// TestRepeatedBadRecord: a record that becomes no row is counted once.
func TestRepeatedBadRecord(t *testing.T) {
	r := newRig(t)
	rec := r.start()
	for range 2 {
		td := oneDispatch(rec.ID(), 3)
		td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(1).Attributes().PutStr(semconv.OriginThreadIDKey, "no number")
		require.NoError(t, r.traces.ConsumeTraces(t.Context(), td))
	}
	counts := map[string]uint64{}
	for _, d := range r.stop(rec).Drops {
		counts[d.Reason] += d.Count
	}
	assert.Equal(t, map[string]uint64{"bad_attribute": 1, "repeated": 3}, counts)
}

// TestTwiceInOneRequest: a number that a request has twice is stored with what belongs to it.
func TestTwiceInOneRequest(t *testing.T) {
	r := newRig(t)
	rec := r.start()
	td := withCounter(oneDispatch(rec.ID(), 3))
	spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	spans.At(2).Attributes().PutInt(semconv.SeqKey, 1)
	require.NoError(t, r.traces.ConsumeTraces(t.Context(), td))
	in := r.stop(rec)
	require.Len(t, in.Drops, 1)
	assert.Equal(t, 2, strings.Count(dump(t, rec), "\ndispatches "))
}

func TestSeqShard(t *testing.T) {
	var s seqShard
	for _, n := range []uint64{1_000_000, 999_999, 1_000_002} {
		require.Equal(t, claimNew, s.claim(n))
		require.Equal(t, claimUnderWay, s.claim(n))
		s.settle(n, true)
		require.Equal(t, claimStored, s.claim(n))
	}
	require.Equal(t, claimNew, s.claim(1_000_001), "a gap")
	s.settle(1_000_001, false)
	require.Equal(t, claimNew, s.claim(1_000_001), "given back")
	require.Equal(t, claimUnknown, s.claim(1_000_002-seqWindow))
	require.Equal(t, claimNew, s.claim(1_000_003-seqWindow))
	require.Equal(t, claimNew, s.claim(1_000_002+seqWindow-1))
	require.Equal(t, claimStored, s.claim(1_000_002+seqWindow-1-seqWindow+1))
	require.Equal(t, claimUnknown, s.claim(1_000_001), "out of the window")
	require.Equal(t, claimNew, s.claim(1<<47))
	require.Equal(t, claimUnknown, s.claim(1_000_002+seqWindow-1))
	s.settle(5, true) // far below: nothing
}

// BenchmarkClaims is what telling records from their copies costs each record.
func BenchmarkClaims(b *testing.B) {
	m, err := recording.NewManager(recording.Options{Dir: b.TempDir()})
	require.NoError(b, err)
	rec, err := m.Start(b.Context(), recording.StartOptions{})
	require.NoError(b, err)
	defer func() { require.NoError(b, m.Shutdown(context.WithoutCancel(b.Context()))) }()
	const records = 512
	st := newState(rec, time.Now)
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		q := newRequest()
		for range records {
			n++
			q.batch.Dispatches = append(q.batch.Dispatches, archive.Dispatch{Runtime: "r", Seq: archive.Seq{Shard: uint32(n % 4), N: n / 4}})
		}
		require.NoError(b, st.claims(q))
		q.settle(true)
		q.release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
}
