package sdk

import "context"

// A Span is a dispatch that the calling goroutine executes itself: it starts at Begin and ends at End, and its origin
// is the place of Begin. It is a value; the zero Span is inert.
type Span struct{ b builder }

// Begin starts a span and captures its origin, as dear as the lane and the recording want it. ctx may be nil.
func (l *Lane) Begin(ctx context.Context, n Name) (s Span) {
	if l.Active() {
		s.begin(ctx, l, n)
	}
	return s
}

func (s *Span) begin(ctx context.Context, l *Lane, n Name) {
	s.b.begin(l, kindDispatch, n)
	if m := l.mode(); m > OriginOff {
		o := l.rt.capture(ctx, m, 2)
		s.b.rec.setOrigin(&o)
		s.b.rec.start = o.time
		return
	}
	s.b.rec.start = int64(Now())
}

// ID is the dispatch id, or 0 when inert.
func (s *Span) ID() DispatchID { return DispatchID(s.b.rec.id) }

// Tag is [Dispatch.Tag].
func (s *Span) Tag(k Key, v string) { s.b.tag(k, v) }

// Fault is [Dispatch.Fault].
func (s *Span) Fault(msg string) { s.b.fault(msg) }

// End records the span. Later calls on the same variable do nothing.
func (s *Span) End() {
	if s.b.rt != nil {
		s.b.end()
	}
}
