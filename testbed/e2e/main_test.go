package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// bin is the directory of the built programs.
var bin string

// envRace builds the programs with the race detector, which needs gcc and takes a few minutes.
const envRace = "STAX_E2E_RACE"

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("e2e: skipped with -short: these tests start real processes and take a minute")
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "stax-e2e")
	if err == nil {
		err = os.Chmod(dir, 0o755) // another user runs them in one test
	}
	if err == nil {
		bin = dir
		err = build()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: build the programs:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func build() error {
	args := []string{"build", "-o", bin + string(os.PathSeparator)}
	if os.Getenv(envRace) != "" {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/stax", "./testbed/targets/...")...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+map[bool]string{true: "1", false: "0"}[os.Getenv(envRace) != ""])
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func program(name string) string { return filepath.Join(bin, name) }

// world is one user's view of the machine: a home, a runtime directory, recordings. Tests do not see each other.
type world struct {
	t    *testing.T
	dir  string // short, for sockets
	env  []string
	cred *syscall.Credential // nil: ourselves
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "stx") //nolint:usetesting // t.TempDir is too long for socket paths
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{t: t, dir: dir}
	for _, kv := range os.Environ() {
		key, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(key, "STAX_") && !strings.HasPrefix(key, "XDG_") && !strings.HasPrefix(key, "OTEL_") && key != "HOME" {
			w.env = append(w.env, kv)
		}
	}
	run := w.path("run")
	require.NoError(t, os.Mkdir(run, 0o700))
	w.env = append(w.env, "HOME="+dir, "XDG_RUNTIME_DIR="+run, "STAX_DIR="+w.path("data"), "GOTRACEBACK=all")
	return w
}

func (w *world) path(name ...string) string {
	return filepath.Join(append([]string{w.dir}, name...)...)
}

// process is a program that was started.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	out  *output
	err  *output
	done chan struct{} // closed when it has ended

	quiet bool // say nothing about it when the test fails, unless it failed itself
}

// start starts a program. It and everything it started is killed when the test ends.
func (w *world) start(name string, args ...string) *process {
	w.t.Helper()
	p := &process{t: w.t, name: name, cmd: exec.Command(program(name), args...), out: newOutput(), err: newOutput(), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = w.env, w.dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: w.cred}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	p.cmd.WaitDelay = time.Second // a grandchild may keep the pipes open
	require.NoError(w.t, p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // the state says it all
	}()
	w.t.Cleanup(func() {
		_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
		<-p.done
		if w.t.Failed() && (!p.quiet || p.cmd.ProcessState.ExitCode() != 0) {
			w.t.Logf("%s %s: %v\nstdout: %s\nstderr: %s", name, strings.Join(args, " "), p.cmd.ProcessState, tail(p.out.String()), tail(p.err.String()))
		}
	})
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// tail is the end of a long text.
func tail(s string) string {
	if n := len(s) - 2000; n > 0 {
		return "... " + s[n:]
	}
	return s
}

// wait waits until the process has ended and returns its exit code, -1 for a signal.
func (p *process) wait(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		require.Failf(p.t, "still running", "%s after %v\nstdout: %s\nstderr: %s", p.name, limit, p.out, p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// run runs stax to its end and returns it.
func (w *world) run(args ...string) *process {
	w.t.Helper()
	p := w.start("stax", args...)
	p.quiet = true
	p.wait(60 * time.Second)
	return p
}

// code is the exit code of a process that has ended.
func (p *process) code() int { return p.cmd.ProcessState.ExitCode() }

// failsWith requires that the process ended with a code and exactly one line on stderr, which has all the words.
func (p *process) failsWith(code int, words ...string) {
	p.t.Helper()
	require.Equal(p.t, code, p.code(), "exit code; stderr: %s", p.err)
	lines := strings.Split(strings.TrimSpace(p.err.String()), "\n")
	require.Len(p.t, lines, 1, "one line on stderr")
	require.True(p.t, strings.HasPrefix(lines[0], "stax: "), lines[0])
	for _, word := range words {
		require.Contains(p.t, lines[0], word)
	}
}

// ask runs a query and decodes its JSON. The exit code must be the given one.
func ask[A any](w *world, code int, args ...string) A {
	w.t.Helper()
	p := w.run(append(args, "--json")...)
	require.Equal(w.t, code, p.code(), "stax %s: %s", strings.Join(args, " "), p.err)
	var a A
	require.NoError(w.t, json.Unmarshal([]byte(p.out.String()), &a), "stax %s", strings.Join(args, " "))
	return a
}

// output collects what a process writes and hands out whole lines.
type output struct {
	mu    sync.Mutex
	all   bytes.Buffer
	read  int // bytes handed out by line
	wrote chan struct{}
}

func newOutput() *output { return &output{wrote: make(chan struct{}, 1)} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return o.all.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

// line returns the next line that satisfies the condition. It waits for it; lines before it are skipped for good.
func (p *process) line(limit time.Duration, match func(string) bool) string {
	p.t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		if line, ok := p.out.next(); ok {
			if match(line) {
				return line
			}
			continue
		}
		select {
		case <-p.out.wrote:
		case <-p.done:
			if line, ok := p.out.next(); ok && match(line) {
				return line
			}
			require.Failf(p.t, "ended", "%s ended before it said what was expected; stderr: %s", p.name, p.err)
		case <-deadline.C:
			require.Failf(p.t, "silent", "%s did not say within %v what was expected; it said: %s%s", p.name, limit, p.out, p.err)
		}
	}
}

func (o *output) next() (string, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	rest := o.all.Bytes()[o.read:]
	i := bytes.IndexByte(rest, '\n')
	if i < 0 {
		return "", false
	}
	o.read += i + 1
	return string(rest[:i]), true
}

// eventually polls until the condition holds.
func eventually(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.Fail(t, "not within "+limit.String(), what)
		}
	}
}

// readable says that every line fits the width of a narrow terminal and that there is some text.
func readable(t *testing.T, what, text string) {
	t.Helper()
	require.NotEmpty(t, strings.TrimSpace(text), what)
	s := bufio.NewScanner(strings.NewReader(text))
	for s.Scan() {
		if n := len([]rune(s.Text())); n > 100 {
			t.Errorf("%s: a line of %d columns: %s", what, n, s.Text())
		}
	}
}
