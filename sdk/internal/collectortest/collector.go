// Package collectortest is a fake collector for the SDK's own tests: gate, traces and logs over HTTP, decoded by an
// independent decoder, with switches for everything that can go wrong.
package collectortest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/otlp"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Collector is the fake. Its fields may be set before the first request and through Set.
type Collector struct {
	t   testing.TB
	srv *httptest.Server

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each change
	reply    gate.Reply
	status   map[string]int // forced HTTP status by path
	header   http.Header    // sent with a forced status
	partial  []byte         // body of accepting answers
	stall    chan struct{}  // while not nil, exports hang until it is closed
	asks     []gate.Request
	tokens   []string
	traces   []Request
	logs     []Request
	profiles []Profile
	order    []string // "logs" and "traces" as they arrived
	attempts map[string]int
}

// New starts a collector on a TCP port.
func New(t testing.TB) *Collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return start(t, l)
}

// NewUnix starts a collector on a unix socket.
func NewUnix(t testing.TB, path string) *Collector {
	t.Helper()
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, l)
}

func start(t testing.TB, l net.Listener) *Collector {
	c := &Collector{t: t, changed: make(chan struct{}), status: map[string]int{}, attempts: map[string]int{}}
	c.srv = &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(c.serve)}}
	c.srv.Start()
	t.Cleanup(c.Stop)
	return c
}

// Endpoint is what STAX_ENDPOINT would be.
func (c *Collector) Endpoint() string {
	a := c.srv.Listener.Addr()
	if a.Network() == "unix" {
		return "unix://" + a.String()
	}
	return "http://" + a.String()
}

// Stop ends the collector as a crash would: connections break.
func (c *Collector) Stop() {
	c.mu.Lock()
	if c.stall != nil {
		close(c.stall)
		c.stall = nil
	}
	c.mu.Unlock()
	c.srv.CloseClientConnections()
	c.srv.Close()
}

// Set changes the collector under its lock and wakes pending questions and waits.
func (c *Collector) Set(f func(c *Collector)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
	c.signal()
}

func (c *Collector) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Record opens the gate for recording id; "" closes it.
func (c *Collector) Record(id string) {
	c.Set(func(c *Collector) {
		c.reply = gate.Reply{RecordingID: id, SchemaVersion: semconv.SchemaVersion, OriginMode: c.reply.OriginMode}
	})
}

// Reply makes the gate answer r, with the SDK's schema version.
func (c *Collector) Reply(r gate.Reply) {
	r.SchemaVersion = semconv.SchemaVersion
	c.Set(func(c *Collector) { c.reply = r })
}

// Origins sets the gate's origin mode.
func (c *Collector) Origins(mode string) { c.Set(func(c *Collector) { c.reply.OriginMode = mode }) }

// Force makes path answer status with headers; 0 ends it.
func (c *Collector) Force(path string, status int, header http.Header) {
	c.Set(func(c *Collector) { c.status[path], c.header = status, header })
}

// Partial sets the body of accepting answers.
func (c *Collector) Partial(body []byte) { c.Set(func(c *Collector) { c.partial = body }) }

// Stall makes exports hang until the returned function is called.
func (c *Collector) Stall() (release func()) {
	ch := make(chan struct{})
	c.Set(func(c *Collector) { c.stall = ch })
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.stall == ch {
			close(ch)
			c.stall = nil
		}
	}
}

func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.attempts[r.URL.Path]++
	status, header, stall := c.status[r.URL.Path], c.header, c.stall
	c.signal()
	c.mu.Unlock()
	if status != 0 {
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "forced")
		return
	}
	if r.URL.Path == semconv.GatePath {
		c.gate(w, r)
		return
	}
	if stall != nil {
		select {
		case <-stall:
		case <-r.Context().Done():
			return
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.URL.Path == otlp.ProfilesPath {
		c.takeProfiles(w, r, body)
		return
	}
	var req Request
	traces := strings.HasSuffix(r.URL.Path, "/traces")
	if traces {
		req, err = DecodeTraces(body)
	} else {
		req, err = DecodeLogs(body)
	}
	if err != nil {
		c.t.Errorf("%s: %v", r.URL.Path, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	req.Token = r.Header.Get(semconv.HeaderToken)
	c.mu.Lock()
	defer c.mu.Unlock()
	if traces {
		c.traces = append(c.traces, req)
		c.order = append(c.order, "traces")
	} else {
		c.logs = append(c.logs, req)
		c.order = append(c.order, "logs")
	}
	c.signal()
	_, _ = w.Write(c.partial)
}

func (c *Collector) takeProfiles(w http.ResponseWriter, r *http.Request, body []byte) {
	gzipped := r.Header.Get("Content-Encoding") == "gzip"
	if gzipped {
		if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, _ = io.ReadAll(z)
		}
	}
	list, err := DecodeProfiles(body)
	if err != nil {
		c.t.Errorf("%s: %v", r.URL.Path, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range list {
		list[i].Token, list[i].Gzipped = r.Header.Get(semconv.HeaderToken), gzipped
	}
	c.profiles = append(c.profiles, list...)
	c.order = append(c.order, "profiles")
	c.signal()
	_, _ = w.Write(c.partial)
}

func (c *Collector) gate(w http.ResponseWriter, r *http.Request) {
	q, err := gate.ParseRequest(r.URL.Query())
	if err != nil {
		c.t.Errorf("gate: %v", err)
	}
	c.mu.Lock()
	c.asks = append(c.asks, q)
	c.tokens = append(c.tokens, r.Header.Get(semconv.HeaderToken))
	deadline := time.After(q.Wait)
	for c.reply.RecordingID == q.Have && c.status[semconv.GatePath] == 0 {
		changed := c.changed
		c.mu.Unlock()
		expired := false
		select {
		case <-changed:
		case <-deadline:
			expired = true
		case <-r.Context().Done():
			return
		}
		c.mu.Lock()
		if expired {
			break
		}
	}
	reply := c.reply
	c.mu.Unlock()
	_ = json.NewEncoder(w).Encode(reply)
}

// Until waits for the collector's state to satisfy ok and fails the test after ten seconds. ok runs under the lock.
func (c *Collector) Until(what string, ok func(v View) bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		c.mu.Lock()
		good, changed := ok(View{c}), c.changed
		c.mu.Unlock()
		if good {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			c.t.Fatalf("gave up waiting for %s", what)
		}
	}
}

// See runs f under the lock.
func (c *Collector) See(f func(v View)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(View{c})
}

// View reads a locked collector.
type View struct{ c *Collector }

// Asks are the gate questions so far.
func (v View) Asks() []gate.Request { return v.c.asks }

// Tokens are the tokens of the gate questions.
func (v View) Tokens() []string { return v.c.tokens }

// Attempts counts the requests to a path, refused ones included.
func (v View) Attempts(path string) int { return v.c.attempts[path] }

// Order lists accepted requests: "logs", "traces" or "profiles".
func (v View) Order() []string { return v.c.order }

// Traces are the accepted traces requests.
func (v View) Traces() []Request { return v.c.traces }

// Logs are the accepted logs requests.
func (v View) Logs() []Request { return v.c.logs }

// Profiles are the accepted profiles.
func (v View) Profiles() []Profile { return v.c.profiles }

// Spans are all accepted spans that carry a sequence number.
func (v View) Spans() (out []Span) {
	for _, r := range v.c.traces {
		for _, s := range r.Spans {
			if _, ok := s.Attrs[semconv.SeqKey]; ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// Roots are all accepted segment roots.
func (v View) Roots() (out []Span) {
	for _, r := range v.c.traces {
		for _, s := range r.Spans {
			if s.Attrs[semconv.SpanTypeKey] == semconv.SpanTypeSegment {
				out = append(out, s)
			}
		}
	}
	return out
}

// Records are all accepted log records with an event name.
func (v View) Records(event string) (out []Record) {
	for _, r := range v.c.logs {
		for _, l := range r.Records {
			if l.Event == event {
				out = append(out, l)
			}
		}
	}
	return out
}

// Final reports whether a final heartbeat for the recording arrived.
func (v View) Final(recording string) bool {
	for _, r := range v.c.traces {
		if r.Resource[semconv.RecordingIDKey] == recording && r.Heartbeat[semconv.HeartbeatFinalKey] == true {
			return true
		}
	}
	return false
}

// LastHeartbeat is the newest heartbeat of a recording.
func (v View) LastHeartbeat(recording string) map[string]any {
	for i := len(v.c.traces) - 1; i >= 0; i-- {
		if r := v.c.traces[i]; r.Resource[semconv.RecordingIDKey] == recording && r.Heartbeat != nil {
			return r.Heartbeat
		}
	}
	return nil
}
