package origin

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// scenario is the input of a case in testdata: the rows of a small archive, and CPU samples.
//
// One row a line; # begins a comment. Ids and instants are small numbers.
//
//	recording start=100 stop=9000 mode=import state=finished pids=1,2 recorder=9 limit=50ns
//	runtime NAME pid=7 parent=1 error=5 language=go      rows below belong to it; without one: to "r"
//	lane NAME error=10
//	stack ID LEAF@LINE ... ROOT@LINE                     @LINE may be left out
//	buffer ID LANE START..END [queue=Q] [seq=N] [origin=...]
//	dispatch ID LANE START..END [origin=...] [buffer=ID] [queue=Q] [seq=N] [faulted]
//	wait ID BEGIN..END [origin=...] [timed_out]
//	await WAIT dispatch=ID | buffer=ID | queue=Q | queue=Q@SEQ
//	extra dispatch|buffer ID completion|fault origin=...
//	sample PID THREAD TIME [stack=ID] [goroutine=G] [source=NAME]
//	off PID THREAD BEGIN..END [wake=TIME] [stack=ID] [goroutine=G] [source=NAME]
//	event THREAD TIME [stack=ID] [goroutine=G]           of an origin, in the execution trace
//	source PID [name=NAME] [period=TIME] [error=TIME]
//	clock NAME TICKS TIME [error=TIME]
//	untimed PID / period PID TIME / step TIME
//	explain                                              explain every verdict
//
// NAME of a source is go_exectrace unless given. An origin is TIME/THREAD/STACK/GOROUTINE/locked; parts may be left out
// from the right. A wait's instant is its begin unless given. Evidence within 2 ns of the ends of a wait does not count (20
// if nothing says how good its clock is), and a wait that was slept may have a rest of 10 ns, so that scenarios are small.
type scenario struct {
	Facts
	extra   []archive.ExtraOrigin
	config  Config
	explain bool
}

var smallTolerances = tolerances{edge: 2, unknownEdge: 20, rest: 10}

func parseScenario(text string) (*scenario, error) {
	s := &scenario{}
	rt := archive.RuntimeID("r")
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if fields := strings.Fields(line); len(fields) > 0 {
			p := &lineParser{fields: fields[1:], named: map[string]string{}}
			p.split()
			s.row(&rt, fields[0], p)
			if p.err == nil && (len(p.fields) > 0 || len(p.named) > 0) {
				p.err = fmt.Errorf("left over: %v %v", p.fields, p.named)
			}
			if p.err != nil {
				return nil, fmt.Errorf("line %d: %s: %w", n+1, fields[0], p.err)
			}
		}
	}
	return s, nil
}

func (s *scenario) row(rt *archive.RuntimeID, word string, p *lineParser) {
	switch word {
	case "recording":
		s.Recording = archive.RecordingInfo{StartedNanos: p.num("start"), StoppedNanos: p.num("stop"), Mode: p.text("mode"), State: p.text("state"), RecorderPID: int(p.num("recorder"))}
		for _, pid := range strings.FieldsFunc(p.text("pids"), func(r rune) bool { return r == ',' }) {
			s.Recording.PIDs = append(s.Recording.PIDs, p.parse(pid))
		}
		if limit := p.text("limit"); limit != "" {
			d, err := time.ParseDuration(limit)
			p.fail(err)
			s.config.Limit = d
		}
	case "runtime":
		*rt = archive.RuntimeID(p.next())
		s.Runtimes = append(s.Runtimes, archive.Runtime{
			ID: *rt, PID: p.num("pid"), ParentPID: p.num("parent"), ClockErrorNanos: p.num("error"), SDKLanguage: p.text("language"),
		})
	case "lane":
		s.Lanes = append(s.Lanes, archive.Lane{Runtime: *rt, ID: archive.LaneID(p.next()), ClockErrorNanos: p.num("error")})
	case "stack":
		id := archive.StackID(p.parse(p.next()))
		for depth := uint32(0); len(p.fields) > 0; depth++ {
			function, at, _ := strings.Cut(p.next(), "@")
			s.StackFrames = append(s.StackFrames, archive.StackFrame{Runtime: *rt, Stack: id, Depth: depth, Function: function, Line: p.parse(at)})
		}
	case "buffer":
		b := archive.CommandBuffer{Runtime: *rt, ID: archive.CommandBufferID(p.parse(p.next())), Lane: archive.LaneID(p.next())}
		b.StartNanos, b.EndNanos = p.interval()
		b.Queue, b.QueueSeq, b.Origin = archive.QueueID(p.text("queue")), uint64(p.num("seq")), p.origin()
		s.CommandBuffers = append(s.CommandBuffers, b)
	case "dispatch":
		d := archive.Dispatch{Runtime: *rt, ID: archive.DispatchID(p.parse(p.next())), Lane: archive.LaneID(p.next())}
		d.StartNanos, d.EndNanos = p.interval()
		d.Queue, d.QueueSeq, d.Origin = archive.QueueID(p.text("queue")), uint64(p.num("seq")), p.origin()
		d.CommandBuffer, d.Faulted = archive.CommandBufferID(p.num("buffer")), p.flag("faulted")
		s.Dispatches = append(s.Dispatches, d)
	case "wait":
		w := archive.Wait{Runtime: *rt, ID: archive.WaitID(p.parse(p.next()))}
		w.BeginNanos, w.EndNanos = p.interval()
		w.Origin, w.TimedOut = p.origin(), p.flag("timed_out")
		if w.Origin.TimeNanos == 0 {
			w.Origin.TimeNanos = w.BeginNanos
		}
		s.Waits = append(s.Waits, w)
	case "await":
		a := archive.Await{Runtime: *rt, Wait: archive.WaitID(p.parse(p.next()))}
		switch {
		case p.named["dispatch"] != "":
			a.Kind, a.Ref = archive.AwaitDispatch, uint64(p.num("dispatch"))
		case p.named["buffer"] != "":
			a.Kind, a.Ref = archive.AwaitCommandBuffer, uint64(p.num("buffer"))
		default:
			queue, upTo, _ := strings.Cut(p.text("queue"), "@")
			a.Kind, a.Queue, a.UpTo = archive.AwaitQueue, archive.QueueID(queue), uint64(p.parse(upTo))
		}
		s.Awaits = append(s.Awaits, a)
	case "extra":
		x := archive.ExtraOrigin{Runtime: *rt, OwnerKind: archive.OwnerDispatch}
		if p.next() == "buffer" {
			x.OwnerKind = archive.OwnerCommandBuffer
		}
		x.Owner, x.Kind, x.Origin = uint64(p.parse(p.next())), archive.OriginKind(p.next()), p.origin()
		s.extra = append(s.extra, x)
	case "sample":
		s.Samples = append(s.Samples, archive.Sample{
			Runtime: s.process(p.parse(p.next())), ThreadID: p.parse(p.next()), TimeNanos: p.parse(p.next()),
			Stack: archive.StackID(p.num("stack")), GoroutineID: p.num("goroutine"), Source: p.text("source"), Count: 1,
		})
	case "off":
		x := archive.OffCPU{Runtime: s.process(p.parse(p.next())), ThreadID: p.parse(p.next())}
		x.BeginNanos, x.EndNanos = p.interval()
		x.WakeNanos, x.GoroutineID, x.Stack, x.Source = p.num("wake"), p.num("goroutine"), archive.StackID(p.num("stack")), p.text("source")
		s.OffCPU = append(s.OffCPU, x)
	case "event":
		s.OriginEvents = append(s.OriginEvents, archive.OriginEvent{
			Runtime: *rt, ThreadID: p.parse(p.next()), TimeNanos: p.parse(p.next()), Stack: archive.StackID(p.num("stack")), GoroutineID: p.num("goroutine"),
		})
	case "source":
		x := archive.ProfileSource{Runtime: s.process(p.parse(p.next())), Source: p.text("name"), PeriodNanos: p.num("period"), ClockErrorNanos: p.num("error")}
		if x.Source == "" {
			x.Source = semconv.ProfileSourceGoExecTrace
		}
		s.ProfileSources = append(s.ProfileSources, x)
	case "clock":
		s.ClockSamples = append(s.ClockSamples, archive.ClockSample{Runtime: *rt, Clock: p.next(), RawTicks: p.parse(p.next()), UnixNanos: p.parse(p.next()), ErrorNanos: p.num("error")})
	case "untimed":
		s.Samples = append(s.Samples, archive.Sample{Runtime: s.process(p.parse(p.next())), Count: 5})
	case "period":
		s.ProfileSources = append(s.ProfileSources, archive.ProfileSource{Runtime: s.process(p.parse(p.next())), Source: "x", PeriodNanos: p.parse(p.next())})
	case "step":
		at := p.parse(p.next())
		s.ClockSamples = append(s.ClockSamples,
			archive.ClockSample{Runtime: *rt, Clock: "monotonic", RawTicks: 1, UnixNanos: at}, archive.ClockSample{Runtime: *rt, Clock: "monotonic", RawTicks: 1 + 2e6, UnixNanos: at})
	case "explain":
		s.explain = true
	default:
		p.fail(fmt.Errorf("no such row"))
	}
}

// process returns a runtime of the process; one that only samples it is made up if there is none.
func (s *scenario) process(pid int64) archive.RuntimeID {
	for _, rt := range s.Runtimes {
		if rt.PID == pid {
			return rt.ID
		}
	}
	id := archive.RuntimeID(fmt.Sprint("sampler", pid))
	s.Runtimes = append(s.Runtimes, archive.Runtime{ID: id, PID: pid, ClockErrorNanos: -1})
	return id
}

// evidence returns the CPU evidence of the scenario, to be judged with small tolerances.
func (s *scenario) evidence() *Evidence {
	e := NewEvidence()
	e.tolerances = smallTolerances
	e.AddSamples(s.Samples)
	e.AddOffCPU(s.OffCPU)
	e.AddOriginEvents(s.OriginEvents)
	e.AddProfileSources(s.ProfileSources)
	e.AddClockSamples(s.ClockSamples)
	return e
}

func (s *scenario) index() *Index {
	cfg := s.config
	cfg.Evidence = s.evidence()
	return NewIndex(cfg, s.Facts)
}

// run returns every verdict on the scenario as text.
func (s *scenario) run() string {
	var b strings.Builder
	ix := s.index()
	link := func(rt archive.RuntimeID, owner archive.OwnerKind, id uint64, kind archive.OriginKind, o archive.Origin) {
		if !o.Present() {
			return
		}
		l := ix.Link(rt, owner, id, kind, &o)
		fmt.Fprintf(&b, "link %s %d %s: %s", owner, id, kind, l.Status)
		if l.Grade != "" {
			fmt.Fprintf(&b, " %s", l.Grade)
		}
		if l.Weak {
			b.WriteString(" weak")
		}
		if l.Stack != 0 {
			fmt.Fprintf(&b, " stack=%d", l.Stack)
		}
		if l.DistanceNanos >= 0 {
			fmt.Fprintf(&b, " distance=%d", l.DistanceNanos)
		}
		b.WriteByte('\n')
		if s.explain {
			fmt.Fprintf(&b, "  %s\n", explanation(ix.ExplainLink(rt, owner, id, kind, &o)))
		}
	}
	for i := range s.Dispatches {
		d := &s.Dispatches[i]
		fmt.Fprintln(&b, certificateText(ix.Certificate(d)))
		if s.explain {
			fmt.Fprintf(&b, "  %s\n", explanation(ix.ExplainCertificate(d)))
		}
		link(d.Runtime, archive.OwnerDispatch, uint64(d.ID), archive.OriginDispatch, d.Origin)
	}
	for i := range s.CommandBuffers {
		c := &s.CommandBuffers[i]
		link(c.Runtime, archive.OwnerCommandBuffer, uint64(c.ID), archive.OriginDispatch, c.Origin)
	}
	dc := NewDecomposer(ix, nil)
	dc.Add(s.Dispatches)
	for _, p := range dc.Parts() {
		fmt.Fprintln(&b, partsText(p))
	}
	for i := range s.Waits {
		w := &s.Waits[i]
		if w.Origin.ThreadID != 0 {
			link(w.Runtime, archive.OwnerWait, uint64(w.ID), archive.OriginWait, w.Origin)
		}
	}
	for _, x := range s.extra {
		link(x.Runtime, x.OwnerKind, x.Owner, x.Kind, x.Origin)
	}
	return b.String()
}

// explanation is what an explanation says, without what it leaves open.
func explanation(x any) string {
	b, err := json.Marshal(x)
	if err != nil {
		return err.Error()
	}
	return regexp.MustCompile(`"[a-z_]+":(0|false|""|null|\[\]),?`).ReplaceAllString(string(b), "")
}

func certificateText(c archive.Certificate) string {
	var b strings.Builder
	fmt.Fprintf(&b, "dispatch %d: %s", c.Dispatch, c.Class)
	if c.Reason != "" {
		fmt.Fprintf(&b, " (%s)", c.Reason)
	}
	if c.Wait != 0 {
		fmt.Fprintf(&b, " wait=%d origin=%d begin=%d end=%d %s", c.Wait, c.OriginNanos, c.BeginNanos, c.EndNanos, c.Corroboration)
	}
	if c.Class == ClassSynchronous {
		fmt.Fprintf(&b, " owned=%d", c.OwnedNanos)
	}
	if c.ClockErrorNanos != 0 {
		fmt.Fprintf(&b, " error=%d", c.ClockErrorNanos)
	}
	for _, f := range []struct {
		set  bool
		name string
	}{{c.Faulted, "faulted"}, {c.CrossThread, "cross_thread"}, {c.DifferentStack, "different_stack"}} {
		if f.set {
			b.WriteString(" " + f.name)
		}
	}
	return b.String()
}

func partsText(p WaitParts) string {
	var b strings.Builder
	fmt.Fprintf(&b, "wait %d: %d =", p.Wait, p.EndNanos-p.BeginNanos)
	sep := " "
	for _, part := range []struct {
		nanos int64
		name  string
	}{{p.ExecutingNanos, "executing"}, {p.QueuedNanos, "queued"}, {p.IdleNanos, "idle"}, {p.WakeUpNanos, "wake-up"}, {p.UnknownNanos, "unknown"}} {
		if part.nanos != 0 {
			fmt.Fprintf(&b, "%s%s %d", sep, part.name, part.nanos)
			sep = " + "
		}
	}
	if p.Woken {
		fmt.Fprintf(&b, " (signal %d, schedule %d, return %d)", p.SignalNanos, p.ScheduleNanos, p.ReturnNanos)
	}
	fmt.Fprintf(&b, "; pending %d", p.Pending)
	if p.Untimed != 0 {
		fmt.Fprintf(&b, ", untimed %d", p.Untimed)
	}
	if len(p.Lanes) > 0 {
		fmt.Fprintf(&b, " on %v", p.Lanes)
	}
	if p.ClockErrorNanos != 0 {
		fmt.Fprintf(&b, " error=%d", p.ClockErrorNanos)
	}
	return b.String()
}

// lineParser takes the fields of one line apart: positional ones and name=value.
type lineParser struct {
	fields []string
	named  map[string]string
	err    error
}

func (p *lineParser) split() {
	rest := p.fields[:0:0]
	for _, f := range p.fields {
		if name, value, ok := strings.Cut(f, "="); ok {
			p.named[name] = value
		} else {
			rest = append(rest, f)
		}
	}
	p.fields = rest
}

func (p *lineParser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *lineParser) next() string {
	if len(p.fields) == 0 {
		p.fail(fmt.Errorf("too short"))
		return ""
	}
	f := p.fields[0]
	p.fields = p.fields[1:]
	return f
}

func (p *lineParser) text(name string) string {
	v := p.named[name]
	delete(p.named, name)
	return v
}

func (p *lineParser) parse(text string) int64 {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 0, 64)
	p.fail(err)
	return n
}

func (p *lineParser) num(name string) int64 { return p.parse(p.text(name)) }

func (p *lineParser) flag(name string) bool {
	for i, f := range p.fields {
		if f == name {
			p.fields = append(p.fields[:i:i], p.fields[i+1:]...)
			return true
		}
	}
	return false
}

func (p *lineParser) interval() (start, end int64) {
	a, b, ok := strings.Cut(p.next(), "..")
	if !ok {
		p.fail(fmt.Errorf("want START..END"))
	}
	return p.parse(a), p.parse(b)
}

func (p *lineParser) origin() (o archive.Origin) {
	parts := append(strings.Split(p.text("origin"), "/"), "", "", "", "")
	o.ThreadLocked = parts[4] == "locked"
	o.TimeNanos, o.ThreadID = p.parse(parts[0]), p.parse(parts[1])
	o.Stack, o.GoroutineID = archive.StackID(p.parse(parts[2])), p.parse(parts[3])
	return o
}
