//go:build !unix

package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"
)

// termSignal asks a command to end. There is no gentler way on these systems.
var termSignal os.Signal = os.Kill

// signals are the requests to stop that this process gets.
type signals struct{ c chan os.Signal }

func catchSignals() *signals {
	s := &signals{c: make(chan os.Signal, 4)}
	signal.Notify(s.c, os.Interrupt)
	return s
}

func (s *signals) stop() { signal.Stop(s.c) }

// child is the recorded command.
type child struct {
	cmd            *exec.Cmd
	stdin          io.Reader
	stdout, stderr io.Writer
	done           chan struct{}
	code           *int
}

func newChild(path string, command, env []string) *child {
	return &child{cmd: &exec.Cmd{Path: path, Args: command, Env: env, WaitDelay: time.Second}, done: make(chan struct{})}
}

func (c *child) start() error {
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = c.stdin, c.stdout, c.stderr
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(c.done)
		code := 0
		var exit *exec.ExitError
		if err := c.cmd.Wait(); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			code = -1
		}
		c.code = &code
	}()
	return nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) exit() (*int, string) {
	select {
	case <-c.done:
		return c.code, ""
	default:
		return nil, ""
	}
}

func (c *child) sharesTerminal() bool { return false }

func (c *child) end(_ os.Signal, _ time.Duration) {
	c.kill()
	<-c.done
}

func (c *child) kill() { _ = c.cmd.Process.Kill() } // it may just have ended
