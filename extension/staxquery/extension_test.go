package staxquery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/extension/extensiontest"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/extension/staxquery/internal/metadata"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/semconv"
)

// archiveSink writes an archive with one lane and one dispatch per recording, as the exporter would.
type archiveSink struct {
	mu      sync.Mutex
	writers map[recording.ID]*archive.Writer
	openErr error
}

func (s *archiveSink) OpenRecording(_ context.Context, r *recording.Recording) error {
	if s.openErr != nil {
		return s.openErr
	}
	in := r.Info()
	w, err := archive.Create(r.Path(), archive.RecordingInfo{
		ID: string(in.ID), Name: in.Name, Mode: in.Mode, State: archive.StateRecording, StartedNanos: in.StartedUnixNano,
	}, archive.WriterOptions{})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writers == nil {
		s.writers = map[recording.ID]*archive.Writer{}
	}
	s.writers[r.ID()] = w
	return w.Append(&archive.Batch{
		Runtimes:   []archive.Runtime{{ID: "r", PID: 1}},
		Lanes:      []archive.Lane{{Runtime: "r", ID: "gpu0", Name: "GPU 0", Kind: "metal", PseudoTID: 0xFFF0_0000}},
		Dispatches: []archive.Dispatch{{Runtime: "r", Lane: "gpu0", ID: 7, Name: "matmul", StartNanos: 1, EndNanos: 2}},
	})
}

func (s *archiveSink) CloseRecording(ctx context.Context, r *recording.Recording) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writers[r.ID()].Finish(ctx, nil, nil)
}

// rig is a running extension.
type rig struct {
	t    *testing.T
	x    *queryExtension
	sink *archiveSink
	tcp  string // base URL
	sock string // path
}

// run starts an extension on a TCP port and a socket. change may alter its configuration.
func run(t *testing.T, change func(*Config, *queryExtension)) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "staxq") //nolint:usetesting // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg := createDefaultConfig().(*Config)
	cfg.Server.NetAddr.Endpoint = "localhost:0"
	cfg.ControlSocket = filepath.Join(dir, "c.sock")
	cfg.Directory = filepath.Join(t.TempDir(), "recordings")
	x, err := newQueryExtension(cfg, extensiontest.NewNopSettings(metadata.Type), nil)
	require.NoError(t, err)
	if change != nil {
		change(cfg, x)
	}
	require.NoError(t, cfg.Validate())
	r := &rig{t: t, x: x, sink: &archiveSink{}, sock: cfg.ControlSocket}
	x.mgr.AddSink(r.sink)
	require.NoError(t, x.Start(t.Context(), componenttest.NewNopHost()))
	require.NoError(t, x.Ready())
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		assert.NoError(t, x.NotReady())
		assert.NoError(t, x.Shutdown(ctx))
	})
	r.tcp = "http://" + x.addrs[0].String()
	return r
}

type request struct {
	method, path, body string
	header             map[string]string
	host               string
}

// tcpCall and call send a request over TCP and over the socket. An empty method is GET, with a body POST.
func (r *rig) tcpCall(q request) (int, map[string]any) {
	return r.send(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, r.tcp, q)
}

func (r *rig) call(q request) (int, map[string]any) {
	return r.send(&http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", r.sock)
		},
		DisableKeepAlives: true,
	}}, "http://stax", q)
}

func (r *rig) send(c *http.Client, base string, q request) (int, map[string]any) {
	r.t.Helper()
	if q.method == "" {
		q.method = http.MethodGet
		if q.body != "" {
			q.method = http.MethodPost
		}
	}
	req, err := http.NewRequestWithContext(r.t.Context(), q.method, base+q.path, strings.NewReader(q.body))
	require.NoError(r.t, err)
	if q.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range q.header {
		req.Header.Set(k, v)
	}
	if q.host != "" {
		req.Host = q.host
	}
	resp, err := c.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	assert.Equal(r.t, "application/json", resp.Header.Get("Content-Type"), string(b))
	var out map[string]any
	require.NoError(r.t, json.Unmarshal(b, &out), "%s %s: %s", q.method, q.path, b)
	if resp.StatusCode >= http.StatusBadRequest {
		assert.NotEmpty(r.t, out["error"], string(b))
	}
	return resp.StatusCode, out
}

func TestRecordingOverTheSocket(t *testing.T) {
	r := run(t, nil)
	code, out := r.call(request{path: "/api/v1/recordings", body: `{"name":"run","origin_mode":"stack","sample_hz":99}`})
	require.Equal(t, http.StatusCreated, code, out)
	id, token := out["id"].(string), out["token"].(string)
	assert.Len(t, token, 32)
	assert.Equal(t, "recording", out["state"])
	path := out["path"].(string)
	assert.Equal(t, r.x.cfg.Directory, filepath.Dir(path))

	code, out = r.call(request{path: "/api/v1/recordings"})
	require.Equal(t, http.StatusOK, code)
	list := out["recordings"].([]any)
	require.Len(t, list, 1)
	assert.NotContains(t, list[0], "token", "only the starter learns it")
	assert.Empty(t, out["archives"], "an archive that is being written is a recording")

	code, out = r.call(request{path: "/api/v1/recordings/" + id + "/query/lanes"})
	require.Equal(t, http.StatusOK, code, out)
	assert.Equal(t, "GPU 0", out["rows"].([]any)[0].(map[string]any)["lane"], "a live answer")
	code, live := r.call(request{path: "/api/v1/recordings/" + id + "/query/top?by=count"})
	require.Equal(t, http.StatusOK, code, live)

	code, out = r.call(request{path: "/api/v1/recordings/" + id + "/stop", body: `{"reason":"enough"}`})
	require.Equal(t, http.StatusOK, code, out)
	assert.Equal(t, "finished", out["state"])
	assert.Equal(t, "enough", out["stop_reason"])
	code, out = r.call(request{method: http.MethodPost, path: "/api/v1/recordings/" + id + "/stop"})
	require.Equal(t, http.StatusOK, code, "again")
	assert.Equal(t, "enough", out["stop_reason"])

	code, sealed := r.call(request{path: "/api/v1/recordings/" + id + "/query/top?by=count"})
	require.Equal(t, http.StatusOK, code)
	assert.Equal(t, live["rows"], sealed["rows"], "sealing changes no answer")
}

func TestSavedArchives(t *testing.T) {
	r := run(t, nil)
	_, out := r.call(request{path: "/api/v1/recordings", body: `{"name":"run"}`})
	id, path := out["id"].(string), out["path"].(string)
	code, _ := r.call(request{method: http.MethodPost, path: "/api/v1/recordings/" + id + "/stop"})
	require.Equal(t, http.StatusOK, code)

	other := run(t, func(c *Config, x *queryExtension) {
		c.Directory = filepath.Dir(path)
		x.archives.dir = c.Directory
	})
	require.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(path), "broken.stax"), 0o700))
	code, out = other.call(request{path: "/api/v1/recordings"})
	require.Equal(t, http.StatusOK, code)
	require.Len(t, out["archives"], 1, "found in the directory")
	assert.Empty(t, out["recordings"])
	code, _ = other.tcpCall(request{path: "/api/v1/recordings/" + id + "/query/lanes"})
	assert.Equal(t, http.StatusOK, code)

	third := run(t, nil)
	code, _ = third.call(request{path: "/api/v1/recordings/" + id})
	assert.Equal(t, http.StatusNotFound, code)
	code, out = third.call(request{path: "/api/v1/archives", body: `{"path":` + quote(path) + `}`})
	require.Equal(t, http.StatusOK, code, out)
	assert.Equal(t, id, out["id"])
	code, out = third.call(request{path: "/api/v1/recordings/" + id})
	require.Equal(t, http.StatusOK, code)
	assert.Equal(t, path, out["path"])

	require.NoError(t, os.RemoveAll(path))
	code, _ = third.call(request{path: "/api/v1/recordings/" + id + "/query/lanes"})
	assert.Equal(t, http.StatusNotFound, code, "removed meanwhile")
}

func TestOpenArchiveRefuses(t *testing.T) {
	r := run(t, nil)
	for name, path := range map[string]string{
		"relative": "x.stax", "empty": "", "missing": "/does/not/exist.stax", "no archive": t.TempDir(),
	} {
		code, out := r.call(request{path: "/api/v1/archives", body: `{"path":` + quote(path) + `}`})
		assert.Equal(t, http.StatusBadRequest, code, "%s: %v", name, out)
	}
}

func TestBadRequests(t *testing.T) {
	r := run(t, nil)
	_, out := r.call(request{path: "/api/v1/recordings", body: `{}`})
	id := out["id"].(string)
	for name, tt := range map[string]struct {
		q    request
		want int
	}{
		"unknown recording":     {request{path: "/api/v1/recordings/ffffffffffffffff"}, http.StatusNotFound},
		"stop unknown":          {request{method: http.MethodPost, path: "/api/v1/recordings/ffffffffffffffff/stop"}, http.StatusNotFound},
		"unknown query":         {request{path: "/api/v1/recordings/" + id + "/query/everything"}, http.StatusNotFound},
		"bad parameter":         {request{path: "/api/v1/recordings/" + id + "/query/top?limit=many"}, http.StatusBadRequest},
		"query of no recording": {request{path: "/api/v1/recordings/x/query/top"}, http.StatusNotFound},
		"path escape":           {request{path: "/api/v1/recordings/..%2f..%2fetc/query/top"}, http.StatusNotFound},
		"unknown path":          {request{path: "/api/v2"}, http.StatusNotFound},
		"method":                {request{method: http.MethodDelete, path: "/api/v1/recordings"}, http.StatusMethodNotAllowed},
		"get archives":          {request{path: "/api/v1/archives"}, http.StatusMethodNotAllowed},
		"name leaves directory": {request{path: "/api/v1/recordings", body: `{"name":"../../x"}`}, http.StatusBadRequest},
		"unknown field":         {request{path: "/api/v1/recordings", body: `{"nam":"x"}`}, http.StatusBadRequest},
		"no JSON":               {request{path: "/api/v1/recordings", body: `name=x`}, http.StatusBadRequest},
		"two values":            {request{path: "/api/v1/recordings", body: `{}{}`}, http.StatusBadRequest},
		"form":                  {request{path: "/api/v1/recordings", body: `{}`, header: map[string]string{"Content-Type": "text/plain"}}, http.StatusUnsupportedMediaType},
		"oversized body":        {request{path: "/api/v1/recordings", body: `{"name":"` + strings.Repeat("x", maxBody) + `"}`}, http.StatusRequestEntityTooLarge},
		"no such process":       {request{path: "/api/v1/recordings", body: `{"pids":[2147483647]}`}, http.StatusBadRequest},
		"archive exists":        {request{path: "/api/v1/recordings", body: `{"out":` + quote(r.x.cfg.Directory) + `}`}, http.StatusConflict},
		"out in missing folder": {request{path: "/api/v1/recordings", body: `{"out":"/does/not/exist/x.stax"}`}, http.StatusNotFound},
		"long reason":           {request{path: "/api/v1/recordings/" + id + "/stop", body: `{"reason":"` + strings.Repeat("x", 300) + `"}`}, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := r.call(tt.q)
			assert.Equal(t, tt.want, code, out)
		})
	}
}

func TestHostsAndOrigins(t *testing.T) {
	r := run(t, func(c *Config, _ *queryExtension) { c.AllowedHosts = []string{"stax.internal"} })
	port := r.tcp[strings.LastIndexByte(r.tcp, ':'):]
	for name, tt := range map[string]struct {
		host   string
		header map[string]string
		want   int
	}{
		"address":           {"", nil, http.StatusOK},
		"localhost":         {"localhost" + port, nil, http.StatusOK},
		"IPv6 loopback":     {"[::1]" + port, nil, http.StatusOK},
		"without port":      {"localhost", nil, http.StatusOK},
		"allowed name":      {"STAX.internal" + port, nil, http.StatusOK},
		"rebound name":      {"attacker.example" + port, nil, http.StatusForbidden},
		"looks local":       {"localhost.attacker.example", nil, http.StatusForbidden},
		"127.0.0.1.nip.io":  {"127.0.0.1.nip.io" + port, nil, http.StatusForbidden},
		"all interfaces":    {"0.0.0.0" + port, nil, http.StatusForbidden},
		"same origin":       {"localhost" + port, map[string]string{"Origin": "http://localhost" + port}, http.StatusOK},
		"other port":        {"localhost" + port, map[string]string{"Origin": "http://localhost:1"}, http.StatusForbidden},
		"other site":        {"localhost" + port, map[string]string{"Origin": "https://attacker.example"}, http.StatusForbidden},
		"null origin":       {"localhost" + port, map[string]string{"Origin": "null"}, http.StatusForbidden},
		"file origin":       {"localhost" + port, map[string]string{"Origin": "file://localhost" + port}, http.StatusForbidden},
		"cross-site fetch":  {"localhost" + port, map[string]string{"Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
		"same-origin fetch": {"localhost" + port, map[string]string{"Sec-Fetch-Site": "same-origin"}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/api/v1/recordings", "/healthz", semconv.GatePath} {
				code, _ := r.tcpCall(request{path: path, host: tt.host, header: tt.header})
				assert.Equal(t, tt.want, code, path)
			}
		})
	}
}

func TestTCPIsReadOnlyWithoutAToken(t *testing.T) {
	r := run(t, nil)
	_, out := r.call(request{path: "/api/v1/recordings", body: `{}`})
	id := out["id"].(string)
	for _, q := range []request{
		{path: "/api/v1/recordings", body: `{}`},
		{path: "/api/v1/recordings/" + id + "/stop", body: `{}`},
		{path: "/api/v1/archives", body: `{"path":"/"}`},
	} {
		code, _ := r.tcpCall(q)
		assert.Equal(t, http.StatusForbidden, code, q.path)
		q.header = map[string]string{"Authorization": "Bearer x"}
		code, _ = r.tcpCall(q)
		assert.Equal(t, http.StatusForbidden, code, q.path)
	}
	code, _ := r.tcpCall(request{path: "/api/v1/recordings/" + id})
	assert.Equal(t, http.StatusOK, code)
}

func TestTokenOverTCP(t *testing.T) {
	const token = "0123456789abcdef"
	r := run(t, func(c *Config, _ *queryExtension) { c.Token = configopaque.String(token) })
	good := map[string]string{"Authorization": "Bearer " + token}
	for _, header := range []map[string]string{
		nil, {"Authorization": "Bearer 0123456789abcdeF"}, {"Authorization": token}, {"Authorization": "Basic " + token},
	} {
		code, _ := r.tcpCall(request{path: "/api/v1/recordings", header: header})
		assert.Equal(t, http.StatusUnauthorized, code)
	}
	code, _ := r.tcpCall(request{path: "/healthz"})
	assert.Equal(t, http.StatusOK, code)
	code, _ = r.tcpCall(request{path: semconv.GatePath})
	assert.Equal(t, http.StatusOK, code, "the gate has its own rules")

	code, out := r.tcpCall(request{path: "/api/v1/recordings", body: `{}`, header: good})
	require.Equal(t, http.StatusCreated, code, out)
	code, _ = r.tcpCall(request{method: http.MethodPost, path: "/api/v1/recordings/" + out["id"].(string) + "/stop", header: good})
	assert.Equal(t, http.StatusOK, code)
	code, _ = r.tcpCall(request{path: "/api/v1/recordings", body: `{"out":"/tmp/x.stax"}`, header: good})
	assert.Equal(t, http.StatusForbidden, code, "a path is for the socket only")
	code, _ = r.tcpCall(request{path: "/api/v1/archives", body: `{"path":"/tmp/x.stax"}`, header: good})
	assert.Equal(t, http.StatusForbidden, code)
}

func TestSocketServesItsUserOnly(t *testing.T) {
	var uid int
	var mu sync.Mutex
	r := run(t, func(_ *Config, x *queryExtension) {
		x.uid = 1000
		x.connContext = func(ctx context.Context, c net.Conn) context.Context {
			if c.LocalAddr().Network() != "unix" {
				return ctx
			}
			mu.Lock()
			defer mu.Unlock()
			return recording.ContextWithPeer(ctx, recording.Peer{PID: 1, UID: uid})
		}
	})
	for id, want := range map[int]int{1000: http.StatusOK, 0: http.StatusOK, 1001: http.StatusForbidden} {
		mu.Lock()
		uid = id
		mu.Unlock()
		code, _ := r.call(request{path: "/api/v1/recordings"})
		assert.Equal(t, want, code, "uid %d", id)
		code, _ = r.call(request{path: "/api/v1/recordings", body: `{"name":"../x"}`})
		assert.Equal(t, want == http.StatusOK, code == http.StatusBadRequest, "uid %d", id)
	}
}

func TestGateThroughTheExtension(t *testing.T) {
	r := run(t, nil)
	_, out := r.call(request{path: "/api/v1/recordings", body: `{"pids":[` + itoa(os.Getpid()) + `]}`})
	q := gate.Request{PID: os.Getpid(), Runtime: "a", SchemaVersion: semconv.SchemaVersion}
	code, reply := r.call(request{path: semconv.GatePath + "?" + q.Values().Encode()})
	require.Equal(t, http.StatusOK, code)
	assert.Equal(t, out["id"], reply["recording_id"])
	rec, _ := r.x.mgr.Get(recording.ID(out["id"].(string)))
	rec.ObserveFinal("a")
}

func TestNoRecordingBeforeThePipelinesRun(t *testing.T) {
	r := run(t, nil)
	require.NoError(t, r.x.NotReady())
	code, _ := r.call(request{path: "/api/v1/recordings", body: `{}`})
	assert.Equal(t, http.StatusServiceUnavailable, code)
	require.NoError(t, r.x.Ready())
	code, _ = r.call(request{path: "/api/v1/recordings", body: `{}`})
	assert.Equal(t, http.StatusCreated, code)
}

func TestStartReportsTheSink(t *testing.T) {
	r := run(t, nil)
	r.sink.openErr = errors.New("disk full")
	code, out := r.call(request{path: "/api/v1/recordings", body: `{}`})
	assert.Equal(t, http.StatusInternalServerError, code)
	assert.Contains(t, out["error"], "disk full")
}

func TestNotReadyEndsRecordings(t *testing.T) {
	r := run(t, nil)
	_, out := r.call(request{path: "/api/v1/recordings", body: `{}`})
	require.NoError(t, r.x.NotReady())
	rec, ok := r.x.mgr.Get(recording.ID(out["id"].(string)))
	require.True(t, ok)
	assert.Equal(t, recording.StateFinished, rec.Info().State)
	assert.Equal(t, "collector stopped", rec.Info().StopReason)
}

func TestQueriesAreBounded(t *testing.T) {
	r := run(t, func(c *Config, x *queryExtension) {
		c.QueryTimeout = 50 * time.Millisecond
		x.queries = make(chan struct{}, 1)
	})
	_, out := r.call(request{path: "/api/v1/recordings", body: `{}`})
	r.x.queries <- struct{}{} // one is running
	code, _ := r.call(request{path: "/api/v1/recordings/" + out["id"].(string) + "/query/lanes"})
	assert.Equal(t, http.StatusGatewayTimeout, code)
	<-r.x.queries
}

func TestInjectedManagerStays(t *testing.T) {
	m, err := recording.NewManager(recording.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	f := NewFactoryWithManager(m)
	cfg := f.CreateDefaultConfig().(*Config)
	cfg.Server.NetAddr.Endpoint = "localhost:0"
	e, err := f.Create(t.Context(), extensiontest.NewNopSettings(metadata.Type), cfg)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
	assert.Same(t, m, e.(interface{ RecordingManager() *recording.Manager }).RecordingManager())
	require.NoError(t, e.Shutdown(t.Context()))
	_, err = m.Start(t.Context(), recording.StartOptions{})
	require.NoError(t, err)
	require.NoError(t, m.Shutdown(t.Context()))
}

func TestStartFailsWhole(t *testing.T) {
	r := run(t, nil)
	cfg := createDefaultConfig().(*Config)
	cfg.Server.NetAddr.Endpoint = "localhost:0"
	cfg.ControlSocket = r.sock // in use
	x, err := newQueryExtension(cfg, extensiontest.NewNopSettings(metadata.Type), nil)
	require.NoError(t, err)
	require.ErrorContains(t, x.Start(t.Context(), componenttest.NewNopHost()), "another process listens on it")
	require.NoError(t, x.Shutdown(t.Context()))
}

func TestLoadConfig(t *testing.T) {
	cm, err := confmaptest.LoadConf("testdata/config.yaml")
	require.NoError(t, err)
	load := func(name string) (*Config, error) {
		sub, err := cm.Sub(name)
		require.NoError(t, err)
		cfg := createDefaultConfig().(*Config)
		if err := sub.Unmarshal(cfg); err != nil {
			return nil, err
		}
		return cfg, cfg.Validate()
	}
	cfg, err := load("staxquery")
	require.NoError(t, err)
	assert.Equal(t, createDefaultConfig(), cfg)

	cfg, err = load("staxquery/full")
	require.NoError(t, err)
	assert.Equal(t, "/var/lib/stax", cfg.Directory)
	assert.Equal(t, "localhost:9999", cfg.Server.NetAddr.Endpoint)
	assert.Equal(t, "/run/stax/control.sock", cfg.ControlSocket)
	assert.Equal(t, configopaque.String("0123456789abcdef"), cfg.Token)
	assert.Equal(t, 3*time.Second, cfg.DrainTimeout)
	assert.Equal(t, []string{"stax.internal"}, cfg.AllowedHosts)

	cfg, err = load("staxquery/unix")
	require.NoError(t, err)
	assert.Equal(t, confignet.TransportTypeUnix, cfg.Server.NetAddr.Transport)

	_, err = load("staxquery/unknown")
	require.ErrorContains(t, err, "directry")
	_, err = load("staxquery/unknown_nested")
	require.ErrorContains(t, err, "cert_fil")
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"directory":                  func(c *Config) { c.Directory = "" },
		"endpoint or control_socket": func(c *Config) { c.Server.NetAddr.Endpoint = "" },
		"drain_timeout":              func(c *Config) { c.DrainTimeout = 0 },
		"query_timeout":              func(c *Config) { c.QueryTimeout = 0 },
		"max_queries":                func(c *Config) { c.MaxQueries = 0 },
		"token":                      func(c *Config) { c.Token = "short" },
		"control_socket must":        func(c *Config) { c.ControlSocket = strings.Repeat("x", 108) },
		"open to other machines":     func(c *Config) { c.Server.NetAddr.Endpoint = ":4320" },
		"transport must be":          func(c *Config) { c.Server.NetAddr.Transport = "udp" },
		"endpoint must have": func(c *Config) {
			c.Server.NetAddr.Transport, c.Server.NetAddr.Endpoint = "unix", strings.Repeat("x", 108)
		},
	} {
		cfg := createDefaultConfig().(*Config)
		cfg.Directory = "/x"
		change(cfg)
		require.ErrorContains(t, cfg.Validate(), want)
	}
	cfg := createDefaultConfig().(*Config)
	cfg.Directory = "/x"
	cfg.Server.NetAddr.Endpoint = "0.0.0.0:4320"
	cfg.Server.TLS = configoptional.Some(configtls.ServerConfig{})
	require.NoError(t, cfg.Validate())
	assert.Equal(t, component.MustNewType("staxquery"), NewFactory().Type())
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(bytes.TrimSpace(b))
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }
