//go:build unix

package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// termSignal asks a command to end.
var termSignal os.Signal = syscall.SIGTERM

// signals are the requests to stop that this process gets.
type signals struct{ c chan os.Signal }

func catchSignals() *signals {
	s := &signals{c: make(chan os.Signal, 4)}
	signal.Notify(s.c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return s
}

func (s *signals) stop() { signal.Stop(s.c) }

// child is the recorded command, in a process group of its own, so that a Ctrl-C meant for us ends it only after its last
// data is in. When our stdin is the terminal the command gets the terminal, as if a shell had started it: it can read,
// and Ctrl-C goes to it.
type child struct {
	cmd            *exec.Cmd
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       *os.File // handed over; nil: not
	done           chan struct{}
	mu             sync.Mutex
	code           *int
	signal         string
}

func newChild(path string, command, env []string) *child {
	return &child{
		cmd:  &exec.Cmd{Path: path, Args: command, Env: env, WaitDelay: time.Second},
		done: make(chan struct{}),
	}
}

func (c *child) start() error {
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = c.stdin, c.stdout, c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if f, ok := c.stdin.(*os.File); ok && inForeground(f) {
		// Changing the terminal's foreground group from a background group stops the process, unless it ignores that.
		signal.Ignore(syscall.SIGTTOU)
		c.terminal = f
		c.cmd.SysProcAttr.Foreground, c.cmd.SysProcAttr.Ctty = true, int(f.Fd())
	}
	if err := c.cmd.Start(); err != nil {
		c.takeTerminal()
		return err
	}
	go func() {
		defer close(c.done)
		err := c.cmd.Wait()
		c.takeTerminal()
		c.mu.Lock()
		defer c.mu.Unlock()
		state := c.cmd.ProcessState
		if state == nil {
			return
		}
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			c.signal = unix.SignalName(ws.Signal())
			return
		}
		code := state.ExitCode()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && code == 0 {
			code = -1 // its output could not be copied
		}
		c.code = &code
	}()
	return nil
}

// inForeground reports whether f is our terminal and we may hand it over.
func inForeground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// takeTerminal makes us the terminal's foreground group again.
func (c *child) takeTerminal() {
	if c.terminal != nil {
		_ = unix.IoctlSetPointerInt(int(c.terminal.Fd()), unix.TIOCSPGRP, unix.Getpgrp()) // the terminal may be gone
	}
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// exit returns the exit code, or nil and the signal that ended the command. Both are empty while it runs.
func (c *child) exit() (*int, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code, c.signal
}

// sharesTerminal reports whether the command writes where we draw progress.
func (c *child) sharesTerminal() bool {
	for _, w := range []io.Writer{c.stdout, c.stderr} {
		if f, ok := w.(*os.File); ok {
			if _, terminal := terminalWidth(f); terminal {
				return true
			}
		}
	}
	return false
}

// end signals the command and its group, and kills them when the command has not ended in time.
func (c *child) end(sig os.Signal, patience time.Duration) {
	select {
	case <-c.done:
		return
	default:
	}
	if s, ok := sig.(syscall.Signal); ok {
		_ = syscall.Kill(-c.pid(), s) // it may just have ended
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-c.done:
	case <-t.C:
		c.kill()
		<-c.done
	}
}

// kill ends the whole group at once.
func (c *child) kill() {
	select {
	case <-c.done:
	default:
		_ = syscall.Kill(-c.pid(), syscall.SIGKILL) // it may just have ended
	}
}
