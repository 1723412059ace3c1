package staxquery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/query"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/semconv"
)

// maxBody bounds the body of a request: a start request with a long command line fits.
const maxBody = 1 << 20

// started is the reply to a start request: the only one that carries the token.
type started struct {
	recording.Info
	Token string `json:"token"`
}

// listing is the reply to a list request. Recordings are those of this process, newest first; archives are the saved ones
// in the recordings directory and those that were opened, newest first.
type listing struct {
	Recordings []recording.Info `json:"recordings"`
	Archives   []recording.Info `json:"archives"`
}

// handler routes the API.
func (x *queryExtension) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(semconv.GatePath, x.mgr.GateHandler()) // it has rules of its own
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	route := func(pattern string, methods map[string]endpoint) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { x.serve(w, r, methods) })
	}
	route("/api/v1/recordings", map[string]endpoint{
		http.MethodGet:  {mayRead, x.list},
		http.MethodPost: {mayControl, x.startRecording},
	})
	route("/api/v1/recordings/{id}", map[string]endpoint{http.MethodGet: {mayRead, x.get}})
	route("/api/v1/recordings/{id}/stop", map[string]endpoint{http.MethodPost: {mayControl, x.stopRecording}})
	route("/api/v1/recordings/{id}/query/{name}", map[string]endpoint{http.MethodGet: {mayRead, x.query}})
	route("/api/v1/archives", map[string]endpoint{http.MethodPost: {mayAll, x.openArchive}})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, fmt.Errorf("there is nothing at %q", r.URL.Path))
	})
	return x.guard(mux)
}

// endpoint is one method of one path. answer returns the status and the body, or an error with its status by [statusOf].
type endpoint struct {
	needs  rights
	answer func(w http.ResponseWriter, r *http.Request) (int, any, error)
}

func (x *queryExtension) serve(w http.ResponseWriter, r *http.Request, methods map[string]endpoint) {
	e, ok := methods[r.Method]
	if !ok {
		for m := range methods {
			w.Header().Add("Allow", m)
		}
		writeError(w, http.StatusMethodNotAllowed, fmt.Errorf("method %s is not possible at %s", r.Method, r.URL.Path))
		return
	}
	if has, why := x.rightsOf(r); has < e.needs {
		code := http.StatusForbidden
		if errors.Is(why, errNeedToken) {
			code = http.StatusUnauthorized
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		writeError(w, code, why)
		return
	}
	status, body, err := e.answer(w, r)
	if err != nil {
		if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
			return // the caller has gone
		}
		code := statusOf(err)
		if code == http.StatusInternalServerError {
			x.set.Logger.Error("request failed", zap.String("path", r.URL.Path), zap.Error(err))
		}
		writeError(w, code, err)
		return
	}
	writeJSON(w, status, body)
}

func (x *queryExtension) list(http.ResponseWriter, *http.Request) (int, any, error) {
	recs := x.mgr.List()
	known := map[string]bool{}
	for _, in := range recs {
		known[in.Path] = true
	}
	saved, err := x.archives.list(known)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, listing{Recordings: recs, Archives: saved}, nil
}

func (x *queryExtension) startRecording(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var o recording.StartOptions
	if err := readJSON(w, r, &o); err != nil {
		return 0, nil, err
	}
	if has, _ := x.rightsOf(r); o.Out != "" && has < mayAll {
		return 0, nil, withStatus(http.StatusForbidden, errPath)
	}
	if !x.ready.Load() {
		return 0, nil, withStatus(http.StatusServiceUnavailable, errors.New("the collector is not running yet, or no longer: try again"))
	}
	rec, err := x.mgr.Start(r.Context(), o)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, started{rec.Info(), rec.Token()}, nil
}

func (x *queryExtension) get(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	in, err := x.find(r.PathValue("id"))
	return http.StatusOK, in, err
}

func (x *queryExtension) stopRecording(w http.ResponseWriter, r *http.Request) (int, any, error) {
	body := struct {
		Reason string `json:"reason"`
	}{}
	if err := readJSON(w, r, &body); err != nil {
		return 0, nil, err
	}
	if body.Reason == "" {
		body.Reason = "stopped"
	}
	if len(body.Reason) > 256 {
		return 0, nil, withStatus(http.StatusBadRequest, errors.New("reason is longer than 256 bytes"))
	}
	in, err := x.mgr.Stop(r.Context(), recording.ID(r.PathValue("id")), body.Reason)
	return http.StatusOK, in, err
}

func (x *queryExtension) openArchive(w http.ResponseWriter, r *http.Request) (int, any, error) {
	var body struct {
		Path string `json:"path"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return 0, nil, err
	}
	in, err := x.archives.open(body.Path)
	if err != nil {
		return 0, nil, withStatus(http.StatusBadRequest, err)
	}
	return http.StatusOK, in, nil
}

// query answers one question about a recording or a saved archive. A recording that is still written is read from its
// directory, as it is at this moment.
func (x *queryExtension) query(_ http.ResponseWriter, r *http.Request) (int, any, error) {
	in, err := x.find(r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), x.cfg.QueryTimeout)
	defer cancel()
	select {
	case x.queries <- struct{}{}:
		defer func() { <-x.queries }()
	case <-ctx.Done():
		return 0, nil, fmt.Errorf("wait for other queries: %w", ctx.Err())
	}
	reader, err := archive.Open(in.Path, archive.ReaderOptions{})
	if err != nil {
		return 0, nil, fmt.Errorf("recording %s: %w", in.ID, err)
	}
	defer reader.Close()
	answer, err := query.Run(ctx, reader, r.PathValue("name"), r.URL.Query())
	return http.StatusOK, answer, err
}

// find returns the recording or the saved archive with the id.
func (x *queryExtension) find(id string) (recording.Info, error) {
	if rec, ok := x.mgr.Get(recording.ID(id)); ok {
		return rec.Info(), nil
	}
	return x.archives.find(recording.ID(id))
}

// statusError is an error with its HTTP status.
type statusError struct {
	code int
	err  error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func withStatus(code int, err error) error { return &statusError{code, err} }

// statusOf returns the HTTP status that says what kind of error err is.
func statusOf(err error) int {
	var status *statusError
	var param *query.ParamError
	switch {
	case errors.As(err, &status):
		return status.code
	case errors.Is(err, recording.ErrUnknownRecording), errors.Is(err, query.ErrUnknownQuery), errors.Is(err, query.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, recording.ErrInvalid), errors.As(err, &param):
		return http.StatusBadRequest
	case errors.Is(err, fs.ErrExist):
		return http.StatusConflict
	case errors.Is(err, fs.ErrNotExist):
		return http.StatusNotFound
	case errors.Is(err, recording.ErrShutdown):
		return http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// readJSON decodes the body into v. An empty body leaves v alone. The content type must be JSON, which a web form of
// another site cannot send.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return withStatus(http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", tooLarge.Limit))
	case err != nil:
		return withStatus(http.StatusBadRequest, fmt.Errorf("read the body: %w", err))
	}
	if len(body) == 0 {
		return nil
	}
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return withStatus(http.StatusUnsupportedMediaType, errors.New("the Content-Type must be application/json"))
	}
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return withStatus(http.StatusBadRequest, fmt.Errorf("decode the body: %w", err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return withStatus(http.StatusBadRequest, errors.New("decode the body: more than one JSON value"))
	}
	return nil
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		writeError(w, http.StatusInternalServerError, fmt.Errorf("encode the answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the caller may have gone
}

func writeError(w http.ResponseWriter, code int, err error) {
	b, _ := json.Marshal(map[string]string{"error": err.Error()}) // strings always encode
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(b, '\n')) // the caller may have gone
}
