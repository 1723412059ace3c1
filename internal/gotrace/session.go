package gotrace

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/exp/trace"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Options configure a [Session]. The zero value of a field takes the default.
type Options struct {
	// ShortWait is the length below which a wait is counted and not kept, unless an origin was captured in it or just
	// before it. Default: 20 µs. Negative: all are kept.
	ShortWait time.Duration
	// Period is the sampling period that the target asked for. Default: 4 ms.
	Period time.Duration
	// Caps of what one generation may turn into; what comes later is counted in [Stats].
	MaxSamples int // default 1<<16
	MaxWaits   int // default 1<<18
	MaxOrigins int // default 1<<18
	MaxStacks  int // default 1<<15
	// MaxGoroutines is how many goroutines are followed at a time. Default 1<<17.
	MaxGoroutines int
}

func (o Options) withDefaults() Options {
	set := func(n *int, def int) {
		if *n <= 0 {
			*n = def
		}
	}
	if o.ShortWait == 0 {
		o.ShortWait = 20 * time.Microsecond
	}
	if o.Period <= 0 {
		o.Period = 4 * time.Millisecond
	}
	set(&o.MaxSamples, 1<<16)
	set(&o.MaxWaits, 1<<18)
	set(&o.MaxOrigins, 1<<18)
	set(&o.MaxStacks, 1<<15)
	set(&o.MaxGoroutines, 1<<17)
	return o
}

const (
	maxRememberedStacks = 1 << 14
	maxThreads          = 1 << 14
	maxDelivered        = 1 << 10
)

// Session holds what outlasts a generation, for one runtime (process start) in one recording. It is not safe for
// concurrent use. Its memory is bounded by [Options].
type Session struct {
	o         Options
	base      carry // before the newest generation
	next      carry // after it
	gap       bool  // the one before the newest is missing
	delivered map[generationID]struct{}
	stacks    map[archive.StackID]*stack
}

// carry is the state between two generations.
type carry struct {
	id      generationID
	clock   clock
	open    map[trace.GoID]goroutine
	threads map[trace.ThreadID]thread
}

// generationID tells generations of one process apart.
type generationID struct {
	number uint64
	at     trace.Time // of its clock snapshot: numbers may begin again
}

// NewSession returns a session that has seen nothing.
func NewSession(o Options) *Session {
	return &Session{o: o.withDefaults(), delivered: map[generationID]struct{}{}, stacks: map[archive.StackID]*stack{}}
}

// Generation is what one generation of a trace says. The rows have no Runtime; their Source is
// semconv.ProfileSourceGoExecTrace.
type Generation struct {
	Number       uint64
	BeginNanos   int64 // first event, Unix
	EndNanos     int64 // last event
	Clock        Clock
	Samples      []archive.Sample
	Waits        []archive.OffCPU // in the order of their ends
	OriginEvents []archive.OriginEvent
	Stacks       []Stack // those that the rows name, each once
	Stats        Stats

	id generationID
}

// Stats counts what a generation held. What was given up because of a cap ends in Dropped.
type Stats struct {
	Bytes  uint64 // of the payload
	Events uint64
	// Waits counts the ended intervals, WaitsShort those of them that are not kept because they were short, and ShortNanos
	// the time of these.
	Waits, WaitsShort uint64
	ShortNanos        int64
	// WaitsUnknown counts waits that are not told because nobody saw them begin: they began before the trace, or in a lost
	// generation.
	WaitsUnknown uint64
	// CgoCalls counts calls of C code. They are no waits: the thread may well run.
	CgoCalls uint64
	// OriginsMalformed counts log events of stax's categories with a message that is not theirs.
	OriginsMalformed  uint64
	SamplesDropped    uint64
	WaitsDropped      uint64
	OriginsDropped    uint64
	StacksDropped     uint64 // rows without a stack because the generation has too many
	GoroutinesDropped uint64 // events about goroutines beyond the cap
	// Gap says that the generation before this one is missing, so waits across the border are unknown.
	Gap bool
}

// Errors of [Session.Parse]. Anything else means that the payload is no generation of a trace.
var (
	// ErrRepeated means that the generation was delivered before: it came twice.
	ErrRepeated = errors.New("gotrace: the generation was delivered already")
	errNoClock  = errors.New("gotrace: the trace has no clock snapshot: it needs Go 1.25 or newer")
	errMore     = errors.New("gotrace: the payload holds more than one generation")
)

// Parse parses a trace's header and one generation. The payload is not kept. Generations come in their order but for those
// that were lost or late: a late one is parsed by itself.
//
// The session counts on the result only after [Session.Deliver]: until then the same generation may be parsed again, with
// the same result. An error leaves the session as it was.
func (s *Session) Parse(payload []byte) (out *Generation, err error) {
	defer func() { // the parser trusts its input in places
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("gotrace: the parser failed: %v", r)
		}
	}()
	g := &generation{
		session: s, trimmed: map[trace.Stack]*stack{}, stacks: map[trace.Stack]*stack{}, used: map[archive.StackID]struct{}{},
		short: int64(s.o.ShortWait), period: int64(s.o.Period),
		out: &Generation{},
	}
	return g.parse(payload)
}

// Deliver notes that the rows of a generation have arrived where they belong.
func (s *Session) Deliver(g *Generation) {
	if len(s.delivered) >= maxDelivered {
		for id := range s.delivered {
			if id.number+maxDelivered/2 < g.id.number {
				delete(s.delivered, id)
			}
		}
		if len(s.delivered) >= maxDelivered {
			clear(s.delivered)
		}
	}
	s.delivered[g.id] = struct{}{}
}

// source is the Source of all rows.
const source = semconv.ProfileSourceGoExecTrace
