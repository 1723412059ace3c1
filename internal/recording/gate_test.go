package recording

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/semconv"
)

func TestGateAnswersAtOnceWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		procs := &table{}
		procs.run(10, 1)
		m := newTestManager(t, procs)
		req := gate.Request{PID: 10, Runtime: "a"}

		began := time.Now()
		answer := poll(t.Context(), m, req, peer(10, ownUser))
		synctest.Wait() // the poll is held
		r := start(t, m, StartOptions{PIDs: []int{10}, OriginMode: gate.OriginStack, SampleHz: 99})
		reply := <-answer
		assert.Equal(t, gate.Reply{
			RecordingID: string(r.ID()), SchemaVersion: semconv.SchemaVersion, OriginMode: gate.OriginStack, SampleHz: 99,
		}, reply)

		req.Have = string(r.ID())
		answer = poll(t.Context(), m, req, peer(10, ownUser))
		synctest.Wait()
		go func() { _, _ = m.Stop(context.WithoutCancel(t.Context()), r.ID(), "test") }()
		assert.Empty(t, (<-answer).RecordingID)
		assert.Zero(t, time.Since(began), "no timer was needed")
		r.ObserveFinal("a")
		<-r.Done()
	})
}

func TestGateHoldsUntilWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &table{})
		began := time.Now()
		reply, err := m.Gate(t.Context(), gate.Request{PID: 10, Wait: 3 * time.Second}, peer(10, ownUser))
		require.NoError(t, err)
		assert.Empty(t, reply.RecordingID)
		assert.Equal(t, 3*time.Second, time.Since(began))

		_, err = m.Gate(t.Context(), gate.Request{PID: 10, Wait: time.Hour}, peer(10, ownUser))
		require.NoError(t, err)
		assert.Equal(t, 3*time.Second+gate.MaxWait, time.Since(began), "a server holds no longer than MaxWait")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = m.Gate(ctx, gate.Request{PID: 10, Wait: time.Hour}, peer(10, ownUser))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestGateEndsPollsAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestManager(t, &table{})
		answer := poll(t.Context(), m, gate.Request{PID: 10}, peer(10, ownUser))
		synctest.Wait()
		require.NoError(t, m.Shutdown(t.Context()))
		_, ok := <-answer
		assert.True(t, ok)
		_, err := m.Start(t.Context(), StartOptions{})
		require.ErrorIs(t, err, ErrShutdown)
	})
}

func TestGateMembership(t *testing.T) {
	procs := &table{ns: 7}
	procs.run(10, 1)                                                           // recorded
	procs.run(11, 10)                                                          // its child
	procs.run(12, 11)                                                          // its grandchild
	procs.run(20, 1)                                                           // a stranger
	procs.procs[30] = Process{PID: 30, Parent: 10, Start: 30, Inner: []int{1}} // a child in a container
	m := newTestManager(t, procs)
	r := start(t, m, StartOptions{PIDs: []int{10}})
	id := string(r.ID())

	for _, tt := range []struct {
		name  string
		req   gate.Request
		claim Claim
		want  string
	}{
		{"pid", gate.Request{PID: 10}, peer(10, ownUser), id},
		{"child", gate.Request{PID: 11}, peer(11, ownUser), id},
		{"grandchild", gate.Request{PID: 12}, peer(12, ownUser), id},
		{"root is trusted", gate.Request{PID: 10}, peer(10, 0), id},
		{"stranger", gate.Request{PID: 20}, peer(20, ownUser), ""},
		{"stranger that claims a member's pid", gate.Request{PID: 10}, peer(20, ownUser), ""},
		{"pid of the container", gate.Request{PID: 1, PIDNamespace: 8}, peer(30, ownUser), id},
		{"connected by its parent", gate.Request{PID: 11}, peer(10, ownUser), id},
		{"pid is not said", gate.Request{}, peer(10, ownUser), id},
		{"other user", gate.Request{PID: 10}, peer(10, 1001), "403"},
		{"other user with the token", gate.Request{PID: 20}, Claim{Token: r.Token()}.WithPeer(Peer{PID: 20, UID: 1001}, true), id},
		{"token on TCP", gate.Request{PID: 99}, Claim{Token: r.Token()}, id},
		{"wrong token on TCP", gate.Request{PID: 10}, Claim{Token: "0123456789abcdef"}, "401"},
		{"old token on a socket", gate.Request{PID: 10}, Claim{Token: "0123456789abcdef"}.WithPeer(Peer{PID: 10, UID: ownUser}, true), id},
		{"pid on TCP", gate.Request{PID: 10}, Claim{}, id},
		{"pid of another namespace on TCP", gate.Request{PID: 10, PIDNamespace: 8}, Claim{}, ""},
		{"stranger on TCP", gate.Request{PID: 21}, Claim{}, ""},
		{"schema", gate.Request{PID: 10, SchemaVersion: semconv.SchemaVersion + 1}, peer(10, ownUser), "409"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, ask(t, m, tt.req, tt.claim))
		})
	}
}

func TestGateOverHTTP(t *testing.T) {
	m := newTestManager(t, SystemProcesses())
	m.opts.UID = os.Getuid()
	srv := httptest.NewUnstartedServer(m.GateHandler())
	path := filepath.Join(t.TempDir(), "gate.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	require.NoError(t, srv.Listener.Close())
	srv.Listener = l
	srv.Config.ConnContext = PeerConnContext
	srv.Start()
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}}
	call := func(method, query, token string) (int, gate.Reply) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://stax"+semconv.GatePath+"?"+query, nil)
		require.NoError(t, err)
		if token != "" {
			req.Header.Set(semconv.HeaderToken, token)
		}
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		var reply gate.Reply
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&reply))
		return resp.StatusCode, reply
	}
	own := gate.Request{PID: os.Getpid(), Runtime: "a", SchemaVersion: semconv.SchemaVersion}.Values().Encode()

	code, reply := call(http.MethodGet, own, "")
	assert.Equal(t, http.StatusOK, code)
	assert.Empty(t, reply.RecordingID)

	r := start(t, m, StartOptions{PIDs: []int{os.Getpid()}})
	code, reply = call(http.MethodGet, own, "")
	assert.Equal(t, http.StatusOK, code)
	assert.Equal(t, string(r.ID()), reply.RecordingID)
	r.ObserveFinal("a")

	code, _ = call(http.MethodGet, gate.Request{PID: 1}.Values().Encode(), "")
	assert.Equal(t, http.StatusOK, code, "a claimed pid that is not the peer's is off")
	code, _ = call(http.MethodPost, own, "")
	assert.Equal(t, http.StatusMethodNotAllowed, code)
	code, _ = call(http.MethodGet, "pid=x", "")
	assert.Equal(t, http.StatusBadRequest, code)
	code, _ = call(http.MethodGet, "pid=1&schema=99", "")
	assert.Equal(t, http.StatusConflict, code)
}

func TestGateOverTCPNeedsTheRightToken(t *testing.T) {
	m := newTestManager(t, &table{})
	r := start(t, m, StartOptions{})
	srv := httptest.NewServer(m.GateHandler())
	defer srv.Close()
	for token, want := range map[string]int{"": http.StatusOK, "0123456789abcdef": http.StatusUnauthorized, r.Token(): http.StatusOK} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"?pid=5", nil)
		require.NoError(t, err)
		req.Header.Set(semconv.HeaderToken, token)
		resp, err := srv.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, want, resp.StatusCode, "token %q", token)
	}
	srv.Client().CloseIdleConnections()
}
