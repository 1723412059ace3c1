// Package child is how the load test starts a server process, follows it and ends it.
//
// The server prints one JSON object a line on stdout: [Ready] first, then one answer for each command that it reads from
// stdin: "stop" (finish what was received), "profile PATH" and "endprofile" (CPU profile). The end of stdin ends it, so no
// server outlives the load test.
package child

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"time"
)

// Ready is the first line: the server accepts requests.
type Ready struct {
	Token string `json:"token,omitempty"` // to be sent with each request
	Path  string `json:"path,omitempty"`  // what the server writes
}

type answer struct {
	Error string `json:"error,omitempty"`
}

// Serve is the server's side: it announces r and obeys commands until stdin ends. It calls stop once, at the latest then.
func Serve(r Ready, stop func() error) error {
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(r); err != nil {
		return err
	}
	stopped := false
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var err error
		verb, arg, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "stop":
			stopped = true
			err = stop()
		case "profile":
			err = startProfile(arg)
		case "endprofile":
			pprof.StopCPUProfile()
		default:
			err = fmt.Errorf("unknown command %q", verb)
		}
		var a answer
		if err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	if !stopped {
		return stop()
	}
	return nil
}

func startProfile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return pprof.StartCPUProfile(f) // the file stays open until the process ends
}

// Process is a started server, the load test's side.
type Process struct {
	Ready  Ready
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	errOut tail
}

// Start runs path with args and environment additions, and waits until it is ready.
func Start(path string, args, env []string) (*Process, error) {
	p := &Process{cmd: exec.Command(path, args...)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.errOut
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := p.out.Decode(&p.Ready); err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s did not start: %w\n%s", path, err, p.errOut.String())
	}
	return p, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Do sends one command and waits for its answer.
func (p *Process) Do(command string) error {
	if _, err := io.WriteString(p.in, command+"\n"); err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, p.errOut.String())
	}
	var a answer
	if err := p.out.Decode(&a); err != nil {
		return fmt.Errorf("%s: the server ended: %w\n%s", command, err, p.errOut.String())
	}
	if a.Error != "" {
		return errors.New(command + ": " + a.Error)
	}
	return nil
}

// Exit closes stdin and waits for the end.
func (p *Process) Exit() error {
	_ = p.in.Close()
	kill := time.AfterFunc(30*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", p.cmd.Path, err, p.errOut.String())
	}
	return nil
}

// Kill ends the process without asking. It may follow Exit.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// tail keeps the end of what a server wrote to stderr. exec.Cmd is its only writer; it is read after the server failed.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if len(t.b) > 8192 {
		t.b = append(t.b[:0], t.b[len(t.b)-4096:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.b) }
