package collector

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/semconv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// One goroutine for the whole process, started when the package is linked.
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
	)
}

func newManager(t *testing.T) *recording.Manager {
	t.Helper()
	m, err := recording.NewManager(recording.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Shutdown(context.WithoutCancel(t.Context()))) })
	return m
}

// sockets returns two socket paths short enough for every system.
func sockets(t *testing.T) (target, control string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "stax") //nolint:usetesting // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "t.sock"), filepath.Join(dir, "c.sock")
}

func unixClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}}
}

func do(t *testing.T, c *http.Client, method, url string, header http.Header, body []byte) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	require.NoError(t, err)
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, b
}

// dispatches returns a request of n dispatches on one lane.
func dispatches(n int) []byte {
	now := time.Now()
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutInt(semconv.ProcessPIDKey, int64(os.Getpid()))
	rs.Resource().Attributes().PutStr(semconv.RuntimeIDKey, "0123456789abcdef0123456789abcdef")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().Attributes().PutStr(semconv.LaneIDKey, "gpu0")
	ss.Scope().Attributes().PutStr(semconv.LaneNameKey, "GPU 0")
	ss.Scope().Attributes().PutStr(semconv.LaneKindKey, semconv.LaneKindMetal)
	for i := range n {
		sp := ss.Spans().AppendEmpty()
		sp.SetName("matmul")
		sp.SetKind(ptrace.SpanKindConsumer)
		sp.SetSpanID(pcommon.SpanID{1, 2, 3, 4, 5, 6, 7, byte(i + 1)})
		sp.SetTraceID(pcommon.TraceID{9})
		sp.SetStartTimestamp(pcommon.NewTimestampFromTime(now))
		sp.SetEndTimestamp(pcommon.NewTimestampFromTime(now.Add(time.Millisecond)))
		sp.Attributes().PutInt(semconv.SeqKey, int64(i+1))
	}
	b, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	if err != nil {
		panic(err)
	}
	return b
}

func TestFromSocketToArchive(t *testing.T) {
	m := newManager(t)
	target, control := sockets(t)
	c, err := Start(t.Context(), Options{Manager: m, TargetSocket: target, ControlSocket: control, Version: "1.2.3"})
	require.NoError(t, err)
	rec, err := m.Start(t.Context(), recording.StartOptions{Name: "test"})
	require.NoError(t, err)

	header := http.Header{"Content-Type": {"application/x-protobuf"}}
	header.Set(semconv.HeaderToken, rec.Token())
	code, body := do(t, unixClient(target), http.MethodPost, "http://stax/v1/traces", header, dispatches(3))
	require.Equal(t, http.StatusOK, code, string(body))

	// A live answer, through the control socket.
	code, body = do(t, unixClient(control), http.MethodGet, "http://stax/api/v1/recordings/"+string(rec.ID())+"/query/lanes", nil, nil)
	require.Equal(t, http.StatusOK, code, string(body))
	assert.Contains(t, string(body), `"GPU 0"`)

	require.NoError(t, c.Shutdown(t.Context()))
	in := rec.Info()
	assert.Equal(t, recording.StateFinished, in.State)
	assert.Equal(t, "collector stopped", in.StopReason)
	assert.Empty(t, in.Problem)
	assert.Empty(t, in.Drops)

	r, err := archive.Open(rec.Path(), archive.ReaderOptions{})
	require.NoError(t, err)
	defer r.Close()
	assert.Equal(t, archive.StateFinished, r.Manifest().Recording.State)
	assert.Equal(t, "1.2.3", r.Manifest().Recording.RecorderVersion)
	_, derived := r.HasDerived()
	assert.True(t, derived)
	n := 0
	for rows, err := range archive.Scan[archive.Dispatch](t.Context(), r) {
		require.NoError(t, err)
		n += len(rows)
	}
	assert.Equal(t, 3, n)
	_, err = os.Stat(target)
	require.ErrorIs(t, err, os.ErrNotExist, "sockets go with the collector")
}

func TestOwnManagerFromConfig(t *testing.T) {
	target, control := sockets(t)
	dir := t.TempDir()
	c, err := Start(t.Context(), Options{Directory: dir, TargetSocket: target, ControlSocket: control})
	require.NoError(t, err)
	client := unixClient(control)
	code, body := do(t, client, http.MethodPost, "http://stax/api/v1/recordings",
		http.Header{"Content-Type": {"application/json"}}, []byte(`{"name":"api"}`))
	require.Equal(t, http.StatusCreated, code, string(body))
	var started struct {
		recording.Info
		Token string `json:"token"`
	}
	require.NoError(t, json.Unmarshal(body, &started))
	assert.NotEmpty(t, started.Token)
	assert.Equal(t, dir, filepath.Dir(started.Path))

	code, body = do(t, client, http.MethodPost, "http://stax/api/v1/recordings/"+string(started.ID)+"/stop", nil, nil)
	require.Equal(t, http.StatusOK, code, string(body))
	require.NoError(t, c.Shutdown(t.Context()))
	require.NoError(t, c.Err())
	<-c.Done()
}

func TestStartTwiceWithOneManager(t *testing.T) {
	m := newManager(t)
	for range 2 { // a collector that restarts
		target, control := sockets(t)
		c, err := Start(t.Context(), Options{Manager: m, TargetSocket: target, ControlSocket: control})
		require.NoError(t, err)
		rec, err := m.Start(t.Context(), recording.StartOptions{})
		require.NoError(t, err)
		require.NoError(t, c.Shutdown(t.Context()))
		assert.FileExists(t, filepath.Join(rec.Path(), "manifest.json"))
	}
}

func TestStartSaysWhyInOneLine(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	target, control := sockets(t)
	used, err := net.Listen("unix", control)
	require.NoError(t, err)
	defer used.Close()
	_, free := sockets(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))

	for name, tt := range map[string]struct {
		o    Options
		want []string
		is   error
	}{
		"port taken": {
			Options{HTTPEndpoint: busy.Addr().String(), ControlSocket: free},
			[]string{"staxtarget", busy.Addr().String(), "address already in use"},
			syscall.EADDRINUSE,
		},
		"query port taken": {
			Options{TargetSocket: target, QueryEndpoint: busy.Addr().String()},
			[]string{"staxquery", busy.Addr().String(), "another program has this port"},
			syscall.EADDRINUSE,
		},
		"control socket in use": {
			Options{TargetSocket: target, ControlSocket: control}, []string{"staxquery", control, "another process listens on it"}, syscall.EADDRINUSE,
		},
		"target socket path too long": {
			Options{TargetSocket: "/tmp/" + strings.Repeat("x", 110), ControlSocket: free}, []string{"107"}, nil,
		},
		"control socket path too long": {
			Options{TargetSocket: target, ControlSocket: "/tmp/" + strings.Repeat("x", 110)}, []string{"staxquery", "107"}, nil,
		},
		"socket below a file": {
			Options{TargetSocket: filepath.Join(file, "t.sock"), ControlSocket: free}, []string{"staxtarget", file}, nil,
		},
		"unknown key": {
			Options{TargetSocket: target, ControlSocket: free, ExtraConfig: []string{"yaml:exporters::staxarchive::segment_row: 5"}},
			[]string{"exporters::staxarchive", "unknown keys: segment_row"},
			nil,
		},
		"unknown key of the extension": {
			Options{TargetSocket: target, ControlSocket: free, ExtraConfig: []string{"yaml:extensions::staxquery::directry: /x"}},
			[]string{"extensions::staxquery", "unknown keys: directry"},
			nil,
		},
		"unknown key of the receiver": {
			Options{TargetSocket: target, ControlSocket: free, ExtraConfig: []string{"yaml:receivers::staxtarget::protocols::http::endpont: x"}},
			[]string{"receivers::staxtarget", "endpont"},
			nil,
		},
		"unknown component": {
			Options{TargetSocket: target, ControlSocket: free, ExtraConfig: []string{"yaml:exporters: {kafka: {}}"}},
			[]string{"exporters", "kafka"},
			nil,
		},
		"invalid value": {
			Options{TargetSocket: target, ControlSocket: free, ExtraConfig: []string{"yaml:exporters::staxarchive::segment_rows: -1"}},
			[]string{"exporters::staxarchive", "segment_rows must be at least 1"},
			nil,
		},
		"missing configuration file": {
			Options{TargetSocket: target, ControlSocket: free, ExtraConfig: []string{"file:/does/not/exist.yaml"}},
			[]string{"/does/not/exist.yaml", "no such file"},
			nil,
		},
		"extension is missing": {
			Options{TargetSocket: target, ControlSocket: free, ExtraConfig: []string{"yaml:exporters::staxarchive::query: staxquery/other"}},
			[]string{"staxquery/other", "service::extensions"},
			nil,
		},
		"open to other machines": {
			Options{TargetSocket: target, QueryEndpoint: "0.0.0.0:0"}, []string{"staxquery", "tls or auth"}, nil,
		},
		"nothing to listen on": {Options{ControlSocket: free}, []string{"no endpoint for targets"}, nil},
		"no query API":         {Options{TargetSocket: target}, []string{"no endpoint for the query API"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tt.o.Directory = t.TempDir()
			_, err := Start(t.Context(), tt.o)
			require.Error(t, err)
			t.Log(err)
			for _, w := range tt.want {
				require.ErrorContains(t, err, w)
			}
			assert.NotContains(t, err.Error(), "\n")
			assert.Less(t, len(err.Error()), 400)
			if tt.is != nil {
				require.ErrorIs(t, err, tt.is)
			}
		})
	}
}

func TestStartIsBoundedByItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	target, control := sockets(t)
	_, err := Start(ctx, Options{Directory: t.TempDir(), TargetSocket: target, ControlSocket: control})
	require.ErrorIs(t, err, context.Canceled)
}

func TestConfigKeepsDollarSigns(t *testing.T) {
	uri, err := Options{Directory: "/a/${env:HOME}", TargetSocket: "/t", ControlSocket: "/c"}.config()
	require.NoError(t, err)
	assert.Contains(t, uri, `/a/$${env:HOME}`)
	assert.Contains(t, fmt.Sprint(uri), "staxtarget")
}
