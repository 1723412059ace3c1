package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Errors of [Manager.Gate]. The first two say that the caller may not know; the last that it speaks another version.
var (
	ErrUnauthorized   = errors.New("recording: the token belongs to no recording of this collector")
	ErrForbidden      = errors.New("recording: the gate answers processes of the collector's own user only, or with the recording's token")
	ErrSchemaMismatch = errors.New("recording: schema version not supported")
)

// Gate answers one gate request: at once when the answer differs from what the target has, else when it changes, after
// req.Wait at the latest. The claim says who asks; its PID, PIDNamespace and Runtime are taken from req.
func (m *Manager) Gate(ctx context.Context, req gate.Request, c Claim) (gate.Reply, error) {
	if req.SchemaVersion != 0 && req.SchemaVersion != semconv.SchemaVersion {
		return gate.Reply{}, fmt.Errorf("%w: target has %d, collector has %d; use the same stax release on both sides",
			ErrSchemaMismatch, req.SchemaVersion, semconv.SchemaVersion)
	}
	c.PID, c.PIDNamespace, c.Runtime, c.RecordingID = req.PID, req.PIDNamespace, archive.RuntimeID(req.Runtime), ""
	timer := time.NewTimer(min(max(req.Wait, 0), gate.MaxWait))
	defer timer.Stop()
	for {
		reply, changed, err := m.answer(c, req.Have)
		if err != nil || reply.RecordingID != req.Have || m.isClosed() {
			return reply, err
		}
		select {
		case <-changed:
		case <-timer.C:
			return reply, nil
		case <-ctx.Done():
			return reply, ctx.Err()
		}
	}
}

// answer returns what the gate says right now, and the channel that is closed when that may change.
func (m *Manager) answer(c Claim, have string) (gate.Reply, <-chan struct{}, error) {
	off := gate.Reply{SchemaVersion: semconv.SchemaVersion}
	recs, changed := m.current()
	var open []*Recording
	for _, r := range recs {
		if r.currentState() == StateRecording {
			open = append(open, r)
		}
	}
	rec, pid, reason := m.find(c, open)
	switch {
	case rec != nil:
		if !rec.gated(c.Runtime, pid, have) { // it was stopped between the two looks
			return off, changed, nil
		}
		return rec.reply(semconv.SchemaVersion), changed, nil
	case reason == ReasonBadToken:
		return off, changed, ErrUnauthorized
	case reason == ReasonWrongUser && !m.knownToken(c.Token):
		return off, changed, ErrForbidden
	}
	return off, changed, nil
}

// gated notes that the runtime, which has the recording "have", is told to report: from now on its final heartbeat is
// awaited. It reports false when the recording no longer takes runtimes.
func (r *Recording) gated(id archive.RuntimeID, pid int, have string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != StateRecording {
		return false
	}
	if id != "" {
		rt := r.observe(id, pid)
		rt.gated = true
		if have != string(r.id) {
			rt.final = false // it begins, or comes back from a newer recording
		}
	}
	return true
}

func (m *Manager) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// GateHandler serves the gate at semconv.GatePath. Peer credentials come from the request's context (see
// [PeerConnContext]). A poll ends when the request's context does, so a server that wants to stop promptly cancels its base
// context.
func (m *Manager) GateHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fail := func(code int, err error) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
		}
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			fail(http.StatusMethodNotAllowed, fmt.Errorf("method %s is not allowed on the gate", r.Method))
			return
		}
		req, err := gate.ParseRequest(r.URL.Query())
		if err == nil && (len(req.Runtime) > 256 || len(req.Have) > 256) {
			err = errors.New("runtime or have is longer than 256 bytes")
		}
		if err != nil {
			fail(http.StatusBadRequest, fmt.Errorf("gate request: %w", err))
			return
		}
		peer, ok := PeerFromContext(r.Context())
		claim := Claim{Token: r.Header.Get(semconv.HeaderToken)}.WithPeer(peer, ok)
		reply, err := m.Gate(r.Context(), req, claim)
		switch {
		case errors.Is(err, ErrUnauthorized):
			fail(http.StatusUnauthorized, err)
		case errors.Is(err, ErrForbidden):
			fail(http.StatusForbidden, err)
		case errors.Is(err, ErrSchemaMismatch):
			fail(http.StatusConflict, err)
		case err != nil: // the caller has gone, or the server stops
			fail(http.StatusServiceUnavailable, err)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			_ = json.NewEncoder(w).Encode(reply)
		}
	})
}
