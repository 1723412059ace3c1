package recording

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/sdk/gate"
)

func TestAdmitReasons(t *testing.T) {
	procs := &table{}
	procs.run(10, 1)
	procs.run(20, 1)
	m := newTestManager(t, procs)

	admit := func(c Claim) string {
		r, reason := m.Admit(c)
		assert.Equal(t, r == nil, reason != "")
		return reason
	}
	assert.Equal(t, ReasonNoActiveRecording, admit(peer(10, ownUser)))

	r := start(t, m, StartOptions{PIDs: []int{10}})
	named := func(c Claim, id ID) Claim { c.RecordingID = string(id); return c }
	withPID := func(c Claim, pid int) Claim { c.PID = pid; return c }
	assert.Empty(t, admit(peer(10, ownUser)))
	assert.Empty(t, admit(named(peer(10, ownUser), r.ID())))
	assert.Equal(t, ReasonWrongPID, admit(peer(20, ownUser)))
	assert.Equal(t, ReasonWrongPID, admit(withPID(peer(20, ownUser), 10)), "the kernel knows better")
	assert.Equal(t, ReasonWrongPID, admit(withPID(Claim{Token: r.Token()}.WithPeer(Peer{PID: 20, UID: ownUser}, true), 10)))
	assert.Equal(t, ReasonWrongUser, admit(peer(10, 1001)))
	assert.Equal(t, ReasonBadToken, admit(Claim{Token: "0123456789abcdef", PID: 10}))
	assert.Equal(t, ReasonUnknownRecording, admit(named(peer(10, ownUser), "ffffffffffffffff")))

	_, err := m.Stop(t.Context(), r.ID(), "test")
	require.NoError(t, err)
	assert.Equal(t, ReasonRecordingOver, admit(named(peer(10, ownUser), r.ID())))
	assert.Equal(t, ReasonNoActiveRecording, admit(peer(10, ownUser)))
}

func TestTwoRecordingsOfDifferentProcesses(t *testing.T) {
	procs := &table{}
	for _, pid := range []int{10, 20} {
		procs.run(pid, 1)
		procs.run(pid+1, pid)
	}
	m := newTestManager(t, procs)
	a := start(t, m, StartOptions{Name: "a", PIDs: []int{10}})
	b := start(t, m, StartOptions{Name: "b", PIDs: []int{20}})
	assert.NotEqual(t, a.Path(), b.Path())
	for pid, want := range map[int]*Recording{10: a, 11: a, 20: b, 21: b} {
		got, reason := m.Admit(peer(pid, ownUser))
		assert.Same(t, want, got, "pid %d: %s", pid, reason)
		assert.Equal(t, string(want.ID()), ask(t, m, gate.Request{PID: pid}, peer(pid, ownUser)))
	}
	r, reason := m.Admit(Claim{RecordingID: string(b.ID())}.WithPeer(Peer{PID: 10, UID: ownUser}, true))
	assert.Nil(t, r)
	assert.Equal(t, ReasonWrongPID, reason, "data of one process cannot go into the recording of another")
}

func TestNewestRecordingOfAProcessWins(t *testing.T) {
	procs := &table{}
	procs.run(10, 1)
	m := newTestManager(t, procs)
	old := start(t, m, StartOptions{Name: "old", PIDs: []int{10}})
	req := gate.Request{PID: 10, Runtime: "a"}
	assert.Equal(t, string(old.ID()), ask(t, m, req, peer(10, ownUser)))
	next := start(t, m, StartOptions{Name: "new", PIDs: []int{10}})
	req.Have = string(old.ID())
	assert.Equal(t, string(next.ID()), ask(t, m, req, peer(10, ownUser)))

	r, _ := m.Admit(peer(10, ownUser))
	assert.Same(t, next, r)
	r, _ = m.Admit(Claim{RecordingID: string(old.ID())}.WithPeer(Peer{PID: 10, UID: ownUser}, true))
	assert.Same(t, old, r, "the flush for the old one still goes there")
	old.ObserveFinal("a")

	next.ObserveFinal("a")
	_, err := m.Stop(t.Context(), next.ID(), "test")
	require.NoError(t, err)
	req.Have = string(next.ID())
	assert.Equal(t, string(old.ID()), ask(t, m, req, peer(10, ownUser)), "and the process comes back to the old one")
	assert.False(t, old.Info().Runtimes[0].Final, "whose end is awaited again")
	old.ObserveFinal("a")
}

func TestMembershipFollowsTheProcess(t *testing.T) {
	procs := &table{}
	procs.run(10, 1)
	procs.run(11, 10)
	m := newTestManager(t, procs)
	r := start(t, m, StartOptions{})
	assert.Empty(t, ask(t, m, gate.Request{PID: 10}, peer(10, ownUser)))
	r.AddPID(10)
	assert.Equal(t, string(r.ID()), ask(t, m, gate.Request{PID: 11}, peer(11, ownUser)))

	procs.end(10)
	procs.run(11, 1) // an orphan now
	assert.Equal(t, string(r.ID()), ask(t, m, gate.Request{PID: 11}, peer(11, ownUser)), "once a member, always a member")
	got, _ := m.Admit(peer(10, ownUser))
	assert.Same(t, r, got, "the last data of a process that has ended")

	procs.run(10, 1, 999)
	got, reason := m.Admit(peer(10, ownUser))
	assert.Nil(t, got, "another process has the pid now")
	assert.Equal(t, ReasonWrongPID, reason)
}

func TestRuntimePID(t *testing.T) {
	procs := &table{procs: map[int]Process{30: {PID: 30, Parent: 1, Start: 30, Inner: []int{4}}}}
	m := newTestManager(t, procs)
	r := start(t, m, StartOptions{PIDs: []int{30}})
	_, ok := r.RuntimePID("a")
	assert.False(t, ok)
	got, reason := m.Admit(Claim{PID: 4, Runtime: "a"}.WithPeer(Peer{PID: 30, UID: ownUser}, true))
	assert.Same(t, r, got, reason)
	pid, ok := r.RuntimePID("a")
	assert.True(t, ok)
	assert.Equal(t, 30, pid, "as the collector sees it")
}
