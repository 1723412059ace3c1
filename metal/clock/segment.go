package clock

import "fmt"

// Reading is a wall clock between two readings of the mach clocks.
type Reading struct {
	Lo, Hi    uint64 // mach_absolute_time, ns, before and after
	Unix      int64  // ns
	Continued uint64 // mach_continuous_time, ns, read with Lo
}

// Limits of a segment, nanoseconds.
const (
	// MaxSleep is how far mach_continuous_time may move against mach_absolute_time: reading the two is not atomic.
	MaxSleep = 1_000_000
	// MaxStep is how far the wall clock may move against the segment's offset and its brackets between two readings
	// before that is a step and not the slewing of a disciplined clock (500 ppm of a second).
	MaxStep = 500_000
)

// Reason says why a segment ended.
type Reason int

// The reasons.
const (
	Goes    Reason = iota // it did not end
	Slept                 // the machine slept: mach_absolute_time stood still
	Stepped               // the wall clock was set
)

func (r Reason) String() string {
	return [...]string{"goes on", "the machine slept", "the wall clock was stepped"}[r]
}

// Segment is a stretch of the mach timeline with one offset to Unix time. The offset is taken once; later readings are
// only compared with it, so a slewing wall clock moves nothing that was recorded.
type Segment struct {
	Timebase Timebase
	Offset   int64  // Unix ns at mach time 0
	Bound    uint64 // ns: half the bracket the offset was read in
	Begin    uint64 // mach ns: times before belong to an earlier segment
	BootID   string

	ahead uint64 // mach_continuous_time − mach_absolute_time at the begin
	last  int64  // wall drift at the last reading, ns
}

// SegmentReadings is how many readings compete for the offset of a segment.
const SegmentReadings = 16

// NewSegment begins a segment with the tightest of some readings taken one after the other.
func NewSegment(tb Timebase, bootID string, readings []Reading) (*Segment, error) {
	if !tb.Valid() {
		return nil, fmt.Errorf("clock segment: timebase %s", tb)
	}
	best := -1
	for i, r := range readings {
		if r.Hi < r.Lo {
			return nil, fmt.Errorf("clock segment: the bracket [%d, %d] is empty", r.Lo, r.Hi)
		}
		if best < 0 || r.Hi-r.Lo < readings[best].Hi-readings[best].Lo {
			best = i
		}
	}
	if best < 0 {
		return nil, fmt.Errorf("clock segment: no readings")
	}
	r := readings[best]
	return &Segment{
		Timebase: tb, Offset: offsetOf(r), Bound: (r.Hi-r.Lo)/2 + 1, Begin: readings[0].Lo, BootID: bootID, ahead: r.Continued - r.Lo,
	}, nil
}

func offsetOf(r Reading) int64 { return r.Unix - int64(r.Lo+(r.Hi-r.Lo)/2) }

// Unix places a mach time on the wall clock.
func (s *Segment) Unix(machNanos uint64) int64 { return s.Offset + int64(machNanos) }

// Check looks at a later reading. Anything but [Goes] ends the segment: begin a new one, and convert nothing across. The
// wall clock's drift against the segment, for reports, is [Segment.WallDrift].
func (s *Segment) Check(r Reading) Reason {
	if away(r.Continued-r.Lo, s.ahead) > MaxSleep+(r.Hi-r.Lo) {
		return Slept
	}
	drift := offsetOf(r) - s.Offset
	moved := away(uint64(drift), uint64(s.last))
	s.last = drift
	if moved > MaxStep+(r.Hi-r.Lo)/2+s.Bound {
		return Stepped
	}
	return Goes
}

// WallDrift is how far the wall clock was ahead of the segment's at the last Check, ns.
func (s *Segment) WallDrift() int64 { return s.last }

// away is the distance of two values that may have wrapped.
func away(a, b uint64) uint64 {
	if d := int64(a - b); d < 0 {
		return uint64(-d)
	}
	return a - b
}
