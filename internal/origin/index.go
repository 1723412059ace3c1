package origin

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/stax-otel/stax/archive"
)

// Config holds what the verdicts depend on beside the facts.
type Config struct {
	// Limit is the longest distance between an origin and the CPU sample it is linked to; 0: DefaultLimit.
	Limit time.Duration
	// Evidence is what is known about CPU threads; nil: what the archive or the Facts say.
	Evidence *Evidence
}

// Facts are the rows that an Index is made of, in any order. The slices are not kept.
type Facts struct {
	Recording      archive.RecordingInfo
	Runtimes       []archive.Runtime
	Lanes          []archive.Lane
	CommandBuffers []archive.CommandBuffer
	Waits          []archive.Wait
	Awaits         []archive.Await
	StackFrames    []archive.StackFrame
	Samples        []archive.Sample
	OffCPU         []archive.OffCPU
	OriginEvents   []archive.OriginEvent
	ProfileSources []archive.ProfileSource
	ClockSamples   []archive.ClockSample
	// Dispatches only tell which lanes report waits. Those that are not given here must be passed to
	// Index.Observe before the first call of Certificate.
	Dispatches []archive.Dispatch
}

// Index answers for single dispatches and origins of one recording. It holds the waits, the stacks and the CPU evidence in
// memory, and never the dispatches. Once built and observed it is safe for concurrent use.
type Index struct {
	linker   linker
	info     archive.RecordingInfo
	runtimes map[archive.RuntimeID]*runtimeIndex
	pids     map[int64][]*runtimeIndex // runtimes of one known process, by id
	frames   *frameTable
	unready  []*stack // that got frames
	evidence *Evidence
	epoch    uint64 // of the evidence: what was remembered of another one is void
	pending  pending
}

// runtimeIndex is what an Index holds of one runtime. Nothing is compared across runtimes.
type runtimeIndex struct {
	row      archive.Runtime
	stranger bool
	lanes    map[archive.LaneID]*laneIndex
	waits    []waitRow // by (begin, end, id); those without usable times at the end
	byWait   map[archive.WaitID]int32
	dispatch map[archive.DispatchID]*group
	buffer   map[archive.CommandBufferID]*group
	queues   map[archive.QueueID]*queueIndex
	// submitted says where the command buffers of awaited queues were submitted.
	submitted map[archive.CommandBufferID]submission
	stacks    map[archive.StackID]*stack
	own       *process // evidence that this runtime reports; nil: none
	kin       kin      // evidence about its process
	judged    []uint64 // by wait: what was found out about it (corroboration)
}

// goTarget reports whether goroutines share the threads of the process.
func (rt *runtimeIndex) goTarget() bool {
	if rt.row.SDKLanguage == "go" {
		return true
	}
	for _, p := range rt.kin {
		if p.goSource {
			return true
		}
	}
	return false
}

// compare orders two waits.
func (rt *runtimeIndex) compare(a, b int32) int {
	if a == b {
		return 0
	}
	return compareWaits(&rt.waits[a], &rt.waits[b])
}

type laneIndex struct {
	clockError int64
	waits      bool // some wait awaits work of the lane
}

type queueIndex struct {
	drain group // everything dispatched before the wait began
	upTo  group // everything up to a submission
}

type submission struct {
	queue archive.QueueID
	seq   uint64
}

// waitRow is one wait. One that is only known from its awaits is missing.
type waitRow struct {
	id                archive.WaitID
	begin, end        int64
	at                int64 // instant of the origin
	thread, goroutine int64
	stack             archive.StackID
	timedOut, missing bool
	locked            bool // the goroutine is locked to the thread
	old               bool // missing at an eviction already
}

func newWaitRow(w *archive.Wait) waitRow {
	return waitRow{
		id: w.ID, begin: w.BeginNanos, end: w.EndNanos, timedOut: w.TimedOut,
		at: w.Origin.TimeNanos, thread: w.Origin.ThreadID, goroutine: w.Origin.GoroutineID, stack: w.Origin.Stack,
		locked: w.Origin.ThreadLocked,
	}
}

func (w *waitRow) usable() bool { return !w.missing && usableInterval(w.begin, w.end) }

// pending holds rows between Add and seal.
type pending struct {
	waits  map[archive.RuntimeID][]waitRow
	awaits map[archive.RuntimeID][]archive.Await
}

// NewIndex builds an Index from rows in memory.
func NewIndex(cfg Config, f Facts) *Index {
	ix := newIndex(cfg, f.Recording)
	ix.addRuntimes(f.Runtimes)
	ix.addLanes(f.Lanes)
	ix.addStackFrames(f.StackFrames)
	ix.addWaits(f.Waits)
	ix.addAwaits(f.Awaits)
	if cfg.Evidence == nil {
		ix.evidence.AddSamples(f.Samples)
		ix.evidence.AddOffCPU(f.OffCPU)
		ix.evidence.AddOriginEvents(f.OriginEvents)
		ix.evidence.AddProfileSources(f.ProfileSources)
		ix.evidence.AddClockSamples(f.ClockSamples)
	}
	ix.seal()
	ix.addCommandBuffers(f.CommandBuffers)
	ix.Observe(f.Dispatches)
	return ix
}

// An Index is filled in this order: runtimes, lanes, stack frames, waits, awaits; seal; command
// buffers; Observe of all dispatches.
func newIndex(cfg Config, info archive.RecordingInfo) *Index {
	ix := &Index{
		linker: newLinker(cfg, info), info: info, runtimes: map[archive.RuntimeID]*runtimeIndex{},
		pids: map[int64][]*runtimeIndex{}, frames: newFrameTable(), evidence: cfg.Evidence, epoch: 1,
		pending: pending{waits: map[archive.RuntimeID][]waitRow{}, awaits: map[archive.RuntimeID][]archive.Await{}},
	}
	if ix.evidence == nil {
		ix.evidence = NewEvidence()
	}
	ix.linker.names = &ix.evidence.names
	return ix
}

// runtime returns the index of a runtime, registered or not: rows are never left out for want of a registration.
func (ix *Index) runtime(id archive.RuntimeID) *runtimeIndex {
	rt := ix.runtimes[id]
	if rt == nil {
		rt = &runtimeIndex{
			row: archive.Runtime{ID: id, ClockErrorNanos: -1}, lanes: map[archive.LaneID]*laneIndex{},
			byWait: map[archive.WaitID]int32{}, dispatch: map[archive.DispatchID]*group{},
			buffer: map[archive.CommandBufferID]*group{}, queues: map[archive.QueueID]*queueIndex{},
			submitted: map[archive.CommandBufferID]submission{}, stacks: map[archive.StackID]*stack{},
		}
		ix.runtimes[id] = rt
	}
	return rt
}

func (rt *runtimeIndex) lane(id archive.LaneID) *laneIndex {
	l := rt.lanes[id]
	if l == nil {
		l = &laneIndex{}
		rt.lanes[id] = l
	}
	return l
}

func (ix *Index) addRuntimes(rows []archive.Runtime) {
	for i := range rows {
		ix.runtime(rows[i].ID).row = rows[i] // the last row for an id counts
	}
}

func (ix *Index) addLanes(rows []archive.Lane) {
	for i := range rows {
		ix.runtime(rows[i].Runtime).lane(rows[i].ID).clockError = rows[i].ClockErrorNanos
	}
}

func (ix *Index) addStackFrames(rows []archive.StackFrame) {
	for i := range rows {
		ix.addStackFrame(ix.runtime(rows[i].Runtime), &rows[i])
	}
}

func (ix *Index) addStackFrame(rt *runtimeIndex, f *archive.StackFrame) *stack {
	s := entry(rt.stacks, f.Stack)
	settled := s.settled
	if s.add(f.Depth, ix.frames.frame(f)) && (settled || len(s.rows) == 1) {
		ix.unready = append(ix.unready, s)
		if settled {
			clear(ix.frames.pairs) // what was compared has changed
		}
	}
	return s
}

// settle makes stacks and evidence ready for questions, and finds which evidence is about which process.
func (ix *Index) settle() {
	for _, s := range ix.unready {
		s.settle(ix.frames)
	}
	ix.unready = ix.unready[:0]
	ix.evidence.settle()
	ix.relate()
}

// relate finds the runtimes of each process and their evidence.
func (ix *Index) relate() {
	for id := range ix.evidence.runtimes {
		ix.runtime(id)
	}
	clear(ix.pids)
	for _, id := range slices.Sorted(maps.Keys(ix.runtimes)) {
		rt := ix.runtimes[id]
		rt.own, rt.kin = ix.evidence.runtimes[id], nil
		if rt.row.PID > 0 {
			ix.pids[rt.row.PID] = append(ix.pids[rt.row.PID], rt)
		}
	}
	for _, rt := range ix.runtimes {
		if rt.own != nil {
			rt.kin = append(rt.kin, rt.own)
		}
		for _, other := range ix.pids[rt.row.PID] {
			if other != rt && other.own != nil {
				rt.kin = append(rt.kin, other.own)
			}
		}
	}
}

func (ix *Index) addWaits(rows []archive.Wait) {
	for i := range rows {
		w := &rows[i]
		ix.runtime(w.Runtime)
		ix.pending.waits[w.Runtime] = append(ix.pending.waits[w.Runtime], newWaitRow(w))
	}
}

func (ix *Index) addAwaits(rows []archive.Await) {
	for i := range rows {
		ix.runtime(rows[i].Runtime)
		ix.pending.awaits[rows[i].Runtime] = append(ix.pending.awaits[rows[i].Runtime], rows[i])
	}
}

// addCommandBuffers finds the lanes of awaited command buffers, and where those on awaited queues were submitted.
func (ix *Index) addCommandBuffers(rows []archive.CommandBuffer) {
	for i := range rows {
		b := &rows[i]
		rt := ix.runtime(b.Runtime)
		_, onQueue := rt.queues[b.Queue]
		if onQueue {
			rt.submitted[b.ID] = submission{b.Queue, b.QueueSeq}
		}
		if onQueue || rt.buffer[b.ID] != nil {
			rt.lane(b.Lane).waits = true
		}
	}
}

// Observe notes which lanes have work that some wait awaits. Only Runtime, Lane, ID, CommandBuffer
// and Queue of the rows are read.
func (ix *Index) Observe(rows []archive.Dispatch) {
	for i := range rows {
		d := &rows[i]
		rt := ix.runtime(d.Runtime)
		l := rt.lane(d.Lane)
		if l.waits {
			continue
		}
		queue, _ := rt.place(d)
		l.waits = rt.dispatch[d.ID] != nil || d.CommandBuffer != 0 && rt.buffer[d.CommandBuffer] != nil || rt.queues[queue] != nil
	}
}

// observes reports whether Observe can find anything.
func (ix *Index) observes() bool {
	for _, rt := range ix.runtimes {
		if len(rt.dispatch)+len(rt.buffer)+len(rt.queues) > 0 {
			return true
		}
	}
	return false
}

// place returns the queue and the submission of a dispatch: its own, or those of its command buffer.
func (rt *runtimeIndex) place(d *archive.Dispatch) (archive.QueueID, uint64) {
	if len(rt.submitted) == 0 || d.CommandBuffer == 0 || d.Queue != "" && d.QueueSeq != 0 {
		return d.Queue, d.QueueSeq
	}
	s, ok := rt.submitted[d.CommandBuffer]
	if !ok || d.Queue != "" && d.Queue != s.queue {
		return d.Queue, d.QueueSeq
	}
	if d.QueueSeq != 0 {
		return s.queue, d.QueueSeq
	}
	return s.queue, s.seq
}

// seal sorts the waits and groups them by what they await.
func (ix *Index) seal() {
	ix.markStrangers()
	for id, rt := range ix.runtimes {
		rt.setWaits(ix.pending.waits[id], ix.pending.awaits[id])
		rt.group(ix.pending.awaits[id])
		rt.judged = make([]uint64, len(rt.waits))
	}
	ix.pending = pending{}
	ix.settle()
}

// setWaits orders the waits, keeps one row per id, and adds a missing one for awaits without a wait.
func (rt *runtimeIndex) setWaits(waits []waitRow, awaits []archive.Await) {
	known := make(map[archive.WaitID]bool, len(waits))
	for i := range waits {
		known[waits[i].id] = true
	}
	for i := range awaits {
		if id := awaits[i].Wait; !known[id] {
			known[id] = true
			waits = append(waits, waitRow{id: id, missing: true})
		}
	}
	slices.SortFunc(waits, func(a, b waitRow) int { return compareWaits(&a, &b) })
	rt.waits = waits[:0]
	for _, w := range waits {
		if _, again := rt.byWait[w.id]; again {
			continue
		}
		rt.byWait[w.id] = int32(len(rt.waits))
		rt.waits = append(rt.waits, w)
	}
}

// compareWaits is the order in which waits are considered. It is total, so that the order of arrival
// never decides a verdict.
func compareWaits(a, b *waitRow) int {
	if a.begin != b.begin && a.usable() && b.usable() { // the usual case
		return cmp.Compare(a.begin, b.begin)
	}
	return cmp.Or(
		-compareBool(a.usable(), b.usable()), cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), cmp.Compare(a.id, b.id),
		cmp.Compare(a.thread, b.thread), cmp.Compare(a.goroutine, b.goroutine), cmp.Compare(a.stack, b.stack),
		compareBool(a.timedOut, b.timedOut), compareBool(a.missing, b.missing), cmp.Compare(a.at, b.at), compareBool(a.locked, b.locked),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// group fills the groups from the awaits. An await that names nothing covers nothing.
func (rt *runtimeIndex) group(awaits []archive.Await) {
	slices.SortFunc(awaits, func(a, b archive.Await) int {
		return cmp.Or(cmp.Compare(rt.byWait[a.Wait], rt.byWait[b.Wait]), cmp.Compare(a.UpTo, b.UpTo))
	})
	for i := range awaits {
		a := &awaits[i]
		w := rt.byWait[a.Wait]
		switch {
		case !namesWork(a):
		case a.Kind == archive.AwaitDispatch:
			rt.join(entry(rt.dispatch, archive.DispatchID(a.Ref)), w, nil)
		case a.Kind == archive.AwaitCommandBuffer:
			rt.join(entry(rt.buffer, archive.CommandBufferID(a.Ref)), w, nil)
		default:
			q := entry(rt.queues, a.Queue)
			if a.UpTo == 0 {
				rt.join(&q.drain, w, nil)
			} else {
				rt.join(&q.upTo, w, &a.UpTo)
			}
		}
	}
	for _, g := range rt.dispatch {
		g.build(rt.waits)
	}
	for _, g := range rt.buffer {
		g.build(rt.waits)
	}
	for _, q := range rt.queues {
		q.drain.build(rt.waits)
		q.upTo.build(rt.waits)
	}
}

// namesWork reports whether an await names anything.
func namesWork(a *archive.Await) bool {
	switch a.Kind {
	case archive.AwaitDispatch, archive.AwaitCommandBuffer:
		return a.Ref != 0
	case archive.AwaitQueue:
		return a.Queue != ""
	}
	return false
}

// join adds a wait to a group. Awaits come in order of wait and submission, so that of several awaits
// of one wait the last, with the highest submission, says it all.
func (rt *runtimeIndex) join(g *group, w int32, upTo *uint64) {
	waits, tos := &g.waits, &g.upTo
	if !rt.waits[w].usable() {
		waits, tos = &g.bad, &g.badTo
	}
	n := len(*waits)
	if n > 0 && (*waits)[n-1] == w {
		if upTo != nil {
			(*tos)[n-1] = *upTo
		}
		return
	}
	*waits = append(*waits, w)
	if upTo != nil {
		*tos = append(*tos, *upTo)
	}
}

func entry[K comparable, V any](m map[K]*V, key K) *V {
	v := m[key]
	if v == nil {
		v = new(V)
		m[key] = v
	}
	return v
}

// markStrangers finds the runtimes whose process is known not to belong to the recording: neither it
// nor an ancestor that reported is in the list. A recorder lets in only processes of the recording, by
// token, credentials or descent, not all of which show in pids; so what it wrote has no strangers, and
// only archives made some other way can. Before a recording has finished its list is not complete.
func (ix *Index) markStrangers() {
	if ix.info.RecorderPID != 0 || len(ix.info.PIDs) == 0 || ix.info.State != archive.StateFinished {
		return
	}
	members := map[int64]bool{}
	for _, pid := range ix.info.PIDs {
		members[pid] = true
	}
	for grown := true; grown; {
		grown = false
		for _, rt := range ix.runtimes {
			if rt.row.PID > 0 && members[rt.row.ParentPID] && !members[rt.row.PID] {
				members[rt.row.PID], grown = true, true
			}
		}
	}
	for _, rt := range ix.runtimes {
		rt.stranger = rt.row.PID > 0 && !members[rt.row.PID]
	}
}
