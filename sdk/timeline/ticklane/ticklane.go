// Package ticklane puts the ticks of a [timeline.Recorder] on a stax lane, so that they stand beside GPU queues, pools
// and CPU samples on one timeline:
//
//	lane := sdk.NewLane("simulation", sdk.LaneTick)
//	rec := timeline.New(timeline.Options{Sink: ticklane.New(lane)})
//
// While a recording wants the process, each tick is a command buffer of the lane and each of its phases and systems a
// dispatch in it, whether or not the recorder is enabled for its own ring. While none does, a tick costs one more atomic
// load.
//
// The tick's origin is the place of BeginTick. Times are wall time of the loop, never CPU time.
package ticklane

import (
	"context"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/timeline"
)

// The tags of a tick. All but TagTick and TagStepBudget are left out where they are zero; times are in nanoseconds.
const (
	TagTick          = "tick.number"
	TagStepBudget    = "tick.step_budget_ns"
	TagHostFrame     = "tick.host_frame_ns"
	TagLagBefore     = "tick.lag_before_ns"
	TagLagAfter      = "tick.lag_after_ns"
	TagPendingBefore = "tick.queue.pending_before"
	TagDrained       = "tick.queue.drained"
	TagAccepted      = "tick.queue.accepted"
	TagDropped       = "tick.queue.dropped"
	TagRejected      = "tick.queue.rejected"
	TagGCPause       = "tick.gc_pause_ns"
	TagStalls        = "tick.stalls"
	TagUnfinished    = "tick.unfinished"
	// TagWarnings holds the names of the warnings, separated by spaces. On a system it is SYSTEM_SLOW or absent.
	TagWarnings = "tick.warnings"
	// TagSlow is 1 on a system whose execution was slow, warned or not.
	TagSlow = "tick.slow"
)

// TickName is the name of every tick's command buffer.
const TickName = "tick"

// maxNames bounds the names that a sink remembers. Later ones are interned anew each time.
const maxNames = 4096

// Sink is the [timeline.Sink] of a lane. It serves one recorder.
type Sink struct {
	lane   *sdk.Lane
	tick   sdk.Name
	buffer sdk.CommandBuffer
	names  map[string]sdk.Name

	number, budget, frame, lagBefore, lagAfter    sdk.Key
	pending, drained, accepted, dropped, rejected sdk.Key
	gcPause, stalls, unfinished, warnings, slow   sdk.Key
	warningTexts                                  []string // by set of warnings
}

var _ timeline.Sink = (*Sink)(nil)

// New makes the sink of a lane, which should be of kind [sdk.LaneTick] and carry nothing else. A nil lane is never
// recorded.
func New(lane *sdk.Lane) *Sink {
	s := &Sink{
		lane: lane, tick: sdk.NewName(TickName), names: map[string]sdk.Name{},
		number: sdk.NewKey(TagTick), budget: sdk.NewKey(TagStepBudget), frame: sdk.NewKey(TagHostFrame),
		lagBefore: sdk.NewKey(TagLagBefore), lagAfter: sdk.NewKey(TagLagAfter), pending: sdk.NewKey(TagPendingBefore),
		drained: sdk.NewKey(TagDrained), accepted: sdk.NewKey(TagAccepted), dropped: sdk.NewKey(TagDropped),
		rejected: sdk.NewKey(TagRejected), gcPause: sdk.NewKey(TagGCPause), stalls: sdk.NewKey(TagStalls),
		unfinished: sdk.NewKey(TagUnfinished), warnings: sdk.NewKey(TagWarnings), slow: sdk.NewKey(TagSlow),
	}
	all := timeline.ExceededStepBudget | timeline.SystemSlow | timeline.QueueStarvation
	for w := range all + 1 {
		s.warningTexts = append(s.warningTexts, w.String())
	}
	return s
}

// BeginTick reserves the tick's id and captures its origin, if the lane is recorded.
func (s *Sink) BeginTick() bool {
	if !s.lane.Active() {
		return false
	}
	s.buffer = s.lane.CommandBuffer(s.tick)
	s.buffer.CaptureOrigin(context.Background())
	return s.buffer.Active()
}

// EndTick reports the tick's phases and systems, and then the tick.
func (s *Sink) EndTick(e *timeline.Entry, start time.Time) {
	begin := sdk.TimeOf(start)
	next := 0
	for i := range e.Phases {
		p := &e.Phases[i]
		d := s.lane.Dispatch(s.name(p.Name))
		d.CommandBuffer(s.buffer.ID())
		if id, ok := p.System(); ok && next < len(e.Systems) && e.Systems[next].ID == id {
			s.system(&d, &e.Systems[next])
			next++
		}
		at := begin + sdk.Time(p.Offset)
		d.Report(at, at+sdk.Time(p.Duration))
	}
	b := &s.buffer
	b.TagInt(s.number, e.Tick)
	b.TagInt(s.budget, int64(e.StepBudget))
	s.some(s.frame, int64(e.HostFrame))
	s.some(s.lagBefore, int64(e.LagBefore))
	s.some(s.lagAfter, int64(e.LagAfter))
	s.some(s.pending, e.Queue.PendingBefore)
	s.some(s.drained, e.Queue.Drained)
	s.some(s.accepted, e.Queue.Accepted)
	s.some(s.dropped, e.Queue.Dropped)
	s.some(s.rejected, e.Queue.Rejected)
	s.some(s.gcPause, int64(e.GC.Pause))
	s.some(s.stalls, int64(len(e.Stalls)))
	if e.Unfinished {
		b.TagInt(s.unfinished, 1)
	}
	if w := int(e.Warnings); w != 0 && w < len(s.warningTexts) {
		b.Tag(s.warnings, s.warningTexts[w])
	}
	b.Report(begin, begin+sdk.Time(e.Duration))
}

func (s *Sink) some(k sdk.Key, v int64) {
	if v != 0 {
		s.buffer.TagInt(k, v)
	}
}

func (s *Sink) system(d *sdk.Dispatch, y *timeline.System) {
	if y.Slow {
		d.TagInt(s.slow, 1)
	}
	if y.Warned() {
		d.Tag(s.warnings, s.warningTexts[timeline.SystemSlow])
	}
	if y.Error != nil {
		d.Fault(y.Error.Name + ": " + y.Error.Message)
	}
}

func (s *Sink) name(text string) sdk.Name {
	n, ok := s.names[text]
	if !ok {
		n = sdk.NewName(text)
		if len(s.names) < maxNames {
			s.names[text] = n
		}
	}
	return n
}
