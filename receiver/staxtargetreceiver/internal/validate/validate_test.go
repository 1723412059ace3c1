package validate

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

func TestParseSeq(t *testing.T) {
	for _, tc := range []struct {
		in   int64
		want archive.Seq
		ok   bool
	}{
		{1, archive.Seq{Shard: 0, N: 1}, true},
		{3<<48 | 9, archive.Seq{Shard: 3, N: 9}, true},
		{1<<48 - 1, archive.Seq{Shard: 0, N: 1<<48 - 1}, true},
		{-1, archive.Seq{Shard: 0xffff, N: 1<<48 - 1}, true},
		{math.MinInt64 | 5, archive.Seq{Shard: 0x8000, N: 5}, true},
		{0, archive.Seq{}, false},
		{3 << 48, archive.Seq{Shard: 3}, false},
	} {
		got, ok := ParseSeq(tc.in)
		assert.Equal(t, tc.want, got, "%d", tc.in)
		assert.Equal(t, tc.ok, ok, "%d", tc.in)
	}
}

func TestParseAwait(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want archive.Await // zero: refused
	}{
		{"dispatch:00000000000000ff", archive.Await{Kind: archive.AwaitDispatch, Ref: 255}},
		{"dispatch:ffffffffffffffff", archive.Await{Kind: archive.AwaitDispatch, Ref: math.MaxUint64}},
		{"command_buffer:0123456789abcdef", archive.Await{Kind: archive.AwaitCommandBuffer, Ref: 0x0123456789abcdef}},
		{"queue:main", archive.Await{Kind: archive.AwaitQueue, Queue: "main"}},
		{"queue:main@12", archive.Await{Kind: archive.AwaitQueue, Queue: "main", UpTo: 12}},
		{"queue:user@host@3", archive.Await{Kind: archive.AwaitQueue, Queue: "user@host", UpTo: 3}},
		{in: ""},
		{in: "dispatch:"},
		{in: "dispatch:0000000000000000"},
		{in: "dispatch:00000000000000FF"},
		{in: "dispatch:0ff"},
		{in: "dispatch:0x0000000000000f"},
		{in: "dispatch:+000000000000001"},
		{in: "command_buffer:00000000000000ff0"},
		{in: "queue:"},
		{in: "queue:@1"},
		{in: "queue:main@"},
		{in: "queue:main@0"},
		{in: "queue:main@-1"},
		{in: "queue:main@18446744073709551616"},
		{in: "queue:" + string(make([]byte, 257))},
		{in: "thread:1"},
		{in: "Dispatch:00000000000000ff"},
	} {
		got, err := ParseAwait(tc.in)
		if tc.want.Kind == "" {
			require.Error(t, err, "%q", tc.in)
			continue
		}
		require.NoError(t, err, "%q", tc.in)
		assert.Equal(t, tc.want, got, "%q", tc.in)
	}
}

func TestParseCounterKey(t *testing.T) {
	for _, tc := range []struct {
		in               string
		set, point, name string
		ok               bool
	}{
		{"stax.counter.gpu/after_dispatch/cycles", "gpu", "after_dispatch", "cycles", true},
		{"stax.counter.gpu/p/a/b", "gpu", "p", "a/b", true},
		{"stax.counter.gpu.1/p/n", "gpu.1", "p", "n", true},
		{in: "stax.counter."},
		{in: "stax.counter.gpu"},
		{in: "stax.counter.gpu/p"},
		{in: "stax.counter.gpu/p/"},
		{in: "stax.counter.gpu//n"},
		{in: "stax.counter./p/n"},
		{in: "stax.count/p/n"},
	} {
		set, point, name, ok := ParseCounterKey(tc.in)
		assert.Equal(t, tc.ok, ok, tc.in)
		if ok {
			assert.Equal(t, []string{tc.set, tc.point, tc.name}, []string{set, point, name}, tc.in)
		}
	}
}

func newSpan() ptrace.Span {
	s := ptrace.NewSpan()
	s.SetName("matmul")
	s.SetTraceID(pcommon.TraceID{1})
	s.SetSpanID(pcommon.SpanID{1})
	s.SetStartTimestamp(1000)
	s.SetEndTimestamp(2000)
	return s
}

func TestSpanFacts(t *testing.T) {
	var f Facts
	var d Diagnostics
	s := newSpan()
	s.Attributes().PutInt(semconv.SeqKey, 2<<48|7)
	s.Attributes().PutInt("stax.counter.gpu/after_dispatch/cycles", 12)
	s.Attributes().PutDouble("stax.counter.gpu/after_dispatch/busy", 0.5)
	s.Attributes().PutStr("stax.counter.gpu/after_dispatch/stalls", "error")
	s.Attributes().PutStr("stax.counter.gpu/after_dispatch/reads", "unresolved")
	s.Attributes().PutStr("stax.something.new", "a newer SDK's attribute is a tag")
	require.Equal(t, OK, f.Span(s, true, Window{}, &d))
	assert.Equal(t, semconv.SpanTypeDispatch, f.Type)
	assert.Equal(t, archive.Seq{Shard: 2, N: 7}, f.Seq)
	assert.Equal(t, []Counter{
		{Key: "gpu/after_dispatch/cycles", State: archive.CounterOK, Int: 12},
		{Key: "gpu/after_dispatch/busy", State: archive.CounterOK, IsFloat: true, Float: 0.5},
		{Key: "gpu/after_dispatch/stalls", State: archive.CounterError},
		{Key: "gpu/after_dispatch/reads", State: archive.CounterUnresolved},
	}, f.Counters)
	assert.Zero(t, d)

	s = newSpan()
	require.Equal(t, OK, f.Span(s, false, Window{}, &d))
	assert.Equal(t, Facts{Counters: f.Counters}, f, "nothing of the span before stays")
	assert.Equal(t, "span", f.Signal())

	s.Attributes().PutEmptySlice(semconv.WaitAwaitsKey).AppendEmpty().SetStr("queue:q")
	require.Equal(t, OK, f.Span(s, false, Window{}, &d))
	assert.Equal(t, semconv.SpanTypeWait, f.Type)
	require.Equal(t, OK, f.Span(s, true, Window{}, &d))
	assert.Equal(t, semconv.SpanTypeWait, f.Type, "also in a lane's scope")
}

// TestFactsOfRefusedSpan: the number and the kind are found wherever the bad attribute stands.
func TestFactsOfRefusedSpan(t *testing.T) {
	for first := range 2 {
		s := newSpan()
		bad := func() { s.Attributes().PutBool(semconv.ShaderIDKey, true) }
		if first == 0 {
			bad()
		}
		s.Attributes().PutInt(semconv.SeqKey, 7)
		s.Attributes().PutStr(semconv.SpanTypeKey, semconv.SpanTypeCommandBuffer)
		if first == 1 {
			bad()
		}
		var f Facts
		var d Diagnostics
		assert.Equal(t, WrongType, f.Span(s, true, Window{}, &d))
		assert.Equal(t, archive.Seq{N: 7}, f.Seq)
		assert.Equal(t, semconv.SpanTypeCommandBuffer, f.Signal())
	}
}

func TestTimes(t *testing.T) {
	w := LiveWindow(int64(10*time.Hour), int64(11*time.Hour))
	h := uint64(time.Hour)
	for _, tc := range []struct {
		start, end uint64
		want       []Code
	}{
		{10 * h, 11 * h, nil},
		{9 * h, 12 * h, nil},
		{9*h - 1, 10 * h, []Code{OutsideRecording}},
		{10 * h, 12*h + 1, []Code{OutsideRecording}},
		{0, 10 * h, []Code{TimeZero}},
		{10 * h, 0, []Code{TimeZero, EndBeforeStart}},
		{AllOnes, AllOnes, []Code{TimeAllOnes}},
		{0, AllOnes, []Code{TimeZero, TimeAllOnes}},
		{11 * h, 10 * h, []Code{EndBeforeStart}},
		{20 * h, 19 * h, []Code{EndBeforeStart, OutsideRecording}},
	} {
		var d, want Diagnostics
		times(tc.start, tc.end, w, &d)
		for _, c := range tc.want {
			want[c] = 1
		}
		assert.Equal(t, want, d, "%d..%d", tc.start, tc.end)
	}
	assert.Equal(t, Window{To: uint64(time.Hour)}, LiveWindow(0, 0))
}

func TestScope(t *testing.T) {
	var d Diagnostics
	s := pcommon.NewInstrumentationScope()
	l, r := Scope(s, &d)
	assert.Equal(t, OK, r)
	assert.False(t, l.IsLane())

	s.Attributes().PutStr(semconv.LaneNameKey, "pool")
	s.Attributes().PutStr(semconv.LaneKindKey, semconv.LaneKindThreadPool)
	l, r = Scope(s, &d)
	assert.Equal(t, OK, r)
	assert.Equal(t, Lane{ID: "pool", Name: "pool", Kind: "thread_pool"}, l)
	id, _ := s.Attributes().Get(semconv.LaneIDKey)
	assert.Equal(t, "pool", id.Str(), "who comes next needs the id")
	assert.Zero(t, d)

	s.Attributes().Remove(semconv.LaneNameKey)
	l, r = Scope(s, &d)
	assert.Equal(t, OK, r)
	assert.Equal(t, "pool", l.Name)
	_, named := s.Attributes().Get(semconv.LaneNameKey)
	assert.False(t, named, "the scope is kept as it came")
	assert.Equal(t, Diagnostics{MissingLaneName: 1}, d)
}

func TestEveryLaneKindIsKnown(t *testing.T) {
	for _, k := range []string{
		"generic", "metal", "cuda", "gpu", "executor", "thread_pool", "codec", "database", "tick", "jit", "network", "storage",
	} {
		assert.True(t, KnownLaneKind(k), k)
	}
	assert.False(t, KnownLaneKind(""))
	assert.False(t, KnownLaneKind("GPU"))
}

func TestEveryReasonHasAHint(t *testing.T) {
	for _, r := range []Reason{
		ZeroSpanID, ZeroTraceID, MissingLane, BadLaneKind, BadSpanType, BadSeq, BadAwaits, BadCounterKey, BadID, WrongType,
		StringTooLong, TooManyAttributes, BadHeartbeat, BadDefinition, ReservedScope,
	} {
		assert.NotEmpty(t, Hint(r), r)
	}
	for c := range Codes {
		assert.NotEmpty(t, c.String())
	}
}

func TestGoodLogs(t *testing.T) {
	lr := plog.NewLogRecord()
	lr.SetEventName(semconv.EventStack)
	lr.Attributes().PutStr(semconv.StackIDKey, "00000000000000ff")
	lr.Attributes().PutEmptySlice(semconv.StackFunctionsKey).AppendEmpty().SetStr("main.main")
	lr.Attributes().PutEmptySlice(semconv.StackFilesKey).AppendEmpty().SetStr("main.go")
	lr.Attributes().PutEmptySlice(semconv.StackLinesKey).AppendEmpty().SetInt(7)
	assert.Equal(t, OK, Log(lr))
	lr = plog.NewLogRecord()
	lr.SetEventName("something else")
	lr.Attributes().PutStr("k", "v")
	assert.Equal(t, OK, Log(lr))
}

// FuzzAwaits: every string is refused or means something that can be written down again.
func FuzzAwaits(f *testing.F) {
	for _, s := range []string{"dispatch:00000000000000ff", "command_buffer:0123456789abcdef", "queue:main", "queue:a@b@3", "queue:@", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAwait(s)
		if err != nil {
			return
		}
		var again string
		switch a.Kind {
		case archive.AwaitDispatch:
			again = fmt.Sprintf("%s%016x", semconv.AwaitDispatchPrefix, a.Ref)
		case archive.AwaitCommandBuffer:
			again = fmt.Sprintf("%s%016x", semconv.AwaitCommandBufferPrefix, a.Ref)
		case archive.AwaitQueue:
			again = semconv.AwaitQueuePrefix + string(a.Queue)
			if a.UpTo != 0 {
				again += fmt.Sprintf("@%d", a.UpTo)
			}
		default:
			t.Fatalf("%q: kind %q", s, a.Kind)
		}
		b, err := ParseAwait(again)
		if err != nil || a != b {
			t.Fatalf("%q -> %+v -> %q -> %+v, %v", s, a, again, b, err)
		}
	})
}

// FuzzSeq: every number that is taken can be put together again.
func FuzzSeq(f *testing.F) {
	for _, v := range []int64{0, 1, -1, 3<<48 | 9, 1 << 48, math.MinInt64} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v int64) {
		s, ok := ParseSeq(v)
		if ok != (s.N != 0) || s.Shard > 0xffff || s.N >= 1<<48 {
			t.Fatalf("%d: %+v, %v", v, s, ok)
		}
		if again := int64(uint64(s.Shard)<<48 | s.N); again != v {
			t.Fatalf("%d -> %+v -> %d", v, s, again)
		}
	})
}

// FuzzCounterKey: what is taken has three parts, and is the same when joined.
func FuzzCounterKey(f *testing.F) {
	f.Add("stax.counter.gpu/after_dispatch/cycles")
	f.Add("stax.counter.//")
	f.Fuzz(func(t *testing.T, s string) {
		set, point, name, ok := ParseCounterKey(s)
		if ok && semconv.CounterPrefix+set+"/"+point+"/"+name != s {
			t.Fatalf("%q -> %q %q %q", s, set, point, name)
		}
	})
}

// benchSpan is a dispatch as stax's SDK sends it: sequence, queue, shader, an origin with CPU context, a link, a tag, and
// optionally counters.
func benchSpan(counters int) ptrace.Span {
	s := newSpan()
	a := s.Attributes()
	a.PutInt(semconv.SeqKey, 3<<48|9)
	a.PutStr(semconv.QueueIDKey, "queue 0")
	a.PutInt(semconv.QueueSeqKey, 17)
	a.PutStr(semconv.ShaderIDKey, "lib:matmul")
	a.PutInt(semconv.OriginThreadIDKey, 4711)
	a.PutInt(semconv.OriginTimeKey, 1000)
	a.PutStr(semconv.OriginStackIDKey, "0123456789abcdef")
	a.PutStr("model", "llama")
	for i := range counters {
		a.PutInt(fmt.Sprintf("stax.counter.gpu/after_dispatch/counter%d", i), int64(i))
	}
	l := s.Links().AppendEmpty()
	l.SetTraceID(pcommon.TraceID{2})
	l.SetSpanID(pcommon.SpanID{2})
	l.Attributes().PutStr(semconv.OriginKindKey, semconv.OriginKindDispatch)
	return s
}

// BenchmarkSpan is the whole validation of one dispatch: ns/op is ns/span.
func BenchmarkSpan(b *testing.B) {
	for _, counters := range []int{0, 4} {
		b.Run(fmt.Sprintf("counters=%d", counters), func(b *testing.B) {
			s := benchSpan(counters)
			w := LiveWindow(0, 1<<62)
			var f Facts
			var d Diagnostics
			b.ReportAllocs()
			for b.Loop() {
				if r := f.Span(s, true, w, &d); r != OK {
					b.Fatal(r)
				}
			}
		})
	}
}
