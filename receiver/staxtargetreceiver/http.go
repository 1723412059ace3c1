package staxtargetreceiver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stax-otel/stax/internal/unixsocket"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Paths of OTLP/HTTP.
const (
	pathTraces   = "/v1/traces"
	pathMetrics  = "/v1/metrics"
	pathLogs     = "/v1/logs"
	pathProfiles = "/v1development/profiles"
)

const (
	typeProto = "application/x-protobuf"
	typeJSON  = "application/json"
)

func (r *targetReceiver) startHTTP(ctx context.Context, host component.Host, cfg *confighttp.ServerConfig) error {
	srv, err := cfg.ToServer(ctx, host.GetExtensions(), r.set.TelemetrySettings, r.httpHandler(), confighttp.WithErrorHandler(httpError))
	if err != nil {
		return fmt.Errorf("staxtarget: protocols::http: %w", err)
	}
	srv.ConnContext = r.connContext
	srv.ConnState = r.unused.note
	srv.RegisterOnShutdown(r.unused.close)
	var l net.Listener
	if cfg.NetAddr.Transport == confignet.TransportTypeUnix {
		l, err = unixsocket.Listen(ctx, cfg.NetAddr.Endpoint)
	} else {
		l, err = cfg.ToListener(ctx)
	}
	if err != nil {
		return listenError("http", cfg.NetAddr, err)
	}
	r.httpServer, r.httpAddr = srv, l.Addr()
	r.serve(host, "http", l, srv.Serve, http.ErrServerClosed)
	return nil
}

// unusedConns are connections on which nothing has been sent yet. Clients open some in advance, and http.Server.Shutdown
// would wait for seconds for their first request.
type unusedConns struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// note is for http.Server.ConnState.
func (u *unusedConns) note(c net.Conn, s http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s != http.StateNew {
		delete(u.conns, c)
		return
	}
	if u.conns == nil {
		u.conns = map[net.Conn]struct{}{}
	}
	u.conns[c] = struct{}{}
}

func (u *unusedConns) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		_ = c.Close() // it goes away either way
	}
}

// httpHandler serves the signals that have a pipeline, and the gate.
func (r *targetReceiver) httpHandler() http.Handler {
	mux := http.NewServeMux()
	if r.nextTraces != nil {
		mux.Handle(pathTraces, r.otlpHandler(r.httpTraces, maxSmallBody))
	}
	if r.nextMetrics != nil {
		mux.Handle(pathMetrics, r.otlpHandler(r.httpMetrics, maxSmallBody))
	}
	if r.nextLogs != nil {
		mux.Handle(pathLogs, r.otlpHandler(r.httpLogs, maxSmallBody))
	}
	if r.nextProfiles != nil {
		mux.Handle(pathProfiles, r.otlpHandler(r.httpProfiles, maxBody))
	}
	gate := r.manager.GateHandler()
	mux.HandleFunc(semconv.GatePath, func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		stop := context.AfterFunc(r.closing, cancel) // do not hold up Shutdown for the length of a poll
		defer stop()
		gate.ServeHTTP(w, req.WithContext(ctx))
	})
	return mux
}

// encoding is one of the two encodings of OTLP/HTTP.
type encoding bool

const (
	protobuf encoding = false
	jsonText encoding = true
)

func (e encoding) contentType() string {
	if e == jsonText {
		return typeJSON
	}
	return typeProto
}

func (e encoding) format() string {
	if e == jsonText {
		return "json"
	}
	return "protobuf"
}

type otlpRequest interface {
	UnmarshalProto([]byte) error
	UnmarshalJSON([]byte) error
}

type otlpResponse interface {
	MarshalProto() ([]byte, error)
	MarshalJSON() ([]byte, error)
}

func (e encoding) unmarshal(body []byte, req otlpRequest) error {
	var err error
	if e == jsonText {
		err = req.UnmarshalJSON(body)
	} else {
		err = req.UnmarshalProto(body)
	}
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "decode the request as %s: %v", e.format(), err)
	}
	return nil
}

func (e encoding) marshal(resp otlpResponse) ([]byte, error) {
	if e == jsonText {
		return resp.MarshalJSON()
	}
	return resp.MarshalProto()
}

// exportFunc handles one decoded body and returns the encoded response. Its errors are those of package status.
type exportFunc func(ctx context.Context, from sender, enc encoding, body []byte) ([]byte, error)

func (r *targetReceiver) httpTraces(ctx context.Context, from sender, enc encoding, body []byte) ([]byte, error) {
	req := ptraceotlp.NewExportRequest()
	if err := enc.unmarshal(body, req); err != nil {
		return nil, err
	}
	resp, err := r.exportTraces(ctx, from, transport{r.obsHTTP, enc.format()}, req)
	if err != nil {
		return nil, err
	}
	return enc.marshal(resp)
}

func (r *targetReceiver) httpMetrics(ctx context.Context, from sender, enc encoding, body []byte) ([]byte, error) {
	req := pmetricotlp.NewExportRequest()
	if err := enc.unmarshal(body, req); err != nil {
		return nil, err
	}
	resp, err := r.exportMetrics(ctx, from, transport{r.obsHTTP, enc.format()}, req)
	if err != nil {
		return nil, err
	}
	return enc.marshal(resp)
}

func (r *targetReceiver) httpLogs(ctx context.Context, from sender, enc encoding, body []byte) ([]byte, error) {
	req := plogotlp.NewExportRequest()
	if err := enc.unmarshal(body, req); err != nil {
		return nil, err
	}
	resp, err := r.exportLogs(ctx, from, transport{r.obsHTTP, enc.format()}, req)
	if err != nil {
		return nil, err
	}
	return enc.marshal(resp)
}

func (r *targetReceiver) httpProfiles(ctx context.Context, from sender, enc encoding, body []byte) ([]byte, error) {
	req := pprofileotlp.NewExportRequest()
	if err := enc.unmarshal(body, req); err != nil {
		return nil, err
	}
	resp, err := r.exportProfiles(ctx, from, transport{r.obsHTTP, enc.format()}, req)
	if err != nil {
		return nil, err
	}
	return enc.marshal(resp)
}

// bodies are reused: decoding copies what it keeps.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const (
	// maxBody is the default limit of a request, in bytes, unpacked: profiles carry execution traces. Requests of the other
	// signals, which take many times their size in memory, may have maxSmallBody, unless the configuration names a limit.
	maxBody      = 64 << 20
	maxSmallBody = 20 << 20
	// maxPooledBody bounds what an unusually big request leaves behind.
	maxPooledBody = 4 << 20
)

// otlpHandler serves one signal. limit is the size of a request where the configuration has the default.
func (r *targetReceiver) otlpHandler(export exportFunc, limit int64) http.Handler {
	if r.cfg.Protocols.HTTP.Get().ServerConfig.MaxRequestBodySize != maxBody {
		limit = 0
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			httpError(w, req, "method not allowed: OTLP is sent by POST", http.StatusMethodNotAllowed)
			return
		}
		enc, ok := encodingOf(req)
		if !ok {
			httpError(w, req, "content type must be "+typeProto+" or "+typeJSON, http.StatusUnsupportedMediaType)
			return
		}
		buf := bodies.Get().(*bytes.Buffer)
		defer func() {
			if buf.Cap() <= maxPooledBody {
				buf.Reset()
				bodies.Put(buf)
			}
		}()
		body := req.Body
		if limit > 0 {
			body = http.MaxBytesReader(w, body, limit)
		}
		if _, err := io.Copy(buf, body); err != nil {
			code := http.StatusBadRequest
			if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
				code = http.StatusRequestEntityTooLarge
			}
			httpError(w, req, "read the request: "+err.Error(), code)
			return
		}
		from := sender{token: req.Header.Get(semconv.HeaderToken)}
		from.peer, from.havePeer = recording.PeerFromContext(req.Context())
		reply, err := export(req.Context(), from, enc, buf.Bytes())
		if err != nil {
			writeStatus(w, enc, status.Convert(err), 0)
			return
		}
		write(w, enc.contentType(), http.StatusOK, reply)
	})
}

func encodingOf(req *http.Request) (encoding, bool) {
	media, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil {
		return protobuf, false
	}
	switch media {
	case typeProto:
		return protobuf, true
	case typeJSON:
		return jsonText, true
	}
	return protobuf, false
}

// httpError answers with the status message that OTLP/HTTP wants; as JSON when the request is in neither encoding.
func httpError(w http.ResponseWriter, req *http.Request, msg string, code int) {
	enc, ok := encodingOf(req)
	if !ok {
		enc = jsonText
	}
	writeStatus(w, enc, status.New(grpcCode(code), msg), code)
}

// writeStatus answers with st. code is the HTTP status; 0: the one for st.
func writeStatus(w http.ResponseWriter, enc encoding, st *status.Status, code int) {
	if code == 0 {
		code = httpCode(st.Code())
	}
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
	}
	var msg []byte
	var err error
	if enc == jsonText {
		msg, err = protojson.Marshal(st.Proto())
	} else {
		msg, err = proto.Marshal(st.Proto())
	}
	if err != nil {
		msg = nil
	}
	write(w, enc.contentType(), code, msg)
}

func write(w http.ResponseWriter, contentType string, code int, msg []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(code)
	_, _ = w.Write(msg) // the client has gone
}

func httpCode(c codes.Code) int {
	switch c {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func grpcCode(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusRequestEntityTooLarge:
		return codes.ResourceExhausted
	case http.StatusInternalServerError:
		return codes.Internal
	}
	return codes.InvalidArgument
}
