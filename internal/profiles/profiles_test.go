package profiles

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/pprof"
	"slices"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/gotrace"
	"github.com/stax-otel/stax/sdk/semconv"
)

func frame(function, file string, line int64) Frame {
	return Frame{Function: function, File: file, Line: line}
}

func stackOf(frames ...Frame) Stack { return Stack{ID: gotrace.HashFrames(frames), Frames: frames} }

// randomData makes rows as a source with instants writes them.
func randomData(r *rand.Rand, n int) Data {
	var d Data
	for i := range 1 + r.IntN(20) {
		frames := []Frame{frame(fmt.Sprintf("main.f%d", i), "main.go", int64(i))}
		for range r.IntN(5) {
			k := r.IntN(10)
			frames = append(frames, frame(fmt.Sprintf("lib.g%d", k), fmt.Sprintf("lib%d.go", k%3), int64(r.IntN(1000))))
		}
		d.Stacks = append(d.Stacks, stackOf(frames...))
	}
	used, summed := map[archive.StackID]bool{}, map[archive.StackID]bool{}
	stack := func() archive.StackID {
		if r.IntN(8) == 0 {
			return 0
		}
		s := d.Stacks[r.IntN(len(d.Stacks))]
		used[s.ID] = true
		return s.ID
	}
	const source = semconv.ProfileSourceGoExecTrace
	threads := map[int64]bool{}
	thread := func() int64 {
		t := r.Int64N(5)
		if t != 0 {
			threads[t] = true
		}
		return t
	}
	now := int64(1_700_000_000_000_000_000)
	for range n {
		now += 1 + r.Int64N(1e6)
		switch r.IntN(6) {
		case 0, 1:
			s := archive.Sample{ThreadID: thread(), GoroutineID: r.Int64N(4), TimeNanos: now, Stack: stack(), Count: 1, Source: source}
			if r.IntN(4) != 0 {
				s.CPUNanos = 1 + r.Int64N(1e7)
			}
			if r.IntN(8) == 0 {
				s.Count = 2 + uint64(r.IntN(9))
			}
			d.Samples = append(d.Samples, s)
		case 2, 3:
			w := archive.OffCPU{
				ThreadID: thread(), GoroutineID: r.Int64N(4), ResumeThreadID: 1 + r.Int64N(4), BeginNanos: now - r.Int64N(1e9), EndNanos: now,
				Reason: semconv.WaitReasonSem, Detail: []string{"", "sync"}[r.IntN(2)], Stack: stack(), WakerThreadID: r.Int64N(3),
				WakerGoroutine: r.Int64N(3), WakerStack: stack(), Source: source,
			}
			if r.IntN(3) != 0 {
				w.WakeNanos = now - 1
			}
			d.OffCPU = append(d.OffCPU, w)
		case 4:
			o := archive.OriginEvent{ThreadID: thread(), GoroutineID: r.Int64N(4), EventNanos: now, Stack: stack()}
			if r.IntN(2) == 0 {
				o.Span = 1 + r.Uint64()>>1
			} else {
				o.TimeNanos = now - 100
			}
			d.OriginEvents = append(d.OriginEvents, o)
		case 5: // a sum of another source, one for each stack
			if id := d.Stacks[r.IntN(len(d.Stacks))].ID; !summed[id] {
				d.Samples = append(d.Samples, archive.Sample{Stack: id, Count: 1 + r.Uint64N(9), CPUNanos: r.Int64N(3), Source: "pprof"})
				used[id], summed[id] = true, true
			}
		}
	}
	for t := range threads {
		if r.IntN(2) == 0 {
			d.Threads = append(d.Threads, archive.Thread{ID: t, Name: fmt.Sprint("worker ", t)})
		}
	}
	d.Sources = []archive.ProfileSource{{
		Source: source, State: semconv.ProfileStateRunning, Reason: "why", BeginNanos: now - 1e9, EndNanos: now, PeriodNanos: 4e6, Samples: 7,
		Waits: 8, WaitsShort: 3, ShortNanos: 99, OriginEvents: 5, Events: 1000, Bytes: 1 << 20, CostNanos: 12, ProcessNanos: 1e9, ClockErrorNanos: 300,
	}, {Source: "pprof", State: semconv.ProfileStateReduced, BeginNanos: 5, EndNanos: 6}}
	if r.IntN(2) == 0 {
		d.LostGenerations, d.LostBytes = 3, 1<<20
	}
	d.Stacks = slices.DeleteFunc(d.Stacks, func(s Stack) bool { return !used[s.ID] })
	return d
}

func encode(d *Data) pprofile.Profiles {
	pd := pprofile.NewProfiles()
	NewEncoder(pd.Dictionary()).Encode(pd.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty(), d)
	return pd
}

// equal compares rows without their order: samples are aggregated on the way.
func equal(t *testing.T, want, got Data) {
	t.Helper()
	opts := []gocmp.Option{
		cmpopts.EquateEmpty(),
		cmpopts.SortSlices(func(a, b archive.Sample) bool { return fmt.Sprint(a) < fmt.Sprint(b) }),
		cmpopts.SortSlices(func(a, b archive.Thread) bool { return a.ID < b.ID }),
		cmpopts.SortSlices(func(a, b Stack) bool { return a.ID < b.ID }),
		cmpopts.SortSlices(func(a, b archive.ProfileSource) bool { return a.Source < b.Source }),
	}
	require.Empty(t, gocmp.Diff(want, got, opts...))
}

func TestEncodeDecode(t *testing.T) {
	for seed := range uint64(60) {
		want := randomData(rand.New(rand.NewPCG(seed, 0)), int(seed))
		pd := encode(&want)
		got := Decode(pd, 0)
		require.Empty(t, got.Rest)
		require.Zero(t, got.Malformed)
		known := map[int64]bool{} // names travel with the thread's rows
		for _, s := range want.Samples {
			known[s.ThreadID] = true
		}
		for _, w := range want.OffCPU {
			known[w.ThreadID] = true
		}
		for _, o := range want.OriginEvents {
			known[o.ThreadID] = true
		}
		want.Threads = slices.DeleteFunc(want.Threads, func(t archive.Thread) bool { return !known[t.ID] })
		equal(t, want, got.Data)

		// Over the wire, and merged into another request: indices change there.
		wire, err := pprofileotlp.NewExportRequestFromProfiles(pd).MarshalProto()
		require.NoError(t, err)
		req := pprofileotlp.NewExportRequest()
		require.NoError(t, req.UnmarshalProto(wire))
		other := randomData(rand.New(rand.NewPCG(seed, 1)), 20)
		all := encode(&other)
		require.NoError(t, req.Profiles().MergeTo(all))
		equal(t, want, Decode(all, 1).Data)
	}
}

// build makes a request by hand, as another producer would.
type build struct {
	pd pprofile.Profiles
	sp pprofile.ScopeProfiles
	e  *Encoder
}

func newBuild(scope string) *build {
	b := &build{pd: pprofile.NewProfiles()}
	b.sp = b.pd.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty()
	b.sp.Scope().SetName(scope)
	b.e = NewEncoder(b.pd.Dictionary())
	return b
}

func (b *build) profile(kind, unit string) pprofile.Profile {
	p := b.sp.Profiles().AppendEmpty()
	p.SampleType().SetTypeStrindex(b.e.string(kind))
	p.SampleType().SetUnitStrindex(b.e.string(unit))
	return p
}

func (b *build) sample(p pprofile.Profile, stack int32, values []int64, times []uint64, attrs map[string]any) pprofile.Sample {
	s := p.Samples().AppendEmpty()
	s.SetStackIndex(stack)
	s.Values().FromRaw(values)
	s.TimestampsUnixNano().FromRaw(times)
	for k, v := range attrs {
		switch v := v.(type) {
		case int:
			b.e.int(s.AttributeIndices(), k, int64(v))
		case string:
			b.e.text(s.AttributeIndices(), k, v)
		}
	}
	return s
}

func (b *build) stack(frames ...Frame) (index int32, id archive.StackID) {
	s := stackOf(frames...)
	b.e.stack(&s)
	return b.e.stacks[s.ID], s.ID
}

func TestForeignProducers(t *testing.T) {
	f := []Frame{frame("main.f", "main.go", 3), frame("main.main", "main.go", 9)}
	t.Run("as the eBPF profiler writes", func(t *testing.T) {
		b := newBuild("ebpf")
		p := b.profile("samples", "count")
		p.PeriodType().SetTypeStrindex(b.e.string("cpu"))
		p.PeriodType().SetUnitStrindex(b.e.string("nanoseconds"))
		p.SetPeriod(1e7)
		p.SetTime(100)
		p.SetDurationNano(50)
		i, id := b.stack(f...)
		b.sample(p, i, nil, []uint64{110, 120}, map[string]any{"thread.id": 7, "thread.name": "main", "cpu.logical_number": 1})
		off := b.profile("off_cpu", "nanoseconds")
		off.SetTime(90)
		b.sample(off, i, []int64{20}, []uint64{140}, map[string]any{"thread.id": 7})
		got := Decode(b.pd, 0)
		require.Empty(t, got.Rest)
		equal(t, Data{
			Samples: []archive.Sample{
				{ThreadID: 7, TimeNanos: 110, Stack: id, Count: 1, Source: "ebpf"}, {ThreadID: 7, TimeNanos: 120, Stack: id, Count: 1, Source: "ebpf"},
			},
			OffCPU: []archive.OffCPU{{
				ThreadID: 7, ResumeThreadID: 7, BeginNanos: 120, EndNanos: 140, Reason: semconv.WaitReasonOther, Stack: id, Source: "ebpf",
			}},
			Threads: []archive.Thread{{ID: 7, Name: "main"}},
			Stacks:  []Stack{stackOf(f...)},
			Sources: []archive.ProfileSource{{
				Source: "ebpf", State: "running", BeginNanos: 90, EndNanos: 150, PeriodNanos: 1e7, Samples: 2, Waits: 1, ClockErrorNanos: -1,
			}},
		}, got.Data)
	})
	t.Run("counts and weights without instants", func(t *testing.T) {
		b := newBuild("pprofreceiver")
		i, id := b.stack(f...)
		b.sample(b.profile("cpu", "nanoseconds"), i, []int64{4e7}, nil, nil)
		b.sample(b.profile("samples", "count"), i, []int64{4}, nil, nil)
		got := Decode(b.pd, 0)
		require.Equal(t, []archive.Sample{{Stack: id, Count: 4, CPUNanos: 4e7, Source: "pprofreceiver"}}, got.Samples)
	})
	t.Run("the OS thread wins", func(t *testing.T) {
		b := newBuild("jvm")
		b.sample(b.profile("cpu", "nanoseconds"), 0, []int64{5}, []uint64{9}, map[string]any{"thread.id": 1, "stax.thread.os_id": 4711, "go.goroutine.id": 3})
		got := Decode(b.pd, 0)
		require.Equal(t, []archive.Sample{{ThreadID: 4711, GoroutineID: 3, TimeNanos: 9, Count: 1, CPUNanos: 5, Source: "jvm"}}, got.Samples)
	})
	t.Run("no symbols", func(t *testing.T) {
		b := newBuild("native")
		m := b.pd.Dictionary().MappingTable().AppendEmpty()
		m.SetFilenameStrindex(b.e.string("libc.so.6"))
		l := b.pd.Dictionary().LocationTable().AppendEmpty()
		l.SetAddress(0x1234)
		l.SetMappingIndex(1)
		b.pd.Dictionary().StackTable().AppendEmpty().LocationIndices().Append(1)
		b.sample(b.profile("samples", "count"), 1, []int64{1}, []uint64{9}, nil)
		got := Decode(b.pd, 0)
		require.Equal(t, []Frame{{Function: "0x1234", File: "libc.so.6"}}, got.Stacks[0].Frames)
	})
	t.Run("not understood", func(t *testing.T) {
		b := newBuild("heap")
		b.sample(b.profile("alloc_space", "bytes"), 0, []int64{5}, nil, nil)
		b.sample(b.profile("samples", "count"), 0, []int64{5}, nil, nil)
		b.sample(b.profile("off_cpu", "nanoseconds"), 0, []int64{5}, nil, nil)
		b.sample(b.profile("events", "count"), 0, []int64{1}, []uint64{5}, nil)
		b.profile("", "").SetOriginalPayloadFormat("jfr")
		b.sp.Profiles().At(4).OriginalPayload().FromRaw([]byte{1})
		got := Decode(b.pd, 0)
		require.Equal(t, []Ref{{0, 0}, {0, 2}, {0, 3}, {0, 4}}, got.Rest)
		require.Len(t, got.Samples, 1)
		require.Empty(t, got.OffCPU)
	})
	t.Run("broken", func(t *testing.T) {
		b := newBuild("x")
		p := b.profile("samples", "count")
		b.sample(p, 99, []int64{1}, []uint64{5}, nil)
		b.sample(p, -1, []int64{1}, []uint64{5}, nil)
		b.sample(p, 0, []int64{1, 2}, []uint64{5}, nil)
		b.sample(p, 0, nil, nil, nil)
		b.sample(p, 0, []int64{-1}, []uint64{5}, nil)
		b.sample(p, 0, []int64{1}, []uint64{5}, nil).AttributeIndices().Append(1 << 20)
		b.pd.Dictionary().StackTable().AppendEmpty().LocationIndices().Append(500)
		b.sample(p, 1, []int64{1}, []uint64{5}, nil)
		b.sample(p, 0, []int64{1}, []uint64{1 << 63}, nil)
		got := Decode(b.pd, 0)
		require.EqualValues(t, 8, got.Malformed)
		require.Empty(t, got.Samples)
	})
}

// processTime is the processor time that this process has used.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// burn uses processor time.
func burn(d time.Duration) {
	for begin := processTime(); processTime()-begin < d; {
		for i := range 100_000 {
			runtime.KeepAlive(i)
		}
	}
}

func TestPprof(t *testing.T) {
	var buf bytes.Buffer
	require.NoError(t, pprof.StartCPUProfile(&buf))
	burn(200 * time.Millisecond)
	pprof.StopCPUProfile()
	want, err := profile.ParseData(buf.Bytes())
	require.NoError(t, err)
	d, period, err := FromPprof(buf.Bytes(), semconv.ProfileSourceGoCPUProfile, 1<<20)
	require.NoError(t, err)
	require.EqualValues(t, 10_000_000, period)
	var count, cpu int64
	for _, s := range want.Sample {
		count += s.Value[0]
		cpu += s.Value[1]
	}
	require.Positive(t, count)
	for _, s := range d.Samples {
		count -= int64(s.Count)
		cpu -= s.CPUNanos
		require.Zero(t, s.TimeNanos)
		require.NotZero(t, s.Stack)
	}
	require.Zero(t, count)
	require.Zero(t, cpu)
	pd := encode(&d)
	equal(t, d, Decode(pd, 0).Data)

	_, _, err = FromPprof(buf.Bytes(), "", 10)
	require.ErrorIs(t, err, ErrTooLarge)
	_, _, err = FromPprof(buf.Bytes()[:buf.Len()/2], "", 1<<20)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, _, err = FromPprof([]byte("hello"), "", 1<<20)
	require.Error(t, err)
	buf.Reset()
	require.NoError(t, pprof.Lookup("heap").WriteTo(&buf, 0))
	_, _, err = FromPprof(buf.Bytes(), "", 1<<20)
	require.ErrorIs(t, err, ErrNotCPU)
}

func FuzzDecode(f *testing.F) {
	d := randomData(rand.New(rand.NewPCG(1, 1)), 12)
	for _, pd := range []pprofile.Profiles{encode(&d), pprofile.NewProfiles()} {
		wire, err := pprofileotlp.NewExportRequestFromProfiles(pd).MarshalProto()
		require.NoError(f, err)
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		req := pprofileotlp.NewExportRequest()
		if req.UnmarshalProto(wire) != nil {
			return
		}
		dec := NewDecoder(req.Profiles())
		for i := range req.Profiles().ResourceProfiles().Len() {
			got := dec.Resource(i)
			has := map[archive.StackID]bool{0: true}
			for _, s := range got.Stacks {
				has[s.ID] = true
			}
			for _, s := range got.Samples {
				if !has[s.Stack] {
					t.Fatalf("stack of %v is missing", s)
				}
			}
		}
	})
}

func FuzzPprof(f *testing.F) {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		Function:   []*profile.Function{{ID: 1, Name: "main.f", Filename: "main.go"}},
	}
	p.Location = []*profile.Location{{ID: 1, Line: []profile.Line{{Function: p.Function[0], Line: 3}}}}
	p.Sample = []*profile.Sample{{Location: p.Location, Value: []int64{1, 4e6}}}
	var buf bytes.Buffer
	require.NoError(f, p.WriteUncompressed(&buf))
	f.Add(buf.Bytes())
	f.Fuzz(func(_ *testing.T, payload []byte) { _, _, _ = FromPprof(payload, "x", 1<<16) })
}

func benchmarkData() Data {
	d := randomData(rand.New(rand.NewPCG(1, 1)), 10_000)
	slices.SortFunc(d.Samples, func(a, b archive.Sample) int { return cmp.Compare(a.TimeNanos, b.TimeNanos) })
	return d
}

func BenchmarkEncode(b *testing.B) {
	d := benchmarkData()
	b.ReportAllocs()
	for b.Loop() {
		encode(&d)
	}
	b.ReportMetric(float64(d.Len()*b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkDecode(b *testing.B) {
	d := benchmarkData()
	pd := encode(&d)
	b.ReportAllocs()
	for b.Loop() {
		Decode(pd, 0)
	}
	b.ReportMetric(float64(d.Len()*b.N)/b.Elapsed().Seconds(), "rows/s")
}
