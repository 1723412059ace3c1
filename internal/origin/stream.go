package origin

import (
	"slices"

	"github.com/stax-otel/stax/archive"
)

// StreamConfig configures a Stream.
type StreamConfig struct {
	Config // Evidence must be nil: a Stream collects its own
	// Recording is the recording that the facts are of, as far as it is known.
	Recording archive.RecordingInfo
	// MaxRows bounds the rows held of each kind; what is more is given up and counted. 0: DefaultMaxRows. A stack is never
	// cut: the frames of the last one may exceed the bound.
	MaxRows int
}

// DefaultMaxRows is the bound on the rows of each kind that a Stream holds.
const DefaultMaxRows = 1 << 20

// StreamCount says what became of the rows of one kind.
type StreamCount struct {
	Held    int    // now
	Evicted uint64 // because they were old
	Refused uint64 // because there were too many: verdicts may be weaker for want of them, never stronger
}

// StreamStats are the counts of a Stream, by kind of row.
type StreamStats struct {
	Samples, OffCPU, OriginEvents, Waits, Awaits, Dispatches, CommandBuffers, StackFrames, ClockSamples StreamCount
}

// Refused is what was given up for want of room, of all kinds.
func (s *StreamStats) Refused() (n uint64) {
	for _, c := range s.counts() {
		n += c.Refused
	}
	return n
}

func (s *StreamStats) counts() []*StreamCount {
	return []*StreamCount{
		&s.Samples, &s.OffCPU, &s.OriginEvents, &s.Waits, &s.Awaits, &s.Dispatches, &s.CommandBuffers, &s.StackFrames, &s.ClockSamples,
	}
}

// Stream gives the verdicts of an Index on a recording that is under way: facts arrive in any order and late, and every
// verdict follows from what has arrived. Once everything has, and nothing was evicted or refused, verdicts are those of the
// finished archive.
//
// A Stream holds rows until Evict is told that they are old. It keeps nothing of a batch. It is not safe for concurrent
// use.
type Stream struct {
	ix       *Index
	max      int
	runtimes map[archive.RuntimeID]*streamRuntime
	stats    StreamStats
	dirty    map[*group]dirtyGroup
	touched  bool // evidence, stacks or runtimes arrived
}

type dirtyGroup struct {
	rt   *runtimeIndex
	from int
}

// streamRuntime remembers what facts that come later may refer to.
type streamRuntime struct {
	*runtimeIndex
	awaits     map[archive.WaitID][]archive.Await
	dispatches map[archive.DispatchID]seenDispatch // on lanes that do not report waits, as far as is known
	buffers    map[archive.CommandBufferID]*seenBuffer
	queueLanes map[archive.QueueID]map[*laneIndex]struct{} // of dispatches that name their queue
}

type seenDispatch struct {
	lane *laneIndex
	at   int64
}

// seenBuffer is a command buffer, or what dispatches say about it.
type seenBuffer struct {
	lane       *laneIndex // its own; nil: it has not come
	dispatches map[bufferedLane]struct{}
	at         int64
}

type bufferedLane struct {
	lane  *laneIndex
	queue archive.QueueID // as the dispatch names it
}

// NewStream returns a Stream without facts.
func NewStream(cfg StreamConfig) *Stream {
	cfg.Evidence = nil
	s := &Stream{
		ix: newIndex(cfg.Config, cfg.Recording), max: cfg.MaxRows,
		runtimes: map[archive.RuntimeID]*streamRuntime{}, dirty: map[*group]dirtyGroup{},
	}
	if s.max <= 0 {
		s.max = DefaultMaxRows
	}
	return s
}

func (s *Stream) runtime(id archive.RuntimeID) *streamRuntime {
	rt := s.runtimes[id]
	if rt == nil {
		rt = &streamRuntime{
			runtimeIndex: s.ix.runtime(id), awaits: map[archive.WaitID][]archive.Await{},
			dispatches: map[archive.DispatchID]seenDispatch{}, buffers: map[archive.CommandBufferID]*seenBuffer{},
			queueLanes: map[archive.QueueID]map[*laneIndex]struct{}{},
		}
		s.runtimes[id] = rt
		s.touched = true
	}
	return rt
}

// maxStackDepth is beyond what any source sends.
const maxStackDepth = 1024

// room reports whether one more row of a kind may be held, and counts it.
func (s *Stream) room(c *StreamCount) bool {
	if c.Held >= s.max {
		c.Refused++
		return false
	}
	c.Held++
	return true
}

// fit cuts rows down to those that there is room for.
func fit[T any](s *Stream, c *StreamCount, rows []T) []T {
	n := min(len(rows), max(s.max-c.Held, 0))
	c.Held, c.Refused = c.Held+n, c.Refused+uint64(len(rows)-n)
	return rows[:n]
}

// Add takes the rows of a batch that verdicts depend on. The batch is not kept.
func (s *Stream) Add(b *archive.Batch) {
	for i := range b.Runtimes {
		s.runtime(b.Runtimes[i].ID).row = b.Runtimes[i]
		s.touched = true
	}
	for i := range b.Lanes {
		s.runtime(b.Lanes[i].Runtime).lane(b.Lanes[i].ID).clockError = b.Lanes[i].ClockErrorNanos
	}
	s.addStacks(b)
	for i := range b.Waits {
		s.addWait(&b.Waits[i])
	}
	for i := range b.Awaits {
		s.addAwait(&b.Awaits[i])
	}
	for i := range b.CommandBuffers {
		s.addBuffer(&b.CommandBuffers[i])
	}
	for i := range b.Dispatches {
		s.addDispatch(&b.Dispatches[i])
	}
	e := s.ix.evidence
	e.AddSamples(fit(s, &s.stats.Samples, b.Samples))
	e.AddOffCPU(fit(s, &s.stats.OffCPU, b.OffCPU))
	e.AddOriginEvents(fit(s, &s.stats.OriginEvents, b.OriginEvents))
	e.AddProfileSources(b.ProfileSources) // kept as a few numbers
	e.AddClockSamples(fit(s, &s.stats.ClockSamples, b.ClockSamples))
	s.touched = s.touched || len(b.Samples)+len(b.OffCPU)+len(b.OriginEvents)+len(b.ProfileSources)+len(b.ClockSamples) > 0
	s.settle()
}

// settle makes what has arrived ready for questions.
func (s *Stream) settle() {
	for g, d := range s.dirty {
		g.rebuild(d.rt.waits, d.from)
	}
	clear(s.dirty)
	for _, rt := range s.runtimes {
		for len(rt.judged) < len(rt.waits) {
			rt.judged = append(rt.judged, 0)
		}
	}
	if s.touched {
		s.ix.settle()
		s.ix.epoch++
		s.touched = false
	}
}

// addStacks takes frames. A batch with evidence from a source of samples defines the stacks of that evidence, and a later
// one will define them again; all other stacks come once.
func (s *Stream) addStacks(b *archive.Batch) {
	pinned := len(b.Samples)+len(b.OffCPU)+len(b.OriginEvents)+len(b.ProfileSources) == 0
	for i := range b.StackFrames {
		f := &b.StackFrames[i]
		rt := s.runtime(f.Runtime)
		if f.Depth >= maxStackDepth || rt.stacks[f.Stack] == nil && s.stats.StackFrames.Held >= s.max {
			s.stats.StackFrames.Refused++
			continue
		}
		old := 0
		if x := rt.stacks[f.Stack]; x != nil {
			old = len(x.rows)
		}
		x := s.ix.addStackFrame(rt.runtimeIndex, f)
		x.pinned = x.pinned || pinned
		s.stats.StackFrames.Held += len(x.rows) - old
		s.touched = true
	}
	use := func(id archive.RuntimeID, stack archive.StackID, at int64) {
		if x := s.runtime(id).stacks[stack]; x != nil {
			x.used = max(x.used, at)
		}
	}
	for i := range b.Samples {
		use(b.Samples[i].Runtime, b.Samples[i].Stack, b.Samples[i].TimeNanos)
	}
	for i := range b.OffCPU {
		use(b.OffCPU[i].Runtime, b.OffCPU[i].Stack, b.OffCPU[i].EndNanos)
	}
	for i := range b.OriginEvents {
		use(b.OriginEvents[i].Runtime, b.OriginEvents[i].Stack, b.OriginEvents[i].TimeNanos)
	}
}

func (s *Stream) addWait(row *archive.Wait) {
	rt, w := s.runtime(row.Runtime), newWaitRow(row)
	at, known := rt.byWait[w.id]
	switch {
	case !known:
		if !s.room(&s.stats.Waits) {
			return
		}
		s.appendWait(rt, w)
		return
	case !rt.waits[at].missing && compareWaits(&w, &rt.waits[at]) >= 0:
		return // repeated; of several rows of one id the Index keeps the first in order
	}
	for _, g := range rt.groups(w.id) {
		g.drop(rt.runtimeIndex, at)
		s.remake(rt, g, 0)
	}
	rt.waits[at] = w
	if int(at) < len(rt.judged) {
		rt.judged[at] = 0
	}
	for _, a := range rt.awaits[w.id] {
		s.join(rt, at, &a)
	}
}

func (s *Stream) appendWait(rt *streamRuntime, w waitRow) int32 {
	at := int32(len(rt.waits))
	rt.waits, rt.byWait[w.id] = append(rt.waits, w), at
	return at
}

// groups returns the groups that a wait is in.
func (rt *streamRuntime) groups(id archive.WaitID) (groups []*group) {
	for i := range rt.awaits[id] {
		if g := rt.groupOf(&rt.awaits[id][i]); !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	return groups
}

// groupOf returns the group that an await puts its wait in.
func (rt *streamRuntime) groupOf(a *archive.Await) *group {
	switch {
	case a.Kind == archive.AwaitDispatch:
		return entry(rt.dispatch, archive.DispatchID(a.Ref))
	case a.Kind == archive.AwaitCommandBuffer:
		return entry(rt.buffer, archive.CommandBufferID(a.Ref))
	case a.UpTo == 0:
		return &entry(rt.queues, a.Queue).drain
	}
	return &entry(rt.queues, a.Queue).upTo
}

func (s *Stream) addAwait(a *archive.Await) {
	rt := s.runtime(a.Runtime)
	at, known := rt.byWait[a.Wait]
	if !known && !s.room(&s.stats.Waits) {
		s.stats.Awaits.Refused++
		return
	}
	if !known {
		at = s.appendWait(rt, waitRow{id: a.Wait, missing: true})
	}
	if !namesWork(a) || slices.Contains(rt.awaits[a.Wait], *a) || !s.room(&s.stats.Awaits) {
		return
	}
	first := rt.queues[a.Queue] == nil
	rt.awaits[a.Wait] = append(rt.awaits[a.Wait], *a)
	s.join(rt, at, a)

	switch a.Kind {
	case archive.AwaitDispatch:
		if d, ok := rt.dispatches[archive.DispatchID(a.Ref)]; ok {
			d.lane.waits = true
		}
	case archive.AwaitCommandBuffer:
		if b := rt.buffers[archive.CommandBufferID(a.Ref)]; b != nil {
			b.awaited("")
		}
	case archive.AwaitQueue:
		for lane := range rt.queueLanes[a.Queue] {
			lane.waits = true
		}
		if !first {
			return
		}
		for id, b := range rt.buffers {
			if x, ok := rt.submitted[id]; ok && x.queue == a.Queue {
				b.awaited(a.Queue)
			}
		}
	}
}

// awaited notes that a command buffer, or its queue, is awaited: with a queue, only dispatches that do not name another one
// count.
func (b *seenBuffer) awaited(queue archive.QueueID) {
	if b.lane != nil {
		b.lane.waits = true
	}
	for d := range b.dispatches {
		if queue == "" || d.queue == "" || d.queue == queue {
			d.lane.waits = true
		}
	}
}

func (s *Stream) join(rt *streamRuntime, at int32, a *archive.Await) {
	g := rt.groupOf(a)
	var upTo *uint64
	if a.Kind == archive.AwaitQueue && a.UpTo != 0 {
		upTo = &a.UpTo
	}
	if from := g.put(rt.runtimeIndex, at, upTo); from >= 0 {
		s.remake(rt, g, from)
	}
}

// remake notes that the tree of a group has to be made again from a position on.
func (s *Stream) remake(rt *streamRuntime, g *group, from int) {
	if d, ok := s.dirty[g]; ok {
		from = min(from, d.from)
	}
	s.dirty[g] = dirtyGroup{rt.runtimeIndex, from}
}

func (s *Stream) addBuffer(row *archive.CommandBuffer) {
	rt := s.runtime(row.Runtime)
	b := s.buffer(rt, row.ID, row.EndNanos)
	if b == nil {
		return
	}
	b.lane = rt.lane(row.Lane)
	if row.Queue != "" {
		rt.submitted[row.ID] = submission{row.Queue, row.QueueSeq}
	}
	if rt.queues[row.Queue] != nil {
		b.awaited(row.Queue)
	}
	if rt.buffer[row.ID] != nil {
		b.awaited("")
	}
}

// buffer returns what is known of a command buffer, nil when there is no room for more.
func (s *Stream) buffer(rt *streamRuntime, id archive.CommandBufferID, at int64) *seenBuffer {
	b := rt.buffers[id]
	if b == nil {
		if !s.room(&s.stats.CommandBuffers) {
			return nil
		}
		b = &seenBuffer{dispatches: map[bufferedLane]struct{}{}}
		rt.buffers[id] = b
	}
	b.at = max(b.at, at)
	return b
}

// addDispatch notes what tells which lanes report waits. Once a lane is known to, its dispatches need not be remembered.
func (s *Stream) addDispatch(d *archive.Dispatch) {
	rt := s.runtime(d.Runtime)
	lane := rt.lane(d.Lane)
	if lane.waits {
		return
	}
	if d.Queue != "" {
		lanes := rt.queueLanes[d.Queue]
		if lanes == nil {
			lanes = map[*laneIndex]struct{}{}
			rt.queueLanes[d.Queue] = lanes
		}
		lanes[lane] = struct{}{}
	}
	if d.CommandBuffer != 0 {
		if b := s.buffer(rt, d.CommandBuffer, d.EndNanos); b != nil {
			b.dispatches[bufferedLane{lane, d.Queue}] = struct{}{}
		}
	}
	queue, _ := rt.place(d)
	if rt.dispatch[d.ID] != nil || d.CommandBuffer != 0 && rt.buffer[d.CommandBuffer] != nil || rt.queues[queue] != nil {
		lane.waits = true
		return
	}
	if _, known := rt.dispatches[d.ID]; known || s.room(&s.stats.Dispatches) {
		rt.dispatches[d.ID] = seenDispatch{lane, d.EndNanos}
	}
}

// Link is Index.Link by what has arrived.
func (s *Stream) Link(rt archive.RuntimeID, owner archive.OwnerKind, id uint64, kind archive.OriginKind, o *archive.Origin) archive.Link {
	return s.ix.Link(rt, owner, id, kind, o)
}

// Certificate is Index.Certificate by what has arrived.
func (s *Stream) Certificate(d *archive.Dispatch) archive.Certificate { return s.ix.Certificate(d) }

// ExplainLink is Index.ExplainLink by what has arrived.
func (s *Stream) ExplainLink(rt archive.RuntimeID, owner archive.OwnerKind, id uint64, kind archive.OriginKind, o *archive.Origin) *LinkExplanation {
	return s.ix.ExplainLink(rt, owner, id, kind, o)
}

// ExplainCertificate is Index.ExplainCertificate by what has arrived.
func (s *Stream) ExplainCertificate(d *archive.Dispatch) *CertificateExplanation {
	return s.ix.ExplainCertificate(d)
}

// Stats returns the counts.
func (s *Stream) Stats() StreamStats { return s.stats }

// Evict forgets what lies before an instant (Unix nanoseconds): samples, events, intervals and waits that ended before it,
// and stacks that only those named. What the instant cannot be told of is kept until it can. Lanes that report waits are
// known to do so for ever.
func (s *Stream) Evict(before int64) {
	samples, off, exact := 0, 0, 0
	for _, p := range s.ix.evidence.runtimes {
		p.evict(before)
		samples, off, exact = samples+p.samples, off+p.off, exact+p.exact
	}
	s.ix.evidence.compact()
	s.stats.Samples.left(samples)
	s.stats.OffCPU.left(off)
	s.stats.OriginEvents.left(exact)
	clocks := 0
	for _, p := range s.ix.evidence.runtimes {
		for _, c := range p.clocks {
			clocks += len(c.list)
		}
	}
	s.stats.ClockSamples.left(clocks)

	waits, awaits, dispatches, buffers, frames := 0, 0, 0, 0, 0
	for _, rt := range s.runtimes {
		rt.evictWaits(before)
		waits += len(rt.waits)
		for _, a := range rt.awaits {
			awaits += len(a)
		}
		for id, d := range rt.dispatches {
			if d.lane.waits || d.at < before {
				delete(rt.dispatches, id)
			}
		}
		dispatches += len(rt.dispatches)
		for id, b := range rt.buffers {
			if b.at < before {
				delete(rt.buffers, id)
				delete(rt.submitted, id)
			}
		}
		buffers += len(rt.buffers)
		for id, x := range rt.stacks {
			if !x.pinned && x.used < before {
				delete(rt.stacks, id)
				continue
			}
			frames += len(x.rows)
		}
	}
	s.compactFrames(frames)
	s.stats.Waits.left(waits)
	s.stats.Awaits.left(awaits)
	s.stats.Dispatches.left(dispatches)
	s.stats.CommandBuffers.left(buffers)
	s.stats.StackFrames.left(frames)
	s.ix.relate()
	s.ix.epoch++
}

// compactFrames forgets frames of which no stack is made any more, once those are most of them, and what was compared.
func (s *Stream) compactFrames(held int) {
	old := s.ix.frames
	clear(old.pairs)
	if len(old.list.values) < 1<<14+4*held {
		return
	}
	t := newFrameTable()
	for _, rt := range s.runtimes {
		for _, x := range rt.stacks {
			for i, r := range x.rows {
				f := old.list.values[r.frame]
				x.rows[i].frame = t.frame(&archive.StackFrame{
					Function: old.names.values[f.function], File: old.names.values[f.file], Line: f.line,
				})
			}
		}
	}
	s.ix.frames = t
}

// left notes how many rows are left after an eviction.
func (c *StreamCount) left(n int) {
	c.Evicted += uint64(max(c.Held-n, 0))
	c.Held = n
}

// evictWaits forgets waits that ended before an instant, and what they await.
func (rt *streamRuntime) evictWaits(before int64) {
	number := make([]int32, len(rt.waits))
	kept := int32(0)
	for i := range rt.waits {
		w := &rt.waits[i]
		if w.missing && !w.old { // give it one more round to arrive
			w.old = true
		} else if w.missing || w.end < before {
			number[i] = -1
			delete(rt.byWait, w.id)
			delete(rt.awaits, w.id)
			continue
		}
		number[i] = kept
		rt.byWait[w.id], rt.waits[kept] = kept, *w
		kept++
	}
	if int(kept) == len(rt.waits) {
		return
	}
	rt.waits, rt.judged = rt.waits[:kept], rt.judged[:kept]
	clear(rt.judged)
	prune(rt.dispatch, rt.waits, number)
	prune(rt.buffer, rt.waits, number)
	for _, q := range rt.queues { // an awaited queue is remembered, as in the archive
		for _, g := range []*group{&q.drain, &q.upTo} {
			g.keep(number)
			g.rebuild(rt.waits, 0)
		}
	}
}

// prune takes the waits that are gone out of the groups.
func prune[K comparable](groups map[K]*group, waits []waitRow, number []int32) {
	for id, g := range groups {
		g.keep(number)
		if g.rebuild(waits, 0); g.empty() {
			delete(groups, id)
		}
	}
}
