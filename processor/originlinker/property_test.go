package originlinker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/gotrace"
	"github.com/stax-otel/stax/internal/origin"
	"github.com/stax-otel/stax/internal/otlprows"
	"github.com/stax-otel/stax/internal/profiles"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/semconv"
)

// host has a staxquery extension with recordings.
type host struct {
	component.Host
	mgr *recording.Manager
}

func (h host) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{component.MustNewID("staxquery"): ext(h)}
}

type ext host

func (ext) Start(context.Context, component.Host) error { return nil }
func (ext) Shutdown(context.Context) error              { return nil }
func (e ext) RecordingManager() *recording.Manager      { return e.mgr }

// story is a random recording as requests.
type story struct {
	r        *rand.Rand
	started  int64
	rec      recording.ID
	traces   []ptrace.Traces
	logs     []plog.Logs
	profiles []pprofile.Profiles
	stacks   []profiles.Stack
}

func (s *story) runtime() int { return s.r.IntN(2) }

func (s *story) resource(r pcommon.Resource, runtime int) {
	a := r.Attributes()
	a.PutStr(semconv.RecordingIDKey, string(s.rec))
	a.PutStr(semconv.RuntimeIDKey, fmt.Sprintf("runtime-%d", runtime))
	a.PutInt(semconv.ProcessPIDKey, int64(100+runtime))
	a.PutStr(semconv.TelemetrySDKLanguageKey, []string{"go", "rust"}[runtime])
	a.PutInt(semconv.ClockErrorNanosKey, 1000)
}

// at is an instant in the 200 ms of the story, on a coarse grid so that ties occur; now and then one far outside.
func (s *story) at() int64 {
	if s.r.IntN(100) == 0 {
		return s.started - int64(time.Hour)
	}
	return s.started + int64(s.r.IntN(2000))*100_000
}

func (s *story) interval() (begin, end int64) {
	begin = s.at()
	return begin, begin + int64(s.r.IntN(200))*100_000
}

func (s *story) thread() int64    { return int64(1 + s.r.IntN(4)) }
func (s *story) goroutine() int64 { return int64(s.r.IntN(4)) }

func (s *story) origin(a pcommon.Map) {
	if s.r.IntN(8) > 0 {
		a.PutInt(semconv.OriginThreadIDKey, s.thread())
	}
	if s.r.IntN(8) > 0 {
		a.PutInt(semconv.OriginTimeKey, s.at())
	}
	if g := s.goroutine(); g != 0 && s.r.IntN(2) == 0 {
		a.PutInt(semconv.OriginGoroutineIDKey, g)
	}
	if s.r.IntN(3) == 0 {
		id := s.stacks[s.r.IntN(len(s.stacks))].ID
		if s.r.IntN(5) == 0 {
			id++ // nobody defines it
		}
		a.PutStr(semconv.OriginStackIDKey, hex64(uint64(id)))
	}
	if s.r.IntN(10) == 0 {
		a.PutBool(semconv.OriginThreadLockedKey, true)
	}
}

func tell(r *rand.Rand, rec recording.ID, started int64) *story {
	s := &story{r: r, rec: rec, started: started}
	for i := range 6 {
		frames := []gotrace.Frame{{Function: fmt.Sprintf("main.leaf%d", i%3), File: "/leaf.go", Line: int64(i)}, {Function: "main.main", File: "/main.go", Line: 1}}
		s.stacks = append(s.stacks, profiles.Stack{ID: gotrace.HashFrames(frames), Frames: frames})
	}
	const dispatches, buffers, waits = 80, 12, 60
	id := func(kind, n int) uint64 { return uint64(kind)<<32 | uint64(n) + 1 }
	for range 20 {
		td := ptrace.NewTraces()
		rt := s.runtime()
		rs := td.ResourceSpans().AppendEmpty()
		s.resource(rs.Resource(), rt)
		for lane := range 2 {
			ss := rs.ScopeSpans().AppendEmpty()
			ss.Scope().Attributes().PutStr(semconv.LaneIDKey, fmt.Sprintf("lane-%d", lane))
			ss.Scope().Attributes().PutStr(semconv.LaneKindKey, semconv.LaneKindGeneric)
			if lane == 1 {
				ss.Scope().Attributes().PutInt(semconv.LaneClockErrorNanosKey, 200_000)
			}
			for range 3 {
				begin, end := s.interval()
				d := span(ss.Spans(), 1, id(1, s.r.IntN(dispatches)), "d", begin, end)
				s.origin(d.Attributes())
				if s.r.IntN(3) == 0 {
					d.Attributes().PutStr(semconv.CommandBufferIDKey, hex64(id(2, s.r.IntN(buffers))))
				}
				if s.r.IntN(3) == 0 {
					d.Attributes().PutStr(semconv.QueueIDKey, "q")
					d.Attributes().PutInt(semconv.QueueSeqKey, int64(s.r.IntN(6)))
				}
				if s.r.IntN(6) == 0 {
					e := d.Events().AppendEmpty()
					e.SetName(semconv.EventCompletion)
					s.origin(e.Attributes())
				}
			}
		}
		cpu := rs.ScopeSpans().AppendEmpty().Spans()
		for range 4 {
			begin, end := s.interval()
			w := span(cpu, 2, id(3, s.r.IntN(waits)), "w", begin, end)
			w.Attributes().PutInt(semconv.ThreadIDKey, s.thread())
			s.origin(w.Attributes())
			awaits := w.Attributes().PutEmptySlice(semconv.WaitAwaitsKey)
			for range 1 + s.r.IntN(3) {
				switch s.r.IntN(5) {
				case 0:
					awaits.AppendEmpty().SetStr("command_buffer:" + hex64(id(2, s.r.IntN(buffers))))
				case 1:
					awaits.AppendEmpty().SetStr(fmt.Sprintf("queue:q@%d", 1+s.r.IntN(6)))
				default:
					awaits.AppendEmpty().SetStr("dispatch:" + hex64(id(1, s.r.IntN(dispatches))))
				}
			}
		}
		span(cpu, 3, id(4, s.r.IntN(1000)), "cpu", s.at(), s.at())
		s.traces = append(s.traces, td)
	}
	s.unique()
	for range 6 {
		ld := plog.NewLogs()
		rl := ld.ResourceLogs().AppendEmpty()
		s.resource(rl.Resource(), s.runtime())
		records := rl.ScopeLogs().AppendEmpty().LogRecords()
		st := s.stacks[s.r.IntN(4)]
		lr := records.AppendEmpty()
		lr.SetEventName(semconv.EventStack)
		a := lr.Attributes()
		a.PutStr(semconv.StackIDKey, hex64(uint64(st.ID)))
		functions, files, lines := a.PutEmptySlice(semconv.StackFunctionsKey), a.PutEmptySlice(semconv.StackFilesKey), a.PutEmptySlice(semconv.StackLinesKey)
		for _, f := range st.Frames {
			functions.AppendEmpty().SetStr(f.Function)
			files.AppendEmpty().SetStr(f.File)
			lines.AppendEmpty().SetInt(f.Line)
		}
		s.logs = append(s.logs, ld)
	}
	for range 8 {
		s.profiles = append(s.profiles, s.profile())
	}
	return s
}

// unique gives every span that repeats the id of another a new one: of records with one id the archive and a stream may
// choose differently, and no target makes such.
func (s *story) unique() {
	seen := map[pcommon.SpanID]bool{}
	for _, td := range s.traces {
		eachSpan(td, func(_ pcommon.InstrumentationScope, sp ptrace.Span) {
			for seen[sp.SpanID()] {
				id := sp.SpanID()
				id[4]++
				sp.SetSpanID(id)
			}
			seen[sp.SpanID()] = true
		})
	}
}

func (s *story) profile() pprofile.Profiles {
	pd := pprofile.NewProfiles()
	rp := pd.ResourceProfiles().AppendEmpty()
	s.resource(rp.Resource(), s.runtime())
	d := &profiles.Data{Stacks: s.stacks, Sources: []archive.ProfileSource{{
		Source: semconv.ProfileSourceGoExecTrace, State: semconv.ProfileStateRunning, BeginNanos: s.started, EndNanos: s.started + 2e8, PeriodNanos: 4e6,
	}}}
	for range 10 {
		st := s.stacks[s.r.IntN(len(s.stacks))].ID
		if s.r.IntN(6) == 0 {
			st = 0
		}
		d.Samples = append(d.Samples, archive.Sample{
			ThreadID: s.thread(), GoroutineID: s.goroutine(), TimeNanos: s.at(), Stack: st, Count: 1, Source: semconv.ProfileSourceGoExecTrace,
		})
		begin, end := s.interval()
		d.OffCPU = append(d.OffCPU, archive.OffCPU{
			ThreadID: s.thread(), GoroutineID: s.goroutine(), BeginNanos: begin, EndNanos: end, Reason: semconv.WaitReasonSem,
			Stack: s.stacks[s.r.IntN(len(s.stacks))].ID, Source: semconv.ProfileSourceGoExecTrace,
		})
	}
	profiles.NewEncoder(pd.Dictionary()).Encode(rp.ScopeProfiles().AppendEmpty(), d)
	return pd
}

// storedRows makes the rows of the archive, without any of the linker's code.
type storedRows struct {
	archive.Batch
	conv otlprows.Converter
}

func (w *storedRows) Lane(l otlprows.Lane) {
	w.Lanes = append(w.Lanes, archive.Lane{Runtime: w.conv.Runtime(), ID: l.ID, Kind: l.Kind, ClockErrorNanos: l.ClockErrorNanos})
}
func (w *storedRows) Thread(int64, string)                                       {}
func (w *storedRows) Intern(b []byte) string                                     { return string(b) }
func (w *storedRows) HoldsStack(archive.StackID) bool                            { return false }
func (w *storedRows) HoldsCounters(archive.CounterSetID, []archive.Counter) bool { return false }
func (w *storedRows) Drop(_ archive.Seq, signal, reason string, _ int) {
	panic(signal + " " + reason)
}
func (w *storedRows) ForeignSpan(ptrace.ResourceSpans, ptrace.ScopeSpans, ptrace.Span) {}
func (w *storedRows) ForeignLog(plog.ResourceLogs, plog.ScopeLogs, plog.LogRecord)     {}

func (s *story) store(t *testing.T) *origin.Index {
	t.Helper()
	w := &storedRows{}
	runtime := func(r pcommon.Resource) archive.RuntimeID {
		row := archive.Runtime{ID: otlprows.RuntimeID(r.Attributes()), ClockErrorNanos: -1}
		otlprows.ReadRuntime(&row, r.Attributes())
		w.Runtimes = append(w.Runtimes, row)
		return row.ID
	}
	for _, ld := range s.logs {
		rl := ld.ResourceLogs().At(0)
		w.conv.Begin(&w.Batch, runtime(rl.Resource()), w)
		w.conv.Logs(rl, 0)
	}
	for _, td := range s.traces {
		rs := td.ResourceSpans().At(0)
		w.conv.Begin(&w.Batch, runtime(rs.Resource()), w)
		w.conv.Spans(rs)
	}
	for _, pd := range s.profiles {
		d := profiles.Decode(pd, 0)
		require.Zero(t, d.Malformed+d.TooMany)
		require.NotZero(t, d.Len())
		d.AppendTo(&w.Batch, runtime(pd.ResourceProfiles().At(0).Resource()))
	}
	dir := filepath.Join(t.TempDir(), "story.stax")
	aw, err := archive.Create(dir, archive.RecordingInfo{ID: string(s.rec), StartedNanos: s.started, RecorderPID: 1}, archive.WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, aw.Append(&w.Batch))
	require.NoError(t, aw.Finish(t.Context(), func(info *archive.RecordingInfo) { info.StoppedNanos = s.started + int64(time.Hour) }, nil))
	r, err := archive.Open(dir, archive.ReaderOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	ix, err := origin.Load(t.Context(), r, origin.Config{})
	require.NoError(t, err)
	return ix
}

// TestEndlessHoldGivesTheArchivesVerdicts: whatever the order in which requests come, once everything has come the linker
// says what the archive says.
func TestEndlessHoldGivesTheArchivesVerdicts(t *testing.T) {
	statuses, classes := map[string]int{}, map[string]int{}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		mgr, err := recording.NewManager(recording.Options{Dir: t.TempDir()})
		require.NoError(t, err)
		rec, err := mgr.Start(t.Context(), recording.StartOptions{})
		require.NoError(t, err)
		s := tell(r, rec.ID(), rec.Info().StartedUnixNano)
		ix := s.store(t)

		g := newRigWith(t, host{componenttest.NewNopHost(), mgr}, func(c *Config) { c.Hold, c.EvidenceAge = time.Hour, 2*time.Hour })
		steps := make([]func() error, 0, 64)
		for _, td := range s.traces {
			steps = append(steps, func() error {
				in := ptrace.NewTraces()
				td.CopyTo(in)
				return g.traces.ConsumeTraces(t.Context(), in)
			})
		}
		for _, ld := range s.logs {
			steps = append(steps, func() error { return g.logs.ConsumeLogs(t.Context(), ld) })
		}
		for _, pd := range s.profiles {
			steps = append(steps, func() error { return g.profiles.ConsumeProfiles(t.Context(), pd) })
		}
		r.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		for _, step := range steps {
			require.NoError(t, step())
		}
		g.stop()
		n := 0
		for _, td := range g.out.AllTraces() {
			for _, rs := range td.ResourceSpans().All() {
				n += s.compare(t, ix, rs, statuses, classes)
			}
		}
		require.Equal(t, 20*(6+4+1), n, "every span came out")
		require.NoError(t, mgr.Shutdown(context.WithoutCancel(t.Context())))
	}
	t.Log(statuses, classes)
	for _, want := range []string{"linked A", "linked B", "linked C", "ambiguous_goroutine D", "bad_thread ", "outside_recording ", "too_far ", "no_stack "} {
		require.NotZero(t, statuses[want], "the stories have %s", want)
	}
	for _, want := range []string{"synchronous", "timed_out", "waited_late", "asynchronous", "unproven"} {
		require.NotZero(t, classes[want], "the stories have %s", want)
	}
}

// compare compares the attributes of spans with what the index says about their rows.
func (s *story) compare(t *testing.T, ix *origin.Index, rs ptrace.ResourceSpans, statuses, classes map[string]int) (n int) {
	t.Helper()
	w := &storedRows{}
	w.conv.Begin(&w.Batch, otlprows.RuntimeID(rs.Resource().Attributes()), w)
	link := func(sp ptrace.Span, l archive.Link) {
		status, grade := text(sp, semconv.OriginStatusKey), text(sp, semconv.OriginGradeKey)
		statuses[status+" "+grade]++
		require.Equal(t, []any{l.Status, l.Grade, l.Weak}, []any{status, grade, text(sp, semconv.OriginWeakKey) == "true"}, "%+v", sp.Attributes().AsRaw())
		if l.DistanceNanos >= 0 {
			require.Equal(t, fmt.Sprint(l.DistanceNanos), text(sp, semconv.OriginDistanceNanosKey))
		}
		named := l.Status == origin.StatusLinked && l.Stack != 0
		require.Equal(t, named, text(sp, semconv.CodeFunctionNameKey) != "", "%+v", sp.Attributes().AsRaw())
	}
	for _, ss := range rs.ScopeSpans().All() {
		sc := otlprows.ReadScope(ss.Scope())
		for _, sp := range ss.Spans().All() {
			n++
			w.Reset()
			switch w.conv.Span(&sc, sp) {
			case otlprows.KindDispatch:
				d := &w.Dispatches[0]
				if d.Origin.Present() {
					link(sp, ix.Link(d.Runtime, archive.OwnerDispatch, uint64(d.ID), archive.OriginDispatch, &d.Origin))
				}
				c := ix.Certificate(d)
				classes[c.Class]++
				want := ptrace.NewSpan()
				certify(want, &c)
				for k, v := range want.Attributes().All() {
					require.Equal(t, v.AsString(), text(sp, k), "%s of %+v", k, sp.Attributes().AsRaw())
				}
				for _, x := range w.ExtraOrigins {
					if !x.Origin.Present() {
						continue
					}
					require.Equal(t, ix.Link(x.Runtime, x.OwnerKind, x.Owner, x.Kind, &x.Origin).Status, sp.Events().At(0).Attributes().AsRaw()[semconv.OriginStatusKey])
				}
			case otlprows.KindWait:
				x := &w.Waits[0]
				link(sp, ix.Link(x.Runtime, archive.OwnerWait, uint64(x.ID), archive.OriginWait, &x.Origin))
			default:
			}
		}
	}
	return n
}
