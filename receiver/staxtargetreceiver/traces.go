package staxtargetreceiver

import (
	"context"
	"encoding/hex"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/derive"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/detach"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/validate"
	"github.com/stax-otel/stax/sdk/semconv"
)

// traceRequest walks once over the spans of a request: admit, validate, detach, note for the derived metrics.
type traceRequest struct {
	*request
	facts validate.Facts
	batch *derive.Batch // nil: no derived metrics
}

// takeTraces takes td and forwards what is left of it. It returns how many spans were forwarded.
func (r *targetReceiver) takeTraces(ctx context.Context, q *request, td ptrace.Traces) (int, error) {
	t := &traceRequest{request: q}
	if r.deriver != nil {
		t.batch = r.deriver.Batch()
	}
	td.ResourceSpans().RemoveIf(t.resource)
	spans := td.SpanCount()
	if td.ResourceSpans().Len() > 0 { // a heartbeat is a scope without spans
		if err := r.nextTraces.ConsumeTraces(ctx, td); err != nil {
			if t.batch != nil {
				t.batch.Discard()
			}
			return spans, err
		}
	}
	if t.batch != nil {
		t.batch.Commit()
	}
	return spans, nil
}

// resource takes the spans of one runtime and reports whether nothing is left of them.
func (t *traceRequest) resource(rs ptrace.ResourceSpans) (remove bool) {
	adm, reason := t.admit(rs.Resource())
	if reason != "" {
		for _, ss := range rs.ScopeSpans().All() {
			_, isLane := ss.Scope().Attributes().Get(semconv.LaneIDKey)
			t.rejectAll(adm, ss, isLane, reason)
		}
		return true
	}
	if t.batch != nil {
		t.batch.Resource(derive.Resource{Recording: string(adm.rec.ID()), Runtime: string(adm.runtime)}, rs.Resource().Attributes())
	}
	var foreign []foreignScope
	rs.ScopeSpans().RemoveIf(func(ss ptrace.ScopeSpans) bool {
		lane, moves, remove := t.scope(adm, ss)
		if moves && !remove {
			foreign = append(foreign, foreignScope{ss, lane})
		}
		return remove
	})
	for _, f := range foreign {
		t.detach(adm, rs, f)
	}
	return rs.ScopeSpans().Len() == 0
}

type foreignScope struct {
	ss   ptrace.ScopeSpans
	lane validate.Lane
}

// scope validates one scope and its spans. moves says that the spans need a lane trace; remove that nothing is left.
func (t *traceRequest) scope(adm admission, ss ptrace.ScopeSpans) (lane validate.Lane, moves, remove bool) {
	if ss.Scope().Name() == semconv.ScopeHeartbeat {
		final, reason := validate.Heartbeat(ss.Scope().Attributes())
		if reason != validate.OK {
			t.reject(adm, "heartbeat", string(reason), noSeq, 1, 0)
			t.rejectAll(adm, ss, false, string(reason))
			return lane, false, true
		}
		if final {
			t.finals = append(t.finals, adm)
		}
	}
	lane, reason := validate.Scope(ss.Scope(), &t.diag)
	if reason != validate.OK {
		t.rejectAll(adm, ss, true, string(reason))
		return lane, false, true
	}
	had := ss.Spans().Len()
	if !lane.IsLane() {
		t.spans(adm, ss.Spans(), lane, nil)
		return lane, false, had > 0 && ss.Spans().Len() == 0
	}
	var root pcommon.SpanID
	moves = lane.Segment == ""
	if !moves {
		_, _ = hex.Decode(root[:], []byte(lane.Segment)) // validated: 16 hex digits
	}
	noted := 0
	if t.batch != nil {
		t.batch.Lane(lane.Name, lane.Kind)
		noted = t.batch.Len()
	}
	t.spans(adm, ss.Spans(), lane, func(s ptrace.Span) {
		if !moves && t.facts.Type != semconv.SpanTypeWait && detach.Breaks(s, root) {
			moves = true
		}
		if !moves && t.batch != nil {
			t.batch.Span(s, &t.facts)
		}
	})
	if moves && t.batch != nil {
		t.batch.Truncate(noted) // the spans get other trace ids: they are noted when they are moved
	}
	return lane, moves, had > 0 && ss.Spans().Len() == 0
}

// spans removes the spans that cannot be taken, and calls kept for the others.
func (t *traceRequest) spans(adm admission, spans ptrace.SpanSlice, lane validate.Lane, kept func(ptrace.Span)) {
	isLane := lane.IsLane()
	spans.RemoveIf(func(s ptrace.Span) bool {
		if reason := t.facts.Span(s, isLane, adm.window, &t.diag); reason != validate.OK {
			t.reject(adm, t.facts.Signal(), string(reason), t.facts.Seq, 1, 1)
			return true
		}
		if kept != nil {
			kept(s)
		}
		return false
	})
}

// detach moves the spans of another SDK to a lane trace.
func (t *traceRequest) detach(adm admission, rs ptrace.ResourceSpans, f foreignScope) {
	before := rs.ScopeSpans().Len()
	key := detach.Key{Recording: string(adm.rec.ID()), Runtime: string(adm.runtime), Lane: f.lane.ID}
	moved, undo := t.r.segments.Move(key, f.lane, rs, f.ss)
	t.detached += moved
	t.undo = append(t.undo, undo)
	if t.batch == nil {
		return
	}
	t.batch.Lane(f.lane.Name, f.lane.Kind)
	var seen validate.Diagnostics // counted already
	note := func(ss ptrace.ScopeSpans) {
		for _, s := range ss.Spans().All() {
			if t.facts.Span(s, true, adm.window, &seen) == validate.OK {
				t.batch.Span(s, &t.facts)
			}
		}
	}
	note(f.ss)
	for i := before; i < rs.ScopeSpans().Len(); i++ {
		note(rs.ScopeSpans().At(i))
	}
}

// rejectAll refuses every span of a scope for one reason.
func (t *traceRequest) rejectAll(adm admission, ss ptrace.ScopeSpans, isLane bool, reason string) {
	var seen validate.Diagnostics // of no interest
	for _, s := range ss.Spans().All() {
		_ = t.facts.Span(s, isLane, validate.Window{}, &seen)
		t.reject(adm, t.facts.Signal(), reason, t.facts.Seq, 1, 1)
	}
}
