package originlinker

import (
	"context"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/origin"
	"github.com/stax-otel/stax/internal/otlprows"
	"github.com/stax-otel/stax/processor/originlinker/internal/metadata"
	"github.com/stax-otel/stax/sdk/semconv"
)

// maxFrames bounds the frames in code.stacktrace.
const maxFrames = 64

// tally counts verdicts of one request, so that the instruments are called once for each kind and not for each span.
type tally struct {
	origins map[[2]string]int64 // by status and grade
	classes map[string]int64
	full    int64 // dispatches that found their wall trace full
	refused int64 // rows of evidence that found no room
}

func newTally() *tally { return &tally{origins: map[[2]string]int64{}, classes: map[string]int64{}} }

func (t *tally) report(ctx context.Context, tb *metadata.TelemetryBuilder, outcome string, spans int) {
	tb.StaxLinkerSpans.Add(ctx, int64(spans), metric.WithAttributes(attribute.String("outcome", outcome)))
	for k, n := range t.origins {
		tb.StaxLinkerOrigins.Add(ctx, n, metric.WithAttributes(attribute.String("status", k[0]), attribute.String("grade", k[1])))
	}
	for class, n := range t.classes {
		tb.StaxLinkerDispatches.Add(ctx, n, metric.WithAttributes(attribute.String("class", class)))
	}
	for signal, n := range map[string]int64{"wall": t.full, "evidence": t.refused} {
		if n > 0 {
			tb.StaxLinkerSkipped.Add(ctx, n, metric.WithAttributes(attribute.String("signal", signal)))
		}
	}
}

// resolve writes the verdicts on the spans of one resource. Wall traces are appended to out, which holds rspans.
func (ev *evidence) resolve(rspans ptrace.ResourceSpans, out ptrace.Traces, t *tally) {
	ev.mu.Lock()
	defer ev.mu.Unlock()
	var wall wallTrace
	b := &ev.batch
	ev.conv.Begin(b, ev.runtime(rspans.Resource()), ev)
	if len(b.Runtimes) > 0 { // the collector has learned its process id in the meantime
		ev.stream.Add(b)
		b.Reset()
	}
	for _, ss := range rspans.ScopeSpans().All() {
		sc := otlprows.ReadScope(ss.Scope())
		for _, span := range ss.Spans().All() {
			// The span is read again rather than its row kept: rows of held spans would take more memory than the spans.
			switch ev.conv.Span(&sc, span) {
			case otlprows.KindDispatch:
				d := &b.Dispatches[len(b.Dispatches)-1]
				putCause(span, &d.Origin)
				ev.link(span, archive.OwnerDispatch, uint64(d.ID), archive.OriginDispatch, &d.Origin, t)
				c := ev.stream.Certificate(d)
				certify(span, &c)
				t.classes[c.Class]++
				if ev.waits != nil && c.Class == origin.ClassSynchronous {
					wall.add(ev, rspans, sc.Lane, span, &c, out, t)
				}
			case otlprows.KindCommandBuffer:
				cb := &b.CommandBuffers[len(b.CommandBuffers)-1]
				putCause(span, &cb.Origin)
				ev.link(span, archive.OwnerCommandBuffer, uint64(cb.ID), archive.OriginDispatch, &cb.Origin, t)
			case otlprows.KindWait:
				w := &b.Waits[len(b.Waits)-1]
				ev.link(span, archive.OwnerWait, uint64(w.ID), archive.OriginWait, &w.Origin, t)
			default:
				continue
			}
			ev.linkExtra(span, b.ExtraOrigins, t)
			b.Reset()
		}
	}
	b.Reset()
	ev.conv.Release()
}

// putCause repeats the CPU span that a link names as attributes, since viewers drop the attributes of links and search in
// those of spans only.
func putCause(span ptrace.Span, o *archive.Origin) {
	if o.CPUSpan == 0 || span.Links().Len() == 0 {
		return
	}
	if _, told := span.Attributes().Get(semconv.OriginSpanIDKey); told {
		return
	}
	span.Attributes().PutStr(semconv.OriginTraceIDKey, pcommon.TraceID(o.CPUTrace).String())
	span.Attributes().PutStr(semconv.OriginSpanIDKey, hex64(o.CPUSpan))
}

// link writes the verdict on the origin of a span.
func (ev *evidence) link(span ptrace.Span, owner archive.OwnerKind, id uint64, kind archive.OriginKind, o *archive.Origin, t *tally) {
	if !o.Present() {
		return
	}
	ev.put(span.Attributes(), ev.stream.Link(ev.conv.Runtime(), owner, id, kind, o), t)
}

// linkExtra writes verdicts on the completion and fault origins of a span. Those that are span events are the last rows of
// extra, in the order of the events; those before them are span links, which viewers show without attributes.
func (ev *evidence) linkExtra(span ptrace.Span, extra []archive.ExtraOrigin, t *tally) {
	events := span.Events()
	at := events.Len()
	for i := len(extra) - 1; i >= 0; i-- {
		x := &extra[i]
		name := semconv.EventCompletion
		if x.Kind == archive.OriginFault {
			name = semconv.EventFault
		}
		for at--; at >= 0 && events.At(at).Name() != name; at-- {
		}
		if at < 0 {
			return
		}
		if x.Origin.Present() {
			ev.put(events.At(at).Attributes(), ev.stream.Link(x.Runtime, x.OwnerKind, x.Owner, x.Kind, &x.Origin), t)
		}
	}
}

func (ev *evidence) put(attrs pcommon.Map, verdict archive.Link, t *tally) {
	t.origins[[2]string{verdict.Status, verdict.Grade}]++
	attrs.PutStr(semconv.OriginStatusKey, verdict.Status)
	if verdict.Grade != "" {
		attrs.PutStr(semconv.OriginGradeKey, verdict.Grade)
	}
	if verdict.DistanceNanos >= 0 {
		attrs.PutInt(semconv.OriginDistanceNanosKey, verdict.DistanceNanos)
	}
	if verdict.Weak {
		attrs.PutBool(semconv.OriginWeakKey, true)
	}
	if verdict.Status != origin.StatusLinked {
		return // a stack that is not the cause is not shown as one
	}
	frames := ev.frames(ev.conv.Runtime(), verdict.Stack)
	if len(frames) == 0 {
		return
	}
	if _, own := attrs.Get(semconv.CodeFunctionNameKey); own {
		return // the target says something else with it
	}
	attrs.PutStr(semconv.CodeFunctionNameKey, frames[0].Function)
	if frames[0].File != "" {
		attrs.PutStr(semconv.CodeFilePathKey, frames[0].File)
	}
	if frames[0].Line > 0 {
		attrs.PutInt(semconv.CodeLineNumberKey, frames[0].Line)
	}
	if ev.cfg.Stacktrace {
		attrs.PutStr(semconv.CodeStacktraceKey, stacktrace(frames))
	}
}

// stacktrace writes frames as a Go runtime does in a panic, without the goroutine's line.
func stacktrace(frames []archive.StackFrame) string {
	var sb strings.Builder
	for _, f := range frames {
		sb.WriteString(f.Function)
		sb.WriteString("\n\t")
		sb.WriteString(f.File)
		if f.Line > 0 {
			sb.WriteByte(':')
			sb.WriteString(strconv.FormatInt(f.Line, 10))
		}
		sb.WriteByte('\n')
	}
	return sb.String()
}

// certify writes the verdict on the containment of a dispatch.
func certify(span ptrace.Span, c *archive.Certificate) {
	attrs := span.Attributes()
	attrs.PutStr(semconv.ContainmentClassKey, c.Class)
	if c.Reason != "" {
		attrs.PutStr(semconv.ContainmentReasonKey, c.Reason)
	}
	if c.ClockErrorNanos != 0 {
		attrs.PutInt(semconv.ContainmentClockErrorNanosKey, c.ClockErrorNanos)
	}
	if c.Wait == 0 {
		return
	}
	attrs.PutStr(semconv.ContainmentWaitIDKey, hex64(uint64(c.Wait)))
	if c.Class == origin.ClassSynchronous {
		attrs.PutInt(semconv.ContainmentOwnedNanosKey, c.OwnedNanos)
	}
	if c.Corroboration != "" {
		attrs.PutStr(semconv.ContainmentCorroborationKey, c.Corroboration)
	}
	if c.CrossThread {
		attrs.PutBool(semconv.ContainmentCrossThreadKey, true)
	}
	if c.DifferentStack {
		attrs.PutBool(semconv.ContainmentDifferentStackKey, true)
	}
}

// hex64 is how ids are written in attributes: viewers turn large integers into something else.
func hex64(n uint64) string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[i] = digits[n>>(60-4*i)&15]
	}
	return string(b[:])
}
