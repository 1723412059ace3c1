package recording

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/stax-otel/stax/sdk/gate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ownUser = 1000

// table is a process table for tests.
type table struct {
	mu    sync.Mutex
	procs map[int]Process
	ns    uint64
}

func (t *table) Lookup(pid int) (Process, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.procs[pid]
	return p, ok
}

func (t *table) Namespace() uint64 { return t.ns }

// run adds a process; its start time is its pid, unless another is given.
func (t *table) run(pid, parent int, start ...uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.procs == nil {
		t.procs = map[int]Process{}
	}
	p := Process{PID: pid, Parent: parent, Start: uint64(pid)}
	if len(start) > 0 {
		p.Start = start[0]
	}
	t.procs[pid] = p
}

func (t *table) end(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.procs, pid)
}

// sink notes what is asked of it.
type sink struct {
	mu       sync.Mutex
	log      []string
	openErr  error
	closeErr error
	closing  func(ctx context.Context, r *Recording)
}

func (s *sink) OpenRecording(_ context.Context, r *Recording) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, "open "+r.Options().Name)
	return s.openErr
}

func (s *sink) CloseRecording(ctx context.Context, r *Recording) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, "close "+r.Options().Name)
	if s.closing != nil {
		s.closing(ctx, r)
	}
	return s.closeErr
}

func (s *sink) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.log...)
}

func newTestManager(t *testing.T, procs Processes) *Manager {
	t.Helper()
	m, err := NewManager(Options{Dir: t.TempDir(), Processes: procs, UID: ownUser, HaveUID: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Shutdown(context.WithoutCancel(t.Context())) })
	return m
}

func start(t *testing.T, m *Manager, o StartOptions) *Recording {
	t.Helper()
	r, err := m.Start(t.Context(), o)
	require.NoError(t, err)
	return r
}

// ask asks the gate without waiting and returns the recording's id, or the error in short.
func ask(t *testing.T, m *Manager, req gate.Request, c Claim) string {
	t.Helper()
	reply, err := m.Gate(t.Context(), req, c)
	switch {
	case errors.Is(err, ErrUnauthorized):
		return "401"
	case errors.Is(err, ErrForbidden):
		return "403"
	case errors.Is(err, ErrSchemaMismatch):
		return "409"
	}
	require.NoError(t, err)
	return reply.RecordingID
}

// peer is a claim from a unix socket.
func peer(pid, uid int) Claim { return Claim{}.WithPeer(Peer{PID: pid, UID: uid}, true) }

// poll asks the gate in the background with a long wait and returns the channel of the answer.
func poll(ctx context.Context, m *Manager, req gate.Request, c Claim) <-chan gate.Reply {
	ch := make(chan gate.Reply, 1)
	req.Wait = 20 * time.Second
	go func() {
		reply, err := m.Gate(ctx, req, c)
		if err == nil {
			ch <- reply
		}
		close(ch)
	}()
	return ch
}
