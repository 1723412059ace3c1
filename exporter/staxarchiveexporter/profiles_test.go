package staxarchiveexporter

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/gotrace"
	"github.com/stax-otel/stax/internal/profiles"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/semconv"
)

func testStack(function string) profiles.Stack {
	f := []profiles.Frame{{Function: function, File: "main.go", Line: 3}, {Function: "main.main", File: "main.go", Line: 9}}
	return profiles.Stack{ID: gotrace.HashFrames(f), Frames: f}
}

// profileRequest is a request of a producer that knows a pid and no more.
func profileRequest(id recording.ID, scope string, d profiles.Data) pprofile.Profiles {
	pd := pprofile.NewProfiles()
	rp := pd.ResourceProfiles().AppendEmpty()
	rp.Resource().Attributes().PutStr(semconv.RecordingIDKey, string(id))
	rp.Resource().Attributes().PutInt(semconv.ProcessPIDKey, 4711)
	sp := rp.ScopeProfiles().AppendEmpty()
	sp.Scope().SetName(scope)
	profiles.NewEncoder(pd.Dictionary()).Encode(sp, &d)
	return pd
}

// traceData is what a generation of a trace gives.
func traceData() profiles.Data {
	const source = semconv.ProfileSourceGoExecTrace
	a, b := testStack("main.a"), testStack("main.b")
	return profiles.Data{
		Stacks:       []profiles.Stack{a, b},
		Samples:      []archive.Sample{{ThreadID: 5, GoroutineID: 1, TimeNanos: 100, Stack: a.ID, Count: 1, CPUNanos: 4e6, Source: source}},
		OffCPU:       []archive.OffCPU{{ThreadID: 5, GoroutineID: 1, ResumeThreadID: 6, BeginNanos: 100, WakeNanos: 150, EndNanos: 200, Reason: semconv.WaitReasonIPC, Detail: "chan receive", Stack: a.ID, WakerThreadID: 7, WakerGoroutine: 2, WakerStack: b.ID, Source: source}},
		OriginEvents: []archive.OriginEvent{{ThreadID: 5, GoroutineID: 1, TimeNanos: 90, EventNanos: 91, Stack: b.ID}},
		Threads:      []archive.Thread{{ID: 5, Name: "worker"}},
		Sources:      []archive.ProfileSource{{Source: source, State: semconv.ProfileStateRunning, BeginNanos: 1, EndNanos: 300, Samples: 1, Waits: 9, WaitsShort: 8, ShortNanos: 7, CostNanos: 6}},
	}
}

func TestProfilesBecomeRows(t *testing.T) {
	r := newRig(t)
	w := r.fake()
	rec := r.start()
	d := traceData()
	d.LostGenerations = 2
	require.NoError(t, r.profiles.ConsumeProfiles(t.Context(), profileRequest(rec.ID(), semconv.ScopeCPUTrace, d)))
	b := w.batches[0]
	require.Len(t, b.Runtimes, 1)
	rt := b.Runtimes[0].ID
	require.EqualValues(t, 4711, b.Runtimes[0].PID)
	var want archive.Batch
	d.AppendTo(&want, rt)
	assert.Equal(t, want.Samples, b.Samples)
	assert.Equal(t, want.OffCPU, b.OffCPU)
	assert.Equal(t, want.OriginEvents, b.OriginEvents)
	assert.Equal(t, want.ProfileSources, b.ProfileSources)
	assert.ElementsMatch(t, want.StackFrames, b.StackFrames)
	assert.ElementsMatch(t, []archive.Thread{{Runtime: rt, ID: 5, Name: "worker"}, {Runtime: rt, ID: 6}, {Runtime: rt, ID: 7}}, b.Threads)
	assert.Empty(t, b.Passthrough)
	require.Len(t, b.Drops, 1)
	assert.Equal(t, []any{"sdk", "generation_lost", uint64(2)}, []any{b.Drops[0].Stage, b.Drops[0].Reason, b.Drops[0].Count})

	require.NoError(t, r.profiles.ConsumeProfiles(t.Context(), profileRequest(rec.ID(), semconv.ScopeCPUTrace, traceData())))
	b = w.batches[1]
	assert.Len(t, b.Samples, 1)
	assert.Empty(t, b.StackFrames, "known by now")
	assert.Empty(t, b.Threads)
	assert.Empty(t, b.Runtimes)
}

// TestProfilesNotUnderstood: each profile is rows or passed through, never both.
func TestProfilesNotUnderstood(t *testing.T) {
	r := newRig(t)
	w := r.fake()
	rec := r.start()
	pd := profileRequest(rec.ID(), "ebpf", traceData())
	sp := pd.ResourceProfiles().At(0).ScopeProfiles().At(0)
	understood := sp.Profiles().Len()
	heap := sp.Profiles().AppendEmpty()
	heap.Samples().AppendEmpty().Values().Append(5)
	heap.SetOriginalPayloadFormat("x")
	bad := sp.Profiles().At(0).Samples().AppendEmpty()
	bad.SetStackIndex(1 << 20)
	bad.Values().Append(1)
	require.NoError(t, r.profiles.ConsumeProfiles(t.Context(), pd))
	b := w.batches[0]
	assert.Len(t, b.Samples, 1)
	require.Len(t, b.Passthrough, 1)
	req := pprofileotlp.NewExportRequest()
	require.NoError(t, req.UnmarshalProto(b.Passthrough[0].Payload))
	kept := req.Profiles().ResourceProfiles().At(0).ScopeProfiles().At(0)
	require.Equal(t, 1, kept.Profiles().Len())
	assert.Equal(t, "x", kept.Profiles().At(0).OriginalPayloadFormat())
	assert.Equal(t, "ebpf", kept.Scope().Name())
	assert.Equal(t, understood+1, sp.Profiles().Len(), "the request is not changed")
	in := r.stop(rec)
	require.Len(t, in.Drops, 1)
	assert.Equal(t, "malformed_sample", in.Drops[0].Reason)
}

// bigData is more than one append takes of a rig with few rows.
func bigData() profiles.Data {
	d := traceData()
	for i := range 1_500 {
		s := d.Samples[0]
		s.TimeNanos += int64(i) + 1
		d.Samples = append(d.Samples, s)
	}
	for i := range 600 {
		st := testStack(fmt.Sprint("main.f", i))
		d.Stacks = append(d.Stacks, st)
		w := d.OffCPU[0]
		w.Stack = st.ID
		d.OffCPU = append(d.OffCPU, w)
	}
	return d
}

func TestProfilesLargerThanAnAppend(t *testing.T) {
	r := newRig(t)
	r.e.maxRows = 1000
	rec := r.start()
	require.NoError(t, r.profiles.ConsumeProfiles(t.Context(), profileRequest(rec.ID(), "x", bigData())))
	in := r.stop(rec)
	require.Empty(t, in.Drops)
	got := dump(t, rec)
	assert.Equal(t, 1_501, strings.Count(got, "\nsamples "))
	assert.Equal(t, 601, strings.Count(got, "\noff_cpu "))
	assert.Equal(t, 2*602, strings.Count(got, "\nstack_frames "))
}

// TestProfilesPartlyStored: a failure between the parts does not make the sender double what is stored.
func TestProfilesPartlyStored(t *testing.T) {
	for failAt, doubled := range map[int]bool{1: false, 6: true} {
		t.Run(fmt.Sprint("append ", failAt), func(t *testing.T) {
			r := newRig(t)
			r.e.maxRows = 1000
			w := r.fake()
			w.failAt = failAt
			w.err = errors.New("disk")
			rec := r.start()
			d := bigData()
			err := r.profiles.ConsumeProfiles(t.Context(), profileRequest(rec.ID(), "x", d))
			stored := 0
			for _, b := range w.batches {
				stored += len(b.Samples) + len(b.OffCPU) + len(b.OriginEvents) + len(b.ProfileSources)
			}
			if !doubled {
				require.Error(t, err)
				require.False(t, consumererror.IsPermanent(err))
				require.Zero(t, stored)
				return
			}
			require.NoError(t, err)
			require.Positive(t, stored)
			drops := rec.TakeDrops()
			require.Len(t, drops, 1)
			require.Equal(t, reasonPartlyStored, drops[0].Reason)
			require.EqualValues(t, len(d.Samples)+len(d.OffCPU)+len(d.OriginEvents)+len(d.Sources)-stored, drops[0].Count)
		})
	}
}
