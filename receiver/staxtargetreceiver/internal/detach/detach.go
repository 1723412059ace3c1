// Package detach moves the target spans of other SDKs into traces of their own.
//
// Viewers take a span link inside one trace for a parent (Jaeger draws a root span with such a link as the child of what it
// links to), and they show a dispatch below the CPU span that was active when it was queued as if the CPU had done the
// work. Both would make provenance look like containment. So each lane gets traces of its own, cut into segments of at
// most [MaxSpans] spans or [MaxAge]:
//
//	trace id   = hash of recording, runtime, lane and segment
//	parent     = the span's parent when that is a span of the same lane in the same request, else the segment's root
//	old parent = attributes stax.detached.*, and a span link when it is surely the CPU span that queued the work
//
// It is when the span has no link of its own that says so, and the lane has no spans below each other: there, a parent that is
// not in the request may be a command buffer that comes later.
//
// Span ids never change. Spans of stax's own SDK come with final ids and are not touched: they are recognised by their
// segment id and by what it promises, see [Breaks].
//
// What is not done: a command buffer that arrives in a later request than its dispatches cannot be their parent any more,
// since nothing is held back. Such targets name it by stax.command_buffer.id.
package detach

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/validate"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Bounds of a segment, and of how many lanes are remembered.
const (
	MaxSpans = 4998 // with its root, under 5000
	MaxAge   = time.Second
	maxLanes = 4096
)

// Key identifies a lane across recordings.
type Key struct {
	Recording, Runtime, Lane string
}

// Segmenter knows the open segment of every lane. It is safe for concurrent use.
type Segmenter struct {
	now   func() time.Time
	mu    sync.Mutex
	lanes map[Key]*segment
}

// segment is one lane trace.
type segment struct {
	trace  pcommon.TraceID
	root   pcommon.SpanID
	begin  time.Time
	spans  int
	rooted bool // its root has been sent
	nested bool // the lane has spans below each other, here or in an earlier segment
}

// NewSegmenter returns a Segmenter that tells the age of segments by now.
func NewSegmenter(now func() time.Time) *Segmenter {
	return &Segmenter{now: now, lanes: map[Key]*segment{}}
}

// Breaks reports whether a span of a lane, other than a wait, breaks what the segment with the given root promises: that
// it has no other root, and that no span links into its own trace. Then the whole scope needs to be moved, as it does when
// it names no segment.
func Breaks(s ptrace.Span, root pcommon.SpanID) bool {
	if s.ParentSpanID().IsEmpty() && s.SpanID() != root {
		return true
	}
	for _, l := range s.Links().All() {
		if l.TraceID() == s.TraceID() {
			return true
		}
	}
	return false
}

// Move gives the spans of ss, which is one of rs, to segments of the lane. It returns how many spans it moved and a
// function to be called when the request was not delivered after all. Further segments become further ScopeSpans of rs.
func (sg *Segmenter) Move(key Key, lane validate.Lane, rs ptrace.ResourceSpans, ss ptrace.ScopeSpans) (moved int, undo func()) {
	spans := ss.Spans()
	parents := blockParents(spans)
	tops := topmost(parents)
	nested, flat := hasNesting(spans, parents), true
	chunks := make([]*segment, spans.Len())
	var order []*segment
	var fresh []bool

	sg.mu.Lock()
	byRoot := map[int]*segment{}
	for i := range spans.Len() {
		if isWait(spans.At(i)) {
			continue // a wait is the CPU's: its place is below the CPU span
		}
		seg := byRoot[tops[i]]
		if seg == nil {
			seg = sg.take(key)
			byRoot[tops[i]] = seg
			if len(order) == 0 || order[len(order)-1] != seg {
				order, fresh = append(order, seg), append(fresh, !seg.rooted)
				seg.rooted = true
			}
		}
		seg.spans++
		seg.nested = seg.nested || nested
		flat = flat && !seg.nested
		chunks[i] = seg
		moved++
	}
	sg.mu.Unlock()

	for i, s := range spans.All() {
		if seg := chunks[i]; seg != nil {
			move(s, seg, parents[i] >= 0, flat)
		}
	}
	dsts := make([]ptrace.ScopeSpans, len(order))
	for k, seg := range order {
		dst := ss
		if k > 0 {
			dst = rs.ScopeSpans().AppendEmpty()
			ss.Scope().CopyTo(dst.Scope())
			dst.SetSchemaUrl(ss.SchemaUrl())
			i := -1
			ss.Spans().RemoveIf(func(s ptrace.Span) bool {
				i++
				if chunks[i] != seg {
					return false
				}
				s.MoveTo(dst.Spans().AppendEmpty())
				return true
			})
			chunks = removeSegment(chunks, seg)
		}
		dsts[k] = dst
	}
	for k, seg := range order {
		dsts[k].Scope().Attributes().PutStr(semconv.SegmentIDKey, hex.EncodeToString(seg.root[:]))
		if fresh[k] {
			seg.writeRoot(dsts[k].Spans().AppendEmpty(), lane)
		}
	}
	return moved, func() {
		sg.mu.Lock()
		defer sg.mu.Unlock()
		for k, seg := range order {
			if fresh[k] {
				seg.rooted = false
			}
		}
	}
}

// take returns the lane's open segment, a new one when it is full or too old. sg.mu is held.
func (sg *Segmenter) take(key Key) *segment {
	now := sg.now()
	seg := sg.lanes[key]
	if seg != nil && seg.spans < MaxSpans && now.Sub(seg.begin) < MaxAge {
		return seg
	}
	if seg == nil && len(sg.lanes) >= maxLanes {
		sg.forget(now)
	}
	n := now.UnixNano()
	if seg != nil && n <= seg.begin.UnixNano() { // several segments in one tick of the clock
		n = seg.begin.UnixNano() + 1
		now = time.Unix(0, n)
	}
	next := &segment{begin: now, nested: seg != nil && seg.nested}
	h := sha256.New()
	for _, part := range [...]string{key.Recording, key.Runtime, key.Lane} {
		_, _ = h.Write([]byte(part))
		_, _ = h.Write([]byte{0})
	}
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	sum := h.Sum(nil)
	copy(next.trace[:], sum)
	copy(next.root[:], sum[16:])
	next.trace[15] |= 1 // an id of all zeros is no id
	next.root[7] |= 1
	sg.lanes[key] = next
	return next
}

// forget makes room for half of the lanes: what is over goes first, then anything. A forgotten lane begins a new segment.
func (sg *Segmenter) forget(now time.Time) {
	for k, seg := range sg.lanes {
		if now.Sub(seg.begin) >= MaxAge {
			delete(sg.lanes, k)
		}
	}
	for k := range sg.lanes {
		if len(sg.lanes) <= maxLanes/2 {
			return
		}
		delete(sg.lanes, k)
	}
}

// move gives one span its place in the segment. cpuParent says that a parent elsewhere is a CPU span.
func move(s ptrace.Span, seg *segment, keepParent, cpuParent bool) {
	attrs := s.Attributes()
	oldTrace, oldParent := s.TraceID(), s.ParentSpanID()
	attrs.PutStr(semconv.DetachedTraceIDKey, hex.EncodeToString(oldTrace[:]))
	if !keepParent {
		if !oldParent.IsEmpty() {
			attrs.PutStr(semconv.DetachedParentSpanIDKey, hex.EncodeToString(oldParent[:]))
			if cpuParent && !hasOrigin(s) {
				l := s.Links().AppendEmpty()
				l.SetTraceID(oldTrace)
				l.SetSpanID(oldParent)
				l.Attributes().PutStr(semconv.OriginKindKey, semconv.OriginKindDispatch)
			}
		}
		s.SetParentSpanID(seg.root)
	}
	s.SetTraceID(seg.trace)
}

// hasOrigin reports whether the span says itself which CPU span queued it.
func hasOrigin(s ptrace.Span) bool {
	if _, ok := s.Attributes().Get(semconv.OriginSpanIDKey); ok {
		return true
	}
	for _, l := range s.Links().All() {
		if kind, ok := l.Attributes().Get(semconv.OriginKindKey); !ok || kind.Str() == semconv.OriginKindDispatch {
			return true
		}
	}
	return false
}

// hasNesting reports whether spans are, or may be, below each other.
func hasNesting(spans ptrace.SpanSlice, parents []int) bool {
	for i, s := range spans.All() {
		if parents[i] >= 0 {
			return true
		}
		if v, ok := s.Attributes().Get(semconv.SpanTypeKey); ok && v.Str() == semconv.SpanTypeCommandBuffer {
			return true
		}
	}
	return false
}

// writeRoot makes the segment's root: a container for viewers, without a sequence number.
func (seg *segment) writeRoot(s ptrace.Span, lane validate.Lane) {
	s.SetTraceID(seg.trace)
	s.SetSpanID(seg.root)
	s.SetName(lane.Name)
	s.SetKind(ptrace.SpanKindInternal)
	at := pcommon.NewTimestampFromTime(seg.begin)
	s.SetStartTimestamp(at)
	s.SetEndTimestamp(at)
	s.Attributes().PutStr(semconv.SpanTypeKey, semconv.SpanTypeSegment)
}

// blockParents returns for each span the index of its parent among them, -1 when the parent is elsewhere. Waits are
// nobody's parent and have none.
func blockParents(spans ptrace.SpanSlice) []int {
	index := make(map[pcommon.SpanID]int, spans.Len())
	for i, s := range spans.All() {
		if !isWait(s) {
			index[s.SpanID()] = i
		}
	}
	parents := make([]int, spans.Len())
	for i, s := range spans.All() {
		parents[i] = -1
		if p, ok := index[s.ParentSpanID()]; ok && p != i && !isWait(s) && spans.At(p).TraceID() == s.TraceID() {
			parents[i] = p
		}
	}
	breakCycles(parents)
	return parents
}

// breakCycles makes every chain of parents end.
func breakCycles(parents []int) {
	const (
		unseen, onPath, done = 0, 1, 2
	)
	state := make([]uint8, len(parents))
	var path []int
	for i := range parents {
		path = path[:0]
		j := i
		for j >= 0 && state[j] == unseen {
			state[j] = onPath
			path = append(path, j)
			j = parents[j]
		}
		if j >= 0 && state[j] == onPath {
			parents[j] = -1
		}
		for _, k := range path {
			state[k] = done
		}
	}
}

// topmost returns for each span the index of its topmost ancestor among them. parents has no cycles.
func topmost(parents []int) []int {
	tops := make([]int, len(parents))
	for i := range tops {
		tops[i] = -1
	}
	var path []int
	for i := range parents {
		path = path[:0]
		top := i
		for tops[top] < 0 && parents[top] >= 0 {
			path = append(path, top)
			top = parents[top]
		}
		if tops[top] >= 0 {
			top = tops[top]
		} else {
			tops[top] = top
		}
		for _, k := range path {
			tops[k] = top
		}
	}
	return tops
}

func removeSegment(chunks []*segment, seg *segment) []*segment {
	kept := chunks[:0]
	for _, c := range chunks {
		if c != seg {
			kept = append(kept, c)
		}
	}
	return kept
}

func isWait(s ptrace.Span) bool {
	attrs := s.Attributes()
	if v, ok := attrs.Get(semconv.SpanTypeKey); ok {
		return v.Type() == pcommon.ValueTypeStr && v.Str() == semconv.SpanTypeWait
	}
	_, ok := attrs.Get(semconv.WaitAwaitsKey)
	return ok
}
