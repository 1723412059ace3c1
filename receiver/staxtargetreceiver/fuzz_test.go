package staxtargetreceiver

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/semconv"
)

// FuzzHTTPHandlers sends arbitrary bytes to the real handlers of all four signals: they never panic, always answer with a
// status of OTLP/HTTP, and keep what they count in step with what they forward.
func FuzzHTTPHandlers(f *testing.F) {
	for i, sc := range signalCases(f) {
		f.Add(byte(i), false, sc.proto)
		f.Add(byte(i), true, sc.json)
		f.Add(byte(i), false, sc.proto[:len(sc.proto)/2])
		f.Add(byte(i), true, sc.json[:len(sc.json)/2])
	}
	f.Add(byte(0), false, protoTraces(f, foreignTrace()))
	f.Add(byte(2), false, counterSetLog(f))
	td, ss := laneTraces()
	root := segment(ss)
	s := addSpan(ss, 1)
	s.SetParentSpanID(root)
	s.Attributes().PutInt(semconv.SeqKey, 1)
	s.Attributes().PutInt("stax.counter.gpu/after_dispatch/cycles", 1)
	f.Add(byte(0), false, protoTraces(f, td))
	hb := td.ResourceSpans().At(0).ScopeSpans().AppendEmpty()
	hb.Scope().SetName(semconv.ScopeHeartbeat)
	hb.Scope().Attributes().PutEmptySlice(semconv.HeartbeatShardsKey).AppendEmpty().SetInt(1)
	hb.Scope().Attributes().PutEmptySlice(semconv.HeartbeatEmittedKey).AppendEmpty().SetInt(1)
	hb.Scope().Attributes().PutBool(semconv.HeartbeatFinalKey, true)
	f.Add(byte(0), false, protoTraces(f, td))

	fx := buildFixture(f, withRecording(recording.StartOptions{PIDs: []int{os.Getpid()}}))
	require.NoError(f, fx.start())
	h := fx.r.httpHandler()
	paths := [...]string{pathTraces, pathMetrics, pathLogs, pathProfiles}
	var runs atomic.Int64
	f.Fuzz(func(t *testing.T, signal byte, asJSON bool, body []byte) {
		req := httptest.NewRequest(http.MethodPost, paths[int(signal)%len(paths)], bytes.NewReader(body))
		req.Header.Set("Content-Type", typeProto)
		if asJSON {
			req.Header.Set("Content-Type", typeJSON)
		}
		// The token admits whatever pid the bytes say, so that the whole path is run.
		req.Header.Set(semconv.HeaderToken, fx.rec.Token())
		w := httptest.NewRecorder()
		began := time.Now()
		h.ServeHTTP(w, req)
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%d bytes took %s", len(body), took)
		}
		if runs.Add(1)%100 == 0 { // keep memory flat
			fx.traces.Reset()
			fx.metrics.Reset()
			fx.logs.Reset()
			fx.profiles.Reset()
			fx.r.emit(t.Context())
		}
	})
}
