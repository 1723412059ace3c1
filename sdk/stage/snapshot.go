package stage

import (
	"time"
)

// RecordSnapshot is the state of a record: plain data with stable JSON names. Stages are read one after the other while
// they run, so their counts need not be of one instant.
type RecordSnapshot struct {
	Record string `json:"record"`
	// Stages lie in the order in which they were wrapped.
	Stages []Info `json:"stages"`
	// Bottleneck is the stage that limits the record, once a stage was called.
	Bottleneck *Bottleneck `json:"bottleneck,omitempty"`
	Buffers    []Buffered  `json:"buffers,omitempty"`
}

// Info is the state of a stage. All times are wall time in nanoseconds, waiting included.
type Info struct {
	StageType Kind `json:"stage_type"`
	// Index counts the record's stages of this type, from 0.
	Index int    `json:"index"`
	Name  string `json:"name,omitempty"`
	// CallCount is how many calls returned, ErrorCount how many of them with an error.
	CallCount      uint64 `json:"call_count"`
	TotalTimeNanos int64  `json:"total_time_ns"`
	AvgTimeNanos   int64  `json:"avg_time_ns"`
	// MinTimeNanos is absent while no call returned.
	MinTimeNanos *int64 `json:"min_time_ns,omitempty"`
	MaxTimeNanos int64  `json:"max_time_ns"`

	ErrorCount uint64 `json:"error_count,omitempty"`
	// AbortedCount is how many calls left by a panic or runtime.Goexit. They are in no other number.
	AbortedCount uint64 `json:"aborted_count,omitempty"`
	// InFlight is how many calls are running now, and BusyNanos for how long at least one has been running without a
	// break. MaxInFlight is how many ran at once at most.
	InFlight    int64 `json:"in_flight,omitempty"`
	BusyNanos   int64 `json:"busy_ns,omitempty"`
	MaxInFlight int64 `json:"max_in_flight,omitempty"`
	// IntervalNanos is the time from one value of a source to the next: declared, else measured from the first to the
	// last. IntervalDeclared says which.
	IntervalNanos    int64 `json:"interval_ns,omitempty"`
	IntervalDeclared bool  `json:"interval_declared,omitempty"`
}

// Buffered is the state of a buffer. Produced = Consumed + Dropped + Occupancy while nobody touches it.
type Buffered struct {
	Name          string `json:"name,omitempty"`
	Capacity      int    `json:"capacity"`
	ProducedCount int64  `json:"produced_count"`
	ConsumedCount int64  `json:"consumed_count"`
	DroppedCount  int64  `json:"dropped_count"`
	Occupancy     int64  `json:"occupancy"`
}

// Snapshot reads the record.
func (r *Record) Snapshot() RecordSnapshot {
	snap := RecordSnapshot{Stages: []Info{}}
	if r == nil {
		return snap
	}
	snap.Record = r.name
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.stages {
		snap.Stages = append(snap.Stages, s.info())
	}
	for _, b := range r.buffers {
		snap.Buffers = append(snap.Buffers, Buffered{
			Name: b.name, Capacity: b.capacity, ProducedCount: b.produced.Load(), ConsumedCount: b.consumed.Load(),
			DroppedCount: b.dropped.Load(), Occupancy: b.held(),
		})
	}
	snap.Bottleneck = bottleneck(snap.Stages)
	return snap
}

func (s *timer) info() Info {
	c := s.counts.Load()
	i := Info{
		StageType: s.kind, Index: s.index, Name: s.name, CallCount: c.calls.Load(),
		AbortedCount: c.aborted.Load(), InFlight: s.inFlight.Load(), MaxInFlight: c.maxInFlight.Load(),
	}
	if i.CallCount > 0 {
		i.TotalTimeNanos = c.total.Load()
		i.AvgTimeNanos = i.TotalTimeNanos / int64(i.CallCount)
		least := c.min.Load()
		i.MinTimeNanos, i.MaxTimeNanos = &least, c.max.Load()
		i.ErrorCount = c.errors.Load()
	}
	if i.InFlight > 0 {
		i.BusyNanos = max(s.now()-s.busySince.Load(), 0)
	}
	if s.kind == KindSource {
		switch first := c.first.Load(); {
		case s.declared > 0:
			i.IntervalNanos, i.IntervalDeclared = int64(s.declared), true
		case i.CallCount > 1 && first != none:
			i.IntervalNanos = (c.last.Load() - first) / int64(i.CallCount-1)
		}
	}
	return i
}

// Avg is the mean time of a call, 0 without calls.
func (i *Info) Avg() time.Duration { return time.Duration(i.AvgTimeNanos) }

// Interval is the time between two values of a source, 0 if it is not known.
func (i *Info) Interval() time.Duration { return time.Duration(i.IntervalNanos) }

// perValue is the time that the stage needs for a value: calls that run side by side share it.
func (i *Info) perValue() time.Duration { return i.Avg() / time.Duration(max(i.MaxInFlight, 1)) }
