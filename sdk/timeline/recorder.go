package timeline

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Recorder measures the ticks of one loop. BeginTick, CapturePhase, CaptureSystem and EndTick belong to the goroutine
// that runs the loop; every other method may be called from any goroutine. A nil Recorder does nothing but call the
// functions that it is given, and so does a disabled one.
//
// SetEnabled takes effect at the next BeginTick, so a tick is recorded whole or not at all.
type Recorder struct {
	opt    Options
	cfg    Configuration
	epoch  time.Time // the instant of origin
	origin time.Duration
	base   time.Time // of the built-in clock

	enabled atomic.Bool

	// The tick in progress; the loop's.
	cur          *Entry // nil: not measured
	keep         bool   // for the ring
	sink         bool   // for the sink
	serial       uint64 // of the tick, so that what outlives a tick does not write into the next
	start, last  time.Duration
	open         []int // phases that are running, by index into cur.Phases
	tickBudget   Milliseconds
	slowAfter    Milliseconds
	slow         []SystemSlowWarning // to be told at the end
	eventsSeen   bool
	lastPressure []ChannelPressure
	nowPressure  []ChannelPressure
	gcCycles     uint64
	gcPause      time.Duration
	gc           *gcWatch // the built-in one
	spare        *Entry
	systems      map[string]*systemState
	order        []*systemState // by place in the tick before, to save the map

	labels map[string]bool

	added     []addedPhase // guarded by addMu
	addMu     sync.Mutex
	hasAdded  atomic.Bool
	recording atomic.Bool // a tick is measured now or the ring wants the next: AddPhase is not in vain

	ring ring
}

// systemState is what the recorder remembers of a system from tick to tick.
type systemState struct {
	id, phase string // phase is system:<id>
	label     string
	window    uint64 // bit 0: the last execution was slow
	runs      int    // up to the window's length
}

type addedPhase struct {
	name          string
	end, duration time.Duration
}

// New makes a recorder. It allocates its ring when the first tick is recorded.
func New(o Options) *Recorder {
	r := &Recorder{opt: o, cfg: o.resolve(), base: time.Now(), systems: map[string]*systemState{}, labels: map[string]bool{}}
	r.epoch, r.origin = r.base, 0
	if o.Clock != nil {
		r.epoch, r.origin = time.Now(), o.Clock()
	}
	for _, id := range o.SystemLabels {
		r.labels[id] = true
	}
	r.ring.capacity = r.cfg.Capacity
	r.SetEnabled(o.Enabled)
	return r
}

// SetEnabled switches recording on or off. A tick in progress is not disturbed: it is recorded to its end, or not at
// all, as it was begun. What the ring holds stays readable.
func (r *Recorder) SetEnabled(on bool) {
	if r == nil {
		return
	}
	r.enabled.Store(on)
	if on {
		r.recording.Store(true)
	}
}

// Enabled reports whether the next tick will be recorded.
func (r *Recorder) Enabled() bool { return r != nil && r.enabled.Load() }

// Configuration returns the options in force.
func (r *Recorder) Configuration() Configuration {
	if r == nil {
		return Configuration{}
	}
	c := r.cfg
	c.Enabled = r.enabled.Load()
	return c
}

func (r *Recorder) now() time.Duration {
	if r.opt.Clock != nil {
		return r.opt.Clock()
	}
	return time.Since(r.base)
}

// boundary reads the clock and notes a stall if the stretch since the boundary before was too long.
func (r *Recorder) boundary() time.Duration {
	now := r.now()
	if d := now - r.last; d >= time.Duration(r.cfg.Stall) {
		r.stalled(d)
	}
	r.last = now
	return now
}

func (r *Recorder) stalled(d time.Duration) {
	if len(r.cur.Stalls) >= maxSegments {
		return
	}
	s := Stall{Offset: Milliseconds(r.last - r.start), Duration: Milliseconds(d)}
	if n := len(r.open); n > 0 && r.open[n-1] >= 0 {
		s.In = r.cur.Phases[r.open[n-1]].Name
	}
	r.cur.Stalls = append(r.cur.Stalls, s)
}

// TickStart is what the loop knows when a tick begins.
type TickStart struct {
	Tick int64
	// StepBudget is the fixed step. 0: the one of the options.
	StepBudget time.Duration
	// HostFrame is the wall time of the host frame that runs the tick.
	HostFrame time.Duration
	// LagBefore is the real time not yet simulated, before a limit on the steps per frame; see FixedStep.
	LagBefore time.Duration
	// Pending is the length of the command queue. [Options.Queue] overrules it.
	Pending int64
}

// TickEnd is what the loop knows when a tick ends.
type TickEnd struct {
	// LagAfter is LagBefore less the step.
	LagAfter time.Duration
	// Queue holds the deltas of this tick; PendingBefore in it is ignored. [Options.Queue] overrules it.
	Queue Queue
}

// BeginTick begins a tick. A tick that is still open, as after a panic that nobody recovered below the loop, is closed
// as unfinished.
func (r *Recorder) BeginTick(t TickStart) {
	if r == nil {
		return
	}
	if r.cur != nil {
		r.abandon()
	}
	r.keep = r.enabled.Load()
	r.sink = r.opt.Sink != nil && r.opt.Sink.BeginTick()
	if !r.keep && !r.sink {
		if r.recording.Load() {
			r.standDown()
		}
		return
	}
	r.begin(&t)
}

// standDown leaves nothing behind of an earlier recording that would cost or surprise.
func (r *Recorder) standDown() {
	r.recording.Store(false)
	if r.enabled.Load() { // switched on meanwhile: for the next tick
		r.recording.Store(true)
	}
	if r.opt.Queue != nil {
		r.opt.Queue.begin(false)
	}
	r.addMu.Lock()
	r.added = r.added[:0]
	r.hasAdded.Store(false)
	r.addMu.Unlock()
}

func (r *Recorder) begin(t *TickStart) {
	r.recording.Store(true)
	e := r.spare
	r.spare = nil
	if e == nil {
		e = &Entry{}
	}
	e.reset()
	e.Tick = t.Tick
	e.StepBudget = orDefault(Milliseconds(t.StepBudget), r.cfg.StepBudget)
	e.HostFrame, e.LagBefore = Milliseconds(t.HostFrame), Milliseconds(t.LagBefore)
	e.Queue.PendingBefore = t.Pending
	if r.opt.Queue != nil {
		e.Queue.PendingBefore = r.opt.Queue.begin(true)
	}
	r.tickBudget, r.slowAfter = Milliseconds(r.opt.SlowTickBudget), Milliseconds(r.opt.SlowSystemThreshold)
	if r.tickBudget <= 0 {
		r.tickBudget = e.StepBudget
	}
	if r.slowAfter <= 0 {
		r.slowAfter = e.StepBudget / defaultSlowShare
	}
	r.open, r.slow, r.eventsSeen = r.open[:0], r.slow[:0], false
	r.serial++
	r.gcCycles, r.gcPause = r.collections()
	r.start = r.now()
	r.last = r.start
	e.StartedAt = Milliseconds(r.start)
	r.cur = e
}

// collections asks for the garbage collections so far.
func (r *Recorder) collections() (uint64, time.Duration) {
	switch {
	case r.opt.GC != nil:
		return r.opt.GC()
	case r.opt.Clock != nil:
		return 0, 0
	case r.gc == nil:
		r.gc = newGCWatch()
	}
	return r.gc.read()
}

// CapturePhase runs fn and records it as a phase of the tick. A panic in fn passes, and the phase ends with it.
func (r *Recorder) CapturePhase(name string, fn func()) {
	if r == nil || r.cur == nil {
		fn()
		return
	}
	r.capturePhase(name, fn)
}

func (r *Recorder) capturePhase(name string, fn func()) {
	serial := r.serial
	i := r.openPhase(name)
	defer func() {
		if r.serial == serial && r.cur != nil {
			r.closePhase(i)
		}
	}()
	fn()
}

// openPhase begins a phase and returns its index, or -1 past the limit of a tick.
func (r *Recorder) openPhase(name string) int {
	now := r.boundary()
	e := r.cur
	if len(e.Phases) >= maxSegments {
		e.Truncated++
		r.open = append(r.open, -1)
		return -1
	}
	e.Phases = append(e.Phases, Phase{Name: name, Offset: Milliseconds(now - r.start)})
	r.open = append(r.open, len(e.Phases)-1)
	return len(e.Phases) - 1
}

// closePhase ends the innermost phase.
func (r *Recorder) closePhase(i int) (duration Milliseconds) {
	now := r.boundary()
	if n := len(r.open); n > 0 {
		r.open = r.open[:n-1]
	}
	if i < 0 {
		return 0
	}
	p := &r.cur.Phases[i]
	p.Duration = Milliseconds(now-r.start) - p.Offset
	return p.Duration
}

// CaptureSystem runs fn and records it as an execution of the system, and as the phase system:<id>. An error is noted
// and returned. A panic is noted and raised again with the same value: a loop that recovers it and goes on has its
// later systems recorded in the same tick.
func (r *Recorder) CaptureSystem(id string, fn func() error) error {
	if r == nil || r.cur == nil {
		return fn()
	}
	return r.captureSystem(id, fn)
}

func (r *Recorder) captureSystem(id string, fn func() error) (err error) {
	serial := r.serial
	if r.opt.Events != nil && !r.eventsSeen {
		r.eventsBefore()
	}
	st := r.system(id)
	at := len(r.cur.Systems)
	if at < maxSegments && len(r.cur.Phases) < maxSegments { // a system without a phase would have no time
		r.cur.Systems = append(r.cur.Systems, System{ID: id})
	} else {
		r.cur.Truncated++
		at = -1
	}
	phase := r.openPhase(st.phase)
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		if r.serial == serial && r.cur != nil {
			r.closeSystem(st, at, phase, panicLike(v))
		}
		if v != nil {
			panic(v)
		}
	}()
	err = fn()
	returned = true
	if r.serial == serial && r.cur != nil {
		var failure *ErrorLike
		if err != nil {
			failure = errorLike(err)
		}
		r.closeSystem(st, at, phase, failure)
	}
	return err
}

// system returns the state of a system. Systems mostly run in the same order in every tick.
func (r *Recorder) system(id string) *systemState {
	at := len(r.cur.Systems)
	if at < len(r.order) && r.order[at].id == id {
		return r.order[at]
	}
	st := r.systems[id]
	if st == nil {
		st = &systemState{id: id, phase: systemPhase + id}
		if r.labels[id] {
			st.label = id
		}
		if len(r.systems) < maxSystems {
			r.systems[id] = st
		}
	}
	switch {
	case at < len(r.order):
		r.order[at] = st
	case at < maxSystems:
		r.order = append(r.order, st)
	}
	return st
}

func (r *Recorder) closeSystem(st *systemState, at, phase int, failure *ErrorLike) {
	d := r.closePhase(phase)
	if phase < 0 || at < 0 {
		return
	}
	s := &r.cur.Systems[at]
	s.offset, s.Duration, s.Slow, s.Error = r.cur.Phases[phase].Offset, d, d > r.slowAfter, failure
	st.window = st.window << 1 & (1<<r.cfg.SlowSystemWindow - 1)
	st.runs = min(st.runs+1, r.cfg.SlowSystemWindow)
	if s.Slow {
		st.window |= 1
		if n := bits.OnesCount64(st.window); n >= r.cfg.SlowSystemSamples {
			s.warned = true
			r.cur.Warnings |= SystemSlow
			if r.opt.Telemetry != nil {
				r.slow = append(r.slow, SystemSlowWarning{
					Tick: r.cur.Tick, System: st.id, Label: st.label, Duration: time.Duration(d),
					Threshold: time.Duration(r.slowAfter), Slow: n, Window: st.runs,
				})
			}
		}
	}
	if r.opt.Events != nil {
		r.eventsAfter(st.id)
	}
}

// AddPhase records work that was measured elsewhere and ended now: a flush to disk, a synchronisation. It becomes a
// phase of the tick in progress, or of the next one if none is; then its offset is negative. It may be called from any
// goroutine. While nothing is recorded it does nothing.
func (r *Recorder) AddPhase(name string, duration time.Duration) {
	if r == nil || !r.recording.Load() {
		return
	}
	end := r.now()
	r.addMu.Lock()
	defer r.addMu.Unlock()
	if len(r.added) < maxAdded {
		r.added = append(r.added, addedPhase{name, end, duration})
	}
	r.hasAdded.Store(true)
}

// takeAdded moves the added phases into the tick and restores the order.
func (r *Recorder) takeAdded() {
	r.addMu.Lock()
	e := r.cur
	for _, a := range r.added {
		if len(e.Phases) >= maxSegments {
			e.Truncated++
			continue
		}
		e.Phases = append(e.Phases, Phase{Name: a.name, Offset: Milliseconds(a.end - a.duration - r.start), Duration: Milliseconds(a.duration)})
	}
	clear(r.added)
	r.added = r.added[:0]
	r.hasAdded.Store(false)
	r.addMu.Unlock()
	slices.SortStableFunc(e.Phases, func(a, b Phase) int {
		switch {
		case a.Offset < b.Offset:
			return -1
		case a.Offset > b.Offset:
			return 1
		}
		return 0
	})
}

// EndTick ends the tick: it derives the warnings, puts the entry into the ring, hands it to the sink and tells the
// telemetry. Without a tick in progress it does nothing.
func (r *Recorder) EndTick(t TickEnd) {
	if r == nil || r.cur == nil {
		return
	}
	r.seal(r.boundary(), &t)
}

// abandon closes the tick whose EndTick never came.
func (r *Recorder) abandon() {
	r.cur.Unfinished = true
	for _, i := range r.open { // phases that a Goexit or a lost loop left open
		if i >= 0 {
			r.cur.Phases[i].Duration = Milliseconds(r.last-r.start) - r.cur.Phases[i].Offset
		}
	}
	r.seal(r.last, &TickEnd{LagAfter: time.Duration(r.cur.LagBefore)})
}

func (r *Recorder) seal(end time.Duration, t *TickEnd) {
	e := r.cur
	e.Duration = Milliseconds(end - r.start)
	e.LagAfter = Milliseconds(t.LagAfter)
	if cycles, pause := r.collections(); cycles != r.gcCycles || pause != r.gcPause {
		e.GC = GC{Cycles: cycles - r.gcCycles, Pause: Milliseconds(pause - r.gcPause)}
	}
	if r.hasAdded.Load() {
		r.takeAdded()
	}
	if r.opt.Events != nil {
		e.Events.Final = r.pressure(e.Events.Final)
	}
	q := t.Queue
	if r.opt.Queue != nil {
		q = r.opt.Queue.flush()
	}
	q.PendingBefore = e.Queue.PendingBefore
	e.Queue = q
	if q.PendingBefore > 0 && q.Drained == 0 {
		e.Warnings |= QueueStarvation
	}
	if e.Duration > r.tickBudget {
		e.Warnings |= ExceededStepBudget
	}
	over := TickOverBudget{Tick: e.Tick, Duration: time.Duration(e.Duration), Budget: time.Duration(r.tickBudget)}
	isOver := e.Warnings&ExceededStepBudget != 0

	r.cur = nil
	r.serial++
	if r.sink {
		r.opt.Sink.EndTick(e, r.epoch.Add(r.start-r.origin))
	}
	if r.keep {
		e = r.ring.push(e)
	}
	r.spare = e
	if r.opt.Telemetry != nil {
		if isOver {
			r.opt.Telemetry.TickOverBudget(over)
		}
		for _, w := range r.slow {
			r.opt.Telemetry.SystemSlow(w)
		}
	}
}
