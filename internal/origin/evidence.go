package origin

import (
	"cmp"
	"slices"
	"sort"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Evidence is what a recording knows about CPU threads: samples, intervals off the CPU, exact events of origins, and the
// health of clocks. It is kept by the runtime that reports it and looked up by process, since a sampler of its own is
// another runtime of the same process.
//
// A sample costs 32 bytes when it names a goroutine (it is kept by thread and by goroutine) and 16 when not, an interval
// 36, an event 16. Rows come in any order; each is sorted once.
//
// An Evidence is not safe for concurrent use while rows are added. An Index that was built with it may be asked from many
// goroutines.
type Evidence struct {
	names    names
	runtimes map[archive.RuntimeID]*process
	tolerances
}

// NewEvidence returns an Evidence without rows.
func NewEvidence() *Evidence {
	return &Evidence{runtimes: map[archive.RuntimeID]*process{}, tolerances: usualTolerances}
}

// process is the evidence that one runtime reports.
type process struct {
	timed, untimed, goSource bool
	period                   int64 // the longest of its sources with instants; 0: unknown
	clockError               int64 // the largest of its sources
	clockKnown, clockUnknown bool  // some source says its error, some does not know it
	threads, goroutines      map[int64]*series
	events                   map[int64]*series // exact events of origins, by thread
	offThreads, offRoutines  map[int64]*intervals
	clocks                   map[string]*readings
	samples, off, exact      int // rows held

	dirtySeries    []*series
	dirtyIntervals []*intervals
}

const (
	// minEdgeNanos is how far the instants of a source are off at least: the edge of a wait in an execution trace lies
	// within 15 µs of the truth in 99 of 100 cases.
	minEdgeNanos = 20_000
	// unknownEdgeNanos is assumed of a source that does not know the error of its clock.
	unknownEdgeNanos = 10_000_000
)

// clockStepRadius is the time around a step of a clock in which its readings are not comparable.
const clockStepRadius = int64(1e9)

// clockStepNanos is the jump of a clock's offset between two readings that makes a step.
const clockStepNanos = int64(1e6)

func (e *Evidence) process(rt archive.RuntimeID) *process {
	p := e.runtimes[rt]
	if p == nil {
		p = &process{
			threads: map[int64]*series{}, goroutines: map[int64]*series{}, events: map[int64]*series{},
			offThreads: map[int64]*intervals{}, offRoutines: map[int64]*intervals{}, clocks: map[string]*readings{},
		}
		e.runtimes[rt] = p
	}
	return p
}

// stackColumn is how a stack is kept in a column.
func (e *Evidence) stackColumn(stack archive.StackID, source string) uint32 {
	i := e.names.stacks.of(stack)
	if source == semconv.ProfileSourceGoExecTrace {
		i |= inlinesBit
	}
	return i
}

func goSource(source string) bool {
	return source == semconv.ProfileSourceGoExecTrace || source == semconv.ProfileSourceGoCPUProfile
}

func (p *process) put(m map[int64]*series, id, nanos int64, stack, other uint32) {
	s := m[id]
	if s == nil {
		s = &series{}
		m[id] = s
	}
	clean := s.sorted == len(s.nanos)
	s.add(nanos, stack, other)
	if clean && s.sorted != len(s.nanos) {
		p.dirtySeries = append(p.dirtySeries, s)
	}
}

func (p *process) putOff(m map[int64]*intervals, id int64, x *archive.OffCPU, stack uint32) {
	s := m[id]
	if s == nil {
		s = &intervals{settled: true}
		m[id] = s
	}
	if s.settled {
		p.dirtyIntervals = append(p.dirtyIntervals, s)
	}
	s.add(x.BeginNanos, x.WakeNanos, x.EndNanos, stack)
}

// AddSamples takes CPU samples. One without an instant only tells that the process has such samples; one whose instant is
// no time is left out.
func (e *Evidence) AddSamples(rows []archive.Sample) {
	for i := range rows {
		x := &rows[i]
		p := e.process(x.Runtime)
		p.goSource = p.goSource || goSource(x.Source)
		if x.TimeNanos == 0 {
			p.untimed = true
			continue
		}
		if !usable(x.TimeNanos) || x.ThreadID <= 0 && x.GoroutineID == 0 {
			continue
		}
		p.timed = true
		p.samples++
		stack := e.stackColumn(x.Stack, x.Source)
		if x.ThreadID > 0 {
			p.put(p.threads, x.ThreadID, x.TimeNanos, stack, e.names.ids.of(x.GoroutineID))
		}
		if x.GoroutineID != 0 {
			p.put(p.goroutines, x.GoroutineID, x.TimeNanos, stack, e.names.ids.of(max(x.ThreadID, 0)))
		}
	}
}

// AddOffCPU takes intervals off the CPU. One without usable begin and end is left out.
func (e *Evidence) AddOffCPU(rows []archive.OffCPU) {
	for i := range rows {
		x := &rows[i]
		p := e.process(x.Runtime)
		p.goSource = p.goSource || goSource(x.Source)
		if !usableInterval(x.BeginNanos, x.EndNanos) {
			continue
		}
		stack := e.stackColumn(x.Stack, x.Source)
		switch {
		case x.GoroutineID != 0:
			p.putOff(p.offRoutines, x.GoroutineID, x, stack)
		case x.ThreadID > 0:
			p.putOff(p.offThreads, x.ThreadID, x, stack)
		default:
			continue
		}
		p.off++
	}
}

// AddOriginEvents takes exact events of origins. Those of ordinary spans are left out.
func (e *Evidence) AddOriginEvents(rows []archive.OriginEvent) {
	for i := range rows {
		x := &rows[i]
		if x.Span != 0 || !usable(x.TimeNanos) || x.ThreadID <= 0 {
			continue
		}
		p := e.process(x.Runtime)
		p.exact++
		p.put(p.events, x.ThreadID, x.TimeNanos, e.stackColumn(x.Stack, semconv.ProfileSourceGoExecTrace), e.names.ids.of(x.GoroutineID))
	}
}

// AddProfileSources takes what sources say about themselves: their period and the error of their clock.
func (e *Evidence) AddProfileSources(rows []archive.ProfileSource) {
	for i := range rows {
		x := &rows[i]
		p := e.process(x.Runtime)
		p.goSource = p.goSource || goSource(x.Source)
		if x.Source == semconv.ProfileSourceGoCPUProfile {
			continue // its samples have no instants
		}
		if x.ClockErrorNanos < 0 && x.State != "" && x.State != semconv.ProfileStateRunning {
			continue // it delivers nothing, so there is no instant whose error could be unknown
		}
		p.period = max(p.period, x.PeriodNanos)
		if x.ClockErrorNanos < 0 {
			p.clockUnknown = true
		} else {
			p.clockKnown, p.clockError = true, max(p.clockError, x.ClockErrorNanos)
		}
	}
}

// AddClockSamples takes readings of clocks. A step is a jump of more than a millisecond, beyond the errors of the readings,
// of the difference between a clock and Unix time, from one reading to the next. Only clocks that count nanoseconds of CPU
// time are looked at.
func (e *Evidence) AddClockSamples(rows []archive.ClockSample) {
	for i := range rows {
		x := &rows[i]
		if x.Clock != clockMonotonic && x.Clock != semconv.ProfileSourceGoExecTrace {
			continue
		}
		entry(e.process(x.Runtime).clocks, x.Clock).add(reading{x.RawTicks, x.UnixNanos, max(x.ErrorNanos, 0)})
	}
}

// clockMonotonic is the name of the clock that SDKs take their instants from.
const clockMonotonic = "monotonic"

// settle makes late rows ready for look-ups.
func (e *Evidence) settle() {
	for _, p := range e.runtimes {
		p.settle(&e.names)
	}
}

func (p *process) settle(n *names) {
	for _, s := range p.dirtySeries {
		s.settle(n)
	}
	for _, s := range p.dirtyIntervals {
		s.settle(n)
	}
	p.dirtySeries, p.dirtyIntervals = p.dirtySeries[:0], p.dirtyIntervals[:0]
	for _, c := range p.clocks {
		c.settle()
	}
}

// trim gives back the room that columns have left for more.
func (e *Evidence) trim() {
	for _, p := range e.runtimes {
		for _, m := range []map[int64]*series{p.threads, p.goroutines, p.events} {
			for _, s := range m {
				s.nanos, s.stack, s.other = trimmed(s.nanos), trimmed(s.stack), trimmed(s.other)
			}
		}
		for _, m := range []map[int64]*intervals{p.offThreads, p.offRoutines} {
			for _, s := range m {
				s.begin, s.end, s.wake = trimmed(s.begin), trimmed(s.end), trimmed(s.wake)
				s.stack, s.reach = trimmed(s.stack), trimmed(s.reach)
			}
		}
	}
}

func trimmed[T any](s []T) []T {
	if cap(s)-len(s) <= len(s)/16 {
		return s
	}
	return append(make([]T, 0, len(s)), s...)
}

// evict forgets what lies before an instant and counts again what is held. The evidence is settled.
func (p *process) evict(before int64) {
	p.samples, p.off, p.exact = 0, 0, 0
	for id, s := range p.threads {
		if s.evict(before); len(s.nanos) == 0 {
			delete(p.threads, id)
		}
		p.samples += len(s.nanos)
	}
	for id, s := range p.goroutines {
		if s.evict(before); len(s.nanos) == 0 {
			delete(p.goroutines, id)
		}
	}
	for id, s := range p.events {
		if s.evict(before); len(s.nanos) == 0 {
			delete(p.events, id)
		}
		p.exact += len(s.nanos)
	}
	for _, m := range []map[int64]*intervals{p.offThreads, p.offRoutines} {
		for id, s := range m {
			if s.evict(before); len(s.begin) == 0 {
				delete(m, id)
			}
			p.off += len(s.begin)
		}
	}
	for _, c := range p.clocks {
		c.evict(before)
	}
}

// compact gives new numbers to the values that columns still refer to, once most of them are no longer referred to.
func (e *Evidence) compact() {
	rows := 0
	for _, p := range e.runtimes {
		rows += p.samples + p.off + p.exact
	}
	if len(e.names.stacks.values)+len(e.names.ids.values) < 1<<14+4*rows {
		return
	}
	var n names
	for _, p := range e.runtimes {
		for _, m := range []map[int64]*series{p.threads, p.goroutines, p.events} {
			for _, s := range m {
				for i := range s.nanos {
					s.stack[i] = n.stacks.of(e.names.stack(s.stack[i])) | s.stack[i]&inlinesBit
					s.other[i] = n.ids.of(e.names.ids.values[s.other[i]])
				}
			}
		}
		for _, m := range []map[int64]*intervals{p.offThreads, p.offRoutines} {
			for _, s := range m {
				for i := range s.stack {
					s.stack[i] = n.stacks.of(e.names.stack(s.stack[i])) | s.stack[i]&inlinesBit
				}
			}
		}
	}
	e.names = n
}

// readings are those of one clock.
type readings struct {
	list  []reading
	dirty bool
	steps []ClockStep
}

type reading struct{ raw, unix, err int64 }

// ClockStep is a step of a clock against Unix time. It happened between two readings of it.
type ClockStep struct {
	FromNanos int64 `json:"from_ns"` // Unix instants of the readings, the earlier first
	ToNanos   int64 `json:"to_ns"`
	ByNanos   int64 `json:"by_ns"` // by how much Unix time jumped
}

func (c *readings) add(r reading) {
	c.list, c.dirty = append(c.list, r), true
}

func (c *readings) settle() {
	if !c.dirty {
		return
	}
	slices.SortFunc(c.list, func(a, b reading) int {
		return cmp.Or(cmp.Compare(a.raw, b.raw), cmp.Compare(a.unix, b.unix), cmp.Compare(a.err, b.err))
	})
	c.list, c.steps, c.dirty = slices.Compact(c.list), c.steps[:0], false
	for i := 1; i < len(c.list); i++ {
		a, b := c.list[i-1], c.list[i]
		by := (b.unix - b.raw) - (a.unix - a.raw)
		if usable(a.unix) && usable(b.unix) && distance(by, 0) > clockStepNanos+a.err+b.err {
			c.steps = append(c.steps, ClockStep{min(a.unix, b.unix), max(a.unix, b.unix), by})
		}
	}
}

// evict forgets readings long before an instant, but for the last one: it tells the next step.
func (c *readings) evict(before int64) {
	last := sort.Search(len(c.list), func(i int) bool { return c.list[i].unix >= before-2*clockStepRadius }) - 1
	if last > 0 {
		c.list, c.dirty = append(c.list[:0:0], c.list[last:]...), true
		c.settle()
	}
}

// near returns the step that is near an instant.
func (c *readings) near(nanos int64) (ClockStep, bool) {
	for _, s := range c.steps {
		if nanos >= s.FromNanos-clockStepRadius && nanos <= s.ToNanos+clockStepRadius {
			return s, true
		}
	}
	return ClockStep{}, false
}
