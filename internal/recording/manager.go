package recording

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/gate"
)

// ErrUnknownRecording means that no recording has the given id.
var ErrUnknownRecording = errors.New("no such recording")

// ErrInvalid is what errors about StartOptions are: the caller can correct them.
var ErrInvalid = errors.New("invalid recording options")

// invalidError keeps its own text and is ErrInvalid.
type invalidError struct{ text string }

func (e *invalidError) Error() string        { return e.text }
func (e *invalidError) Is(target error) bool { return target == ErrInvalid }

func invalidf(format string, args ...any) error {
	return &invalidError{"recording: " + fmt.Sprintf(format, args...)}
}

// ErrShutdown means that the Manager has been shut down.
var ErrShutdown = errors.New("recording: manager is shut down")

// maxFinished bounds how many finished recordings a Manager remembers; the oldest are forgotten first.
const maxFinished = 1000

// Options configure a [Manager].
type Options struct {
	// Dir is where archives without an explicit path go. It is made when the first one is started.
	Dir string
	// DrainTimeout bounds how long Stop waits for final heartbeats. 0 means 2 s.
	DrainTimeout time.Duration
	// Now is the collector's clock. nil means time.Now.
	Now func() time.Time
	// Logger may be nil.
	Logger *zap.Logger
	// Processes looks up processes. nil means those of this machine.
	Processes Processes
	// UID is the user whose processes need no token. 0 with HaveUID false means the user of this process.
	UID     int
	HaveUID bool
}

// StartOptions say what to record and where to.
type StartOptions struct {
	// Name is the display name and the begin of the archive's file name: letters, digits, dot, dash and underscore, at
	// most 100 bytes, not beginning with a dot. Empty means "recording".
	Name string `json:"name,omitempty"`
	// Out is the archive's directory. Empty means Dir/NAME-<UTC time>.stax. It may lie anywhere, so it is only for callers
	// that act for the user of this process.
	Out string `json:"out,omitempty"`
	// Mode is informative; empty means ModeAttach with PIDs, else ModeLaunch.
	Mode string `json:"mode,omitempty"`
	// Token makes its bearers members. Empty: one is made.
	Token string `json:"token,omitempty"`
	// PIDs are members, with their descendants. More may follow by AddPID.
	PIDs []int `json:"pids,omitempty"`
	// Command is the launched command, informative.
	Command []string `json:"command,omitempty"`
	// Duration, if positive, stops the recording by itself.
	Duration time.Duration `json:"duration_ns,omitempty"`
	// OriginMode is what the gate asks targets for: stack, thread, off or "" (the lane decides).
	OriginMode string `json:"origin_mode,omitempty"`
	// SampleHz is the wanted CPU sampling rate; 0: none.
	SampleHz int `json:"sample_hz,omitempty"`
	// SampleBudgetPermille is how much of its own processor time a target may spend on being sampled, in thousandths;
	// 0: the target's default.
	SampleBudgetPermille int `json:"sample_budget_permille,omitempty"`
}

// Sink stores what a recording receives. Data reaches it by its own way (an exporter is a Sink and a consumer); the
// Manager only says when a recording opens and closes.
type Sink interface {
	// OpenRecording is called before the gate goes on. An error makes Start fail.
	OpenRecording(ctx context.Context, r *Recording) error
	// CloseRecording is called once after draining, also when another sink failed to open (then ctx may be short).
	CloseRecording(ctx context.Context, r *Recording) error
}

// Manager owns recordings.
type Manager struct {
	opts Options
	log  *zap.Logger

	mu       sync.Mutex
	sinks    []Sink
	recs     map[ID]*Recording
	order    []*Recording // oldest first
	changed  chan struct{}
	closed   bool
	ctx      context.Context // ends when Shutdown gives up
	cancel   context.CancelFunc
	stopping sync.WaitGroup
}

// NewManager returns a Manager without recordings. It starts no goroutine.
func NewManager(o Options) (*Manager, error) {
	if o.DrainTimeout < 0 {
		return nil, fmt.Errorf("recording: drain timeout must be at least 0, not %s", o.DrainTimeout)
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = 2 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Processes == nil {
		o.Processes = SystemProcesses()
	}
	if !o.HaveUID {
		o.UID, o.HaveUID = os.Getuid(), true
	}
	m := &Manager{opts: o, log: o.Logger, recs: map[ID]*Recording{}, changed: make(chan struct{})}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m, nil
}

// Dir returns the directory of archives without an explicit path.
func (m *Manager) Dir() string { return m.opts.Dir }

// AddSink makes s part of every recording that starts from now on.
func (m *Manager) AddSink(s Sink) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sinks = append(m.sinks, s)
}

// RemoveSink takes s out again. Recordings that are open in it still close there when they end.
func (m *Manager) RemoveSink(s Sink) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sinks = slices.DeleteFunc(m.sinks, func(x Sink) bool { return x == s })
}

// Start begins a recording: sinks are open and the gate is on when it returns.
func (m *Manager) Start(ctx context.Context, o StartOptions) (*Recording, error) {
	if err := o.normalize(); err != nil {
		return nil, err
	}
	now := m.opts.Now()
	r := &Recording{
		id: ID(randomHex(8)), token: o.Token, mgr: m, opts: o, done: make(chan struct{}), state: StateStarting, started: now,
		members: map[int]uint64{}, runtimes: map[archive.RuntimeID]*runtimeState{}, drops: map[dropKey]uint64{},
		dropTotals: map[DropTotal]uint64{}, problems: map[string]string{}, drained: make(chan struct{}, 1),
	}
	for _, pid := range o.PIDs {
		p, ok := m.opts.Processes.Lookup(pid)
		if !ok {
			return nil, invalidf("there is no process %d; give the pid of a running process", pid)
		}
		r.members[pid] = p.Start
	}

	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, ErrShutdown
	}
	path, err := m.archivePath(o, now)
	if err == nil {
		err = m.checkToken(o.Token)
	}
	if err != nil {
		m.mu.Unlock()
		return nil, err
	}
	r.path = path
	r.sinks = slices.Clone(m.sinks)
	m.recs[r.id] = r
	m.order = append(m.order, r)
	m.stopping.Add(1) // until the sinks are open or closed again: Shutdown waits for that
	m.mu.Unlock()
	defer m.stopping.Done()

	for i, s := range r.sinks {
		if err := s.OpenRecording(ctx, r); err != nil {
			for _, open := range slices.Backward(r.sinks[:i]) {
				err = errors.Join(err, open.CloseRecording(context.WithoutCancel(ctx), r))
			}
			m.forget(r)
			close(r.done)
			return nil, fmt.Errorf("recording: start %q: %w", o.Name, err)
		}
	}

	r.mu.Lock()
	r.state = StateRecording
	if o.Duration > 0 {
		r.stopAt = now.Add(o.Duration)
		r.timer = time.AfterFunc(o.Duration, func() { m.beginStop(r, "duration") })
	}
	r.mu.Unlock()
	m.broadcast()
	m.log.Info("recording started", zap.String("recording", string(r.id)), zap.String("path", r.path), zap.Ints("pids", o.PIDs))

	m.mu.Lock()
	closed := m.closed
	m.mu.Unlock()
	if closed {
		m.beginStop(r, "shutdown")
		return nil, ErrShutdown
	}
	return r, nil
}

// Stop ends a recording and returns when its sinks are closed: the gate goes off at once, then final data is awaited. When
// ctx ends first Stop returns its error, and the recording still finishes by itself. Stopping again waits for the same end.
// An error of a sink is returned with a valid Info.
func (m *Manager) Stop(ctx context.Context, id ID, reason string) (Info, error) {
	r, ok := m.Get(id)
	if !ok {
		return Info{}, fmt.Errorf("recording %q: %w", id, ErrUnknownRecording)
	}
	if !m.beginStop(r, reason) {
		return r.Info(), fmt.Errorf("recording %q is still starting; try again", id)
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return r.Info(), fmt.Errorf("recording %q: stopping: %w", id, ctx.Err())
	}
	r.mu.Lock()
	err := r.stopErr
	r.mu.Unlock()
	return r.Info(), err
}

// List returns all recordings, newest first.
func (m *Manager) List() []Info {
	m.mu.Lock()
	order := slices.Clone(m.order)
	m.mu.Unlock()
	infos := make([]Info, 0, len(order))
	for _, r := range slices.Backward(order) {
		infos = append(infos, r.Info())
	}
	return infos
}

// Get returns the recording with the id.
func (m *Manager) Get(id ID) (*Recording, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.recs[id]
	return r, ok
}

// StopAll stops every recording and returns when their sinks are closed, or when ctx ends: then they still finish by
// themselves.
func (m *Manager) StopAll(ctx context.Context, reason string) error {
	m.mu.Lock()
	order := slices.Clone(m.order)
	m.mu.Unlock()
	var open []*Recording
	for _, r := range order {
		if s := r.currentState(); s != StateFinished && s != StateStarting && m.beginStop(r, reason) {
			open = append(open, r)
		}
	}
	var errs []error
	for _, r := range open {
		_, err := m.Stop(ctx, r.id, reason)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Shutdown stops every recording and refuses new ones; gate polls end. When ctx ends first, the sinks' contexts end too.
func (m *Manager) Shutdown(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.broadcast()
	stop := context.AfterFunc(ctx, m.cancel)
	defer stop()
	err := m.StopAll(context.WithoutCancel(ctx), "shutdown")
	m.stopping.Wait()
	m.cancel()
	return err
}

// beginStop turns the gate off and starts the rest in the background. It reports whether the recording is being stopped
// or has been.
func (m *Manager) beginStop(r *Recording, reason string) bool {
	m.mu.Lock()
	r.mu.Lock()
	switch r.state {
	case StateStarting:
		r.mu.Unlock()
		m.mu.Unlock()
		return false
	case StateDraining, StateSealing, StateFinished:
		r.mu.Unlock()
		m.mu.Unlock()
		return true
	}
	r.state = StateDraining
	r.stopped = m.opts.Now()
	r.stopReason = reason
	if r.timer != nil {
		r.timer.Stop()
	}
	m.stopping.Add(1)
	r.mu.Unlock()
	m.mu.Unlock()
	m.broadcast()
	go func() {
		defer m.stopping.Done()
		m.finish(r)
	}()
	return true
}

// finish drains r, closes its sinks and marks it finished.
func (m *Manager) finish(r *Recording) {
	undrained := m.drain(r)
	r.mu.Lock()
	r.undrained = undrained
	r.state = StateSealing
	r.mu.Unlock()
	var errs []error
	for _, s := range slices.Backward(r.sinks) {
		if err := s.CloseRecording(m.ctx, r); err != nil {
			errs = append(errs, err)
		}
	}
	err := errors.Join(errs...)
	r.mu.Lock()
	r.state = StateFinished
	if err != nil {
		r.stopErr = fmt.Errorf("recording: finish %s: %w", r.path, err)
		r.problems["finish"] = r.stopErr.Error()
	}
	r.mu.Unlock()
	close(r.done)
	m.trim()
	m.log.Info("recording finished", zap.String("recording", string(r.id)), zap.String("path", r.path),
		zap.Int("undrained_runtimes", undrained), zap.Error(err))
}

// forget removes a recording that never began.
func (m *Manager) forget(r *Recording) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.recs, r.id)
	m.order = slices.DeleteFunc(m.order, func(x *Recording) bool { return x == r })
}

// trim forgets the oldest finished recordings beyond maxFinished.
func (m *Manager) trim() {
	m.mu.Lock()
	defer m.mu.Unlock()
	excess := len(m.order) - maxFinished
	m.order = slices.DeleteFunc(m.order, func(r *Recording) bool {
		if excess <= 0 || r.currentState() != StateFinished {
			return false
		}
		excess--
		delete(m.recs, r.id)
		return true
	})
}

// broadcast wakes every gate poll: some answer may have changed.
func (m *Manager) broadcast() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.changed)
	m.changed = make(chan struct{})
}

// current returns the recordings that may take data, newest first, and the channel that is closed at the next change.
func (m *Manager) current() (recs []*Recording, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range slices.Backward(m.order) {
		if s := r.currentState(); s == StateRecording || s == StateDraining {
			recs = append(recs, r)
		}
	}
	return recs, m.changed
}

func (r *Recording) currentState() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// checkToken refuses a token that another open recording has: its bearers could not be told apart. m.mu is held.
func (m *Manager) checkToken(token string) error {
	for _, r := range m.order {
		if r.token == token && r.currentState() != StateFinished {
			return invalidf("the token is already used by recording %s; leave it empty to get a new one", r.id)
		}
	}
	return nil
}

func (o *StartOptions) normalize() error {
	if o.Name == "" {
		o.Name = "recording"
	}
	if err := CheckName(o.Name); err != nil {
		return err
	}
	if o.Mode == "" {
		o.Mode = ModeLaunch
		if len(o.PIDs) > 0 {
			o.Mode = ModeAttach
		}
	}
	switch o.OriginMode {
	case "", gate.OriginStack, gate.OriginThread, gate.OriginOff:
	default:
		return invalidf("origin mode %q: want %s, %s or %s", o.OriginMode, gate.OriginStack, gate.OriginThread, gate.OriginOff)
	}
	switch {
	case o.Duration < 0:
		return invalidf("duration must be at least 0, not %s", o.Duration)
	case o.SampleHz < 0 || o.SampleHz > 100_000:
		return invalidf("sampling rate must be between 0 and 100000 Hz, not %d", o.SampleHz)
	case o.SampleBudgetPermille < 0 || o.SampleBudgetPermille > 1000:
		return invalidf("sampling budget must be between 0 and 1000 permille, not %d", o.SampleBudgetPermille)
	case len(o.Mode) > 32 || len(o.PIDs) > 10_000 || len(o.Command) > 10_000:
		return invalidf("mode, pids or command too long")
	case o.Token != "" && (len(o.Token) < 16 || len(o.Token) > 256):
		return invalidf("token must have 16 to 256 bytes; leave it empty to get a new one")
	}
	if o.Token == "" {
		o.Token = randomHex(16)
	}
	o.PIDs, o.Command = slices.Clone(o.PIDs), slices.Clone(o.Command)
	return nil
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
