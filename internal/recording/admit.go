package recording

import (
	"crypto/subtle"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/gate"
)

// Claim is what a request says about its sender, and what the kernel says.
type Claim struct {
	Token        string // of the header semconv.HeaderToken; empty: none
	RecordingID  string // recording that the data is for, by the target's own word; empty: it does not say
	PID          int    // as the target sees itself; 0: unknown
	PIDNamespace uint64 // that PID belongs to; 0: unknown
	Runtime      archive.RuntimeID
	HavePeer     bool // PeerPID and PeerUID are valid
	PeerPID      int
	PeerUID      int
}

// WithPeer returns c with the peer's credentials, if there is one.
func (c Claim) WithPeer(p Peer, ok bool) Claim {
	c.HavePeer, c.PeerPID, c.PeerUID = ok, p.PID, p.UID
	return c
}

// Reasons why a request is not let in: stable, in metrics and drop rows.
const (
	ReasonNoActiveRecording = "no_active_recording" // nothing is being recorded
	ReasonRecordingOver     = "recording_over"      // the named recording is sealed or being sealed
	ReasonUnknownRecording  = "unknown_recording"   // the named recording is not one of this collector
	ReasonWrongPID          = "wrong_pid"           // the process belongs to no recording, or is not the one at the other end of the socket
	ReasonWrongUser         = "wrong_user"          // the peer is another user's and has no valid token
	ReasonBadToken          = "bad_token"           // the token is of no recording
)

// Admit decides where the data of a request belongs. It returns the recording, or nil and the reason. A runtime that is let
// in is noted as one of the recording's.
func (m *Manager) Admit(c Claim) (rec *Recording, reason string) {
	recs, _ := m.current()
	if c.RecordingID != "" {
		named, ok := m.Get(ID(c.RecordingID))
		if !ok {
			return nil, ReasonUnknownRecording
		}
		switch named.currentState() {
		case StateSealing, StateFinished:
			return nil, ReasonRecordingOver
		case StateStarting:
			return nil, ReasonNoActiveRecording
		}
		recs = []*Recording{named}
	}
	if len(recs) == 0 {
		return nil, ReasonNoActiveRecording
	}
	rec, pid, reason := m.find(c, recs)
	if rec == nil {
		return nil, reason
	}
	if c.Runtime != "" {
		rec.ObserveRuntime(c.Runtime, pid)
	}
	return rec, ""
}

// TokenOwner returns the current recording that a token belongs to, or nil.
func (m *Manager) TokenOwner(token string) *Recording {
	recs, _ := m.current()
	return tokenOwner(token, recs)
}

// find returns the first of recs that the claim makes a member of, with its pid in our namespace.
func (m *Manager) find(c Claim, recs []*Recording) (rec *Recording, pid int, reason string) {
	pid, samePeer := m.resolve(c)
	byToken := tokenOwner(c.Token, recs)
	switch {
	case byToken != nil:
	case c.HavePeer && c.PeerUID != m.opts.UID && c.PeerUID != 0:
		return nil, 0, ReasonWrongUser
	case c.Token != "" && !c.HavePeer && !m.knownToken(c.Token): // with a peer, a token of an earlier run does no harm
		return nil, 0, ReasonBadToken
	}
	if !samePeer {
		return nil, 0, ReasonWrongPID
	}
	for _, r := range recs { // newest first
		if r == byToken {
			r.join(pid)
			return r, pid, ""
		}
		if (c.Runtime != "" && r.knows(c.Runtime, pid)) || r.hasMember(pid) {
			return r, pid, ""
		}
	}
	return nil, 0, ReasonWrongPID
}

// resolve returns the claimant's pid in our namespace, 0 when it cannot be known. ok is false when the kernel says that the
// process at the other end is neither the claimed one nor an ancestor of it (a server that forked after it connected).
func (m *Manager) resolve(c Claim) (pid int, ok bool) {
	procs := m.opts.Processes
	if !c.HavePeer || c.PeerPID == 0 {
		if ns := procs.Namespace(); c.PIDNamespace != 0 && ns != 0 && ns != c.PIDNamespace {
			return 0, true
		}
		return c.PID, true
	}
	if c.PID == 0 || c.PID == c.PeerPID {
		return c.PeerPID, true
	}
	if p, alive := procs.Lookup(c.PeerPID); !alive || p.hasInner(c.PID) {
		return c.PeerPID, true // the peer has ended: what it had sent is still its own
	}
	if descends(procs, c.PID, c.PeerPID) {
		return c.PID, true
	}
	return 0, false
}

// knownToken reports whether a token is one of a recording's, finished ones included.
func (m *Manager) knownToken(token string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return tokenOwner(token, m.order) != nil
}

func tokenOwner(token string, recs []*Recording) *Recording {
	if token == "" {
		return nil
	}
	for _, r := range recs {
		if subtle.ConstantTimeCompare([]byte(r.token), []byte(token)) == 1 {
			return r
		}
	}
	return nil
}

// join makes the pid a member, whoever its parent is.
func (r *Recording) join(pid int) {
	if pid <= 0 {
		return
	}
	r.mu.Lock()
	_, known := r.members[pid]
	r.mu.Unlock()
	if known {
		return
	}
	p, _ := r.mgr.opts.Processes.Lookup(pid)
	r.mu.Lock()
	r.members[pid] = p.Start
	r.mu.Unlock()
}

// knows reports whether the runtime has been let in before from the same process.
func (r *Recording) knows(id archive.RuntimeID, pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	rt := r.runtimes[id]
	return rt != nil && rt.pid == pid && pid != 0
}

// reply is the gate's answer for a member of r.
func (r *Recording) reply(schema int) gate.Reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	return gate.Reply{
		RecordingID: string(r.id), SchemaVersion: schema, SampleHz: r.opts.SampleHz, OriginMode: r.opts.OriginMode,
		SampleBudgetPermille: r.opts.SampleBudgetPermille, StopAtUnixNano: unixNano(r.stopAt),
	}
}
