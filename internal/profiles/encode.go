package profiles

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Encoder appends rows as OTLP profiles that share a dictionary. It is for one goroutine.
type Encoder struct {
	dict      pprofile.ProfilesDictionary
	strings   map[string]int32
	functions map[functionKey]int32
	locations map[Frame]int32
	stacks    map[archive.StackID]int32
	attrs     map[attrKey]int32
	groups    map[groupKey]pprofile.Sample
	threads   map[int64]string
}

type functionKey struct{ name, file int32 }

// attrKey is an attribute; n is the value unless isText.
type attrKey struct {
	key    string
	n      int64
	text   string
	isText bool
}

type groupKey struct {
	stack     archive.StackID
	thread    int64
	goroutine int64
}

// NewEncoder returns an encoder that adds to what the dictionary has. It does not look for strings and the like that are
// there already.
func NewEncoder(dict pprofile.ProfilesDictionary) *Encoder {
	InitDictionary(dict)
	return &Encoder{
		dict: dict, strings: map[string]int32{"": 0}, functions: map[functionKey]int32{}, locations: map[Frame]int32{},
		stacks: map[archive.StackID]int32{0: 0}, attrs: map[attrKey]int32{}, groups: map[groupKey]pprofile.Sample{},
	}
}

// InitDictionary gives every empty table of a dictionary its entry 0, the zero value.
func InitDictionary(dict pprofile.ProfilesDictionary) {
	if dict.StringTable().Len() == 0 {
		dict.StringTable().Append("")
	}
	if dict.MappingTable().Len() == 0 {
		dict.MappingTable().AppendEmpty()
	}
	if dict.LocationTable().Len() == 0 {
		dict.LocationTable().AppendEmpty()
	}
	if dict.FunctionTable().Len() == 0 {
		dict.FunctionTable().AppendEmpty()
	}
	if dict.LinkTable().Len() == 0 {
		dict.LinkTable().AppendEmpty()
	}
	if dict.AttributeTable().Len() == 0 {
		dict.AttributeTable().AppendEmpty()
	}
	if dict.StackTable().Len() == 0 {
		dict.StackTable().AppendEmpty()
	}
}

// Encode appends profiles with the rows of d to a scope. What d.Sources says travels with the rows of the same Source; a
// source without rows gets an empty profile. Rows of one source lie in the time of the first of its Sources.
func (e *Encoder) Encode(dst pprofile.ScopeProfiles, d *Data) {
	for i := range d.Stacks {
		e.stack(&d.Stacks[i])
	}
	e.threads = make(map[int64]string, len(d.Threads))
	for _, t := range d.Threads {
		e.threads[t.ID] = t.Name
	}
	done := map[string]bool{}
	lost := d
	for i := range d.Sources {
		s := &d.Sources[i]
		rows := d
		if done[s.Source] {
			rows = &Data{}
		}
		done[s.Source] = true
		e.source(dst, rows, s.Source, s, lost)
		lost = nil
	}
	rest := func(source string) {
		if !done[source] {
			done[source] = true
			e.source(dst, d, source, nil, lost)
			lost = nil
		}
	}
	for i := range d.Samples {
		rest(d.Samples[i].Source)
	}
	for i := range d.OffCPU {
		rest(d.OffCPU[i].Source)
	}
	if lost != nil && (len(d.OriginEvents) > 0 || d.LostGenerations|d.LostBytes != 0) {
		e.source(dst, &Data{OriginEvents: d.OriginEvents}, semconv.ProfileSourceGoExecTrace, nil, lost)
	}
}

// source appends the rows of one source.
func (e *Encoder) source(dst pprofile.ScopeProfiles, d *Data, name string, facts *archive.ProfileSource, lost *Data) {
	first := true
	add := func(kind, unit string, n int) pprofile.Profile {
		p := dst.Profiles().AppendEmpty()
		p.SampleType().SetTypeStrindex(e.string(kind))
		p.SampleType().SetUnitStrindex(e.string(unit))
		p.Samples().EnsureCapacity(n)
		if facts != nil {
			p.SetTime(pcommon.Timestamp(max(facts.BeginNanos, 0)))
			p.SetDurationNano(uint64(max(facts.EndNanos-facts.BeginNanos, 0)))
			if facts.PeriodNanos != 0 {
				p.PeriodType().SetTypeStrindex(e.string(typeCPU))
				p.PeriodType().SetUnitStrindex(e.string(unitNanos))
				p.SetPeriod(facts.PeriodNanos)
			}
		}
		e.text(p.AttributeIndices(), semconv.ProfileSourceKey, name)
		if first {
			first = false
			e.facts(p.AttributeIndices(), facts, lost)
		}
		return p
	}
	counts, weights := 0, 0
	for i := range d.Samples {
		if s := &d.Samples[i]; s.Source == name {
			if countsAlone(s) {
				counts++
			}
			if s.CPUNanos != 0 {
				weights++
			}
		}
	}
	if weights > 0 {
		p := add(typeCPU, unitNanos, 0)
		e.samples(p, d, name, func(s *archive.Sample) (int64, bool) { return s.CPUNanos, s.CPUNanos != 0 })
	}
	if counts > 0 {
		p := add(typeSamples, unitCount, 0)
		e.samples(p, d, name, func(s *archive.Sample) (int64, bool) { return int64(s.Count), countsAlone(s) })
	}
	n := 0
	for i := range d.OffCPU {
		if d.OffCPU[i].Source == name {
			n++
		}
	}
	if n > 0 {
		e.offCPU(add(typeOffCPU, unitNanos, n), d, name)
	}
	events := d.OriginEvents
	if lost == nil { // the rows do not say of which source they are: the first one's
		events = nil
	}
	wakers := wakerStacks(d, name)
	if len(events)+len(wakers) > 0 {
		p := add(typeEvents, unitCount, len(events)+len(wakers))
		e.events(p, events)
		e.wakers(p, wakers)
	}
	if first {
		add(typeSamples, unitCount, 0)
	}
}

// countsAlone reports whether the count of a sample has to be said: an observation with an instant and a weight is one.
func countsAlone(s *archive.Sample) bool {
	return s.CPUNanos == 0 || s.TimeNanos == 0 || s.Count != 1
}

func (e *Encoder) samples(p pprofile.Profile, d *Data, name string, value func(*archive.Sample) (int64, bool)) {
	clear(e.groups)
	for i := range d.Samples {
		s := &d.Samples[i]
		v, ok := value(s)
		if !ok || s.Source != name {
			continue
		}
		key := groupKey{s.Stack, s.ThreadID, s.GoroutineID}
		out, ok := e.groups[key]
		if !ok || s.TimeNanos == 0 { // without an instant each is a sum of its own
			out = p.Samples().AppendEmpty()
			out.SetStackIndex(e.stacks[s.Stack])
			e.who(out.AttributeIndices(), s.ThreadID, s.GoroutineID)
			if s.TimeNanos != 0 {
				e.groups[key] = out
			}
		}
		out.Values().Append(v)
		if s.TimeNanos != 0 {
			out.TimestampsUnixNano().Append(uint64(s.TimeNanos))
		}
	}
}

func (e *Encoder) offCPU(p pprofile.Profile, d *Data, name string) {
	e.dict.AttributeTable().EnsureCapacity(e.dict.AttributeTable().Len() + len(d.OffCPU))
	for i := range d.OffCPU {
		w := &d.OffCPU[i]
		if w.Source != name {
			continue
		}
		out := p.Samples().AppendEmpty()
		out.SetStackIndex(e.stacks[w.Stack])
		at := out.AttributeIndices()
		at.EnsureCapacity(9)
		e.who(at, w.ThreadID, w.GoroutineID)
		if w.ResumeThreadID != w.ThreadID {
			e.int(at, semconv.ThreadResumeOSIDKey, w.ResumeThreadID)
		}
		if w.WakeNanos != 0 { // its own each time: nothing to look up
			at.Append(e.newAttr(semconv.WaitWakeTimeKey, pcommon.NewValueInt(w.WakeNanos)))
		}
		e.text(at, semconv.WaitReasonKey, w.Reason)
		e.text(at, semconv.WaitDetailKey, w.Detail)
		if w.WakerThreadID != 0 {
			e.int(at, semconv.WakerThreadIDKey, w.WakerThreadID)
		}
		if w.WakerGoroutine != 0 {
			e.int(at, semconv.WakerGoroutineIDKey, w.WakerGoroutine)
		}
		if w.WakerStack != 0 {
			e.text(at, semconv.WakerStackIDKey, fmt.Sprintf("%016x", uint64(w.WakerStack)))
		}
		out.Values().Append(w.EndNanos - w.BeginNanos)
		out.TimestampsUnixNano().Append(uint64(w.EndNanos))
	}
}

func (e *Encoder) events(p pprofile.Profile, rows []archive.OriginEvent) {
	for i := range rows {
		o := &rows[i]
		out := p.Samples().AppendEmpty()
		out.SetStackIndex(e.stacks[o.Stack])
		at := out.AttributeIndices()
		e.who(at, o.ThreadID, o.GoroutineID)
		if o.Span != 0 {
			e.text(at, semconv.EventNameKeyKey, semconv.TraceLogSpan)
			at.Append(e.newAttr(semconv.EventSpanIDKey, pcommon.NewValueStr(fmt.Sprintf("%016x", o.Span))))
		} else {
			e.text(at, semconv.EventNameKeyKey, semconv.TraceLogOrigin)
		}
		if o.TimeNanos != 0 {
			at.Append(e.newAttr(semconv.EventOriginTimeKey, pcommon.NewValueInt(o.TimeNanos)))
		}
		out.Values().Append(1)
		out.TimestampsUnixNano().Append(uint64(o.EventNanos))
	}
}

// wakerStacks counts how often which stack ended an interval.
func wakerStacks(d *Data, source string) map[archive.StackID]int64 {
	out := map[archive.StackID]int64{}
	for i := range d.OffCPU {
		if w := &d.OffCPU[i]; w.WakerStack != 0 && w.Source == source {
			out[w.WakerStack]++
		}
	}
	return out
}

// wakers keeps the stacks of wakers alive: only what a sample refers to survives a merge of dictionaries.
func (e *Encoder) wakers(p pprofile.Profile, stacks map[archive.StackID]int64) {
	for _, id := range slices.Sorted(maps.Keys(stacks)) {
		out := p.Samples().AppendEmpty()
		out.SetStackIndex(e.stacks[id])
		e.text(out.AttributeIndices(), semconv.EventNameKeyKey, eventWaker)
		out.Values().Append(stacks[id])
	}
}

// who says whose a sample is.
func (e *Encoder) who(at pcommon.Int32Slice, thread, goroutine int64) {
	if thread != 0 {
		e.int(at, semconv.ThreadIDKey, thread)
		if name := e.threads[thread]; name != "" {
			e.text(at, semconv.ThreadNameKey, name)
		}
	}
	if goroutine != 0 {
		e.int(at, semconv.GoGoroutineIDKey, goroutine)
	}
}

// facts says what a source says about itself.
func (e *Encoder) facts(at pcommon.Int32Slice, s *archive.ProfileSource, lost *Data) {
	if s != nil {
		e.text(at, semconv.ProfileStateKey, cmp.Or(s.State, semconv.ProfileStateRunning))
		e.text(at, semconv.ProfileReasonKey, s.Reason)
		e.counts(at, s)
		e.int(at, semconv.ProfileClockErrorNanosKey, s.ClockErrorNanos)
	}
	if lost != nil {
		e.count(at, semconv.ProfileLostGenerationsKey, lost.LostGenerations)
		e.count(at, semconv.ProfileLostBytesKey, lost.LostBytes)
	}
}

func (e *Encoder) counts(at pcommon.Int32Slice, s *archive.ProfileSource) {
	e.count(at, semconv.ProfileSamplesKey, s.Samples)
	e.count(at, semconv.ProfileWaitsKey, s.Waits)
	e.count(at, semconv.ProfileWaitsShortKey, s.WaitsShort)
	e.count(at, semconv.ProfileShortNanosKey, uint64(s.ShortNanos))
	e.count(at, semconv.ProfileOriginEventsKey, s.OriginEvents)
	e.count(at, semconv.ProfileEventsKey, s.Events)
	e.count(at, semconv.ProfileBytesKey, s.Bytes)
	e.count(at, semconv.ProfileCostNanosKey, uint64(s.CostNanos))
	e.count(at, semconv.ProfileProcessCPUNanosKey, uint64(s.ProcessNanos))
}

func (e *Encoder) count(at pcommon.Int32Slice, key string, n uint64) {
	if n != 0 {
		e.int(at, key, int64(n))
	}
}

func (e *Encoder) int(at pcommon.Int32Slice, key string, n int64) {
	k := attrKey{key: key, n: n}
	i, ok := e.attrs[k]
	if !ok {
		i = e.newAttr(key, pcommon.NewValueInt(n))
		e.attrs[k] = i
	}
	at.Append(i)
}

// text adds an attribute that is not empty.
func (e *Encoder) text(at pcommon.Int32Slice, key, s string) {
	if s == "" {
		return
	}
	k := attrKey{key: key, text: s, isText: true}
	i, ok := e.attrs[k]
	if !ok {
		i = e.newAttr(key, pcommon.NewValueStr(s))
		e.attrs[k] = i
	}
	at.Append(i)
}

func (e *Encoder) newAttr(key string, v pcommon.Value) int32 {
	t := e.dict.AttributeTable()
	a := t.AppendEmpty()
	a.SetKeyStrindex(e.string(key))
	v.MoveTo(a.Value())
	return int32(t.Len() - 1)
}

func (e *Encoder) string(s string) int32 {
	i, ok := e.strings[s]
	if !ok {
		t := e.dict.StringTable()
		i = int32(t.Len())
		t.Append(s)
		e.strings[s] = i
	}
	return i
}

func (e *Encoder) stack(s *Stack) {
	if _, ok := e.stacks[s.ID]; ok {
		return
	}
	t := e.dict.StackTable()
	e.stacks[s.ID] = int32(t.Len())
	at := t.AppendEmpty().LocationIndices()
	at.EnsureCapacity(len(s.Frames))
	for _, f := range s.Frames {
		at.Append(e.location(f))
	}
}

func (e *Encoder) location(f Frame) int32 {
	if i, ok := e.locations[f]; ok {
		return i
	}
	t := e.dict.LocationTable()
	i := int32(t.Len())
	line := t.AppendEmpty().Lines().AppendEmpty()
	line.SetFunctionIndex(e.function(functionKey{e.string(f.Function), e.string(f.File)}))
	line.SetLine(f.Line)
	e.locations[f] = i
	return i
}

func (e *Encoder) function(k functionKey) int32 {
	if i, ok := e.functions[k]; ok {
		return i
	}
	t := e.dict.FunctionTable()
	i := int32(t.Len())
	f := t.AppendEmpty()
	f.SetNameStrindex(k.name)
	f.SetFilenameStrindex(k.file)
	e.functions[k] = i
	return i
}

// hexAddress names a frame that has no name.
func hexAddress(a uint64) string { return "0x" + strconv.FormatUint(a, 16) }
