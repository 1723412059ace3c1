package sdk

import (
	"context"
	"time"

	"github.com/stax-otel/stax/sdk/semconv"
)

// LaneKind says what executes a lane's work. It is always stated, never guessed from names.
type LaneKind string

// The lane kinds.
const (
	LaneGeneric    LaneKind = semconv.LaneKindGeneric
	LaneMetal      LaneKind = semconv.LaneKindMetal
	LaneCUDA       LaneKind = semconv.LaneKindCUDA
	LaneGPU        LaneKind = semconv.LaneKindGPU
	LaneExecutor   LaneKind = semconv.LaneKindExecutor
	LaneThreadPool LaneKind = semconv.LaneKindThreadPool
	LaneCodec      LaneKind = semconv.LaneKindCodec
	LaneDatabase   LaneKind = semconv.LaneKindDatabase
	LaneTick       LaneKind = semconv.LaneKindTick
	LaneJIT        LaneKind = semconv.LaneKindJIT
	LaneNetwork    LaneKind = semconv.LaneKindNetwork
	LaneStorage    LaneKind = semconv.LaneKindStorage
)

func knownKind(k LaneKind) bool {
	switch k {
	case LaneGeneric, LaneMetal, LaneCUDA, LaneGPU, LaneExecutor, LaneThreadPool, LaneCodec, LaneDatabase, LaneTick, LaneJIT,
		LaneNetwork, LaneStorage:
		return true
	}
	return false
}

// A Lane is a logical executor of one runtime. Make each lane once, keep it, use it from any goroutine.
// A nil Lane is inert.
type Lane struct {
	rt         *Runtime
	index      uint32 // from 1; the lane's id on the wire
	queue      uint32 // interned default queue; 0: none
	origins    OriginMode
	name       string
	kind       LaneKind
	clockError time.Duration

	segments uint64 // handed out so far; the worker's
}

// LaneOption configures a lane at [NewLane].
type LaneOption func(*Lane)

// WithOrigins sets the dearest origin that the lane captures. A recording may ask for less, never for more.
func WithOrigins(m OriginMode) LaneOption { return func(l *Lane) { l.origins = m } }

// WithClockError declares a bound on the error of the lane's times against this process's clock, for times that come
// from a device's clock.
func WithClockError(d time.Duration) LaneOption {
	return func(l *Lane) { l.clockError = max(d, 0) }
}

// WithQueue names the concrete queue of every dispatch and command buffer of the lane that names no other.
func WithQueue(id string) LaneOption { return func(l *Lane) { l.queue = NewQueue(id).id } }

// NewLane makes a lane of the default runtime. The first lane of a runtime starts its goroutines and, when
// STAX_ENDPOINT is set, asks the gate once before it returns (at most 50 ms).
func NewLane(name string, kind LaneKind, opts ...LaneOption) *Lane {
	return std.NewLane(name, kind, opts...)
}

// NewLane is [NewLane] for this runtime. Past the runtime's limit of lanes it returns an inert lane and a diagnostic
// says so. A kind that is none of the constants counts as LaneGeneric, with a diagnostic.
func (rt *Runtime) NewLane(name string, kind LaneKind, opts ...LaneOption) *Lane {
	l := &Lane{rt: rt, name: clip(name), kind: kind}
	if !knownKind(kind) {
		diagLaneKind.add()
		l.kind = LaneGeneric
	}
	for _, o := range opts {
		o(l)
	}
	rt.register(l)
	return l
}

// Active reports whether something records this lane now. Test it before work whose only use is a recording, such as
// reading device timestamps.
func (l *Lane) Active() bool { return l != nil && l.rt.active.Load() != 0 }

// ID is the lane's identity on the wire, unique in the runtime. It is empty for an inert lane.
func (l *Lane) ID() string {
	if l == nil || l.index == 0 {
		return ""
	}
	return l.wireID()
}

// Kind is the lane's kind.
func (l *Lane) Kind() LaneKind {
	if l == nil {
		return ""
	}
	return l.kind
}

// Name interns s and returns its handle. Handles are valid on every lane.
func (l *Lane) Name(s string) Name { return NewName(s) }

// mode is the kind of origin to capture now: the lane's wish limited by the recording's. 0: not recorded.
func (l *Lane) mode() OriginMode {
	if l == nil {
		return 0
	}
	m := OriginMode(l.rt.active.Load())
	if l.origins != OriginDefault {
		m = min(m, l.origins)
	}
	return m
}

// Report records one finished dispatch without origin: name, start and end. It is the cheapest call.
func (l *Lane) Report(n Name, start, end Time) {
	if l != nil && l.rt.active.Load() != 0 {
		l.report(nil, n, start, end)
	}
}

// ReportFrom records one finished dispatch that was queued at o, and returns its id, or 0 while not recorded.
func (l *Lane) ReportFrom(o Origin, n Name, start, end Time) DispatchID {
	if l == nil || l.rt.active.Load() == 0 {
		return 0
	}
	return l.report(&o, n, start, end)
}

// report fills the record in its ring slot: it has no side bytes and needs no copy.
func (l *Lane) report(o *Origin, n Name, start, end Time) DispatchID {
	s, r, id := l.rt.claim(0, nil)
	if r == nil {
		return DispatchID(id)
	}
	*r = record{}
	r.id, r.n, r.kind = id, s.n, kindDispatch
	r.lane, r.name, r.queue = l.index, n.id, l.queue
	r.start, r.end = int64(start), int64(end)
	if o != nil {
		r.setOrigin(o)
	}
	l.rt.publish(s)
	return DispatchID(id)
}

// CaptureOrigin captures where the calling goroutine is, as dear as the lane and the recording want it. ctx may be nil;
// an OTel span in it becomes the origin's CPU span. While not recorded the origin is zero.
func (l *Lane) CaptureOrigin(ctx context.Context) Origin {
	m := l.mode()
	if m <= OriginOff {
		return Origin{}
	}
	return l.rt.capture(ctx, m, 1)
}
