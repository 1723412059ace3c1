package sdk

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stax-otel/stax/sdk/semconv"
)

// CounterUnit is the unit of a counter.
type CounterUnit string

// The counter units.
const (
	UnitTicks       CounterUnit = semconv.CounterUnitTicks
	UnitCycles      CounterUnit = semconv.CounterUnitCycles
	UnitInvocations CounterUnit = semconv.CounterUnitInvocations
	UnitBytes       CounterUnit = semconv.CounterUnitBytes
	UnitPercent     CounterUnit = semconv.CounterUnitPercent // 0 to 100; averaged, never summed
	UnitCount       CounterUnit = semconv.CounterUnitCount
	UnitNanos       CounterUnit = semconv.CounterUnitNanos
)

// SamplePoint says when counters were sampled. Other values than these are runtime-defined; a slash in one becomes an
// underscore.
type SamplePoint string

// The sample points.
const (
	BeforeDispatch     SamplePoint = semconv.SamplePointBeforeDispatch
	AfterDispatch      SamplePoint = semconv.SamplePointAfterDispatch
	CommandBufferBegin SamplePoint = semconv.SamplePointCommandBufferBegin
	CommandBufferEnd   SamplePoint = semconv.SamplePointCommandBufferEnd
	WaitBegin          SamplePoint = semconv.SamplePointWaitBegin
	WaitEnd            SamplePoint = semconv.SamplePointWaitEnd
)

// Counter names one counter of a set and its unit.
type Counter struct {
	Name string
	Unit CounterUnit
}

// CounterSet is a registered list of counters. Make each set once; it is valid on every lane. A nil set is inert.
type CounterSet struct {
	index    uint32 // from 1; 0: refused, values are ignored
	id, name string
	counters []Counter
}

// A counter's key on the wire is stax.counter.<set>/<point>/<name>; with these limits it stays under 256 bytes.
const (
	maxCounterSetID = 64
	maxPoint        = 64
	maxCounterName  = 96
)

const (
	maxCounters    = 255  // of one set
	maxCounterSets = 4096 // of a process
	maxPoints      = 1024 // runtime-defined sample points of a process
)

// counterSets and points are process-wide, like names.
var (
	counterSets struct {
		mu   sync.RWMutex
		list []*CounterSet
	}
	points pointTable
)

// NewCounterSet registers a counter set. id is unique in the process, at most 64 bytes, without slash; counter names
// have at most 96 bytes. The same definition again returns the same set. A different definition under a known id, an
// unknown unit, or a set past the limits is refused: its values are ignored and a diagnostic says so.
func NewCounterSet(id, name string, cs ...Counter) *CounterSet {
	s := &CounterSet{id: noSlash(clip(id)), name: clip(name)}
	for _, c := range cs {
		s.counters = append(s.counters, Counter{Name: clip(c.Name), Unit: CounterUnit(clip(string(c.Unit)))})
	}
	counterSets.mu.Lock()
	defer counterSets.mu.Unlock()
	for _, have := range counterSets.list {
		if have.id != s.id {
			continue
		}
		if have.name == s.name && slices.Equal(have.counters, s.counters) {
			return have
		}
		diagCounterSetConflict.add()
		return s
	}
	if s.id == "" || len(s.id) > maxCounterSetID || !validCounters(s.counters) || len(cs) == 0 || len(cs) > maxCounters || len(counterSets.list) >= maxCounterSets {
		diagCounterSetRefused.add()
		return s
	}
	s.index = uint32(len(counterSets.list) + 1)
	counterSets.list = append(counterSets.list, s)
	return s
}

func validCounters(cs []Counter) bool {
	for _, c := range cs {
		switch c.Unit {
		case UnitTicks, UnitCycles, UnitInvocations, UnitBytes, UnitPercent, UnitCount, UnitNanos:
		default:
			return false
		}
		if c.Name == "" || len(c.Name) > maxCounterName {
			return false
		}
	}
	return true
}

// ID is the set's id.
func (s *CounterSet) ID() string {
	if s == nil {
		return ""
	}
	return s.id
}

func snapshotCounterSets() []*CounterSet {
	counterSets.mu.RLock()
	defer counterSets.mu.RUnlock()
	return counterSets.list
}

type valueState uint8

const (
	valueUnresolved valueState = iota
	valueError
	valueInt
	valueFloat
)

// Value is one typed counter value. The zero Value is unresolved.
type Value struct {
	state valueState
	bits  uint64
}

// IntValue is an integer.
func IntValue(i int64) Value { return Value{valueInt, uint64(i)} }

// FloatValue is a floating-point number.
func FloatValue(f float64) Value { return Value{valueFloat, math.Float64bits(f)} }

// CounterError says that the counter did not resolve (Metal's all-ones). It is never a number.
func CounterError() Value { return Value{state: valueError} }

// CounterUnresolved says that the counter's slot is still zero-filled. It is never a number.
func CounterUnresolved() Value { return Value{state: valueUnresolved} }

// pointTable numbers sample points. Reading it takes no lock and does not allocate: the map is replaced, never changed.
type pointTable struct {
	mu   sync.Mutex
	ids  atomic.Pointer[map[SamplePoint]uint32]
	list atomic.Pointer[[]string]
}

// number returns the point's number, or false past the limit.
func (t *pointTable) number(p SamplePoint) (uint32, bool) {
	if m := t.ids.Load(); m != nil {
		if id, ok := (*m)[p]; ok {
			return id, true
		}
	}
	return t.insert(p)
}

func (t *pointTable) insert(p SamplePoint) (uint32, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids, list := map[SamplePoint]uint32{}, []string(nil)
	if m := t.ids.Load(); m != nil {
		if id, ok := (*m)[p]; ok {
			return id, true
		}
		for k, v := range *m {
			ids[k] = v
		}
		list = slices.Clone(*t.list.Load())
	}
	if len(list) >= maxPoints {
		diagTooManyNames.add()
		return 0, false
	}
	key := SamplePoint(strings.Clone(string(p)))
	id := uint32(len(list))
	ids[key] = id
	list = append(list, noSlash(clipTo(string(p), maxPoint)))
	t.list.Store(&list)
	t.ids.Store(&ids)
	return id, true
}

func (t *pointTable) name(id uint32) string {
	if l := t.list.Load(); l != nil && int(id) < len(*l) {
		return (*l)[id]
	}
	return ""
}

func noSlash(s string) string { return strings.ReplaceAll(s, "/", "_") }
