package staxtargetreceiver

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/semconv"
)

func protoTraces(t testing.TB, td ptrace.Traces) []byte {
	t.Helper()
	b, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	require.NoError(t, err)
	return b
}

type signalCase struct {
	path        string
	proto, json []byte
	received    func(*fixture) int
	want        int
}

func signalCases(t testing.TB) []signalCase {
	t.Helper()
	bytesOf := func(b []byte, err error) []byte {
		require.NoError(t, err)
		return b
	}
	tr := ptraceotlp.NewExportRequestFromTraces(oneSpan())
	me := pmetricotlp.NewExportRequestFromMetrics(someMetrics())
	lo := plogotlp.NewExportRequestFromLogs(someLogs())
	profiles := func() pprofileotlp.ExportRequest { return pprofileotlp.NewExportRequestFromProfiles(someProfiles()) }
	return []signalCase{
		{pathTraces, bytesOf(tr.MarshalProto()), bytesOf(tr.MarshalJSON()), func(fx *fixture) int { return fx.traces.SpanCount() }, 1},
		{pathMetrics, bytesOf(me.MarshalProto()), bytesOf(me.MarshalJSON()), func(fx *fixture) int { return fx.metrics.DataPointCount() }, 1},
		{pathLogs, bytesOf(lo.MarshalProto()), bytesOf(lo.MarshalJSON()), func(fx *fixture) int { return fx.logs.LogRecordCount() }, 1},
		{pathProfiles, bytesOf(profiles().MarshalProto()), bytesOf(profiles().MarshalJSON()), func(fx *fixture) int { return fx.profiles.SampleCount() }, 2},
	}
}

func TestHTTPEncodings(t *testing.T) {
	gz := func(b []byte) []byte {
		var buf bytes.Buffer
		w := gzip.NewWriter(&buf)
		_, err := w.Write(b)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return buf.Bytes()
	}
	zs := func(b []byte) []byte {
		w, err := zstd.NewWriter(nil)
		require.NoError(t, err)
		defer w.Close()
		return w.EncodeAll(b, nil)
	}
	for _, sc := range signalCases(t) {
		for _, tc := range []struct {
			name, contentType, encoding string
			body                        []byte
		}{
			{"proto", typeProto, "", sc.proto},
			{"json", typeJSON, "", sc.json},
			{"json with charset", typeJSON + "; charset=utf-8", "", sc.json},
			{"proto gzip", typeProto, "gzip", gz(sc.proto)},
			{"json gzip", typeJSON, "gzip", gz(sc.json)},
			{"proto zstd", typeProto, "zstd", zs(sc.proto)},
		} {
			t.Run(strings.TrimPrefix(sc.path, "/")+" "+tc.name, func(t *testing.T) {
				fx := newFixture(t)
				re := fx.do(http.MethodPost, sc.path, tc.contentType, tc.body, "Content-Encoding", tc.encoding)
				require.Equal(t, http.StatusOK, re.code, "%s", re.body)
				assert.Equal(t, strings.TrimSuffix(tc.contentType, "; charset=utf-8"), re.header.Get("Content-Type"))
				assert.Equal(t, sc.want, sc.received(fx))
			})
		}
	}
}

func TestHTTPErrors(t *testing.T) {
	fx := newFixture(t, withConfig(func(c *Config) { c.Protocols.HTTP.Get().ServerConfig.MaxRequestBodySize = 1000 }))
	for _, sc := range signalCases(t) {
		for _, tc := range []struct {
			name, method, contentType, encoding string
			body                                []byte
			want                                int
		}{
			{"wrong method", http.MethodGet, typeProto, "", nil, http.StatusMethodNotAllowed},
			{"no content type", http.MethodPost, "", "", sc.proto, http.StatusUnsupportedMediaType},
			{"wrong content type", http.MethodPost, "text/plain", "", sc.proto, http.StatusUnsupportedMediaType},
			{"malformed proto", http.MethodPost, typeProto, "", []byte("\xff\xff\xff"), http.StatusBadRequest},
			{"malformed json", http.MethodPost, typeJSON, "", []byte("{"), http.StatusBadRequest},
			{"truncated", http.MethodPost, typeProto, "", sc.proto[:len(sc.proto)-3], http.StatusBadRequest},
			{"no gzip", http.MethodPost, typeProto, "gzip", sc.proto, http.StatusBadRequest},
			{"unknown compression", http.MethodPost, typeProto, "br", sc.proto, http.StatusBadRequest},
			{"too large", http.MethodPost, typeProto, "", make([]byte, 1001), http.StatusRequestEntityTooLarge},
		} {
			re := fx.do(tc.method, sc.path, tc.contentType, tc.body, "Content-Encoding", tc.encoding)
			assert.Equal(t, tc.want, re.code, "%s %s: %s", sc.path, tc.name, re.body)
			assert.NotEmpty(t, re.body, "%s %s", sc.path, tc.name)
		}
		assert.Zero(t, sc.received(fx))
		re := fx.do(http.MethodPost, sc.path, typeProto, nil)
		assert.Equal(t, http.StatusOK, re.code, "%s: an empty request is a valid one", sc.path)
	}
	assert.Equal(t, http.StatusNotFound, fx.do(http.MethodPost, "/v1/profiles", typeProto, nil).code)
}

func TestSignalWithoutPipeline(t *testing.T) {
	fx := newFixture(t, withMetrics(nil))
	assert.Equal(t, http.StatusNotFound, fx.do(http.MethodPost, pathMetrics, typeProto, nil).code)
	assert.Nil(t, fx.r.deriver, "nothing to derive for")
	_, err := pmetricotlp.NewGRPCClient(fx.dialGRPC()).Export(t.Context(), pmetricotlp.NewExportRequest())
	assert.Equal(t, codes.Unimplemented, status.Code(err))
}

func (fx *fixture) dialGRPC() *grpc.ClientConn {
	fx.t.Helper()
	target := fx.r.grpcAddr.String()
	if fx.r.grpcAddr.Network() == "unix" {
		target = "unix://" + target
	}
	c, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(fx.t, err)
	fx.t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestGRPC(t *testing.T) {
	fx := newFixture(t, withRecording(recording.StartOptions{}))
	c := fx.dialGRPC()
	ctx := metadata.AppendToOutgoingContext(t.Context(), semconv.HeaderToken, fx.rec.Token())

	tr, err := ptraceotlp.NewGRPCClient(c).Export(ctx, ptraceotlp.NewExportRequestFromTraces(oneSpan()))
	require.NoError(t, err)
	assert.Empty(t, tr.PartialSuccess().ErrorMessage())
	assert.Equal(t, 1, fx.traces.SpanCount())
	_, err = pmetricotlp.NewGRPCClient(c).Export(ctx, pmetricotlp.NewExportRequestFromMetrics(someMetrics()))
	require.NoError(t, err)
	assert.Equal(t, 1, fx.metrics.DataPointCount())
	_, err = plogotlp.NewGRPCClient(c).Export(ctx, plogotlp.NewExportRequestFromLogs(someLogs()))
	require.NoError(t, err)
	assert.Equal(t, 1, fx.logs.LogRecordCount())
	_, err = pprofileotlp.NewGRPCClient(c).Export(ctx, pprofileotlp.NewExportRequestFromProfiles(someProfiles()))
	require.NoError(t, err)
	assert.Equal(t, 2, fx.profiles.SampleCount())

	ctx = metadata.AppendToOutgoingContext(t.Context(), semconv.HeaderToken, "not the token of anything")
	tr, err = ptraceotlp.NewGRPCClient(c).Export(ctx, ptraceotlp.NewExportRequestFromTraces(oneSpan()))
	require.NoError(t, err)
	assert.EqualValues(t, 1, tr.PartialSuccess().RejectedSpans())
	assert.Contains(t, tr.PartialSuccess().ErrorMessage(), "bad_token")
}

// TestRejectedOtherSignals: metrics, logs and profiles of a process that is not recorded.
func TestRejectedOtherSignals(t *testing.T) {
	fx := newFixture(t, withoutRecording())
	for _, sc := range signalCases(t)[1:] {
		re := fx.do(http.MethodPost, sc.path, typeJSON, sc.json)
		require.Equal(t, http.StatusOK, re.code)
		assert.Contains(t, string(re.body), `partialSuccess`, sc.path)
		assert.Contains(t, string(re.body), "no_active_recording", sc.path)
		assert.Regexp(t, `rejected(DataPoints|LogRecords|Profiles)":"1"`, string(re.body), sc.path)
		assert.Zero(t, sc.received(fx), sc.path)
	}
}

func TestRejectedMetricsAndLogs(t *testing.T) {
	fx := newFixture(t)
	md := someMetrics()
	md.ResourceMetrics().At(0).ScopeMetrics().At(0).Scope().SetName(semconv.ScopeDerived)
	b, err := pmetricotlp.NewExportRequestFromMetrics(md).MarshalProto()
	require.NoError(t, err)
	assert.Contains(t, string(fx.do(http.MethodPost, pathMetrics, typeProto, b).body), "reserved_scope")
	assert.Zero(t, fx.metrics.DataPointCount())
	assert.Len(t, fx.rec.TakeDrops(), 1)

	event := func(name string, set func(plog.LogRecord)) plog.Logs {
		ld := someLogs()
		lr := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
		lr.SetEventName(name)
		set(lr)
		return ld
	}
	for _, tc := range []struct {
		name   string
		ld     plog.Logs
		reason string
	}{
		{"lane without id", event(semconv.EventLane, func(lr plog.LogRecord) {
			lr.Attributes().PutStr(semconv.LaneKindKey, semconv.LaneKindGPU)
		}), "missing_lane"},
		{"lane without kind", event(semconv.EventLane, func(lr plog.LogRecord) { lr.Attributes().PutStr(semconv.LaneIDKey, "1") }), "bad_lane_kind"},
		{"stack without id", event(semconv.EventStack, func(plog.LogRecord) {}), "bad_id"},
		{"stack of unequal arrays", event(semconv.EventStack, func(lr plog.LogRecord) {
			lr.Attributes().PutStr(semconv.StackIDKey, "00000000000000ff")
			lr.Attributes().PutEmptySlice(semconv.StackFunctionsKey).AppendEmpty().SetStr("main.main")
			lr.Attributes().PutEmptySlice(semconv.StackFilesKey)
			lr.Attributes().PutEmptySlice(semconv.StackLinesKey)
		}), "bad_definition"},
		{"counter set with slash", event(semconv.EventCounterSet, func(lr plog.LogRecord) { lr.Attributes().PutStr(semconv.CounterSetIDKey, "a/b") }), "bad_id"},
		{"counter of unknown unit", event(semconv.EventCounterSet, func(lr plog.LogRecord) {
			lr.Attributes().PutStr(semconv.CounterSetIDKey, "a")
			lr.Attributes().PutEmptySlice(semconv.CounterSetNamesKey).AppendEmpty().SetStr("x")
			lr.Attributes().PutEmptySlice(semconv.CounterSetUnitsKey).AppendEmpty().SetStr("parsec")
		}), "bad_definition"},
		{"clock sample without clock", event(semconv.EventClockSample, func(plog.LogRecord) {}), "bad_definition"},
		{"diagnostic without code", event(semconv.EventDiagnostic, func(plog.LogRecord) {}), "bad_definition"},
		{"attribute of wrong type", event("", func(lr plog.LogRecord) { lr.Attributes().PutStr(semconv.OriginTimeKey, "now") }), "wrong_type"},
		{"event name too long", event(strings.Repeat("x", 4097), func(plog.LogRecord) {}), "string_too_long"},
	} {
		b, err := plogotlp.NewExportRequestFromLogs(tc.ld).MarshalProto()
		require.NoError(t, err)
		re := fx.do(http.MethodPost, pathLogs, typeProto, b)
		assert.Equal(t, http.StatusOK, re.code)
		assert.Contains(t, string(re.body), tc.reason, tc.name)
		drops := fx.rec.TakeDrops()
		require.Len(t, drops, 1, tc.name)
		assert.Equal(t, tc.reason, drops[0].Reason)
	}
	assert.Zero(t, fx.logs.LogRecordCount())
}

// TestOwnMetricsUnchanged: nothing but the resource is touched.
func TestOwnMetricsUnchanged(t *testing.T) {
	fx := newFixture(t)
	sent := someMetrics()
	b, err := pmetricotlp.NewExportRequestFromMetrics(sent).MarshalProto()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, fx.do(http.MethodPost, pathMetrics, typeProto, b).code)
	require.Len(t, fx.metrics.AllMetrics(), 1)
	got := fx.metrics.AllMetrics()[0]
	attrs := got.ResourceMetrics().At(0).Resource().Attributes()
	id, _ := attrs.Get(semconv.RecordingIDKey)
	assert.Equal(t, string(fx.rec.ID()), id.Str())
	attrs.Remove(semconv.RecordingIDKey)
	attrs.Remove(semconv.RuntimeIDKey)
	assert.Equal(t, sent, got)
}

func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stax") //nolint:usetesting // the path of t.TempDir may be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestUnixSocket: the kernel names the peer, so a target that cannot name its pid is admitted, and one that claims another
// process's is not.
func TestUnixSocket(t *testing.T) {
	dir := filepath.Join(socketDir(t), "made")
	fx := newFixture(t, onSockets(filepath.Join(dir, "http.sock"), filepath.Join(dir, "grpc.sock")))
	for _, name := range []string{"http.sock", "grpc.sock"} {
		fi, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), fi.Mode().Perm(), name)
	}
	fi, err := os.Stat(dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), fi.Mode().Perm())
	if _, ok := recording.PeerOf(dialed(t, filepath.Join(dir, "http.sock"))); !ok {
		t.Skip("this system does not name the peer")
	}

	td := oneSpan()
	td.ResourceSpans().At(0).Resource().Attributes().Remove(semconv.ProcessPIDKey)
	n, message := fx.sendTraces(td)
	assert.Zero(t, n, message)
	client := ptraceotlp.NewGRPCClient(fx.dialGRPC())
	resp, err := client.Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(td))
	require.NoError(t, err)
	assert.Empty(t, resp.PartialSuccess().ErrorMessage())
	assert.Equal(t, 2, fx.traces.SpanCount())

	td = oneSpan()
	td.ResourceSpans().At(0).Resource().Attributes().PutInt(semconv.ProcessPIDKey, int64(os.Getppid()))
	_, message = fx.sendTraces(td)
	assert.Contains(t, message, recording.ReasonWrongPID)
	resp, err = client.Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(td))
	require.NoError(t, err)
	assert.Contains(t, resp.PartialSuccess().ErrorMessage(), recording.ReasonWrongPID)

	require.NoError(t, fx.r.Shutdown(t.Context()))
	_, err = os.Stat(filepath.Join(dir, "http.sock"))
	require.ErrorIs(t, err, os.ErrNotExist, "the socket is removed")
}

func dialed(t *testing.T, path string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestWrongUser: a peer of another user is refused on both protocols, unless it has the token.
func TestWrongUser(t *testing.T) {
	dir := socketDir(t)
	fx := newFixture(t, onSockets(filepath.Join(dir, "h"), filepath.Join(dir, "g")), before(func(r *targetReceiver) {
		r.connContext = func(ctx context.Context, _ net.Conn) context.Context {
			return recording.ContextWithPeer(ctx, recording.Peer{PID: os.Getpid(), UID: os.Getuid() + 1})
		}
	}))
	_, message := fx.sendTraces(oneSpan())
	assert.Contains(t, message, recording.ReasonWrongUser)
	client := ptraceotlp.NewGRPCClient(fx.dialGRPC())
	resp, err := client.Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(oneSpan()))
	require.NoError(t, err)
	assert.Contains(t, resp.PartialSuccess().ErrorMessage(), recording.ReasonWrongUser)
	assert.Zero(t, fx.traces.SpanCount())
	assert.Equal(t, http.StatusForbidden, fx.do(http.MethodGet, semconv.GatePath+"?pid=1", "", nil).code)

	_, message = fx.sendTraces(oneSpan(), semconv.HeaderToken, fx.rec.Token())
	assert.Empty(t, message)
	ctx := metadata.AppendToOutgoingContext(t.Context(), semconv.HeaderToken, fx.rec.Token())
	resp, err = client.Export(ctx, ptraceotlp.NewExportRequestFromTraces(oneSpan()))
	require.NoError(t, err)
	assert.Empty(t, resp.PartialSuccess().ErrorMessage())
}

func TestSockets(t *testing.T) {
	t.Run("stale socket is replaced", func(t *testing.T) {
		path := filepath.Join(socketDir(t), "s")
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		require.NoError(t, err)
		l.SetUnlinkOnClose(false)
		require.NoError(t, l.Close())
		fx := newFixture(t, onSockets(path, path+"g"))
		assert.Equal(t, http.StatusOK, fx.do(http.MethodPost, pathTraces, typeProto, nil).code)
	})
	t.Run("socket in use", func(t *testing.T) {
		path := filepath.Join(socketDir(t), "s")
		l, err := net.Listen("unix", path)
		require.NoError(t, err)
		defer l.Close()
		fx := buildFixture(t, onSockets(path, path+"g"))
		err = fx.start()
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		oneLine(t, err, "protocols::http: listen on "+path, "another process listens on it")
		_, err = os.Stat(path + "g")
		require.ErrorIs(t, err, os.ErrNotExist, "the gRPC server that had started is stopped")
	})
	t.Run("not a socket", func(t *testing.T) {
		path := filepath.Join(socketDir(t), "s")
		require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
		oneLine(t, buildFixture(t, onSockets(path, path+"g")).start(), "exists and is not a socket")
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, "precious", string(b))
	})
	t.Run("path too long", func(t *testing.T) {
		long := "/tmp/" + strings.Repeat("x", 120)
		oneLine(t, buildFixture(t, onSockets(long, "/tmp/g")).start(), "has 125 bytes", "use a shorter directory")
	})
}

func oneLine(t *testing.T, err error, parts ...string) {
	t.Helper()
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "\n")
	for _, p := range parts {
		assert.Contains(t, err.Error(), p)
	}
}

func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for _, protocol := range []string{"http", "grpc"} {
		fx := buildFixture(t, withConfig(func(c *Config) {
			if protocol == "http" {
				c.Protocols.HTTP.Get().ServerConfig.NetAddr.Endpoint = l.Addr().String()
			} else {
				c.Protocols.GRPC.Get().NetAddr.Endpoint = l.Addr().String()
			}
		}))
		oneLine(t, fx.start(), "protocols::"+protocol+": listen on "+l.Addr().String(), "another program has this port")
	}
}

func TestNoExtension(t *testing.T) {
	fx := buildFixture(t)
	oneLine(t, fx.r.Start(t.Context(), componenttest.NewNopHost()), `there is no extension "staxquery"`)
	fx = buildFixture(t)
	oneLine(t, fx.r.Start(t.Context(), host{fx.cfg.Query: nil}), `extension "staxquery" does not own recordings`)
}

func TestLifecycle(t *testing.T) {
	t.Run("shutdown without start", func(t *testing.T) {
		require.NoError(t, buildFixture(t).r.Shutdown(t.Context()))
	})
	t.Run("once per signal", func(t *testing.T) {
		fx := newFixture(t)
		for range 3 {
			require.NoError(t, fx.r.Start(t.Context(), fx.host()))
		}
		for range 4 {
			require.NoError(t, fx.r.Shutdown(t.Context()))
		}
		_, err := net.Dial("tcp", fx.r.httpAddr.String())
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
	t.Run("one instance per config", func(t *testing.T) {
		f := NewFactory()
		set := receivertest.NewNopSettings(f.Type())
		cfg := f.CreateDefaultConfig()
		next, err := consumer.NewTraces(func(context.Context, ptrace.Traces) error { return nil })
		require.NoError(t, err)
		a, err := f.CreateTraces(t.Context(), set, cfg, next)
		require.NoError(t, err)
		b, err := f.CreateTraces(t.Context(), set, cfg, next)
		require.NoError(t, err)
		c, err := f.CreateTraces(t.Context(), set, f.CreateDefaultConfig(), next)
		require.NoError(t, err)
		assert.Same(t, a, b)
		assert.NotSame(t, a, c)
		require.NoError(t, a.Shutdown(t.Context()))
		require.NoError(t, c.Shutdown(t.Context()))
		d, err := f.CreateTraces(t.Context(), set, cfg, next)
		require.NoError(t, err)
		assert.NotSame(t, a, d, "a receiver that was shut down is not used again")
		require.NoError(t, d.Shutdown(t.Context()))
	})
	t.Run("only grpc", func(t *testing.T) {
		fx := newFixture(t, withConfig(func(c *Config) { c.Protocols.HTTP = configoptional.None[HTTPConfig]() }))
		assert.Nil(t, fx.r.httpAddr)
	})
	t.Run("only http", func(t *testing.T) {
		fx := newFixture(t, withConfig(func(c *Config) { c.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]() }))
		assert.Nil(t, fx.r.grpcAddr)
	})
}

// switchable is a next consumer whose answer can be changed.
type switchable struct {
	mu   sync.Mutex
	err  error
	seen int
}

func (s *switchable) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (*switchable) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (s *switchable) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.seen += td.SpanCount()
	}
	return s.err
}

func (s *switchable) ConsumeMetrics(context.Context, pmetric.Metrics) error    { return s.err }
func (s *switchable) ConsumeLogs(context.Context, plog.Logs) error             { return s.err }
func (s *switchable) ConsumeProfiles(context.Context, pprofile.Profiles) error { return s.err }

// TestConsumerErrors: what the next consumer refuses is not acknowledged, and nothing of the request is counted.
func TestConsumerErrors(t *testing.T) {
	next := &switchable{}
	fx := newFixture(t, withTraces(next))
	td, ss := laneTraces()
	root := segment(ss)
	addSpan(ss, 1).SetParentSpanID(root)
	addSpan(ss, 2).Attributes().PutStr(semconv.SeqKey, "bad")
	client := ptraceotlp.NewGRPCClient(fx.dialGRPC())

	next.set(errors.New("disk full"))
	re := fx.do(http.MethodPost, pathTraces, typeProto, protoTraces(t, td))
	assert.Equal(t, http.StatusServiceUnavailable, re.code)
	assert.Equal(t, "1", re.header.Get("Retry-After"))
	assert.Contains(t, string(re.body), "disk full")
	_, err := client.Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(td))
	assert.Equal(t, codes.Unavailable, status.Code(err))
	require.Len(t, status.Convert(err).Details(), 1)

	next.set(consumererror.NewPermanent(errors.New("no such table")))
	re = fx.do(http.MethodPost, pathTraces, typeJSON, []byte(jsonOf(t, td)))
	assert.Equal(t, http.StatusBadRequest, re.code)
	assert.Contains(t, string(re.body), "no such table")
	_, err = client.Export(t.Context(), ptraceotlp.NewExportRequestFromTraces(td))
	assert.Equal(t, codes.InvalidArgument, status.Code(err))

	assert.Empty(t, fx.rec.TakeDrops())
	md, ok := fx.r.deriver.Metrics()
	assert.False(t, ok, "%d", md.DataPointCount())

	next.set(nil)
	rejected, _ := fx.sendTraces(td)
	assert.EqualValues(t, 1, rejected)
	assert.Equal(t, 1, next.seen)
	assert.Len(t, fx.rec.TakeDrops(), 1)
	_, ok = fx.r.deriver.Metrics()
	assert.True(t, ok)
}

func jsonOf(t *testing.T, td ptrace.Traces) string {
	t.Helper()
	b, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalJSON()
	require.NoError(t, err)
	return string(b)
}

// stalled is a next consumer that does not return until it is let go.
type stalled struct {
	entered  chan struct{}
	letGo    chan struct{}
	returned atomic.Bool
}

func (*stalled) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (s *stalled) ConsumeTraces(context.Context, ptrace.Traces) error {
	s.entered <- struct{}{}
	<-s.letGo
	s.returned.Store(true)
	return nil
}

// TestStalledConsumer: there is no acknowledgement before the next consumer returns, the rest keeps working, and the
// recording stays open for what is on its way.
func TestStalledConsumer(t *testing.T) {
	next := &stalled{entered: make(chan struct{}), letGo: make(chan struct{})}
	fx := newFixture(t, withTraces(next))
	acked := make(chan int)
	body := protoTraces(t, oneSpan())
	go func() {
		code := fx.do(http.MethodPost, pathTraces, typeProto, body).code
		assert.True(t, next.returned.Load(), "acknowledged before the next consumer returned")
		acked <- code
	}()
	<-next.entered

	assert.Equal(t, http.StatusOK, fx.do(http.MethodPost, pathLogs, typeProto, signalCases(t)[2].proto).code)
	assert.Equal(t, http.StatusOK, fx.do(http.MethodGet, semconv.GatePath, "", nil).code)
	stopped := make(chan error)
	go func() {
		_, err := fx.manager.Stop(context.Background(), fx.rec.ID(), "test")
		assert.True(t, next.returned.Load(), "the recording was closed under a request")
		stopped <- err
	}()
	for fx.rec.Info().State == recording.StateRecording {
		runtime.Gosched()
	}
	close(next.letGo)
	assert.Equal(t, http.StatusOK, <-acked)
	require.NoError(t, <-stopped)
}

// TestShutdownWithStalledConsumer: Shutdown does not wait for ever.
func TestShutdownWithStalledConsumer(t *testing.T) {
	next := &stalled{entered: make(chan struct{}), letGo: make(chan struct{})}
	fx := newFixture(t, withTraces(next), before(func(r *targetReceiver) { r.grace = 10 * time.Millisecond }))
	var wg sync.WaitGroup
	wg.Go(func() {
		resp, err := fx.client.Post(fx.url+pathTraces, typeProto, bytes.NewReader(protoTraces(t, oneSpan())))
		if err == nil {
			_ = resp.Body.Close()
		}
	})
	client := ptraceotlp.NewGRPCClient(fx.dialGRPC())
	wg.Go(func() {
		_, err := client.Export(context.Background(), ptraceotlp.NewExportRequestFromTraces(oneSpan()))
		assert.Error(t, err)
	})
	<-next.entered
	<-next.entered
	require.NoError(t, fx.r.Shutdown(t.Context()))
	close(next.letGo)
	wg.Wait()
}

// TestHalfSentRequests: clients that stop in the middle disturb nobody, and do not hold up Shutdown.
func TestHalfSentRequests(t *testing.T) {
	fx := newFixture(t, before(func(r *targetReceiver) { r.grace = 20 * time.Millisecond }))
	body := protoTraces(t, oneSpan())
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", pathTraces, typeProto, len(body))
	open := func(text string) net.Conn {
		c, err := net.Dial("tcp", fx.r.httpAddr.String())
		require.NoError(t, err)
		_, err = c.Write([]byte(text))
		require.NoError(t, err)
		return c
	}
	for _, text := range []string{"", "POS", head[:20], head, head + string(body[:10])} {
		require.NoError(t, open(text).Close())
		defer open(text).Close() // and one that stays
	}
	rejected, _ := fx.sendTraces(oneSpan())
	assert.Zero(t, rejected)
	assert.Equal(t, 1, fx.traces.SpanCount())
	require.NoError(t, fx.r.Shutdown(t.Context()))
	assert.Equal(t, 1, fx.traces.SpanCount())
}

// TestGate: the gate answers beside the OTLP paths, and a poll does not hold up Shutdown.
func TestGate(t *testing.T) {
	fx := newFixture(t)
	req := gate.Request{PID: os.Getpid(), Runtime: testRuntime, SchemaVersion: semconv.SchemaVersion}
	re := fx.do(http.MethodGet, semconv.GatePath+"?"+req.Values().Encode(), "", nil)
	require.Equal(t, http.StatusOK, re.code)
	assert.Contains(t, string(re.body), `"recording_id":"`+string(fx.rec.ID())+`"`)

	req.Have, req.Wait = string(fx.rec.ID()), gate.MaxWait
	polled := make(chan struct{})
	asked := make(chan struct{})
	go func() {
		defer close(polled)
		hreq, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fx.url+semconv.GatePath+"?"+req.Values().Encode(), nil)
		if !assert.NoError(t, err) {
			return
		}
		close(asked)
		resp, err := fx.client.Do(hreq)
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-asked
	began := time.Now()
	require.NoError(t, fx.r.Shutdown(t.Context()))
	<-polled
	assert.Less(t, time.Since(began), gate.MaxWait/2)
}

// counterSetLog registers the counter set "gpu".
func counterSetLog(t testing.TB) []byte {
	t.Helper()
	ld := someLogs()
	ld.ResourceLogs().At(0).Resource().Attributes().PutStr(semconv.RuntimeIDKey, testRuntime)
	lr := ld.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
	lr.SetEventName(semconv.EventCounterSet)
	lr.Attributes().PutStr(semconv.CounterSetIDKey, "gpu")
	names := lr.Attributes().PutEmptySlice(semconv.CounterSetNamesKey)
	units := lr.Attributes().PutEmptySlice(semconv.CounterSetUnitsKey)
	for name, unit := range map[string]string{"bytes read": "bytes", "busy": "percent", "cycles": "cycles"} {
		names.AppendEmpty().SetStr(name)
		units.AppendEmpty().SetStr(unit)
	}
	b, err := plogotlp.NewExportRequestFromLogs(ld).MarshalProto()
	require.NoError(t, err)
	return b
}
