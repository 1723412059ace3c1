package recording

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/gate"
)

func TestLifeOfARecording(t *testing.T) {
	procs := &table{}
	procs.run(10, 1)
	m := newTestManager(t, procs)
	first, second := &sink{}, &sink{}
	m.AddSink(first)
	m.AddSink(second)
	r := start(t, m, StartOptions{Name: "run", PIDs: []int{10}, Command: []string{"./app"}})
	assert.Equal(t, []string{"open run"}, first.calls())

	code := 3
	r.SetExit(&code, "")
	in, err := m.Stop(t.Context(), r.ID(), "enough")
	require.NoError(t, err)
	assert.Equal(t, StateFinished, in.State)
	assert.Equal(t, "enough", in.StopReason)
	assert.Equal(t, 3, *in.ExitCode)
	assert.Equal(t, []int{10}, in.PIDs)
	assert.Equal(t, ModeAttach, in.Mode)
	assert.Positive(t, in.StoppedUnixNano)
	assert.Equal(t, []string{"open run", "close run"}, second.calls())
	assert.Len(t, m.List(), 1)

	again, err := m.Stop(t.Context(), r.ID(), "twice")
	require.NoError(t, err)
	assert.Equal(t, "enough", again.StopReason)
	_, err = m.Stop(t.Context(), "ffffffffffffffff", "")
	require.ErrorIs(t, err, ErrUnknownRecording)
}

func TestStartFailsWithTheSink(t *testing.T) {
	m := newTestManager(t, &table{})
	good, bad := &sink{}, &sink{openErr: errors.New("no space")}
	m.AddSink(good)
	m.AddSink(bad)
	_, err := m.Start(t.Context(), StartOptions{Name: "run"})
	require.ErrorContains(t, err, "no space")
	assert.Equal(t, []string{"open run", "close run"}, good.calls())
	assert.Equal(t, []string{"open run"}, bad.calls())
	assert.Empty(t, m.List())
}

func TestStopReportsTheSink(t *testing.T) {
	m := newTestManager(t, &table{})
	s := &sink{closeErr: errors.New("disk full")}
	m.AddSink(s)
	r := start(t, m, StartOptions{})
	m.RemoveSink(s) // still closes there
	in, err := m.Stop(t.Context(), r.ID(), "")
	require.ErrorContains(t, err, "disk full")
	assert.Contains(t, err.Error(), r.Path())
	assert.Contains(t, in.Problem, "disk full")
	assert.Equal(t, StateFinished, in.State)
}

func TestStopWaitsForFinalHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		procs := &table{}
		procs.run(10, 1)
		procs.run(11, 10)
		m := newTestManager(t, procs)
		r := start(t, m, StartOptions{PIDs: []int{10}})
		for pid, rt := range map[int]string{10: "a", 11: "b"} {
			require.NotEmpty(t, ask(t, m, gate.Request{PID: pid, Runtime: rt}, peer(pid, ownUser)))
		}
		r.ObserveRuntime("plain OTel", 10) // sends no heartbeats: not awaited

		began := time.Now()
		done := make(chan Info)
		go func() {
			in, _ := m.Stop(context.WithoutCancel(t.Context()), r.ID(), "test")
			done <- in
		}()
		synctest.Wait()
		assert.Equal(t, StateDraining, r.Info().State)
		_, reason := m.Admit(peer(10, ownUser))
		assert.Empty(t, reason, "the flush is let in")
		r.ObserveFinal("a")
		time.Sleep(300 * time.Millisecond)
		assert.Equal(t, StateDraining, r.Info().State)
		r.ObserveFinal("b")
		in := <-done
		assert.Equal(t, 300*time.Millisecond, time.Since(began))
		assert.Zero(t, in.Undrained)
	})
}

func TestStopDoesNotWaitForTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		procs := &table{}
		procs.run(10, 1)
		procs.run(20, 1)
		m := newTestManager(t, procs)
		r := start(t, m, StartOptions{PIDs: []int{10, 20}})
		require.NotEmpty(t, ask(t, m, gate.Request{PID: 10, Runtime: "a"}, peer(10, ownUser)))
		require.NotEmpty(t, ask(t, m, gate.Request{PID: 20, Runtime: "b"}, peer(20, ownUser)))
		procs.end(10)
		procs.run(20, 1, 777) // ended too, and its pid was given away

		began := time.Now()
		in, err := m.Stop(t.Context(), r.ID(), "test")
		require.NoError(t, err)
		assert.Zero(t, in.Undrained)
		assert.LessOrEqual(t, time.Since(began), lastWords+deathCheck)
	})
}

func TestStopTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		procs := &table{}
		procs.run(10, 1)
		m := newTestManager(t, procs)
		r := start(t, m, StartOptions{PIDs: []int{10}})
		require.NotEmpty(t, ask(t, m, gate.Request{PID: 10, Runtime: "a"}, peer(10, ownUser)))
		began := time.Now()
		in, err := m.Stop(t.Context(), r.ID(), "test")
		require.NoError(t, err)
		assert.Equal(t, 2*time.Second, time.Since(began))
		assert.Equal(t, 1, in.Undrained)
	})
}

func TestStopWaitsForHeldRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &table{})
		s := &sink{}
		m.AddSink(s)
		r := start(t, m, StartOptions{Name: "run"})
		release, ok := r.Hold()
		require.True(t, ok)
		go func() { _, _ = m.Stop(context.WithoutCancel(t.Context()), r.ID(), "") }()
		synctest.Wait()
		assert.Equal(t, []string{"open run"}, s.calls())
		release()
		release() // again does nothing
		<-r.Done()
		_, ok = r.Hold()
		assert.False(t, ok)
	})
}

func TestNothingIsLetInWhileSealing(t *testing.T) {
	m := newTestManager(t, &table{})
	var reason string
	m.AddSink(&sink{closing: func(_ context.Context, r *Recording) {
		_, reason = m.Admit(Claim{Token: r.Token(), RecordingID: string(r.ID())})
		r.SetProgress(1, 2)
	}})
	r := start(t, m, StartOptions{})
	in, err := m.Stop(t.Context(), r.ID(), "")
	require.NoError(t, err)
	assert.Equal(t, ReasonRecordingOver, reason)
	assert.Equal(t, 1, in.SealDone)
}

func TestDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &table{})
		r := start(t, m, StartOptions{Duration: 5 * time.Second})
		assert.Equal(t, time.Now().Add(5*time.Second).UnixNano(), r.Info().StopAtUnixNano)
		reply, err := m.Gate(t.Context(), gate.Request{PID: 1}, Claim{Token: r.Token()})
		require.NoError(t, err)
		assert.Equal(t, r.Info().StopAtUnixNano, reply.StopAtUnixNano)
		<-r.Done()
		in := r.Info()
		assert.Equal(t, "duration", in.StopReason)
		assert.Equal(t, 5*time.Second, time.Duration(in.StoppedUnixNano-in.StartedUnixNano))
	})
}

func TestStopOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &table{})
		r := start(t, m, StartOptions{})
		release, _ := r.Hold()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := m.Stop(ctx, r.ID(), "test")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		release()
		<-r.Done()
	})
}

func TestShutdownStopsAll(t *testing.T) {
	m := newTestManager(t, &table{})
	s := &sink{closeErr: errors.New("disk full")}
	m.AddSink(s)
	start(t, m, StartOptions{Name: "a"})
	start(t, m, StartOptions{Name: "b"})
	require.ErrorContains(t, m.Shutdown(t.Context()), "disk full")
	for _, in := range m.List() {
		assert.Equal(t, StateFinished, in.State)
		assert.Equal(t, "shutdown", in.StopReason)
	}
	require.NoError(t, m.Shutdown(t.Context()), "again")
}

func TestShutdownGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &table{})
		m.AddSink(&sink{closing: func(ctx context.Context, _ *Recording) { <-ctx.Done() }})
		start(t, m, StartOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		require.NoError(t, m.Shutdown(ctx))
		assert.Equal(t, time.Second, time.Since(began))
	})
}

func TestPaths(t *testing.T) {
	now := time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC)
	dir := filepath.Join(t.TempDir(), "new", "recordings")
	m, err := NewManager(Options{Dir: dir, Now: func() time.Time { return now }})
	require.NoError(t, err)
	defer func() { assert.NoError(t, m.Shutdown(context.WithoutCancel(t.Context()))) }()

	a := start(t, m, StartOptions{Name: "run"})
	b := start(t, m, StartOptions{Name: "run"})
	assert.Equal(t, filepath.Join(dir, "run-20261121T010203Z.stax"), a.Path())
	assert.Equal(t, filepath.Join(dir, "run-20261121T010203Z-2.stax"), b.Path())

	out := filepath.Join(t.TempDir(), "x.stax")
	c := start(t, m, StartOptions{Out: out})
	assert.Equal(t, out, c.Path())
	_, err = m.Start(t.Context(), StartOptions{Out: out})
	require.ErrorIs(t, err, os.ErrExist)
	_, err = m.Start(t.Context(), StartOptions{Out: filepath.Join(out, "no", "x.stax")})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "make the directory first")
}

func TestStartRefusesBadOptions(t *testing.T) {
	m := newTestManager(t, &table{})
	taken := start(t, m, StartOptions{})
	for name, o := range map[string]StartOptions{
		"parent":        {Name: "../x"},
		"slash":         {Name: "a/b"},
		"backslash":     {Name: `a\b`},
		"hidden":        {Name: ".x"},
		"option":        {Name: "-rf"},
		"zero byte":     {Name: "a\x00b"},
		"long":          {Name: strings.Repeat("a", 101)},
		"origin mode":   {OriginMode: "everything"},
		"duration":      {Duration: -1},
		"hz":            {SampleHz: -1},
		"short token":   {Token: "x"},
		"token in use":  {Token: taken.Token()},
		"no such pid":   {PIDs: []int{12345}},
		"negative pid":  {PIDs: []int{-1}},
		"mode too long": {Mode: strings.Repeat("m", 33)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Start(t.Context(), o)
			require.ErrorIs(t, err, ErrInvalid)
			assert.True(t, strings.HasPrefix(err.Error(), "recording: "), err)
		})
	}
	_, err := NewManager(Options{DrainTimeout: -1})
	assert.Error(t, err)
}

func TestDrops(t *testing.T) {
	m := newTestManager(t, &table{})
	r := start(t, m, StartOptions{})
	d := archive.Drop{Runtime: "a", Shard: 3, Sequenced: true, Stage: "receiver", Reason: "bad_times", Signal: "dispatch", Count: 2}
	r.CountDrop(d)
	r.CountDrop(d)
	r.CountDrop(archive.Drop{Stage: "receiver", Reason: "wrong_pid", Signal: "span", Count: 1})
	r.CountDrop(archive.Drop{Stage: "receiver", Reason: "nothing", Signal: "span"})

	rows := r.TakeDrops()
	require.Len(t, rows, 2)
	assert.Equal(t, uint64(1), rows[0].Count)
	assert.Equal(t, uint64(4), rows[1].Count)
	assert.Equal(t, uint32(3), rows[1].Shard)
	assert.Positive(t, rows[1].TimeNanos)
	assert.Empty(t, r.TakeDrops())
	r.ReturnDrops(rows[1:])
	assert.Equal(t, uint64(4), r.TakeDrops()[0].Count)
	assert.Equal(t, []DropTotal{
		{Stage: "receiver", Reason: "bad_times", Signal: "dispatch", Count: 4},
		{Stage: "receiver", Reason: "wrong_pid", Signal: "span", Count: 1},
	}, r.Info().Drops)
}

func TestProblems(t *testing.T) {
	m := newTestManager(t, &table{})
	r := start(t, m, StartOptions{})
	r.SetProblem("archive", "disk full")
	r.SetProblem("sampler", "no permission")
	assert.Equal(t, "disk full; no permission", r.Info().Problem)
	r.SetProblem("archive", "")
	assert.Equal(t, "no permission", r.Info().Problem)
}

func TestFinishedRecordingsAreForgottenInTheEnd(t *testing.T) {
	m := newTestManager(t, &table{})
	keep := start(t, m, StartOptions{Out: filepath.Join(t.TempDir(), "keep")})
	for range maxFinished + 5 {
		r := start(t, m, StartOptions{Out: filepath.Join(t.TempDir(), "x")})
		_, err := m.Stop(t.Context(), r.ID(), "")
		require.NoError(t, err)
	}
	assert.Len(t, m.List(), maxFinished)
	_, ok := m.Get(keep.ID())
	assert.True(t, ok, "a running recording is never forgotten")
}
