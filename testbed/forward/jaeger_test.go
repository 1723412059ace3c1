//go:build unix

package forward

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/archive"
)

const jaegerConfig = `
extensions:
  jaeger_storage: {backends: {mem: {memory: {max_traces: 100000}}}}
  jaeger_query: {storage: {traces: mem}, enable_tracing: false, http: {endpoint: %q}, grpc: {endpoint: %q}}
receivers: {otlp: {protocols: {grpc: {endpoint: %q, max_recv_msg_size_mib: 64}}}}
exporters: {jaeger_storage_exporter: {trace_storage: mem}}
service:
  extensions: [jaeger_storage, jaeger_query]
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}}
`

// jaegerServer is a Jaeger that keeps traces in memory.
type jaegerServer struct {
	*process
	http, otlp string
}

func startJaeger(t *testing.T, http, grpc, otlp string) *jaegerServer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jaeger.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, jaegerConfig, http, grpc, otlp), 0o600))
	j := &jaegerServer{process: start(t, nil, jaeger(t), "--config", path), http: http, otlp: otlp}
	j.responds(http, "/api/v3/services")
	return j
}

// span is one span in Jaeger with what it belongs to.
type span struct {
	ptrace.Span
	resource, scope pcommon.Map
}

// decode reads what api_v3 answers: one or more results.
func (j *jaegerServer) decode(b []byte) (out []span) {
	j.t.Helper()
	for dec := json.NewDecoder(bytes.NewReader(b)); dec.More(); {
		var answer struct {
			Result json.RawMessage `json:"result"`
		}
		require.NoError(j.t, dec.Decode(&answer))
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(answer.Result)
		require.NoError(j.t, err)
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					out = append(out, span{s, rs.Resource().Attributes(), ss.Scope().Attributes()})
				}
			}
		}
	}
	return out
}

// trace returns the spans of a trace; none when Jaeger does not have it.
func (j *jaegerServer) trace(id archive.TraceID) []span {
	j.t.Helper()
	b, ok := get(j.t.Context(), j.http, "/api/v3/traces/"+hex.EncodeToString(id[:]), nil)
	if !ok {
		return nil
	}
	return j.decode(b)
}

// search returns the traces of a service as the user interface finds them.
func (j *jaegerServer) search(service string, from, to time.Time) []span {
	j.t.Helper()
	b, ok := get(j.t.Context(), j.http, "/api/v3/traces", url.Values{
		"query.service_name":   {service},
		"query.start_time_min": {from.UTC().Format(time.RFC3339Nano)},
		"query.start_time_max": {to.UTC().Format(time.RFC3339Nano)},
		"query.num_traces":     {"100000"},
	})
	require.True(j.t, ok, "%s", b)
	return j.decode(b)
}

// legacy returns a trace in the form that the user interface reads.
func (j *jaegerServer) legacy(id pcommon.TraceID) []legacySpan {
	j.t.Helper()
	b, ok := get(j.t.Context(), j.http, "/api/traces/"+hex.EncodeToString(id[:]), nil)
	require.True(j.t, ok, "%s", b)
	var answer struct {
		Data []struct {
			Spans []legacySpan `json:"spans"`
		} `json:"data"`
	}
	require.NoError(j.t, json.Unmarshal(b, &answer))
	require.Len(j.t, answer.Data, 1)
	return answer.Data[0].Spans
}
