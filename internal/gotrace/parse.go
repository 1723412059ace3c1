package gotrace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"

	"golang.org/x/exp/trace"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// headerLen is the length of a trace's header.
const headerLen = 16

// generation is the work on one generation.
type generation struct {
	session *Session
	out     *Generation
	short   int64
	period  int64
	offset  int64 // Unix time - trace time

	gs      map[trace.GoID]*goroutine
	slab    []goroutine
	lastID  trace.GoID // of lastG
	lastG   *goroutine
	threads map[trace.ThreadID]*thread
	lastTID trace.ThreadID
	lastT   *thread

	stacks  map[trace.Stack]*stack
	trimmed map[trace.Stack]*stack
	used    map[archive.StackID]struct{}
	frames  []Frame
}

// state is why a goroutine does not run.
type state uint8

const (
	running state = iota // or not known
	waiting
	ready // taken off its thread, or new
	inSyscall
	unseen // does not run, and nobody saw it stop
)

// goroutine is what is known about a goroutine. Times are Unix nanoseconds.
type goroutine struct {
	state   state
	carried bool // from the generation before

	begin, wake  int64
	thread       trace.ThreadID
	detail       string
	stack        *stack
	wakerThread  trace.ThreadID
	wakerRoutine trace.GoID
	wakerStack   *stack

	// The newest capture of an origin: short waits in it, or right behind it, are kept.
	captureBegin, captureEnd int64
	last                     shortWait
}

// shortWait is a wait that was not kept. An origin captured during it can still call for it: the event that tells of the
// capture comes at the capture's end.
type shortWait struct {
	state             state
	begin, wake, end  int64
	thread, resume    trace.ThreadID
	detail            string
	stack, wakerStack *stack
	wakerThread       trace.ThreadID
	wakerRoutine      trace.GoID
}

// thread is the account of one thread's running time, for the weight of its samples.
type thread struct {
	running bool
	since   int64
	busy    int64 // since the last sample, without what runs
	sampled int64 // last sample; 0: none
}

func (g *generation) parse(payload []byte) (*Generation, error) {
	number, err := generationNumber(payload)
	if err != nil {
		return nil, err
	}
	r, err := trace.NewReader(bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	first, err := r.ReadEvent()
	if err != nil {
		return nil, err
	}
	if first.Kind() != trace.EventSync || first.Sync().ClockSnapshot == nil {
		if _, err := r.ReadEvent(); err != nil && !errors.Is(err, io.EOF) { // the first event comes before what is wrong
			return nil, err
		}
		return nil, errNoClock
	}
	snap := first.Sync().ClockSnapshot
	id := generationID{number, snap.Trace}
	g.out.Number, g.out.id = number, id
	if _, ok := g.session.delivered[id]; ok {
		return nil, ErrRepeated
	}
	base, late, gap := g.session.before(id)
	g.out.Stats.Gap = gap
	var clk clock
	g.out.Clock, clk = base.clock.next(snap)
	g.offset = g.out.Clock.OffsetNanos
	g.out.BeginNanos = int64(first.Time()) + g.offset
	g.out.Stats.Bytes = uint64(len(payload))
	g.restore(base)

	at := int64(first.Time())
	for {
		e, err := r.ReadEvent()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if e.Kind() == trace.EventSync {
			if e.Sync().ClockSnapshot != nil {
				return nil, errMore
			}
			continue
		}
		g.out.Stats.Events++
		at = int64(e.Time())
		g.event(&e, at+g.offset)
	}
	g.out.EndNanos = at + g.offset
	if !late {
		g.session.base, g.session.gap = base, gap
		g.session.next = carry{id: id, clock: clk, open: g.open(), threads: g.running()}
	}
	return g.out, nil
}

// generationNumber reads the number of the generation from its first batch.
func generationNumber(payload []byte) (uint64, error) {
	if len(payload) < headerLen+2 || !bytes.HasPrefix(payload, []byte("go 1.")) {
		return 0, errors.New("gotrace: this is no Go execution trace")
	}
	rest := payload[headerLen:]
	if rest[0] == 0 || rest[0] > 127 {
		return 0, errors.New("gotrace: the trace does not begin with a batch")
	}
	n, size := binary.Uvarint(rest[1:])
	if size <= 0 {
		return 0, errors.New("gotrace: the first batch has no generation")
	}
	return n, nil
}

// before returns the state in front of a generation, whether it is a late one, which changes no state, and whether the
// one before it is missing.
func (s *Session) before(id generationID) (base carry, late, gap bool) {
	switch newest := s.next.id; {
	case newest == generationID{}:
		return s.next, false, false
	case id == newest: // again, since it was not delivered
		return s.base, false, s.gap
	case id.number == newest.number+1 && id.at > newest.at:
		return s.next, false, false
	default:
		return carry{clock: s.next.clock}, id.at < newest.at, true
	}
}

// restore begins with what the generation before left.
func (g *generation) restore(base carry) {
	g.gs = make(map[trace.GoID]*goroutine, len(base.open)+64)
	for id, gr := range base.open {
		p := g.newGoroutine()
		*p = gr
		p.carried = true
		g.gs[id] = p
	}
	g.threads = make(map[trace.ThreadID]*thread, len(base.threads)+16)
	for id, t := range base.threads {
		g.threads[id] = &t
	}
	g.lastID, g.lastTID = trace.NoGoroutine, trace.NoThread
}

// open returns the goroutines that matter to the next generation.
func (g *generation) open() map[trace.GoID]goroutine {
	out := make(map[trace.GoID]goroutine, len(g.gs))
	recent := g.out.EndNanos - maxCapture
	for id, gr := range g.gs {
		if gr.last.end < recent {
			gr.last = shortWait{}
		}
		if gr.captureEnd < recent {
			gr.captureBegin, gr.captureEnd = 0, 0
		}
		if gr.state != running || gr.captureEnd != 0 || gr.last.end != 0 {
			out[id] = *gr
		}
	}
	return out
}

func (g *generation) running() map[trace.ThreadID]thread {
	out := make(map[trace.ThreadID]thread, len(g.threads))
	for id, t := range g.threads {
		out[id] = *t
	}
	return out
}

func (g *generation) newGoroutine() *goroutine {
	if len(g.slab) == 0 {
		g.slab = make([]goroutine, 64)
	}
	p := &g.slab[0]
	g.slab = g.slab[1:]
	return p
}

// goroutine returns what is known about a goroutine; nil beyond the cap.
func (g *generation) goroutine(id trace.GoID) *goroutine {
	if id == g.lastID && id != trace.NoGoroutine {
		return g.lastG
	}
	gr := g.gs[id]
	if gr == nil {
		if len(g.gs) >= g.session.o.MaxGoroutines || id == trace.NoGoroutine {
			g.out.Stats.GoroutinesDropped++
			return nil
		}
		gr = g.newGoroutine()
		g.gs[id] = gr
	}
	g.lastID, g.lastG = id, gr
	return gr
}

// threadOf returns the account of a thread; nil for none.
func (g *generation) threadOf(id trace.ThreadID) *thread {
	if id == trace.NoThread {
		return nil
	}
	if id == g.lastTID {
		return g.lastT
	}
	t := g.threads[id]
	if t == nil {
		if len(g.threads) >= maxThreads {
			clear(g.threads)
		}
		t = &thread{}
		g.threads[id] = t
	}
	g.lastTID, g.lastT = id, t
	return t
}

func (g *generation) event(e *trace.Event, now int64) {
	switch e.Kind() {
	case trace.EventStateTransition:
		st := e.StateTransition()
		if st.Resource.Kind == trace.ResourceGoroutine {
			g.transition(e, &st, now)
		}
	case trace.EventStackSample:
		g.sample(e, now)
	case trace.EventLog:
		l := e.Log()
		switch l.Category {
		case semconv.TraceLogOrigin, semconv.TraceLogSpan:
			g.origin(e, &l, now)
		}
	case trace.EventRangeBegin, trace.EventRangeActive:
		// The world is stopped when a trace begins, before anything else in it: what was carried is of an earlier trace,
		// and what its goroutines did in between is not known.
		if strings.Contains(e.Range().Name, "start trace") {
			for _, gr := range g.gs {
				if gr.carried && gr.state != running {
					*gr = goroutine{state: unseen}
				}
			}
			clear(g.threads)
			g.lastTID = trace.NoThread
		}
	}
}

// transition follows one goroutine.
func (g *generation) transition(e *trace.Event, st *trace.StateTransition, now int64) {
	from, to := st.Goroutine()
	if from == to {
		return
	}
	id := st.Resource.Goroutine()
	if from == trace.GoRunning {
		if t := g.threadOf(e.Thread()); t != nil && t.running {
			t.busy += now - t.since
			t.running = false
		}
	}
	if to == trace.GoNotExist {
		if gr := g.gs[id]; gr != nil {
			if id == g.lastID {
				g.lastID = trace.NoGoroutine
			}
			delete(g.gs, id)
		}
		return
	}
	gr := g.goroutine(id)
	if gr == nil {
		return
	}
	switch to {
	case trace.GoRunning:
		if from == trace.GoUndetermined {
			gr.state = running // what was carried is wrong
			return
		}
		if t := g.threadOf(e.Thread()); t != nil && !t.running {
			t.running, t.since = true, now
		}
		g.resume(gr, id, e.Thread(), now)
	case trace.GoWaiting:
		switch {
		case from == trace.GoRunning:
			g.stop(gr, e, waiting, st, st.Reason, now)
		case gr.state == waiting && gr.wake == 0: // carried
		default:
			gr.state = unseen
		}
	case trace.GoRunnable:
		switch from {
		case trace.GoRunning:
			g.stop(gr, e, ready, st, st.Reason, now)
			gr.wake = now
		case trace.GoNotExist:
			g.stop(gr, e, ready, st, detailCreated, now)
			gr.wake, gr.thread = now, trace.NoThread // it ran nowhere before
			g.waker(gr, e)
		case trace.GoUndetermined:
			if gr.wake == 0 {
				gr.state = unseen
			}
		default: // from Waiting or Syscall
			if gr.state == running {
				gr.state = unseen
			}
			gr.wake = now
			if from == trace.GoWaiting {
				g.waker(gr, e)
			}
		}
	case trace.GoSyscall:
		switch {
		case from == trace.GoRunning:
			g.stop(gr, e, inSyscall, st, detailSyscall, now)
			if s := gr.stack; s != nil {
				gr.detail = s.syscall
				if s.cgo {
					g.out.Stats.CgoCalls++
					gr.state = running
				}
			}
		case gr.state == inSyscall && gr.wake == 0: // carried
		default:
			gr.state = running // a thread of C code calls Go, or nobody saw the call begin
		}
	}
}

func (g *generation) stop(gr *goroutine, e *trace.Event, s state, st *trace.StateTransition, detail string, now int64) {
	gr.state, gr.carried = s, false
	gr.begin, gr.wake = now, 0
	gr.thread = e.Thread()
	gr.detail = detail
	gr.stack = g.stackOf(st.Stack, false)
	gr.wakerThread, gr.wakerRoutine, gr.wakerStack = trace.NoThread, trace.NoGoroutine, nil
}

// waker notes who made a goroutine runnable. An event outside any goroutine is the scheduler's, for a timer or the network.
func (g *generation) waker(gr *goroutine, e *trace.Event) {
	if by := e.Goroutine(); by != trace.NoGoroutine {
		gr.wakerThread, gr.wakerRoutine, gr.wakerStack = e.Thread(), by, g.stackOf(e.Stack(), false)
	}
}

// resume ends the interval in which a goroutine did not run.
func (g *generation) resume(gr *goroutine, id trace.GoID, on trace.ThreadID, now int64) {
	s := gr.state
	gr.state = running
	switch s {
	case running:
		return
	case unseen:
		g.out.Stats.WaitsUnknown++
		return
	}
	g.out.Stats.Waits++
	w := shortWait{
		state: s, begin: gr.begin, wake: gr.wake, end: now, thread: gr.thread, resume: on, detail: gr.detail, stack: gr.stack,
		wakerThread: gr.wakerThread, wakerRoutine: gr.wakerRoutine, wakerStack: gr.wakerStack,
	}
	if now-gr.begin < g.short && (gr.captureEnd == 0 || gr.begin > gr.captureEnd || now < gr.captureBegin) {
		g.out.Stats.WaitsShort++
		g.out.Stats.ShortNanos += now - gr.begin
		gr.last = w
		return
	}
	gr.last.end = 0
	g.keep(id, &w)
}

func (g *generation) keep(id trace.GoID, w *shortWait) {
	if len(g.out.Waits) >= g.session.o.MaxWaits {
		g.out.Stats.WaitsDropped++
		return
	}
	reason := semconv.WaitReasonSyscall
	if w.state != inSyscall {
		reason = waitReason(w.detail, w.stack)
	}
	wake := w.wake
	if wake == 0 { // a system call that nobody took the processor away from: it returned and ran
		wake = w.end
	}
	g.out.Waits = append(g.out.Waits, archive.OffCPU{
		ThreadID: threadID(w.thread), GoroutineID: int64(id), ResumeThreadID: threadID(w.resume),
		BeginNanos: w.begin, WakeNanos: wake, EndNanos: w.end, Reason: reason, Detail: w.detail, Stack: g.use(w.stack),
		WakerThreadID: threadID(w.wakerThread), WakerGoroutine: goroutineID(w.wakerRoutine), WakerStack: g.use(w.wakerStack),
		Source: source,
	})
}

// sample notes one CPU sample. It weighs the time that its thread ran since its previous sample: the period that was asked
// for is not what the kernel's timer delivers. A thread whose running is not known in full, since it was in C code or the
// scheduler, had at least a period of processor time; and no more than its timer can have missed is counted.
func (g *generation) sample(e *trace.Event, now int64) {
	weight := g.period
	if t := g.threadOf(e.Thread()); t != nil {
		if t.running {
			t.busy += now - t.since
			t.since = now
		}
		if t.sampled != 0 {
			gap := now - t.sampled
			weight = min(gap, max(t.busy, g.period), max(2*g.period, coarsestTick))
		}
		t.busy, t.sampled = 0, now
	}
	if len(g.out.Samples) >= g.session.o.MaxSamples {
		g.out.Stats.SamplesDropped++
		return
	}
	g.out.Samples = append(g.out.Samples, archive.Sample{
		ThreadID: threadID(e.Thread()), GoroutineID: goroutineID(e.Goroutine()), TimeNanos: now,
		Stack: g.use(g.stackOf(e.Stack(), false)), Count: 1, CPUNanos: weight, Source: source,
	})
}

// coarsestTick is the tick of a kernel with CONFIG_HZ=100, the coarsest in use: per-thread timers fire on ticks only.
const coarsestTick = 10_000_000

// maxCapture bounds how long the capture of an origin may have taken, since its begin is what the target says.
const maxCapture = 10_000_000

// origin notes an event of stax's SDK.
func (g *generation) origin(e *trace.Event, l *trace.Log, now int64) {
	row := archive.OriginEvent{ThreadID: threadID(e.Thread()), GoroutineID: goroutineID(e.Goroutine()), EventNanos: now}
	begin := now
	if l.Category == semconv.TraceLogOrigin {
		at, err := strconv.ParseInt(l.Message, 10, 64)
		if err != nil || at <= 0 {
			g.out.Stats.OriginsMalformed++
			return
		}
		row.TimeNanos = at
		if at < now && at > now-maxCapture {
			begin = at
		}
	} else {
		span, ok := spanID(l.Message)
		if !ok {
			g.out.Stats.OriginsMalformed++
			return
		}
		row.Span = span
	}
	if len(g.out.OriginEvents) >= g.session.o.MaxOrigins {
		g.out.Stats.OriginsDropped++
		return
	}
	row.Stack = g.use(g.stackOf(e.Stack(), true))
	g.out.OriginEvents = append(g.out.OriginEvents, row)
	if row.Span != 0 || g.short <= 0 || e.Goroutine() == trace.NoGoroutine {
		return
	}
	gr := g.goroutine(e.Goroutine())
	if gr == nil {
		return
	}
	gr.captureBegin, gr.captureEnd = begin, now+g.short
	if gr.last.end >= begin && gr.last.end != 0 {
		g.out.Stats.WaitsShort--
		g.out.Stats.ShortNanos -= gr.last.end - gr.last.begin
		g.keep(e.Goroutine(), &gr.last)
	}
	gr.last.end = 0
}

// spanID reads exactly 16 hex digits that are not all zero.
func spanID(s string) (uint64, bool) {
	if len(s) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 16, 64)
	return n, err == nil && n != 0
}

func threadID(id trace.ThreadID) int64 {
	if id == trace.NoThread {
		return 0
	}
	return int64(id)
}

func goroutineID(id trace.GoID) int64 {
	if id == trace.NoGoroutine {
		return 0
	}
	return int64(id)
}
