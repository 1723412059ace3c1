package originlinker

import (
	"encoding/binary"
	"hash/fnv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/otlprows"
	"github.com/stax-otel/stax/sdk/semconv"
)

// A wall trace shows one wait with the dispatches that it provably waited for below it. It is derived: the target sent no
// such trace, its spans are marked with semconv.DerivedKey, and they link to those that the target did send. Its root is
// made with the first such dispatch, so a wait that contains nothing has no wall trace.

// maxWallSpans bounds the spans of one wall trace, as segments bound those of a lane trace.
const maxWallSpans = 5000

type waitKey struct {
	runtime archive.RuntimeID
	wait    archive.WaitID
}

// waitFacts is what a wall trace needs of a wait.
type waitFacts struct {
	name   string
	trace  archive.TraceID
	thread int64
	end    int64
	spans  int // in the wall trace; 0: there is none
}

// rememberWait is called with each wait that comes by. ev.mu is held.
func (ev *evidence) rememberWait(w *archive.Wait) {
	if ev.waits == nil || len(ev.waits) >= ev.cfg.MaxEvidenceRows {
		return
	}
	key := waitKey{w.Runtime, w.ID}
	if ev.waits[key] == nil {
		ev.waits[key] = &waitFacts{name: w.Name, trace: w.Trace, thread: w.Origin.ThreadID, end: w.EndNanos}
	}
}

func (ev *evidence) evictWaits(before int64) {
	for k, w := range ev.waits {
		if w.end < before {
			delete(ev.waits, k)
		}
	}
}

// wallTrace collects the derived spans of one resource.
type wallTrace struct {
	spans ptrace.SpanSlice
	made  bool
}

func (wt *wallTrace) add(ev *evidence, rspans ptrace.ResourceSpans, lane otlprows.Lane, span ptrace.Span, c *archive.Certificate, out ptrace.Traces, t *tally) {
	w := ev.waits[waitKey{c.Runtime, c.Wait}]
	if w == nil || w.spans >= maxWallSpans {
		t.full++
		return
	}
	if !wt.made {
		wt.made = true
		rs := out.ResourceSpans().AppendEmpty()
		rspans.Resource().CopyTo(rs.Resource())
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName(semconv.ScopeDerived)
		ss.SetSchemaUrl(semconv.SchemaURL)
		wt.spans = ss.Spans()
	}
	trace := derivedID("trace", c.Runtime, uint64(c.Wait))
	root := derivedID("wait", c.Runtime, uint64(c.Wait))
	if w.spans == 0 {
		s := wt.span(trace, root, pcommon.SpanID{}, w.name, c.BeginNanos, c.EndNanos)
		s.Attributes().PutInt(semconv.ThreadIDKey, w.thread)
		link := s.Links().AppendEmpty()
		link.SetTraceID(pcommon.TraceID(w.trace))
		link.SetSpanID(bigEndian(uint64(c.Wait)))
		w.spans++
	}
	w.spans++
	id := derivedID("dispatch", c.Runtime, uint64(c.Dispatch))
	s := wt.span(trace, id, spanIDOf(root), span.Name(), int64(span.StartTimestamp()), int64(span.EndTimestamp()))
	span.Status().CopyTo(s.Status())
	s.Attributes().PutStr(semconv.LaneNameKey, lane.Name)
	s.Attributes().PutStr(semconv.LaneKindKey, lane.Kind)
	certify(s, c)
	link := s.Links().AppendEmpty()
	link.SetTraceID(span.TraceID())
	link.SetSpanID(span.SpanID())
}

// span appends a derived span. Its times are those of the original.
func (wt *wallTrace) span(trace, id [16]byte, parent pcommon.SpanID, name string, start, end int64) ptrace.Span {
	s := wt.spans.AppendEmpty()
	s.SetTraceID(trace)
	s.SetSpanID(spanIDOf(id))
	s.SetParentSpanID(parent)
	s.SetName(name)
	s.SetKind(ptrace.SpanKindInternal)
	s.SetStartTimestamp(pcommon.Timestamp(start))
	s.SetEndTimestamp(pcommon.Timestamp(end))
	s.Attributes().PutBool(semconv.DerivedKey, true)
	return s
}

// derivedID hashes what a derived trace or span is for: the same thing has the same id in every collector.
func derivedID(what string, runtime archive.RuntimeID, id uint64) (sum [16]byte) {
	h := fnv.New128a()
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], id)
	_, _ = h.Write([]byte("stax.wall/" + what + "/" + string(runtime) + "/")) // never fails
	_, _ = h.Write(b[:])
	h.Sum(sum[:0])
	return sum
}

func spanIDOf(id [16]byte) (s pcommon.SpanID) {
	copy(s[:], id[8:]) // the low bytes of FNV are the better mixed ones
	return s
}

func bigEndian(n uint64) (s pcommon.SpanID) {
	binary.BigEndian.PutUint64(s[:], n)
	return s
}
