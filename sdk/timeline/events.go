package timeline

// EventSource is an event bus that can say how full it is. Its methods are called from the tick loop's goroutine, only
// while ticks are recorded.
type EventSource interface {
	// Utilization is the fullest channel's share of its capacity, from 0 to 1. It is asked after every system and
	// should be cheap.
	Utilization() float64
	// AppendPressure appends the state of every channel, always in the same order, and returns the extended slice.
	AppendPressure(dst []ChannelPressure) []ChannelPressure
}

// ChannelPressure is the state of one channel of an event bus. InUse and Capacity are of the moment; Published and
// Dropped are totals in a snapshot and differences in a delta, as is InUse there.
type ChannelPressure struct {
	Channel   string `json:"channel"`
	Capacity  int64  `json:"capacity"`
	InUse     int64  `json:"inUse"`
	Published int64  `json:"published"`
	Dropped   int64  `json:"dropped"`
}

// Events is the pressure on the event bus during a tick: before the first system, at the end of the tick, and, where
// the pressure was high after a system, the channels that changed since the snapshot before.
type Events struct {
	Before []ChannelPressure `json:"before,omitempty"`
	Final  []ChannelPressure `json:"final,omitempty"`
	Deltas []EventDelta      `json:"deltas,omitempty"`
}

// IsZero reports whether nothing was captured.
func (e Events) IsZero() bool { return len(e.Before)+len(e.Final)+len(e.Deltas) == 0 }

// EventDelta is what changed on the event bus up to the end of a system, since the last snapshot of the tick: the
// delta before it, else the one before all systems.
type EventDelta struct {
	System      string            `json:"system"`
	Utilization float64           `json:"utilization"`
	Channels    []ChannelPressure `json:"channels"`
}

// eventsBefore takes the snapshot that the deltas of this tick start from.
func (r *Recorder) eventsBefore() {
	r.eventsSeen = true
	e := &r.cur.Events
	e.Before = r.pressure(e.Before)
	r.lastPressure = append(r.lastPressure[:0], e.Before...)
}

func (r *Recorder) pressure(dst []ChannelPressure) []ChannelPressure {
	dst = r.opt.Events.AppendPressure(dst[:0])
	return dst[:min(len(dst), maxChannelsPerSource)]
}

// eventsAfter records the channels that changed if the bus is under pressure.
func (r *Recorder) eventsAfter(system string) {
	u := r.opt.Events.Utilization()
	if !(u >= r.cfg.EventPressure) || len(r.cur.Events.Deltas) >= maxSegments {
		return
	}
	r.nowPressure = r.pressure(r.nowPressure)
	var d *EventDelta
	for i, now := range r.nowPressure {
		was := ChannelPressure{}
		if i < len(r.lastPressure) && r.lastPressure[i].Channel == now.Channel {
			was = r.lastPressure[i]
		}
		if now == was {
			continue
		}
		if d == nil {
			d = r.cur.addDelta(system, u)
		}
		d.Channels = append(d.Channels, ChannelPressure{
			Channel: now.Channel, Capacity: now.Capacity, InUse: now.InUse - was.InUse,
			Published: now.Published - was.Published, Dropped: now.Dropped - was.Dropped,
		})
	}
	r.lastPressure, r.nowPressure = r.nowPressure, r.lastPressure
}

// addDelta appends a delta and reuses the channel list that the pooled entry has at its place.
func (e *Entry) addDelta(system string, utilization float64) *EventDelta {
	ds := e.Events.Deltas
	if len(ds) < cap(ds) {
		ds = ds[:len(ds)+1]
	} else {
		ds = append(ds, EventDelta{})
	}
	d := &ds[len(ds)-1]
	d.System, d.Utilization, d.Channels = system, utilization, d.Channels[:0]
	e.Events.Deltas = ds
	return d
}
