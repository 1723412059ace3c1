package profiles

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/gotrace"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Bounds of what one resource turns into, since a few bytes of a request can stand for a lot: indices repeat.
const (
	maxRows         = 2 << 20
	maxStackFrames  = 1 << 10 // of one stack; what is nearer to the root is cut
	maxTotalFrames  = 2 << 20
	unknownProducer = "otlp" // Source of samples of a scope without a name
)

// Decoded is what [Decoder.Resource] made of one resource.
type Decoded struct {
	Data
	// Rest are the profiles that were not understood: an unknown sample type, a payload, off-CPU intervals or events
	// without instants, events that are not stax's. Nothing of them is in Data.
	Rest []Ref
	// Malformed counts samples that refer to table entries which do not exist or contradict themselves. TooMany counts
	// observations beyond what one request may hold.
	Malformed, TooMany uint64
}

// Ref names a profile within a resource.
type Ref struct{ Scope, Profile int }

// Decoder reads the resources of one request. It does not change them. It is for one goroutine.
type Decoder struct {
	pd      pprofile.Profiles
	dict    pprofile.ProfilesDictionary
	attrs   []attr // of the attribute table
	strings pcommon.StringSlice
	stacks  map[int32]Stack // by index; the zero Stack: none
	byID    map[archive.StackID]int32
	frames  int
}

// attrKind says which attribute an entry of the attribute table is.
type attrKind uint8

const (
	attrOther attrKind = iota
	attrThread
	attrOSThread
	attrResume
	attrThreadName
	attrGoroutine
	attrReason
	attrDetail
	attrWake
	attrWakerThread
	attrWakerGoroutine
	attrWakerStack
	attrEvent
	attrEventTime
	attrEventSpan
	attrProfile // of a profile, not of a sample
)

var attrKinds = map[string]struct {
	kind   attrKind
	isText bool
}{
	semconv.ThreadIDKey:         {attrThread, false},
	semconv.ThreadOSIDKey:       {attrOSThread, false},
	semconv.ThreadResumeOSIDKey: {attrResume, false},
	semconv.ThreadNameKey:       {attrThreadName, true},
	semconv.GoGoroutineIDKey:    {attrGoroutine, false},
	semconv.WaitReasonKey:       {attrReason, true},
	semconv.WaitDetailKey:       {attrDetail, true},
	semconv.WaitWakeTimeKey:     {attrWake, false},
	semconv.WakerThreadIDKey:    {attrWakerThread, false},
	semconv.WakerGoroutineIDKey: {attrWakerGoroutine, false},
	semconv.WakerStackIDKey:     {attrWakerStack, true},
	semconv.EventNameKeyKey:     {attrEvent, true},
	semconv.EventOriginTimeKey:  {attrEventTime, false},
	semconv.EventSpanIDKey:      {attrEventSpan, true},
}

// attr is an entry of the attribute table whose key stax knows and whose value has the right type.
type attr struct {
	kind attrKind
	n    int64
	text string
}

// Decode reads the i-th resource of a request. For several resources of one request a [Decoder] is cheaper.
func Decode(pd pprofile.Profiles, i int) Decoded { return NewDecoder(pd).Resource(i) }

// NewDecoder returns a decoder of a request.
func NewDecoder(pd pprofile.Profiles) *Decoder {
	d := &Decoder{pd: pd, dict: pd.Dictionary(), stacks: map[int32]Stack{}}
	d.strings = d.dict.StringTable()
	t := d.dict.AttributeTable()
	d.attrs = make([]attr, t.Len())
	for i := range d.attrs {
		a := t.At(i)
		known, ok := attrKinds[d.string(a.KeyStrindex())]
		if !ok {
			continue
		}
		switch v := a.Value(); {
		case known.isText && v.Type() == pcommon.ValueTypeStr:
			d.attrs[i] = attr{kind: known.kind, text: v.Str()}
		case !known.isText && v.Type() == pcommon.ValueTypeInt:
			d.attrs[i] = attr{kind: known.kind, n: v.Int()}
		}
	}
	return d
}

func (d *Decoder) string(i int32) string {
	if i <= 0 || int(i) >= d.strings.Len() {
		return ""
	}
	return d.strings.At(int(i))
}

// resource is the work on one resource.
type resource struct {
	*Decoder
	out      Decoded
	used     map[archive.StackID]struct{}
	threads  map[int64]int // index in out.Threads
	rows     int
	observed map[observation][]int // samples that were counted, to find those that were weighed as well
	foreign  map[string]int        // index in out.Sources of producers other than stax's
	scope    string
	counted  map[string]bool // sources of the scope that have a samples/count profile
}

type observation struct {
	source    string
	thread    int64
	goroutine int64
	at        int64
	stack     archive.StackID
}

// Resource reads the i-th resource.
func (d *Decoder) Resource(i int) Decoded {
	r := &resource{Decoder: d, used: map[archive.StackID]struct{}{}, threads: map[int64]int{}}
	for si, sp := range d.pd.ResourceProfiles().At(i).ScopeProfiles().All() {
		r.scope = cmp.Or(sp.Scope().Name(), unknownProducer)
		r.observed, r.foreign, r.counted = nil, map[string]int{}, map[string]bool{}
		var weighed []int
		for pi, p := range sp.Profiles().All() {
			switch kind := r.kind(p); {
			case kind == typeCPU:
				weighed = append(weighed, pi) // when all counts are known
			case !r.profile(p, kind):
				r.out.Rest = append(r.out.Rest, Ref{si, pi})
			}
		}
		for _, pi := range weighed {
			if !r.profile(sp.Profiles().At(pi), typeCPU) {
				r.out.Rest = append(r.out.Rest, Ref{si, pi})
			}
		}
	}
	slices.SortFunc(r.out.Rest, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Profile, b.Profile))
	})
	return r.out
}

// kind returns the sample type of a profile when it is a known one.
func (r *resource) kind(p pprofile.Profile) string {
	kind, unit := r.string(p.SampleType().TypeStrindex()), r.string(p.SampleType().UnitStrindex())
	switch {
	case (kind == typeSamples || kind == typeEvents) && unit == unitCount, (kind == typeCPU || kind == typeOffCPU) && unit == unitNanos:
		return kind
	}
	return ""
}

// profile reads one profile and reports whether it was understood.
func (r *resource) profile(p pprofile.Profile, kind string) bool {
	f := readFacts(r.dict, p)
	source := cmp.Or(f.Source, r.scope)
	if p.Samples().Len() == 0 {
		if p.OriginalPayload().Len() > 0 || (kind == "" && f.State == "" && !f.lost()) {
			return false
		}
		r.facts(f, source, p, 0, 0)
		return true
	}
	if kind == "" || !r.complete(p, kind) {
		return false
	}
	before, waits := len(r.out.Samples), len(r.out.OffCPU)
	for _, s := range p.Samples().All() {
		r.sample(s, kind, source, f.Period)
	}
	if kind == typeSamples {
		r.counted[source] = true
	}
	r.facts(f, source, p, len(r.out.Samples)-before, len(r.out.OffCPU)-waits)
	return true
}

// complete reports whether the model has a place for all samples of a profile.
func (r *resource) complete(p pprofile.Profile, kind string) bool {
	if kind == typeSamples || kind == typeCPU {
		return true
	}
	for _, s := range p.Samples().All() {
		event := ""
		for _, i := range s.AttributeIndices().All() {
			if i > 0 && int(i) < len(r.attrs) && r.attrs[i].kind == attrEvent {
				event = r.attrs[i].text
			}
		}
		stax := event == semconv.TraceLogOrigin || event == semconv.TraceLogSpan
		waker := kind == typeEvents && event == eventWaker
		if (kind == typeEvents && !stax && !waker) || (s.TimestampsUnixNano().Len() == 0 && !waker) {
			return false
		}
	}
	return true
}

// who is what the attributes of a sample say.
type who struct {
	thread, osThread, resume, goroutine int64
	name, reason, detail                string
	wake, wakerThread, wakerGoroutine   int64
	wakerStack, event, span             string
	eventTime                           int64
}

func (r *resource) read(s pprofile.Sample) (w who, ok bool) {
	for _, i := range s.AttributeIndices().All() {
		if i < 0 || int(i) >= len(r.attrs) {
			return w, false
		}
		switch a := &r.attrs[i]; a.kind {
		case attrThread:
			w.thread = a.n
		case attrOSThread:
			w.osThread = a.n
		case attrResume:
			w.resume = a.n
		case attrThreadName:
			w.name = a.text
		case attrGoroutine:
			w.goroutine = a.n
		case attrReason:
			w.reason = a.text
		case attrDetail:
			w.detail = a.text
		case attrWake:
			w.wake = a.n
		case attrWakerThread:
			w.wakerThread = a.n
		case attrWakerGoroutine:
			w.wakerGoroutine = a.n
		case attrWakerStack:
			w.wakerStack = a.text
		case attrEvent:
			w.event = a.text
		case attrEventTime:
			w.eventTime = a.n
		case attrEventSpan:
			w.span = a.text
		}
	}
	if w.osThread != 0 {
		w.thread = w.osThread
	}
	if w.resume == 0 {
		w.resume = w.thread
	}
	return w, true
}

// sample reads one Sample, which may be many observations.
func (r *resource) sample(s pprofile.Sample, kind, source string, period int64) {
	values, times := s.Values(), s.TimestampsUnixNano()
	if (values.Len() != times.Len() && values.Len() != 0 && times.Len() != 0) || (values.Len() == 0 && times.Len() == 0) {
		r.out.Malformed++
		return
	}
	w, ok := r.read(s)
	if !ok {
		r.out.Malformed++
		return
	}
	stack, ok := r.stackAt(s.StackIndex())
	if !ok {
		r.out.Malformed++
		return
	}
	if kind == typeEvents && w.event == eventWaker {
		return // off-CPU intervals name the stack
	}
	n := max(times.Len(), 1)
	if r.rows+n > maxRows {
		r.out.TooMany += uint64(n)
		return
	}
	if times.Len() == 0 { // a sum
		total, good := int64(0), true
		for _, v := range values.All() {
			good = good && v >= 0 && total <= math.MaxInt64-v
			total += v
		}
		if !good {
			r.out.Malformed++
			return
		}
		r.rows++
		r.untimed(&w, stack, kind, source, total, period)
		return
	}
	for i := range times.Len() {
		value, at := int64(1), times.At(i)
		if values.Len() != 0 {
			value = values.At(i)
		} else if kind == typeCPU || kind == typeOffCPU {
			value = 0
		}
		if value < 0 || at > math.MaxInt64 || at == 0 || !r.timed(&w, stack, kind, source, value, int64(at)) {
			r.out.Malformed++
			continue
		}
		r.rows++
	}
	r.thread(w.thread, w.name)
}

func (r *resource) untimed(w *who, stack archive.StackID, kind, source string, total, period int64) {
	row := archive.Sample{ThreadID: w.thread, GoroutineID: w.goroutine, Stack: stack, Source: source}
	if kind == typeSamples {
		row.Count = uint64(total)
		r.count(row)
	} else {
		row.CPUNanos = total
		if period > 0 && !r.counted[source] {
			row.Count = uint64((total + period/2) / period)
		}
		r.weigh(row)
	}
	r.use(stack)
	r.thread(w.thread, w.name)
}

// timed adds one observation and reports whether it makes sense.
func (r *resource) timed(w *who, stack archive.StackID, kind, source string, value, at int64) bool {
	switch kind {
	case typeSamples:
		r.count(archive.Sample{
			ThreadID: w.thread, GoroutineID: w.goroutine, TimeNanos: at, Stack: stack, Count: uint64(value), Source: source,
		})
	case typeCPU:
		r.weigh(archive.Sample{
			ThreadID: w.thread, GoroutineID: w.goroutine, TimeNanos: at, Stack: stack, Count: 1, CPUNanos: value, Source: source,
		})
	case typeOffCPU:
		waker, _ := parseHex(w.wakerStack)
		if i, ok := r.indexOf(archive.StackID(waker)); ok {
			if _, ok := r.stackAt(i); ok {
				r.use(archive.StackID(waker))
			}
		}
		if value > at {
			return false
		}
		r.out.OffCPU = append(r.out.OffCPU, archive.OffCPU{
			ThreadID: w.thread, GoroutineID: w.goroutine, ResumeThreadID: w.resume, BeginNanos: at - value, WakeNanos: w.wake,
			EndNanos: at, Reason: cmp.Or(w.reason, semconv.WaitReasonOther), Detail: w.detail, Stack: stack,
			WakerThreadID: w.wakerThread, WakerGoroutine: w.wakerGoroutine, WakerStack: archive.StackID(waker), Source: source,
		})
	case typeEvents:
		row := archive.OriginEvent{
			ThreadID: w.thread, GoroutineID: w.goroutine, TimeNanos: w.eventTime, EventNanos: at, Stack: stack,
		}
		if w.event == semconv.TraceLogSpan {
			if row.Span, _ = parseHex(w.span); row.Span == 0 {
				return false
			}
		} else if w.eventTime == 0 {
			return false
		}
		r.out.OriginEvents = append(r.out.OriginEvents, row)
	}
	r.use(stack)
	return true
}

func (r *resource) count(row archive.Sample) {
	if r.observed == nil {
		r.observed = map[observation][]int{}
	}
	key := observation{row.Source, row.ThreadID, row.GoroutineID, row.TimeNanos, row.Stack}
	r.observed[key] = append(r.observed[key], len(r.out.Samples))
	r.out.Samples = append(r.out.Samples, row)
}

// weigh adds a weight to the observation that was counted in another profile of the scope, or a row.
func (r *resource) weigh(row archive.Sample) {
	key := observation{row.Source, row.ThreadID, row.GoroutineID, row.TimeNanos, row.Stack}
	if same := r.observed[key]; len(same) > 0 {
		r.out.Samples[same[0]].CPUNanos = row.CPUNanos
		r.observed[key] = same[1:]
		return
	}
	r.out.Samples = append(r.out.Samples, row)
}

func (r *resource) thread(id int64, name string) {
	if id == 0 || name == "" {
		return
	}
	if _, ok := r.threads[id]; !ok {
		r.threads[id] = len(r.out.Threads)
		r.out.Threads = append(r.out.Threads, archive.Thread{ID: id, Name: name})
	}
}

// use notes that a row names a stack.
func (r *resource) use(id archive.StackID) {
	if id == 0 {
		return
	}
	if _, ok := r.used[id]; ok {
		return
	}
	if i, ok := r.byID[id]; ok {
		r.used[id] = struct{}{}
		r.out.Stacks = append(r.out.Stacks, r.stacks[i])
	}
}

// stackAt returns the stack of a table entry.
func (d *Decoder) stackAt(i int32) (archive.StackID, bool) {
	if i == 0 {
		return 0, true
	}
	if s, ok := d.stacks[i]; ok {
		return s.ID, true
	}
	if i < 0 || int(i) >= d.dict.StackTable().Len() {
		return 0, false
	}
	frames, ok := d.framesOf(i)
	if !ok {
		return 0, false
	}
	var s Stack
	if len(frames) > 0 {
		s = Stack{ID: gotrace.HashFrames(frames), Frames: frames}
		if d.byID == nil {
			d.byID = map[archive.StackID]int32{}
		}
		d.byID[s.ID] = i
	}
	d.stacks[i] = s
	return s.ID, true
}

// indexOf finds a stack by its content.
func (d *Decoder) indexOf(id archive.StackID) (int32, bool) {
	if id == 0 {
		return 0, false
	}
	if i, ok := d.byID[id]; ok {
		return i, true
	}
	if len(d.stacks) < d.dict.StackTable().Len()-1 { // once: some were not read yet
		for i := 1; i < d.dict.StackTable().Len(); i++ {
			if _, ok := d.stackAt(int32(i)); !ok {
				d.stacks[int32(i)] = Stack{} // not again
			}
		}
	}
	i, ok := d.byID[id]
	return i, ok
}

func (d *Decoder) framesOf(i int32) ([]Frame, bool) {
	at := d.dict.StackTable().At(int(i)).LocationIndices()
	locations := d.dict.LocationTable()
	frames := make([]Frame, 0, min(at.Len(), maxStackFrames))
	for _, li := range at.All() {
		if li < 0 || int(li) >= locations.Len() {
			return nil, false
		}
		if li == 0 {
			continue
		}
		l := locations.At(int(li))
		if l.Lines().Len() == 0 {
			frames = append(frames, d.unsymbolized(l))
		}
		for _, line := range l.Lines().All() {
			if len(frames) >= maxStackFrames {
				break
			}
			f, ok := d.symbolized(l, line)
			if !ok {
				return nil, false
			}
			frames = append(frames, f)
		}
		if len(frames) >= maxStackFrames {
			break
		}
	}
	if d.frames += len(frames); d.frames > maxTotalFrames {
		return nil, false
	}
	return frames, true
}

func (d *Decoder) symbolized(l pprofile.Location, line pprofile.Line) (Frame, bool) {
	functions := d.dict.FunctionTable()
	fi := line.FunctionIndex()
	if fi < 0 || int(fi) >= functions.Len() && fi != 0 {
		return Frame{}, false
	}
	if fi == 0 {
		f := d.unsymbolized(l)
		f.Line = line.Line()
		return f, true
	}
	fn := functions.At(int(fi))
	name := cmp.Or(d.string(fn.NameStrindex()), d.string(fn.SystemNameStrindex()))
	if name == "" && fn.FilenameStrindex() == 0 {
		name = hexAddress(l.Address())
	}
	return Frame{Function: name, File: d.string(fn.FilenameStrindex()), Line: line.Line()}, true
}

// unsymbolized names a frame by its address; the file is the binary that the address is in.
func (d *Decoder) unsymbolized(l pprofile.Location) Frame {
	f := Frame{Function: hexAddress(l.Address())}
	if mi := l.MappingIndex(); mi > 0 && int(mi) < d.dict.MappingTable().Len() {
		f.File = d.string(d.dict.MappingTable().At(int(mi)).FilenameStrindex())
	}
	return f
}

// facts adds what a profile says about its source. A producer that says nothing gets one row for its scope.
func (r *resource) facts(f Facts, source string, p pprofile.Profile, samples, waits int) {
	r.out.LostGenerations += f.LostGenerations
	r.out.LostBytes += f.LostBytes
	switch {
	case f.State != "":
		row := f.ProfileSource
		row.Source = source
		r.out.Sources = append(r.out.Sources, row)
	case f.Source == "" && (!f.lost() || p.Samples().Len() > 0):
		i, ok := r.foreign[source]
		if !ok {
			i = len(r.out.Sources)
			r.foreign[source] = i
			r.out.Sources = append(r.out.Sources, archive.ProfileSource{
				Source: source, State: semconv.ProfileStateRunning, BeginNanos: f.BeginNanos, EndNanos: f.EndNanos, ClockErrorNanos: -1,
			})
		}
		row := &r.out.Sources[i]
		row.BeginNanos, row.EndNanos = min(row.BeginNanos, f.BeginNanos), max(row.EndNanos, f.EndNanos)
		row.PeriodNanos = cmp.Or(row.PeriodNanos, f.Period)
		row.Samples += uint64(samples)
		row.Waits += uint64(waits)
	}
}

// parseHex reads exactly 16 hex digits.
func parseHex(s string) (uint64, bool) {
	if len(s) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 16, 64)
	return n, err == nil
}
