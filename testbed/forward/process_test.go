//go:build unix

package forward

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is a program that was started. It is stopped when the test ends, whatever becomes of the test.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	out  *output
	done chan struct{}
}

type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.buf.String()
	if n := len(s) - 4000; n > 0 {
		return "... " + s[n:]
	}
	return s
}

func start(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(name, args...), out: new(output), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = attributes()
	p.cmd.WaitDelay = time.Second
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the state says it all
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("%s: %v\n%s", name, p.cmd.ProcessState, p.out)
		}
	})
	return p
}

// stop ends the process, first kindly.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// succeeds waits for the end of the process, which must be a good one.
func (p *process) succeeds(limit time.Duration) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		require.Failf(p.t, "still running", "%s after %v\n%s", p.name, limit, p.out)
	}
	require.Zero(p.t, p.cmd.ProcessState.ExitCode(), "%s: %s", p.name, p.out)
}

// eventually polls until the condition returns "", and fails with what it returned last.
func eventually(t *testing.T, limit time.Duration, condition func() string) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		missing := condition()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			require.Fail(t, "not within "+limit.String(), missing)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// ports returns free ports of the loopback interface. They stay reserved until all are chosen, so that they differ.
func ports(t *testing.T, n int) []string {
	t.Helper()
	out := make([]string, n)
	for i := range out {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		out[i] = "127.0.0.1:" + strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	return out
}

// get asks a server; a status of 400 and more is false.
func get(ctx context.Context, base, path string, query url.Values) ([]byte, bool) {
	u := "http://" + base + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, false
	}
	resp, err := client.Do(req)
	if err != nil {
		return []byte(err.Error()), false
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return b, err == nil && resp.StatusCode < http.StatusBadRequest
}

var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// responds waits until a server answers, or has ended.
func (p *process) responds(base, path string) {
	p.t.Helper()
	eventually(p.t, 60*time.Second, func() string {
		select {
		case <-p.done:
			require.Failf(p.t, "ended", "%s: %s", p.name, p.out)
		default:
		}
		b, ok := get(p.t.Context(), base, path, nil)
		if !ok {
			return p.name + " does not answer: " + string(b)
		}
		return ""
	})
}
