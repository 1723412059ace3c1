package staxtargetreceiver

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/profiles"
	"github.com/stax-otel/stax/sdk/semconv"
)

// generation records this process while f runs.
func generation(t testing.TB, f func()) []byte {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, trace.Start(&buf))
	f()
	trace.Stop()
	return buf.Bytes()
}

// mark writes the event of an origin.
func mark() int64 {
	now := time.Now().UnixNano()
	trace.Log(context.Background(), semconv.TraceLogOrigin, strconv.FormatInt(now, 10))
	return now
}

// payloadRequest is a request as sdk/cputrace sends one.
func payloadRequest(format string, payload []byte) pprofile.Profiles {
	pd := pprofile.NewProfiles()
	rp := pd.ResourceProfiles().AppendEmpty()
	setResource(rp.Resource())
	rp.Resource().Attributes().PutStr(semconv.RuntimeIDKey, testRuntime)
	sp := rp.ScopeProfiles().AppendEmpty()
	sp.Scope().SetName(semconv.ScopeCPUTrace)
	profiles.InitDictionary(pd.Dictionary())
	p := sp.Profiles().AppendEmpty()
	p.SetTime(1000)
	p.SetDurationNano(500)
	p.SetOriginalPayloadFormat(format)
	p.OriginalPayload().FromRaw(payload)
	for key, v := range map[string]any{semconv.ProfileCostNanosKey: int64(77), semconv.ProfileStateKey: semconv.ProfileStateRunning, semconv.ProfileLostGenerationsKey: int64(2)} {
		a := pd.Dictionary().AttributeTable().AppendEmpty()
		a.SetKeyStrindex(int32(pd.Dictionary().StringTable().Len()))
		pd.Dictionary().StringTable().Append(key)
		if err := a.Value().FromRaw(v); err != nil {
			panic(err)
		}
		p.AttributeIndices().Append(int32(pd.Dictionary().AttributeTable().Len() - 1))
	}
	return pd
}

// sendProfiles posts a request, packed as the SDK does, and returns the answer.
func (fx *fixture) sendProfiles(pd pprofile.Profiles) (code int, rejected int64, message string) {
	fx.t.Helper()
	body, err := pprofileotlp.NewExportRequestFromProfiles(pd).MarshalProto()
	require.NoError(fx.t, err)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(body)
	require.NoError(fx.t, err)
	require.NoError(fx.t, z.Close())
	re := fx.do(http.MethodPost, pathProfiles, typeProto, packed.Bytes(), "Content-Encoding", "gzip")
	resp := pprofileotlp.NewExportResponse()
	if re.code == http.StatusOK {
		require.NoError(fx.t, resp.UnmarshalProto(re.body))
	}
	return re.code, resp.PartialSuccess().RejectedProfiles(), resp.PartialSuccess().ErrorMessage()
}

func (fx *fixture) dropReasons() map[string]uint64 {
	out := map[string]uint64{}
	for _, d := range fx.rec.TakeDrops() {
		out[d.Reason] += d.Count
	}
	return out
}

func TestExecutionTrace(t *testing.T) {
	fx := newFixture(t)
	var origin, begin, end int64
	payload := generation(t, func() {
		c := make(chan int)
		go func() { time.Sleep(2 * time.Millisecond); c <- 1 }()
		origin = mark()
		begin = time.Now().UnixNano()
		<-c
		end = time.Now().UnixNano()
	})
	code, rejected, msg := fx.sendProfiles(payloadRequest(semconv.PayloadGoExecTrace, payload))
	require.Equal(t, http.StatusOK, code)
	require.Zero(t, rejected, msg)
	require.Len(t, fx.profiles.AllProfiles(), 1)
	got := profiles.Decode(fx.profiles.AllProfiles()[0], 0)
	require.Empty(t, got.Rest, "the payload is replaced")
	require.Zero(t, got.Malformed)
	require.Len(t, got.OriginEvents, 1)
	require.Equal(t, origin, got.OriginEvents[0].TimeNanos)
	found := 0
	for _, w := range got.OffCPU {
		if w.GoroutineID == got.OriginEvents[0].GoroutineID && w.Detail == "chan receive" {
			found++
			require.InDelta(t, begin, w.BeginNanos, 1e6)
			require.InDelta(t, end, w.EndNanos, 1e6)
			require.NotZero(t, w.WakerStack)
		}
	}
	require.Equal(t, 1, found)
	require.Len(t, got.Sources, 1)
	s := got.Sources[0]
	require.Equal(t, semconv.ProfileSourceGoExecTrace, s.Source)
	require.Equal(t, semconv.ProfileStateRunning, s.State)
	require.Equal(t, []int64{1000, 1500, 77, int64(len(payload)), 1}, []int64{s.BeginNanos, s.EndNanos, s.CostNanos, int64(s.Bytes), int64(s.OriginEvents)})
	require.NotZero(t, s.Waits)
	require.NotZero(t, s.Events)
	require.Positive(t, s.ClockErrorNanos)
	require.EqualValues(t, 2, got.LostGenerations)

	logs := fx.logs.AllLogs()
	require.Len(t, logs, 1)
	attrs := logs[0].ResourceLogs().At(0).Resource().Attributes()
	id, _ := attrs.Get(semconv.RecordingIDKey)
	require.Equal(t, string(fx.rec.ID()), id.Str())
	lr := logs[0].ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
	require.Equal(t, semconv.EventClockSample, lr.EventName())
	name, _ := lr.Attributes().Get(semconv.ClockNameKey)
	require.Equal(t, "go_exectrace", name.Str())
	unix, _ := lr.Attributes().Get(semconv.ClockUnixNanosKey)
	require.InDelta(t, begin, unix.Int(), 1e9)
	require.Empty(t, fx.dropReasons())
}

type refusing struct {
	xconsumer.Profiles
	err error
}

func (r *refusing) ConsumeProfiles(ctx context.Context, pd pprofile.Profiles) error {
	if r.err != nil {
		return r.err
	}
	return r.Profiles.ConsumeProfiles(ctx, pd)
}

func (*refusing) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// TestExecutionTraceAgain: what was not delivered is taken when it comes again, what was delivered is not taken twice.
func TestExecutionTraceAgain(t *testing.T) {
	next := &refusing{err: errors.New("no disk")}
	fx := newFixture(t, func(fx *fixture, n *nexts) { next.Profiles = fx.profiles; n.profiles = next })
	payload := generation(t, func() { mark(); time.Sleep(time.Millisecond) })
	send := func() int {
		code, rejected, _ := fx.sendProfiles(payloadRequest(semconv.PayloadGoExecTrace, payload))
		require.Zero(t, rejected)
		return code
	}
	require.Equal(t, http.StatusServiceUnavailable, send())
	require.Empty(t, fx.logs.AllLogs())
	next.err = nil
	require.Equal(t, http.StatusOK, send())
	require.Equal(t, http.StatusOK, send())
	require.Len(t, fx.profiles.AllProfiles(), 1)
	require.Len(t, fx.logs.AllLogs(), 1)
	require.Len(t, profiles.Decode(fx.profiles.AllProfiles()[0], 0).OriginEvents, 1)
	require.Equal(t, map[string]uint64{reasonRepeated: 1}, fx.dropReasons())
}

func TestBadPayloads(t *testing.T) {
	good := generation(t, func() {})
	for name, tc := range map[string]struct {
		format  string
		payload []byte
		reason  string
	}{
		"garbage":   {semconv.PayloadGoExecTrace, bytes.Repeat([]byte("garbage "), 50), reasonBadGeneration},
		"truncated": {semconv.PayloadGoExecTrace, good[:len(good)-20], reasonBadGeneration},
		"large":     {semconv.PayloadGoExecTrace, make([]byte, maxPayload+1), reasonGenerationTooLarge},
		"pprof":     {profiles.PayloadPprof, []byte("garbage"), reasonBadPprof},
		"zip bomb":  {profiles.PayloadPprof, zeros(maxUnpacked + 1), reasonPprofTooLarge},
		"big pprof": {profiles.PayloadPprof, make([]byte, maxPayload+1), reasonPprofTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			code, rejected, msg := fx.sendProfiles(payloadRequest(tc.format, tc.payload))
			require.Equal(t, http.StatusOK, code, "the client must not send it again")
			require.EqualValues(t, 1, rejected)
			require.Contains(t, msg, tc.reason)
			require.Equal(t, map[string]uint64{tc.reason: 1}, fx.dropReasons())
			got := profiles.Decode(fx.profiles.AllProfiles()[0], 0)
			require.Empty(t, got.Rest)
			require.Len(t, got.Sources, 1)
			require.Equal(t, semconv.ProfileStateLost, got.Sources[0].State)
			require.NotEmpty(t, got.Sources[0].Reason)
			require.EqualValues(t, 1500, got.Sources[0].EndNanos)
		})
	}
}

// zeros packs n zero bytes.
func zeros(n int) []byte {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	_, _ = z.Write(make([]byte, n))
	_ = z.Close()
	return buf.Bytes()
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

func TestPprofPayloads(t *testing.T) {
	fx := newFixture(t)
	var buf bytes.Buffer
	require.NoError(t, pprof.StartCPUProfile(&buf))
	burn(200 * time.Millisecond)
	pprof.StopCPUProfile()
	code, rejected, msg := fx.sendProfiles(payloadRequest(profiles.PayloadPprof, buf.Bytes()))
	require.Equal(t, http.StatusOK, code)
	require.Zero(t, rejected, msg)
	got := profiles.Decode(fx.profiles.AllProfiles()[0], 0)
	require.NotEmpty(t, got.Samples)
	require.Equal(t, semconv.ScopeCPUTrace, got.Samples[0].Source)
	require.EqualValues(t, 10_000_000, got.Sources[0].PeriodNanos)

	code, _, _ = fx.sendProfiles(payloadRequest(profiles.PayloadPprof, buf.Bytes()))
	require.Equal(t, http.StatusOK, code)
	require.Len(t, fx.profiles.AllProfiles(), 1, "not twice")
	require.Equal(t, map[string]uint64{reasonRepeated: 1}, fx.dropReasons())

	fx.profiles.Reset()
	buf.Reset()
	require.NoError(t, pprof.Lookup("heap").WriteTo(&buf, 0))
	_, _, _ = fx.sendProfiles(payloadRequest(profiles.PayloadPprof, buf.Bytes()))
	got = profiles.Decode(fx.profiles.AllProfiles()[0], 0)
	require.Equal(t, []profiles.Ref{{}}, got.Rest, "a heap profile is kept as it is")
	require.Empty(t, fx.dropReasons())
}

// TestTraceSessions: a session lives as long as its recording, and there are only so many.
func TestTraceSessions(t *testing.T) {
	fx := newFixture(t)
	for i := range maxTraceSessions + 3 {
		pd := payloadRequest(semconv.PayloadGoExecTrace, []byte("garbage "))
		pd.ResourceProfiles().At(0).Resource().Attributes().PutStr(semconv.RuntimeIDKey, strconv.Itoa(i))
		_, _, _ = fx.sendProfiles(pd)
	}
	size := func() int {
		fx.r.traces.mu.Lock()
		defer fx.r.traces.mu.Unlock()
		return len(fx.r.traces.sessions)
	}
	require.Equal(t, maxTraceSessions, size())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := fx.manager.Stop(ctx, fx.rec.ID(), "test")
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Zero(c, size()) }, time.Minute, time.Millisecond)
}

// TestBodyLimits: profiles may be larger than the rest.
func TestBodyLimits(t *testing.T) {
	fx := newFixture(t)
	body := make([]byte, maxSmallBody+1)
	require.Equal(t, http.StatusRequestEntityTooLarge, fx.do(http.MethodPost, pathTraces, typeProto, body).code)
	require.Equal(t, http.StatusBadRequest, fx.do(http.MethodPost, pathProfiles, typeProto, body).code, "read, and then not decoded")
}

// TestLimitWeights: samples never stand for more processor time than the process used.
func TestLimitWeights(t *testing.T) {
	for process, want := range map[int64][]int64{0: {6, 2}, 8: {6, 2}, 100: {6, 2}, 4: {3, 1}} {
		s := []archive.Sample{{CPUNanos: 6}, {CPUNanos: 2}}
		limitWeights(s, process)
		require.Equal(t, want, []int64{s[0].CPUNanos, s[1].CPUNanos}, "%d ns", process)
	}
}
