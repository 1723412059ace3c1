package sdkwire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"golang.org/x/exp/trace"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/cputrace"
	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/semconv"
)

// profileSink is a collector that records whatever it is told to and keeps profiles.
type profileSink struct {
	mu        sync.Mutex
	recording string
	changed   chan struct{}
	profiles  []pprofile.Profiles
	errs      []error
}

func newProfileSink(t *testing.T) (*profileSink, string) {
	t.Helper()
	s := &profileSink{changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+semconv.GatePath, func(w http.ResponseWriter, r *http.Request) {
		q, err := gate.ParseRequest(r.URL.Query())
		s.mu.Lock()
		if err != nil {
			s.errs = append(s.errs, err)
		}
		if s.recording == q.Have {
			changed := s.changed
			s.mu.Unlock()
			select {
			case <-time.After(q.Wait):
			case <-changed:
			case <-r.Context().Done():
				return
			}
			s.mu.Lock()
		}
		reply := gate.Reply{RecordingID: s.recording, SchemaVersion: semconv.SchemaVersion, SampleHz: 250}
		s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(reply)
	})
	mux.HandleFunc("POST /v1development/profiles", func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		req := pprofileotlp.NewExportRequest()
		err = errors.Join(err, req.UnmarshalProto(body))
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.errs = append(s.errs, err)
			return
		}
		s.profiles = append(s.profiles, req.Profiles())
	})
	mux.HandleFunc("POST /", func(http.ResponseWriter, *http.Request) {})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return s, srv.URL
}

func (s *profileSink) record(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recording = id
	close(s.changed)
	s.changed = make(chan struct{})
}

// generations returns the payloads of a recording.
func (s *profileSink) generations(t *testing.T, recording string) (out [][]byte) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.errs)
	for _, pd := range s.profiles {
		for _, rp := range pd.ResourceProfiles().All() {
			if rp.Resource().Attributes().AsRaw()[semconv.RecordingIDKey] != recording {
				continue
			}
			for _, sp := range rp.ScopeProfiles().All() {
				for _, p := range sp.Profiles().All() {
					if p.OriginalPayloadFormat() == semconv.PayloadGoExecTrace {
						out = append(out, p.OriginalPayload().AsRaw())
					}
				}
			}
		}
	}
	return out
}

// TestCPUTrace records one process three times. Every recording has CPU samples in generations that parse alone, and
// each captured origin stands in the trace with its thread and its exact stack.
func TestCPUTrace(t *testing.T) {
	s, url := newProfileSink(t)
	rt := sdk.NewRuntime(sdk.Config{Endpoint: url, ServiceName: "sdkwire"})
	t.Cleanup(func() { stop(t, rt) })
	t.Cleanup(cputrace.Enable(cputrace.Options{Runtime: rt}))
	lane := rt.NewLane("work", sdk.LaneGeneric)
	heard := make(chan string, 16)
	t.Cleanup(rt.Subscribe(func(r sdk.Recording) { heard <- r.ID }))
	require.Empty(t, <-heard)

	for _, id := range []string{"one", "two", "three"} {
		s.record(id)
		require.Equal(t, id, <-heard)
		threads := map[string]int64{} // by the origin's instant
		for begin := time.Now(); len(s.generations(t, id)) == 0 && time.Since(begin) < 10*time.Second; {
			burn(20 * time.Millisecond)
			o := capture(lane)
			threads[strconv.FormatInt(int64(o.Time()), 10)] = o.ThreadID()
		}
		s.record("")
		require.Empty(t, <-heard)
		require.Eventually(t, func() bool { return len(s.generations(t, id)) >= 2 }, 10*time.Second, 5*time.Millisecond)

		samples, ours, found := 0, 0, 0
		for _, payload := range s.generations(t, id) {
			r, err := trace.NewReader(bytes.NewReader(payload))
			require.NoError(t, err)
			for {
				ev, err := r.ReadEvent()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err)
				switch ev.Kind() {
				case trace.EventStackSample:
					samples++
					for f := range ev.Stack().Frames() {
						if f.Func == "github.com/stax-otel/stax/testbed/sdkwire.burn" {
							ours++
						}
					}
				case trace.EventLog:
					l := ev.Log()
					require.Equal(t, semconv.TraceLogOrigin, l.Category)
					thread, ok := threads[l.Message]
					if !ok {
						continue // captured before the trace began in this recording
					}
					found++
					if runtime.GOOS == "linux" {
						assert.EqualValues(t, thread, ev.Thread())
					}
					var stack []string
					for f := range ev.Stack().Frames() {
						stack = append(stack, f.Func)
					}
					assert.True(t, slices.Contains(stack, "github.com/stax-otel/stax/testbed/sdkwire.capture"), "stack %v", stack)
				}
			}
		}
		t.Logf("%s: %d samples, %d in burn, %d of %d origins in the trace", id, samples, ours, found, len(threads))
		assert.GreaterOrEqual(t, samples, 10, "recording %s", id) // a second of burning; on a busy machine little of it on a processor
		assert.GreaterOrEqual(t, ours*10, samples*7, "most samples are of burn")
		assert.GreaterOrEqual(t, found, len(threads)-3, "the first origins may precede the trace")
	}
	require.NoError(t, rt.Flush(context.Background()))
}

//go:noinline
func capture(l *sdk.Lane) sdk.Origin { return l.CaptureOrigin(context.Background()) }

//go:noinline
func burn(d time.Duration) {
	x := burnt // not the global: the race detector would do most of the work, in C code without a Go stack
	for end := time.Now().Add(d); time.Now().Before(end); {
		for range 10_000 {
			x = x*31 + 7
		}
	}
	burnt = x
}

var burnt uint64
