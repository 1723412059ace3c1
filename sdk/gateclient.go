package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"
	"unicode/utf8"

	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/semconv"
)

// verdict is one answer to "is this process recorded?", or the reason why there is none.
type verdict struct {
	state  State // off, recording, disconnected, unsupported or schema_mismatch
	reason string
	reply  gate.Reply // when recording
}

// originMode is the dearest kind of origin that the recording wants.
func (v verdict) originMode() OriginMode {
	switch v.reply.OriginMode {
	case gate.OriginOff:
		return OriginOff
	case gate.OriginThread:
		return OriginThread
	}
	return OriginStack
}

const maxRecordingID = 256

// decodeReply turns a gate's answer into a verdict. It accepts anything.
func decodeReply(status int, body []byte) verdict {
	switch {
	case status == http.StatusOK:
	case status == http.StatusConflict:
		return verdict{state: StateSchemaMismatch, reason: fmt.Sprintf("the collector does not speak schema version %d", semconv.SchemaVersion)}
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return verdict{state: StateOff, reason: "the gate refuses this process (wrong or missing recording token)"}
	case status == http.StatusTooManyRequests, status/100 == 5 && status != http.StatusNotImplemented:
		return verdict{state: StateDisconnected, reason: fmt.Sprintf("the gate answered %d %s", status, http.StatusText(status))}
	default:
		return verdict{state: StateUnsupported, reason: fmt.Sprintf("the endpoint has no gate: it answered %d %s", status, http.StatusText(status))}
	}
	var r gate.Reply
	if err := json.Unmarshal(body, &r); err != nil {
		return verdict{state: StateUnsupported, reason: "the endpoint has no gate: its answer is not a gate reply"}
	}
	if r.SchemaVersion != 0 && r.SchemaVersion != semconv.SchemaVersion {
		return verdict{state: StateSchemaMismatch, reason: fmt.Sprintf("the collector speaks schema version %d, this program %d", r.SchemaVersion, semconv.SchemaVersion)}
	}
	if r.RecordingID == "" {
		return verdict{state: StateOff}
	}
	if len(r.RecordingID) > maxRecordingID || !utf8.ValidString(r.RecordingID) {
		return verdict{state: StateUnsupported, reason: "the gate's recording id is malformed"}
	}
	return verdict{state: StateRecording, reply: r}
}

// ask puts one question. have is the recording that the target believes in.
func (rt *Runtime) ask(ctx context.Context, have string, wait time.Duration) verdict {
	if err := rt.endpoint.check(); err != nil {
		return verdict{state: StateDisconnected, reason: err.Error()}
	}
	q := gate.Request{
		PID: os.Getpid(), ParentPID: os.Getppid(), PIDNamespace: pidNamespace(), Runtime: rt.id,
		SchemaVersion: semconv.SchemaVersion, Have: have, Wait: wait,
	}
	status, body, err := rt.endpoint.client.Get(ctx, semconv.GatePath, q.Values())
	if err != nil {
		return verdict{state: StateDisconnected, reason: err.Error()}
	}
	return decodeReply(status, body)
}

// gateLoop asks for as long as the runtime lives.
//
// A recorded runtime whose gate cannot be reached goes on recording into its bounded rings for the grace time, then
// pauses: calls become no-ops, what is queued is kept for the hold time. The same recording's answer resumes it.
func (rt *Runtime) gateLoop(life context.Context, v verdict) {
	t := rt.cfg.timing
	var failing time.Time // start of the first question of a row without answer
	for life.Err() == nil {
		have := ""
		if v.state == StateRecording {
			have = v.reply.RecordingID
		}
		asked := time.Now()
		ctx, cancel := context.WithTimeout(life, 2*t.poll)
		next := rt.ask(ctx, have, t.poll)
		cancel()
		if life.Err() != nil {
			return
		}
		pause := time.Duration(0)
		switch next.state {
		case StateDisconnected:
			if failing.IsZero() {
				failing = asked
			}
			if v.state == StateRecording && time.Since(failing) < t.grace {
				pause = min(t.pollRetry, t.grace/2)
				break
			}
			v, pause = next, t.pollRetry
			rt.decide(v)
			rt.notify()
		default:
			failing = time.Time{}
			same := next.state == v.state && next.reply.RecordingID == v.reply.RecordingID
			if early := t.poll - time.Since(asked); same && early > 0 {
				pause = early
			}
			v = next
			rt.decide(v)
			rt.notify()
		}
		if pause > 0 {
			select {
			case <-life.Done():
			case <-time.After(pause):
			}
		}
	}
}

// decide takes a verdict: calls go off at once when they must, the worker does the rest.
func (rt *Runtime) decide(v verdict) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closing {
		return
	}
	rt.want = v
	s := rt.cur
	if v.state == StateRecording && s != nil && s.id == v.reply.RecordingID && !s.ending.Load() {
		rt.active.Store(uint32(v.originMode())) // resumes a paused one, too
	} else if s != nil {
		rt.active.Store(0)
		if v.state != StateDisconnected {
			s.end(rt.cfg.timing.drainTimeout)
		}
	}
	select {
	case rt.changed <- struct{}{}:
	default:
	}
}
