package otlp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stax-otel/stax/sdk/semconv"
)

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := NewClient(srv.URL, Options{Token: "tok", UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestPost(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != LogsPath || string(body) != "bytes" || r.Header.Get(semconv.HeaderToken) != "tok" ||
			r.Header.Get("Content-Type") != "application/x-protobuf" || r.ContentLength != 5 {
			t.Errorf("got %s %q %v", r.URL.Path, body, r.Header)
		}
		_, _ = w.Write([]byte{0x0a, 0x07, 0x08, 0x03, 0x12, 0x03, 'b', 'a', 'd'})
	})
	res, err := c.Logs(t.Context(), []byte("bytes"))
	if err != nil || res.Rejected != 3 || res.Message != "bad" {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		status    int
		after     string
		retryable bool
		wait      time.Duration
	}{
		{400, "", false, 0},
		{401, "", false, 0},
		{413, "", false, 0},
		{429, "7", true, 7 * time.Second},
		{500, "", false, 0},
		{502, "", true, 0},
		{503, "nonsense", true, 0},
		{503, time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), true, 0},
		{504, "-1", true, 0},
		{302, "", false, 0},
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if tc.after != "" {
				w.Header().Set("Retry-After", tc.after)
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, "why\x00")
		})
		_, err := c.Traces(t.Context(), []byte("x"))
		var e *Error
		if !errors.As(err, &e) || e.Status != tc.status || e.Retryable != tc.retryable || e.RetryAfter != tc.wait || e.Message != "why" {
			t.Errorf("status %d: got %+v", tc.status, e)
		}
	}
}

// TestBodyIsFreeAfterPost overwrites the bytes as soon as a timed-out Post returns; the race detector watches.
func TestBodyIsFreeAfterPost(t *testing.T) {
	block := make(chan struct{})
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-block:
		case <-r.Context().Done():
		}
	})
	defer close(block)
	body := bytes.Repeat([]byte("x"), 8<<20)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := c.Traces(ctx, body)
	clear(body)
	var e *Error
	if !errors.As(err, &e) || !e.Retryable || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Query().Get("a"))
	})}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	c, err := NewClient("unix://"+path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	status, body, err := c.Get(t.Context(), "/x", url.Values{"a": {"1 2"}})
	if err != nil || status != 200 || string(body) != "1 2" {
		t.Errorf("got %d %q %v", status, body, err)
	}
	_ = srv.Close()
	_, err = c.Traces(t.Context(), nil)
	var e *Error
	if !errors.As(err, &e) || e.Status != 0 || !e.Retryable {
		t.Errorf("closed socket: got %v", err)
	}
}

func TestEndpoints(t *testing.T) {
	for endpoint, ok := range map[string]bool{
		"unix:///tmp/x.sock": true, "http://127.0.0.1:4318": true, "https://host": true, "http://h:1/prefix/": true,
		"": false, "unix://": false, "grpc://h:1": false, "127.0.0.1:4318": false, "http://": false, "http://[": false,
	} {
		if _, err := NewClient(endpoint, Options{}); (err == nil) != ok {
			t.Errorf("NewClient(%q): %v", endpoint, err)
		}
	}
}

func TestProfiles(t *testing.T) {
	var got []string
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.URL.Path, string(body), r.Header.Get("Content-Encoding"))
	})
	if !c.Local() {
		t.Error("a receiver on a loopback address is local")
	}
	for _, gzipped := range []bool{false, true} {
		if _, err := c.Profiles(t.Context(), []byte("bytes"), gzipped); err != nil {
			t.Error(err)
		}
	}
	if want := []string{ProfilesPath, "bytes", "", ProfilesPath, "bytes", "gzip"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLocal(t *testing.T) {
	for endpoint, local := range map[string]bool{
		"unix:///tmp/x.sock": true, "http://127.0.0.1:4318": true, "http://[::1]:4318": true, "http://localhost": true,
		"http://127.0.0.2": true, "http://10.0.0.1:4318": false, "https://example.com": false, "http://localhost.example.com": false,
	} {
		c, err := NewClient(endpoint, Options{})
		if err != nil || c.Local() != local {
			t.Errorf("%s: local %v (%v), want %v", endpoint, c.Local(), err, local)
		}
	}
}

func FuzzPartialSuccess(f *testing.F) {
	f.Add([]byte{0x0a, 0x07, 0x08, 0x03, 0x12, 0x03, 'b', 'a', 'd'})
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		if r := parsePartialSuccess(b); r.Rejected < 0 || len(r.Message) > 800 {
			t.Errorf("got %+v", r)
		}
	})
}
