// Package derive turns the dispatches that pass by into metrics of low cardinality.
//
// Per runtime and lane (name and kind) it keeps cumulative sums: how many dispatches, their time, and the counter values
// of each dispatch name. It adds to plain numbers in maps; no instrument is called per span. The number of series is
// bounded: what comes too late to get a series of its own goes to an overflow series of the same metric, so that totals
// stay right.
//
// A request is first noted in a [Batch] and counted only by [Batch.Commit], since a request that the next consumer
// refused comes again.
package derive

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/validate"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Names of the derived metrics. Counter values are named semconv.CounterPrefix + set + "." + counter.
const (
	MetricDispatches    = "stax.dispatches"
	MetricDispatchTime  = "stax.dispatch.time"
	MetricDuration      = "stax.dispatch.duration"
	MetricUntimed       = "stax.dispatches.untimed"
	MetricUnavailable   = "stax.counter.unavailable"
	overflowKey         = "otel.metric.overflow"
	serviceNamespaceKey = "service.namespace"
	serviceInstanceKey  = "service.instance.id"
)

// States of stax.counter.unavailable beside those of archive.CounterState.
const (
	StateNotFinite = "not_finite" // NaN or infinite
	StateNegative  = "negative"   // cannot be added to a monotonic sum
	StateOverflow  = "overflow"   // no series left
)

const (
	maxUnits    = 16384            // counter definitions remembered
	keepAlive   = 30 * time.Second // an unchanged resource is sent again after this time
	idleTimeout = 10 * time.Minute // an unchanged resource is forgotten after this time
)

// durationBounds are the bucket bounds of stax.dispatch.duration in nanoseconds: a microsecond to ten seconds, three to the
// decade, so that a quantile read from them is off by a factor of two and a half at most.
var durationBounds = [...]uint64{
	1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 1e10,
}

// histogram counts durations by bucket; the last has no bound.
type histogram struct {
	counts  [len(durationBounds) + 1]uint64
	longest [len(durationBounds) + 1]exemplar // of each bucket since the last emission
}

func (h *histogram) add(nanos uint64, o *observation) {
	i, _ := slices.BinarySearch(durationBounds[:], nanos) // a bound belongs to the bucket below it
	h.counts[i]++
	h.longest[i].offer(float64(nanos), o)
}

// Resource identifies a runtime in a recording.
type Resource struct {
	Recording, Runtime string
}

// Deriver holds the sums. It is safe for concurrent use.
type Deriver struct {
	maxSeries int
	now       func() time.Time
	batches   sync.Pool

	mu        sync.Mutex
	resources map[Resource]*resource
	order     []*resource
	units     map[unitKey]string
	series    int
}

type unitKey struct {
	resource  Resource
	set, name string
}

type resource struct {
	key      Resource
	info     resourceInfo
	since    time.Time // start of its sums
	changed  bool
	lastAdd  time.Time
	lastSent time.Time
	lanes    map[laneKey]*lane
	order    []*lane
	overflow *lane
}

type resourceInfo struct {
	pid                          int64
	service, namespace, instance string
}

type laneKey struct {
	name, kind string
}

type lane struct {
	key        laneKey
	overflow   bool
	dispatches int64
	nanos      uint64
	untimed    int64
	slowest    exemplar
	durations  histogram
	named      map[string]*named
	order      []*named
	spill      *named // counters of dispatch names that got no series
}

// named holds the counters of one dispatch name of a lane.
type named struct {
	name     string // "" for command buffers and in overflow series
	overflow bool
	counters map[string]*series
	order    []*series
	lost     int64 // counter values that got no series
}

type series struct {
	set, point, name string
	metric           string
	unit             string
	ints             int64
	floats           float64
	isFloat          bool
	values           int64 // how many values are in the sum
	windowSum        float64
	windowCount      int64
	largest          exemplar
	unavailable      [4]int64 // by state, see stateNames
}

var stateNames = [4]string{string(archive.CounterError), string(archive.CounterUnresolved), StateNotFinite, StateNegative}

// exemplar is the largest value since the last emission.
type exemplar struct {
	ok    bool
	value float64
	at    pcommon.Timestamp
	trace pcommon.TraceID
	span  pcommon.SpanID
}

func (e *exemplar) offer(value float64, o *observation) {
	if !e.ok || value > e.value {
		*e = exemplar{ok: true, value: value, at: pcommon.Timestamp(o.end), trace: o.trace, span: o.span}
	}
}

// New returns a Deriver that keeps at most maxSeries series beside the overflow series.
func New(maxSeries int, now func() time.Time) *Deriver {
	d := &Deriver{maxSeries: maxSeries, now: now, resources: map[Resource]*resource{}, units: map[unitKey]string{}}
	d.batches.New = func() any { return &Batch{d: d} }
	return d
}

// DefineSet notes the units of a counter set (semconv.CounterUnit*), also for series that exist already.
func (d *Deriver) DefineSet(key Resource, set string, names, units pcommon.Slice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed := false
	for i := range min(names.Len(), units.Len()) {
		k, u := unitKey{key, set, names.At(i).Str()}, units.At(i).Str()
		if old, ok := d.units[k]; old != u && (ok || len(d.units) < maxUnits) {
			d.units[k] = u
			changed = true
		}
	}
	res := d.resources[key]
	if !changed || res == nil {
		return
	}
	for _, l := range res.order {
		for _, n := range l.order {
			for _, s := range n.order {
				if s.set == set {
					s.unit = d.units[unitKey{key, set, s.name}]
				}
			}
		}
	}
}

// Series returns how many series there are, overflow series not counted.
func (d *Deriver) Series() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.series
}

// Batch notes what one request brings. It belongs to one goroutine.
type Batch struct {
	d        *Deriver
	key      Resource
	info     resourceInfo
	scopes   []scope
	obs      []observation
	counters []validate.Counter
}

// scope is where the following observations belong.
type scope struct {
	resource Resource
	info     resourceInfo
	lane     laneKey
}

type observation struct {
	scope              int32 // in Batch.scopes
	dispatch           bool
	name               string
	start, end         uint64
	trace              pcommon.TraceID
	span               pcommon.SpanID
	counters, nCounter int // part of Batch.counters
}

// Batch returns an empty batch. It goes back with Commit or Discard.
func (d *Deriver) Batch() *Batch { return d.batches.Get().(*Batch) }

// Resource says whose spans follow.
func (b *Batch) Resource(key Resource, attrs pcommon.Map) {
	text := func(k string) string {
		if v, ok := attrs.Get(k); ok && v.Type() == pcommon.ValueTypeStr {
			return v.Str()
		}
		return ""
	}
	b.key = key
	b.info = resourceInfo{service: text(semconv.ServiceNameKey), namespace: text(serviceNamespaceKey), instance: text(serviceInstanceKey)}
	if v, ok := attrs.Get(semconv.ProcessPIDKey); ok {
		b.info.pid = v.Int()
	}
}

// Lane says whose spans follow. It comes after Resource.
func (b *Batch) Lane(name, kind string) {
	b.scopes = append(b.scopes, scope{resource: b.key, info: b.info, lane: laneKey{name, kind}})
}

// Span notes one span of the lane, with its final ids. Facts are those of the same span.
func (b *Batch) Span(s ptrace.Span, f *validate.Facts) {
	dispatch := f.Type == semconv.SpanTypeDispatch
	if !dispatch && (f.Type != semconv.SpanTypeCommandBuffer || len(f.Counters) == 0) {
		return
	}
	o := observation{
		scope: int32(len(b.scopes) - 1), dispatch: dispatch,
		start: uint64(s.StartTimestamp()), end: uint64(s.EndTimestamp()), trace: s.TraceID(), span: s.SpanID(),
		counters: len(b.counters), nCounter: len(f.Counters),
	}
	if dispatch {
		o.name = s.Name()
	}
	b.counters = append(b.counters, f.Counters...)
	b.obs = append(b.obs, o)
}

// Len returns how many spans are noted.
func (b *Batch) Len() int { return len(b.obs) }

// Truncate forgets the spans noted after the first n.
func (b *Batch) Truncate(n int) {
	if n < len(b.obs) {
		b.counters = b.counters[:b.obs[n].counters]
		b.obs = b.obs[:n]
	}
}

// Discard forgets the batch.
func (b *Batch) Discard() {
	clear(b.scopes)
	clear(b.obs)
	clear(b.counters)
	*b = Batch{d: b.d, scopes: b.scopes[:0], obs: b.obs[:0], counters: b.counters[:0]}
	b.d.batches.Put(b)
}

// Commit counts the batch.
func (b *Batch) Commit() {
	d := b.d
	d.mu.Lock()
	now := d.now()
	current := int32(-1)
	var sc *scope
	var ln *lane
	for i := range b.obs {
		o := &b.obs[i]
		if o.scope != current {
			current, sc = o.scope, &b.scopes[o.scope]
			res := d.resource(sc, now)
			res.changed, res.lastAdd = true, now
			ln = d.lane(res, sc.lane)
		}
		if o.dispatch {
			ln.add(o)
		}
		if o.nCounter > 0 {
			n := d.named(ln, o.name)
			for _, c := range b.counters[o.counters : o.counters+o.nCounter] {
				d.count(sc.resource, ln, n, o, c)
			}
		}
	}
	d.mu.Unlock()
	b.Discard()
}

// resource returns the runtime's sums, those of the recording's overflow resource when there is no room. d.mu is held.
func (d *Deriver) resource(sc *scope, now time.Time) *resource {
	key, info := sc.resource, sc.info
	if res := d.resources[key]; res != nil {
		return res
	}
	if d.series >= d.maxSeries {
		key, info = Resource{Recording: key.Recording}, resourceInfo{}
		if res := d.resources[key]; res != nil {
			return res
		}
	}
	res := &resource{key: key, info: info, since: now, lastAdd: now, lanes: map[laneKey]*lane{}}
	d.resources[key] = res
	d.order = append(d.order, res)
	return res
}

// laneSeries are the series of each lane: dispatches, time and durations. A histogram is one series here; in Prometheus it is
// one for each bucket and two more.
const laneSeries = 3

func (d *Deriver) lane(res *resource, key laneKey) *lane {
	if l := res.lanes[key]; l != nil {
		return l
	}
	if d.series >= d.maxSeries {
		if res.overflow == nil {
			res.overflow = &lane{overflow: true, named: map[string]*named{}}
			res.order = append(res.order, res.overflow)
		}
		return res.overflow
	}
	l := &lane{key: key, named: map[string]*named{}}
	res.lanes[key] = l
	res.order = append(res.order, l)
	d.series += laneSeries
	return l
}

func (l *lane) add(o *observation) {
	l.dispatches++
	if o.start == 0 || o.end < o.start || o.end == validate.AllOnes {
		l.untimed++
		return
	}
	nanos := o.end - o.start
	if sum := l.nanos + nanos; sum < l.nanos || sum > math.MaxInt64 { // not a time any more
		l.untimed++
		return
	}
	l.nanos += nanos
	l.slowest.offer(float64(nanos), o)
	l.durations.add(nanos, o)
}

func (d *Deriver) named(l *lane, name string) *named {
	if n := l.named[name]; n != nil {
		return n
	}
	if l.overflow || d.series >= d.maxSeries {
		return l.spilled()
	}
	n := &named{name: name, counters: map[string]*series{}}
	l.named[name] = n
	l.order = append(l.order, n)
	return n
}

// spilled returns the counters of everything on the lane that got no series of its own.
func (l *lane) spilled() *named {
	if l.spill == nil {
		l.spill = &named{overflow: true, counters: map[string]*series{}}
		l.order = append(l.order, l.spill)
	}
	return l.spill
}

// maxSpill bounds the series of one overflow: they are of different metrics, which may be made up as well.
const maxSpill = 64

func (d *Deriver) count(from Resource, l *lane, n *named, o *observation, c validate.Counter) {
	s := n.counters[c.Key]
	if s == nil && !n.overflow && d.series >= d.maxSeries {
		n = l.spilled()
		s = n.counters[c.Key]
	}
	if s == nil {
		if n.overflow && len(n.order) >= maxSpill {
			n.lost++
			return
		}
		set, point, name, _ := validate.ParseCounterKey(semconv.CounterPrefix + c.Key)
		s = &series{set: set, point: point, name: name, metric: semconv.CounterPrefix + set + "." + name}
		s.unit = d.units[unitKey{from, set, name}]
		n.counters[c.Key] = s
		n.order = append(n.order, s)
		if !n.overflow {
			d.series++
		}
	}
	s.add(o, c)
}

func (s *series) add(o *observation, c validate.Counter) {
	value := c.Float
	switch {
	case c.State == archive.CounterError:
		s.unavailable[0]++
		return
	case c.State == archive.CounterUnresolved:
		s.unavailable[1]++
		return
	case c.IsFloat && (math.IsNaN(c.Float) || math.IsInf(c.Float, 0)):
		s.unavailable[2]++
		return
	case c.Float < 0 || c.Int < 0:
		s.unavailable[3]++
		return
	case c.IsFloat:
		s.isFloat = true
		s.floats += c.Float
	case s.ints > math.MaxInt64-c.Int: // keep the sum growing, at the precision of a double
		s.isFloat = true
		s.floats += float64(s.ints) + float64(c.Int)
		s.ints = 0
		value = float64(c.Int)
	default:
		s.ints += c.Int
		value = float64(c.Int)
	}
	s.values++
	s.windowSum += value
	s.windowCount++
	s.largest.offer(value, o)
}

// Retire forgets resources for which over says that nothing follows, and those that were idle for long. It is called after
// the last values were emitted.
func (d *Deriver) Retire(over func(Resource) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	kept := d.order[:0]
	for _, res := range d.order {
		if res.changed || (!over(res.key) && now.Sub(res.lastAdd) < idleTimeout) {
			kept = append(kept, res)
			continue
		}
		delete(d.resources, res.key)
		for _, l := range res.order {
			if l.overflow {
				continue
			}
			d.series -= laneSeries
			for _, n := range l.order {
				if !n.overflow {
					d.series -= len(n.order)
				}
			}
		}
		for k := range d.units {
			if k.resource == res.key {
				delete(d.units, k)
			}
		}
	}
	clear(d.order[len(kept):])
	d.order = kept
}

// Metrics returns the sums of the resources that changed since the last call, or that were not sent for long. It reports
// false when there are none.
func (d *Deriver) Metrics() (pmetric.Metrics, bool) {
	out := pmetric.NewMetrics()
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for _, res := range d.order {
		if res.changed || now.Sub(res.lastSent) >= keepAlive {
			res.emit(out.ResourceMetrics().AppendEmpty(), now)
			res.changed, res.lastSent = false, now
		}
	}
	return out, out.ResourceMetrics().Len() > 0
}

// Unsent makes the next Metrics bring everything again: the last was not taken.
func (d *Deriver) Unsent() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, res := range d.order {
		res.changed = true
	}
}

// instance identifies the series of this runtime where resources become labels: two runtimes of one service are two.
func (r *resource) instance() string { return cmp.Or(r.info.instance, r.key.Runtime) }
