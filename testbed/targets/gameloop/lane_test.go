package main

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
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/semconv"
	"github.com/stax-otel/stax/sdk/timeline"
	"github.com/stax-otel/stax/sdk/timeline/ticklane"
)

// collector says that everything is recorded and keeps the traces.
func collector(t *testing.T) (url string, spans func() []ptrace.Span) {
	var mu sync.Mutex
	var got []ptrace.Traces
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+semconv.GatePath, func(w http.ResponseWriter, r *http.Request) {
		q, err := gate.ParseRequest(r.URL.Query())
		if err == nil && q.Have != "" {
			select {
			case <-time.After(q.Wait):
			case <-r.Context().Done():
			}
		}
		_ = json.NewEncoder(w).Encode(gate.Reply{RecordingID: "0123456789abcdef", SchemaVersion: semconv.SchemaVersion, OriginMode: "thread"})
	})
	mux.HandleFunc("POST /v1/traces", func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		req := ptraceotlp.NewExportRequest()
		if err == nil && req.UnmarshalProto(body) == nil {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, req.Traces())
		}
	})
	mux.HandleFunc("POST /", func(http.ResponseWriter, *http.Request) {})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL, func() (all []ptrace.Span) {
		mu.Lock()
		defer mu.Unlock()
		for _, td := range got {
			for _, rs := range td.ResourceSpans().All() {
				for _, ss := range rs.ScopeSpans().All() {
					for _, s := range ss.Spans().All() {
						all = append(all, s)
					}
				}
			}
		}
		return all
	}
}

// TestTicksOnALane: a recorded game's ticks are command buffers with their phases and systems in them.
func TestTicksOnALane(t *testing.T) {
	url, spans := collector(t)
	rt := sdk.NewRuntime(sdk.Config{Endpoint: url})
	lane := rt.NewLane("simulation", sdk.LaneTick)
	for deadline := time.Now().Add(10 * time.Second); !lane.Active(); {
		require.True(t, time.Now().Before(deadline), "not recorded")
		time.Sleep(time.Millisecond)
	}
	var now time.Duration
	g := newGame(
		timeline.Options{Sink: ticklane.New(lane), Clock: func() time.Duration { return now }}, // the ring stays disabled
		func(d time.Duration) { now += d },
	)
	for _, f := range frames(220) {
		g.frame(time.Duration(f.ElapsedNanos), f.Commands)
	}
	require.Zero(t, g.rec.ReadDelta(0).Head)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, rt.Shutdown(ctx))

	entries, _ := replay(frames(220)) // what must stand on the lane
	at := byTick(entries)
	ticks, children := map[int64]ptrace.Span{}, map[string][]ptrace.Span{}
	for _, s := range spans() {
		if n, ok := s.Attributes().Get(ticklane.TagTick); ok {
			ticks[n.Int()] = s
		} else {
			children[s.ParentSpanID().String()] = append(children[s.ParentSpanID().String()], s)
		}
	}
	require.Len(t, ticks, len(entries))
	for n, s := range ticks {
		e := at[n]
		require.Equal(t, ticklane.TickName, s.Name())
		require.Equal(t, semconv.SpanTypeCommandBuffer, attribute(s, semconv.SpanTypeKey))
		require.NotEmpty(t, attribute(s, semconv.OriginThreadIDKey), "the origin is where the tick began")
		require.Equal(t, e.Warnings.String(), attribute(s, ticklane.TagWarnings))
		require.Equal(t, e.Duration.Duration(), s.EndTimestamp().AsTime().Sub(s.StartTimestamp().AsTime()))
		got := children[s.SpanID().String()]
		require.Len(t, got, len(e.Phases))
		next := 0
		for i, p := range e.Phases {
			require.Equal(t, p.Name, got[i].Name())
			require.Equal(t, p.Offset.Duration(), got[i].StartTimestamp().AsTime().Sub(s.StartTimestamp().AsTime()))
			require.Equal(t, p.Duration.Duration(), got[i].EndTimestamp().AsTime().Sub(got[i].StartTimestamp().AsTime()))
			if _, ok := p.System(); !ok {
				continue
			}
			y := e.Systems[next]
			next++
			want, slow := "", ""
			if y.Warned() {
				want = "SYSTEM_SLOW"
			}
			if y.Slow {
				slow = "1"
			}
			require.Equal(t, want, attribute(got[i], ticklane.TagWarnings))
			require.Equal(t, slow, attribute(got[i], ticklane.TagSlow))
			require.Equal(t, y.Error != nil, got[i].Status().Code() == ptrace.StatusCodeError)
		}
		require.Equal(t, len(e.Systems), next)
	}
	require.Equal(t, "panic: script 8 divides by zero", children[ticks[panicTick].SpanID().String()][5].Status().Message())
}

func attribute(s ptrace.Span, key string) string {
	v, ok := s.Attributes().Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}

// TestNilLane: a sink without lane wants nothing.
func TestNilLane(t *testing.T) {
	require.False(t, ticklane.New(nil).BeginTick())
}
