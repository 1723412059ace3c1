package sdk

import (
	"strconv"
	"time"

	"github.com/stax-otel/stax/sdk/internal/wire"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Segments
//
// A lane's spans are cut into segments of less than 5000 spans or one second, each a trace of its own with a root span, so
// that trace viewers can show them. A segment never cuts a command buffer: the first record of a command buffer, be it
// one of its dispatches or the buffer itself, fixes the segment of all. So a segment grows past its limits only by the
// rest of command buffers that began in it.

// maxOpenBuffers is how many command buffers a lane remembers per generation; one is forgotten after between one and two
// times as many newer ones. A straggler after that starts anew in the current segment.
const maxOpenBuffers = 16 << 10

// laneEncoder is the worker's view of a lane.
type laneEncoder struct {
	lane    *Lane
	scope   []byte // content of an OTLP InstrumentationScope without the segment id
	cur     *segment
	lastBuf uint64 // the command buffer seen last, and its segment
	lastSeg *segment
	young   map[uint64]*segment // by command buffer
	old     map[uint64]*segment
}

type segment struct {
	num       uint64
	root      uint64
	trace     [16]byte
	begin     int64 // Unix ns
	born      time.Time
	spans     int
	told      bool     // its root was sent
	group     *group   // in the request being built
	prevTrace [16]byte // the lane's segment before it, linked by its root
	prevRoot  uint64
}

// group collects the spans of one segment in one request.
type group struct {
	lane  *laneEncoder
	seg   *segment
	spans []byte
}

// laneOf returns the worker's view of lane index, or nil for an index that no lane has.
func (e *encoder) laneOf(index uint32) *laneEncoder {
	if index == 0 {
		return nil
	}
	if int(index) > len(e.lanes) {
		e.rt.mu.Lock()
		all := e.rt.lanes
		e.rt.mu.Unlock()
		for _, l := range all[len(e.lanes):] {
			e.lanes = append(e.lanes, newLaneEncoder(l))
		}
		if int(index) > len(e.lanes) {
			return nil
		}
	}
	return e.lanes[index-1]
}

func newLaneEncoder(l *Lane) *laneEncoder {
	b := wire.Text(nil, scopeName, scopeStax)
	b = appendLane(b, scopeAttributes, l)
	return &laneEncoder{lane: l, scope: b, young: map[uint64]*segment{}}
}

func (l *Lane) wireID() string { return strconv.FormatUint(uint64(l.index), 10) }

// appendLane appends the lane's attributes, as they stand in a scope and in its registration.
func appendLane(b []byte, field int, l *Lane) []byte {
	b = wire.String(b, field, semconv.LaneIDKey, l.wireID())
	b = wire.String(b, field, semconv.LaneNameKey, l.name)
	b = wire.String(b, field, semconv.LaneKindKey, string(l.kind))
	if l.clockError > 0 {
		b = wire.Int(b, field, semconv.LaneClockErrorNanosKey, int64(l.clockError))
	}
	return b
}

// current returns the lane's open segment, starting a new one when it is full or old.
func (e *encoder) current(l *laneEncoder, r *record) *segment {
	t := e.rt.cfg.timing
	if s := l.cur; s != nil && s.spans < t.segmentSpans && e.now.Sub(s.born) < t.segmentAge {
		return s
	}
	l.lane.segments++
	s := &segment{
		num: l.lane.segments, born: e.now,
		root:  e.rt.segmentID(l.lane.index, l.lane.segments),
		trace: e.traceID(l.lane.index, uint32(l.lane.segments)),
		begin: int64(e.nowUnix),
	}
	if r.start < s.begin && r.start > s.begin-int64(time.Hour) { // a nonsense time must not stretch the container
		s.begin = r.start
	}
	if l.cur != nil {
		s.prevTrace, s.prevRoot = l.cur.trace, l.cur.root
	}
	l.cur = s
	return s
}

// segmentOf decides where a record belongs.
func (e *encoder) segmentOf(l *laneEncoder, r *record) *segment {
	buffer := r.parent
	if r.kind == kindCommandBuffer {
		buffer = r.id
	}
	if buffer == 0 {
		return e.current(l, r)
	}
	if buffer == l.lastBuf {
		return l.lastSeg
	}
	s, ok := l.young[buffer]
	if !ok {
		if s, ok = l.old[buffer]; !ok {
			s = e.current(l, r)
		}
		if len(l.young) >= maxOpenBuffers {
			l.old, l.young = l.young, map[uint64]*segment{}
		}
		l.young[buffer] = s
	}
	l.lastBuf, l.lastSeg = buffer, s
	return s
}

// groupOf returns the segment's group in this request; a new segment's group begins with its root span.
func (e *encoder) groupOf(l *laneEncoder, s *segment) *group {
	if s.group != nil {
		return s.group
	}
	var g *group
	if n := len(e.free); n > 0 {
		g = e.free[n-1]
		e.free = e.free[:n-1]
	} else {
		g = &group{}
	}
	g.lane, g.seg, g.spans = l, s, g.spans[:0]
	s.group = g
	e.groups = append(e.groups, g)
	if !s.told {
		s.told = true
		g.spans = appendRoot(g.spans, l.lane, s)
		e.spans += len(g.spans)
	}
	return g
}

// appendRoot appends the segment's root: a container without duration, because its end is not known yet.
func appendRoot(b []byte, l *Lane, s *segment) []byte {
	b, m := wire.Open(b, scopeItems, 1)
	b = wire.Bytes(b, spanTraceID, s.trace[:])
	b = wire.ID(b, spanID, s.root)
	b = wire.Text(b, spanName, l.name)
	b = wire.Varint(b, spanKind, kindInternal)
	b = wire.Fixed64(b, spanStart, uint64(s.begin))
	b = wire.Fixed64(b, spanEnd, uint64(s.begin))
	b = wire.String(b, spanAttributes, semconv.SpanTypeKey, semconv.SpanTypeSegment)
	if s.prevRoot != 0 {
		var link wire.Mark
		b, link = wire.Open(b, spanLinks, 1)
		b = wire.Bytes(b, linkTraceID, s.prevTrace[:])
		b = wire.ID(b, linkSpanID, s.prevRoot)
		b = wire.Close(b, link)
	}
	return wire.Close(b, m)
}

// append appends the group as one ScopeSpans.
func (g *group) append(b []byte) []byte {
	const segmentAttribute = 64 // about
	b, m := wire.Open(b, resourceScope, wire.SizeVarint(uint64(len(g.spans)+len(g.lane.scope)+segmentAttribute)))
	b, scope := wire.Open(b, scopeScope, wire.SizeVarint(uint64(len(g.lane.scope)+segmentAttribute)))
	b = append(b, g.lane.scope...)
	b = wire.Hex64(b, scopeAttributes, semconv.SegmentIDKey, g.seg.root)
	b = wire.Close(b, scope)
	b = append(b, g.spans...)
	return wire.Close(b, m)
}
