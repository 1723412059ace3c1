package recording

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stax-otel/stax/archive"
)

// ID identifies a recording: 16 lower-case hex digits, random.
type ID string

// State is where a recording is in its life.
type State string

// The states of a recording.
const (
	StateStarting  State = "starting"  // sinks are being opened; the gate is still off
	StateRecording State = "recording" // the gate is on
	StateDraining  State = "draining"  // the gate is off; last data is let in
	StateSealing   State = "sealing"   // nothing more is let in; the sinks finish their work
	StateFinished  State = "finished"  // the sinks are closed
)

// Modes of a recording. The mode is informative.
const (
	ModeLaunch = "launch" // the recorder started the command
	ModeAttach = "attach" // the recorder was given pids
)

// Info describes a recording for people and for the API. It carries no secret.
type Info struct {
	ID      ID       `json:"id"`
	Name    string   `json:"name"`
	Mode    string   `json:"mode"`
	State   State    `json:"state"`
	Path    string   `json:"path"` // of the archive
	Command []string `json:"command,omitempty"`
	PIDs    []int    `json:"pids,omitempty"` // given pids and processes that joined

	StartedUnixNano int64 `json:"started_unix_nano"`
	StoppedUnixNano int64 `json:"stopped_unix_nano,omitempty"` // when the gate went off
	StopAtUnixNano  int64 `json:"stop_at_unix_nano,omitempty"` // when it will stop by itself

	StopReason string `json:"stop_reason,omitempty"`
	ExitCode   *int   `json:"exit_code,omitempty"`
	ExitSignal string `json:"exit_signal,omitempty"`

	OriginMode string `json:"origin_mode,omitempty"`
	SampleHz   int    `json:"sample_hz,omitempty"`
	// SampleBudgetPermille is as in StartOptions.
	SampleBudgetPermille int `json:"sample_budget_permille,omitempty"`

	Runtimes []RuntimeInfo `json:"runtimes,omitempty"`
	Drops    []DropTotal   `json:"drops,omitempty"`
	// Problem is a sentence about what is wrong right now, such as a full disk; empty when nothing is.
	Problem string `json:"problem,omitempty"`
	// SealDone of SealTotal steps of sealing the archive are done.
	SealDone  int `json:"seal_done,omitempty"`
	SealTotal int `json:"seal_total,omitempty"`
	// Undrained counts live runtimes whose final heartbeat did not come before the drain timeout.
	Undrained int `json:"undrained,omitempty"`
}

// RuntimeInfo is one target-side runtime of a recording.
type RuntimeInfo struct {
	Runtime archive.RuntimeID `json:"runtime"`
	PID     int               `json:"pid"`   // in the collector's PID namespace; 0: unknown
	Gated   bool              `json:"gated"` // it asks the gate, so it will send a final heartbeat
	Final   bool              `json:"final"` // it has sent its final heartbeat
}

// DropTotal counts what the recording lost on the collector's side, since it began.
type DropTotal struct {
	Stage  string `json:"stage"`
	Reason string `json:"reason"`
	Signal string `json:"signal"`
	Count  uint64 `json:"count"`
}

// Recording is one capture of one or more processes. Sinks and receivers hold it; only its [Manager] starts and stops it.
type Recording struct {
	id    ID
	token string
	path  string
	mgr   *Manager
	opts  StartOptions
	sinks []Sink        // that it is open in
	done  chan struct{} // closed when finished

	mu         sync.Mutex
	state      State
	started    time.Time
	stopped    time.Time
	stopAt     time.Time
	stopReason string
	stopErr    error
	exitCode   *int
	exitSignal string
	members    map[int]uint64 // pid → start time of that process, 0: unknown
	runtimes   map[archive.RuntimeID]*runtimeState
	drops      map[dropKey]uint64 // not yet taken
	dropTotals map[DropTotal]uint64
	problems   map[string]string // source → sentence
	undrained  int
	sealDone   int
	sealTotal  int
	holds      int
	drained    chan struct{} // signalled (capacity 1) when something that draining waits for happened
	timer      *time.Timer
}

type runtimeState struct {
	pid   int
	gated bool
	final bool
}

type dropKey struct {
	runtime               archive.RuntimeID
	shard                 uint32
	sequenced             bool
	stage, reason, signal string
}

// ID returns the recording's id.
func (r *Recording) ID() ID { return r.id }

// Token returns the secret that makes a process a member. It belongs into a child's environment, never into a log.
func (r *Recording) Token() string { return r.token }

// Path returns the directory of the archive: absolute, not changed after Start.
func (r *Recording) Path() string { return r.path }

// Options returns what the recording was started with, defaults filled in.
func (r *Recording) Options() StartOptions { return r.opts }

// Done returns a channel that is closed when the recording is finished.
func (r *Recording) Done() <-chan struct{} { return r.done }

// Info returns a snapshot.
func (r *Recording) Info() Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := Info{
		ID: r.id, Name: r.opts.Name, Mode: r.opts.Mode, State: r.state, Path: r.path, Command: slices.Clone(r.opts.Command),
		PIDs: slices.Sorted(maps.Keys(r.members)), StartedUnixNano: unixNano(r.started), StoppedUnixNano: unixNano(r.stopped),
		StopAtUnixNano: unixNano(r.stopAt), StopReason: r.stopReason, ExitSignal: r.exitSignal,
		OriginMode: r.opts.OriginMode, SampleHz: r.opts.SampleHz, SampleBudgetPermille: r.opts.SampleBudgetPermille, Undrained: r.undrained,
		SealDone: r.sealDone, SealTotal: r.sealTotal,
	}
	if r.exitCode != nil {
		code := *r.exitCode
		in.ExitCode = &code
	}
	for id, rt := range r.runtimes {
		in.Runtimes = append(in.Runtimes, RuntimeInfo{Runtime: id, PID: rt.pid, Gated: rt.gated, Final: rt.final})
	}
	slices.SortFunc(in.Runtimes, func(a, b RuntimeInfo) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Runtime, b.Runtime))
	})
	for k, n := range r.dropTotals {
		k.Count = n
		in.Drops = append(in.Drops, k)
	}
	slices.SortFunc(in.Drops, func(a, b DropTotal) int {
		return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Signal, b.Signal))
	})
	for _, source := range slices.Sorted(maps.Keys(r.problems)) {
		if in.Problem != "" {
			in.Problem += "; "
		}
		in.Problem += r.problems[source]
	}
	return in
}

// AddPID makes pid, and with it every descendant, a member.
func (r *Recording) AddPID(pid int) {
	if pid <= 0 {
		return
	}
	p, _ := r.mgr.opts.Processes.Lookup(pid)
	r.mu.Lock()
	r.members[pid] = p.Start
	r.mu.Unlock()
	r.mgr.broadcast()
}

// SetExit notes how the launched command ended: its exit code, or nil and the name of the signal that killed it.
func (r *Recording) SetExit(code *int, signal string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exitSignal = signal
	r.exitCode = nil
	if code != nil {
		c := *code
		r.exitCode = &c
	}
}

// SetProblem says what is wrong with one part of the recording ("archive", say); an empty text says that it is fine again.
func (r *Recording) SetProblem(source, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text == "" {
		delete(r.problems, source)
		return
	}
	r.problems[source] = text
}

// SetProgress says how far sealing the archive is.
func (r *Recording) SetProgress(done, total int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealDone, r.sealTotal = done, total
}

// CountDrop adds d.Count to what was lost. TimeNanos is ignored: [Recording.TakeDrops] sets it.
func (r *Recording) CountDrop(d archive.Drop) {
	if d.Count == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drops[keyOf(d)] += d.Count
	r.dropTotals[DropTotal{Stage: d.Stage, Reason: d.Reason, Signal: d.Signal}] += d.Count
}

// TakeDrops returns what was counted since the last call, for the archive, in a fixed order.
// A caller that cannot store the rows gives them back with [Recording.ReturnDrops].
func (r *Recording) TakeDrops() []archive.Drop {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.drops) == 0 {
		return nil
	}
	now := r.mgr.opts.Now().UnixNano()
	out := make([]archive.Drop, 0, len(r.drops))
	for k, n := range r.drops {
		out = append(out, archive.Drop{
			Runtime: k.runtime, Shard: k.shard, Sequenced: k.sequenced, TimeNanos: now,
			Stage: k.stage, Reason: k.reason, Signal: k.signal, Count: n,
		})
	}
	clear(r.drops)
	slices.SortFunc(out, func(a, b archive.Drop) int {
		return cmp.Or(cmp.Compare(a.Runtime, b.Runtime), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Signal, b.Signal), cmp.Compare(a.Shard, b.Shard))
	})
	return out
}

// ReturnDrops gives back rows of TakeDrops that could not be stored. Totals are not counted twice.
func (r *Recording) ReturnDrops(ds []archive.Drop) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range ds {
		r.drops[keyOf(d)] += d.Count
	}
}

// ObserveRuntime notes that data of a runtime arrived. pid is in the collector's PID namespace; 0: unknown.
func (r *Recording) ObserveRuntime(id archive.RuntimeID, pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observe(id, pid)
}

// ObserveFinal notes that the runtime's final heartbeat has been stored: nothing follows from it in this recording.
func (r *Recording) ObserveFinal(id archive.RuntimeID) {
	r.mu.Lock()
	r.observe(id, 0).final = true
	r.mu.Unlock()
	r.poke()
}

// RuntimePID returns the runtime's pid in the collector's PID namespace, if it is known.
func (r *Recording) RuntimePID(id archive.RuntimeID) (pid int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rt := r.runtimes[id]
	if rt == nil || rt.pid == 0 {
		return 0, false
	}
	return rt.pid, true
}

// Hold keeps the sinks open until release is called: for a request that has been let in and is on its way to them.
// ok is false, and release nil, when the recording takes nothing more.
func (r *Recording) Hold() (release func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != StateRecording && r.state != StateDraining {
		return nil, false
	}
	r.holds++
	var once sync.Once
	return func() {
		once.Do(func() {
			r.mu.Lock()
			r.holds--
			r.mu.Unlock()
			r.poke()
		})
	}, true
}

// observe returns the runtime's state, made if new. r.mu is held.
func (r *Recording) observe(id archive.RuntimeID, pid int) *runtimeState {
	rt := r.runtimes[id]
	if rt == nil {
		rt = &runtimeState{}
		r.runtimes[id] = rt
	}
	if pid != 0 {
		rt.pid = pid
	}
	return rt
}

// poke wakes the drain loop.
func (r *Recording) poke() {
	select {
	case r.drained <- struct{}{}:
	default:
	}
}

func keyOf(d archive.Drop) dropKey {
	return dropKey{runtime: d.Runtime, shard: d.Shard, sequenced: d.Sequenced, stage: d.Stage, reason: d.Reason, signal: d.Signal}
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
