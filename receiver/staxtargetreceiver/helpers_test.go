package staxtargetreceiver

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"

	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/metadata"
	"github.com/stax-otel/stax/sdk/semconv"
)

// fixture is a receiver made by its factory, with sinks behind it and a recording of this process.
type fixture struct {
	t        testing.TB
	cfg      *Config
	r        *targetReceiver
	manager  *recording.Manager
	rec      *recording.Recording
	tel      *componenttest.Telemetry
	traces   *consumertest.TracesSink
	metrics  *consumertest.MetricsSink
	logs     *consumertest.LogsSink
	profiles *consumertest.ProfilesSink
	client   *http.Client
	url      string
}

type fixtureOption func(*fixture, *nexts)

type nexts struct {
	traces    consumer.Traces
	metrics   consumer.Metrics
	logs      consumer.Logs
	profiles  xconsumer.Profiles
	recording recording.StartOptions
	noRec     bool
	before    func(*targetReceiver)
}

func withTraces(c consumer.Traces) fixtureOption { return func(_ *fixture, n *nexts) { n.traces = c } }

func withMetrics(c consumer.Metrics) fixtureOption {
	return func(_ *fixture, n *nexts) { n.metrics = c }
}

func withConfig(f func(*Config)) fixtureOption { return func(fx *fixture, _ *nexts) { f(fx.cfg) } }

func withRecording(o recording.StartOptions) fixtureOption {
	return func(_ *fixture, n *nexts) { n.recording = o }
}

func withoutRecording() fixtureOption { return func(_ *fixture, n *nexts) { n.noRec = true } }

func before(f func(*targetReceiver)) fixtureOption {
	return func(_ *fixture, n *nexts) { n.before = f }
}

// onSockets makes the receiver listen on unix sockets only.
func onSockets(httpPath, grpcPath string) fixtureOption {
	return withConfig(func(c *Config) {
		h, g := c.Protocols.HTTP.Get(), c.Protocols.GRPC.Get()
		h.ServerConfig.NetAddr.Transport, h.ServerConfig.NetAddr.Endpoint = confignet.TransportTypeUnix, httpPath
		g.NetAddr.Transport, g.NetAddr.Endpoint = confignet.TransportTypeUnix, grpcPath
	})
}

// testConfig has both protocols on free ports of 127.0.0.1, and emits derived metrics only when told.
func testConfig() *Config {
	c := createDefaultConfig().(*Config)
	http, grpc := *c.Protocols.HTTP.GetOrInsertDefault(), *c.Protocols.GRPC.GetOrInsertDefault()
	http.ServerConfig.NetAddr.Endpoint, grpc.NetAddr.Endpoint = "127.0.0.1:0", "127.0.0.1:0"
	c.Protocols.HTTP, c.Protocols.GRPC = configoptional.Some(http), configoptional.Some(grpc)
	c.DeriveInterval = time.Hour
	return c
}

type managerExtension struct {
	component.Component
	m *recording.Manager
}

func (e managerExtension) RecordingManager() *recording.Manager { return e.m }

type host map[component.ID]component.Component

func (h host) GetExtensions() map[component.ID]component.Component { return h }

func newManager(t testing.TB) *recording.Manager {
	t.Helper()
	m, err := recording.NewManager(recording.Options{Dir: t.TempDir(), DrainTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_ = m.Shutdown(ctx)
	})
	return m
}

// newFixture starts the receiver.
func newFixture(t testing.TB, opts ...fixtureOption) *fixture {
	t.Helper()
	fx := buildFixture(t, opts...)
	require.NoError(t, fx.start())
	return fx
}

func (fx *fixture) start() error {
	err := fx.r.Start(fx.t.Context(), fx.host())
	if err != nil {
		return err
	}
	if fx.r.httpAddr != nil {
		fx.url = "http://" + fx.r.httpAddr.String()
		tr := &http.Transport{DisableCompression: true}
		if fx.r.httpAddr.Network() == "unix" {
			path := fx.r.httpAddr.String()
			fx.url = "http://unix"
			tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", path)
			}
		}
		fx.client = &http.Client{Transport: tr}
		fx.t.Cleanup(tr.CloseIdleConnections)
	}
	return nil
}

func (fx *fixture) host() component.Host {
	return host{fx.cfg.Query: managerExtension{m: fx.manager}}
}

func buildFixture(t testing.TB, opts ...fixtureOption) *fixture {
	t.Helper()
	fx := &fixture{
		t: t, cfg: testConfig(), manager: newManager(t), tel: componenttest.NewTelemetry(),
		traces: &consumertest.TracesSink{}, metrics: &consumertest.MetricsSink{}, logs: &consumertest.LogsSink{}, profiles: &consumertest.ProfilesSink{},
	}
	n := &nexts{traces: fx.traces, metrics: fx.metrics, logs: fx.logs, profiles: fx.profiles, recording: recording.StartOptions{PIDs: []int{os.Getpid()}}}
	for _, o := range opts {
		o(fx, n)
	}
	if !n.noRec {
		var err error
		fx.rec, err = fx.manager.Start(t.Context(), n.recording)
		require.NoError(t, err)
	}
	set := receivertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = fx.tel.NewTelemetrySettings()
	f := NewFactory().(xreceiver.Factory)
	ctx := t.Context()
	tr, err := f.CreateTraces(ctx, set, fx.cfg, n.traces)
	require.NoError(t, err)
	if n.metrics != nil {
		mr, err := f.CreateMetrics(ctx, set, fx.cfg, n.metrics)
		require.NoError(t, err)
		require.Same(t, tr, mr)
	}
	lr, err := f.CreateLogs(ctx, set, fx.cfg, n.logs)
	require.NoError(t, err)
	require.Same(t, tr, lr)
	pr, err := f.CreateProfiles(ctx, set, fx.cfg, n.profiles)
	require.NoError(t, err)
	require.Same(t, tr, pr)
	fx.r = tr.(*targetReceiver)
	if n.before != nil {
		n.before(fx.r)
	}
	t.Cleanup(func() {
		require.NoError(t, fx.r.Shutdown(context.Background()))
		require.NoError(t, fx.tel.Shutdown(context.Background()))
	})
	return fx
}

type reply struct {
	code   int
	header http.Header
	body   []byte
}

// do sends one HTTP request.
func (fx *fixture) do(method, path, contentType string, body []byte, headers ...string) reply {
	fx.t.Helper()
	req, err := http.NewRequestWithContext(fx.t.Context(), method, fx.url+path, bytes.NewReader(body))
	require.NoError(fx.t, err)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := fx.client.Do(req)
	require.NoError(fx.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(fx.t, err)
	return reply{resp.StatusCode, resp.Header, b}
}

// sendTraces posts td as protobuf and returns the partial success of a 200.
func (fx *fixture) sendTraces(td ptrace.Traces, headers ...string) (rejected int64, message string) {
	fx.t.Helper()
	body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	require.NoError(fx.t, err)
	re := fx.do(http.MethodPost, pathTraces, typeProto, body, headers...)
	require.Equal(fx.t, http.StatusOK, re.code, "%s", re.body)
	resp := ptraceotlp.NewExportResponse()
	require.NoError(fx.t, resp.UnmarshalProto(re.body))
	return resp.PartialSuccess().RejectedSpans(), resp.PartialSuccess().ErrorMessage()
}

func setResource(r pcommon.Resource) {
	r.Attributes().PutInt(semconv.ProcessPIDKey, int64(os.Getpid()))
	r.Attributes().PutStr(semconv.ServiceNameKey, "app")
}

const testRuntime = "00112233445566778899aabbccddeeff"

func spanID(n byte) pcommon.SpanID   { return pcommon.SpanID{1, 7: n} }
func traceID(n byte) pcommon.TraceID { return pcommon.TraceID{1, 15: n} }

// laneTraces is one resource with one lane and no span.
func laneTraces() (ptrace.Traces, ptrace.ScopeSpans) {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	setResource(rs.Resource())
	rs.Resource().Attributes().PutStr(semconv.RuntimeIDKey, testRuntime)
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("stax")
	ss.Scope().Attributes().PutStr(semconv.LaneIDKey, "1")
	ss.Scope().Attributes().PutStr(semconv.LaneNameKey, "gpu queue")
	ss.Scope().Attributes().PutStr(semconv.LaneKindKey, semconv.LaneKindGPU)
	return td, ss
}

// segment makes ss look as from stax's own SDK.
func segment(ss ptrace.ScopeSpans) (root pcommon.SpanID) {
	root = spanID(0xff)
	ss.Scope().Attributes().PutStr(semconv.SegmentIDKey, root.String())
	return root
}

var testNow = time.Now()

func addSpan(ss ptrace.ScopeSpans, id byte) ptrace.Span {
	s := ss.Spans().AppendEmpty()
	s.SetName("matmul")
	s.SetKind(ptrace.SpanKindConsumer)
	s.SetTraceID(traceID(1))
	s.SetSpanID(spanID(id))
	s.SetStartTimestamp(pcommon.NewTimestampFromTime(testNow))
	s.SetEndTimestamp(pcommon.NewTimestampFromTime(testNow.Add(time.Millisecond)))
	return s
}

func someLogs() plog.Logs {
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	setResource(rl.Resource())
	lr := rl.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	lr.Body().SetStr("hello")
	return ld
}

func someMetrics() pmetric.Metrics {
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	setResource(rm.Resource())
	m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName("requests")
	m.SetEmptyGauge().DataPoints().AppendEmpty().SetIntValue(7)
	return md
}

func someProfiles() pprofile.Profiles {
	pd := pprofile.NewProfiles()
	pd.Dictionary().StringTable().Append("")
	pd.Dictionary().StackTable().AppendEmpty()
	rp := pd.ResourceProfiles().AppendEmpty()
	setResource(rp.Resource())
	p := rp.ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
	p.Samples().AppendEmpty().TimestampsUnixNano().Append(uint64(testNow.UnixNano()))
	p.Samples().AppendEmpty().TimestampsUnixNano().Append(uint64(testNow.UnixNano()))
	return pd
}

func oneSpan() ptrace.Traces {
	td, ss := laneTraces()
	root := segment(ss)
	addSpan(ss, 1).SetParentSpanID(root)
	return td
}
