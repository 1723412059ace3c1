package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stax-otel/stax/sdk/semconv"
)

// Paths of the OTLP/HTTP protocol.
const (
	TracesPath  = "/v1/traces"
	LogsPath    = "/v1/logs"
	MetricsPath = "/v1/metrics"
	// ProfilesPath is of the development version of the signal.
	ProfilesPath = "/v1development/profiles"
)

const (
	maxReply    = 64 << 10 // bytes read of any answer
	dialTimeout = 2 * time.Second
	idleTimeout = 90 * time.Second
)

// Client talks to one receiver. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	agent string
	local bool
	http  *http.Client
}

// Options configures a client.
type Options struct {
	Token     string // sent as the Stax-Recording header; may be empty
	UserAgent string
}

// Network and address of an endpoint: "unix" and a path, or "tcp" and host:port.
func parse(endpoint string) (network, address, base string, err error) {
	if path, ok := strings.CutPrefix(endpoint, "unix://"); ok {
		if path == "" {
			return "", "", "", fmt.Errorf("otlp: endpoint %q names no socket path", endpoint)
		}
		return "unix", path, "http://stax.invalid", nil
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", "", "", fmt.Errorf("otlp: endpoint: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", "", "", fmt.Errorf("otlp: endpoint %q is neither unix:///path nor http://host:port", endpoint)
	}
	return "tcp", u.Host, strings.TrimRight(u.Scheme+"://"+u.Host+u.Path, "/"), nil
}

// NewClient makes a client of unix:///path, http://host:port or https://host:port. It does not connect.
func NewClient(endpoint string, o Options) (*Client, error) {
	network, address, base, err := parse(endpoint)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	t := &http.Transport{
		DisableCompression:  true,
		MaxIdleConns:        4,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     idleTimeout,
	}
	if network == "unix" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		}
	} else {
		t.DialContext = dialer.DialContext
	}
	return &Client{base: base, token: o.Token, agent: o.UserAgent, local: network == "unix" || loopback(address), http: &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// loopback reports whether host:port names this machine, without asking a resolver.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip.IsLoopback()
}

// Local reports whether the receiver is on this machine, so that compressing costs more than it saves.
func (c *Client) Local() bool { return c.local }

// Close closes idle connections. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Result is what an accepting receiver said.
type Result struct {
	Rejected int64  // items it refused (partial success)
	Message  string // and why
}

// Error is a refusal or a failure to deliver.
type Error struct {
	Status     int           // HTTP status; 0: no answer
	RetryAfter time.Duration // what the receiver asked for; 0: nothing
	Retryable  bool          // the same bytes may be accepted later
	Err        error         // the transport's error, when Status is 0
	Message    string        // the beginning of the answer, when Status is not 0
}

func (e *Error) Error() string {
	if e.Status == 0 {
		return "otlp: send: " + e.Err.Error()
	}
	s := "otlp: receiver answered " + strconv.Itoa(e.Status) + " " + http.StatusText(e.Status)
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Unwrap returns the transport's error.
func (e *Error) Unwrap() error { return e.Err }

// Traces posts an ExportTraceServiceRequest.
func (c *Client) Traces(ctx context.Context, body []byte) (Result, error) {
	return c.Post(ctx, TracesPath, body)
}

// Logs posts an ExportLogsServiceRequest.
func (c *Client) Logs(ctx context.Context, body []byte) (Result, error) {
	return c.Post(ctx, LogsPath, body)
}

// Profiles posts an ExportProfilesServiceRequest that is gzip-compressed or not.
func (c *Client) Profiles(ctx context.Context, body []byte, gzipped bool) (Result, error) {
	encoding := ""
	if gzipped {
		encoding = "gzip"
	}
	return c.post(ctx, ProfilesPath, body, encoding)
}

// Post sends one export request. Its errors are of type *[Error]. body is free for reuse when Post returns.
func (c *Client) Post(ctx context.Context, path string, body []byte) (Result, error) {
	return c.post(ctx, path, body, "")
}

func (c *Client) post(ctx context.Context, path string, body []byte, encoding string) (Result, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, nil)
	if err != nil {
		return Result{}, &Error{Err: err}
	}
	// The transport may still read the body when an attempt ends early. Waiting until it closed every reader lets the
	// caller reuse the bytes.
	var readers sync.WaitGroup
	open := func() (io.ReadCloser, error) {
		readers.Add(1)
		return &reader{Reader: bytes.NewReader(body), closed: readers.Done}, nil
	}
	req.Body, _ = open()
	req.GetBody = open
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", "application/x-protobuf")
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	status, header, reply, err := c.do(req)
	readers.Wait()
	if err != nil {
		return Result{}, &Error{Err: err, Retryable: true}
	}
	if status/100 == 2 {
		return parsePartialSuccess(reply), nil
	}
	e := &Error{Status: status, RetryAfter: retryAfter(header.Get("Retry-After"), time.Now())}
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.Retryable = true
	}
	e.Message = printable(reply)
	return Result{}, e
}

// reader tells when the transport is done with it.
type reader struct {
	*bytes.Reader
	once   sync.Once
	closed func()
}

func (r *reader) Close() error {
	r.once.Do(r.closed)
	return nil
}

// Get asks a question beside the OTLP paths and returns the answer, cut at 64 KiB.
func (c *Client) Get(ctx context.Context, path string, query url.Values) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return 0, nil, &Error{Err: err}
	}
	status, _, body, err = c.do(req)
	if err != nil {
		return 0, nil, &Error{Err: err, Retryable: true}
	}
	return status, body, nil
}

func (c *Client) do(req *http.Request) (status int, header http.Header, body []byte, err error) {
	if c.token != "" {
		req.Header.Set(semconv.HeaderToken, c.token)
	}
	if c.agent != "" {
		req.Header.Set("User-Agent", c.agent)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, nil, nil, err
	}
	return resp.StatusCode, resp.Header, body, nil
}

// retryAfter reads seconds or an HTTP date.
func retryAfter(v string, now time.Time) time.Duration {
	if v == "" {
		return 0
	}
	if s, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(t.Sub(now), 0)
	}
	return 0
}

// printable keeps the beginning of a text answer for error messages.
func printable(b []byte) string {
	if len(b) > 200 {
		b = b[:200]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0xfffd {
			return ' '
		}
		return r
	}, string(b)))
}
