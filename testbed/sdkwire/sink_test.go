package sdkwire

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.uber.org/goleak"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/semconv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const recordingID = "0123456789abcdef"

// sink is a collector that decodes with pdata and keeps everything.
type sink struct {
	mu     sync.Mutex
	traces []ptrace.Traces
	logs   []plog.Logs
	errs   []error
}

func newSink(t *testing.T) (*sink, string) {
	t.Helper()
	s := &sink{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+semconv.GatePath, func(w http.ResponseWriter, r *http.Request) {
		q, err := gate.ParseRequest(r.URL.Query())
		s.note(err)
		if q.Have == recordingID {
			select {
			case <-time.After(q.Wait):
			case <-r.Context().Done():
				return
			}
		}
		_ = json.NewEncoder(w).Encode(gate.Reply{RecordingID: recordingID, SchemaVersion: semconv.SchemaVersion})
	})
	mux.HandleFunc("POST /v1/traces", func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		s.note(err)
		req := ptraceotlp.NewExportRequest()
		s.note(req.UnmarshalProto(body))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.traces = append(s.traces, req.Traces())
	})
	mux.HandleFunc("POST /v1/logs", func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		s.note(err)
		req := plogotlp.NewExportRequest()
		s.note(req.UnmarshalProto(body))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.logs = append(s.logs, req.Logs())
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return s, srv.URL
}

func (s *sink) note(err error) {
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.errs = append(s.errs, err)
	}
}

// target is a recorded runtime that sends to s.
func target(t *testing.T, url string) *sdk.Runtime {
	t.Helper()
	rt := sdk.NewRuntime(sdk.Config{Endpoint: url, ServiceName: "sdkwire", MemoryLimit: 64 << 20})
	t.Cleanup(func() { stop(t, rt) })
	l := rt.NewLane("first", sdk.LaneGeneric)
	deadline := time.Now().Add(10 * time.Second)
	for !l.Active() {
		require.True(t, time.Now().Before(deadline), "not recorded: %+v", rt.Stats())
		time.Sleep(time.Millisecond)
	}
	return rt
}

func stop(t *testing.T, rt *sdk.Runtime) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, rt.Shutdown(ctx))
}

// span is a decoded span with its scope and resource.
type span struct {
	ptrace.Span
	scope    map[string]any
	resource map[string]any
}

// spans returns every span that carries a sequence number, by span id, and the heartbeat scopes in order.
func (s *sink) spans(t *testing.T) (byID map[string]span, roots map[string]span, heartbeats []map[string]any) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.errs)
	byID, roots = map[string]span{}, map[string]span{}
	for _, td := range s.traces {
		require.Equal(t, 1, td.ResourceSpans().Len())
		rs := td.ResourceSpans().At(0)
		require.Equal(t, semconv.SchemaURL, rs.SchemaUrl())
		for _, ss := range rs.ScopeSpans().All() {
			if ss.Scope().Name() == semconv.ScopeHeartbeat {
				require.Zero(t, ss.Spans().Len())
				heartbeats = append(heartbeats, ss.Scope().Attributes().AsRaw())
				continue
			}
			require.Equal(t, "stax", ss.Scope().Name())
			for _, sp := range ss.Spans().All() {
				d := span{sp, ss.Scope().Attributes().AsRaw(), rs.Resource().Attributes().AsRaw()}
				id := sp.SpanID().String()
				if _, ok := sp.Attributes().Get(semconv.SeqKey); !ok {
					_, twice := roots[id]
					require.False(t, twice, "root %s twice", id)
					roots[id] = d
					continue
				}
				_, twice := byID[id]
				require.False(t, twice, "span %s twice", id)
				byID[id] = d
			}
		}
	}
	return byID, roots, heartbeats
}

// events returns the attributes of all log records with an event name.
func (s *sink) events(t *testing.T, name string) (out []map[string]any) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ld := range s.logs {
		for _, rl := range ld.ResourceLogs().All() {
			require.Equal(t, semconv.SchemaURL, rl.SchemaUrl())
			for _, sl := range rl.ScopeLogs().All() {
				for _, r := range sl.LogRecords().All() {
					require.NotEmpty(t, r.EventName())
					require.NotZero(t, r.Timestamp())
					if r.EventName() == name {
						out = append(out, r.Attributes().AsRaw())
					}
				}
			}
		}
	}
	return out
}
