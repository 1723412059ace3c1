// Package target is the frame that small targets share: the truth file, the end by time or signal, and the last words of
// the SDK.
package target

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/trace"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// Target is a program that writes down what it does. It is safe for concurrent use.
type Target struct {
	*truth.Writer
	truth.Meter
	waits      atomic.Uint64
	unrecorded atomic.Uint64
}

// Run plays until play returns; its context ends after d (0: never) or at SIGTERM or SIGINT. Then it shuts the SDK down
// and writes the end of the truth to path ("": none).
func Run(program, path string, d time.Duration, play func(context.Context, *Target) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	w, err := truth.Create(path, truth.Process{PID: os.Getpid(), ParentPID: os.Getppid(), Program: program, RuntimeID: sdk.RuntimeID()})
	if err != nil {
		return err
	}
	t := &Target{Writer: w}
	reason := "done"
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	if err := play(ctx, t); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		reason = err.Error()
	}
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	shutdown := "ok"
	if err := sdk.Shutdown(last); err != nil {
		shutdown = err.Error()
	}
	s := sdk.Stats()
	e := truth.End{
		Reason: reason, Unrecorded: t.unrecorded.Load(), Shutdown: shutdown,
		SDK: truth.SDK{
			State: string(s.State), Emitted: s.Emitted, Queued: s.Queued, Sent: s.Sent,
			Full: s.Dropped.Full, Send: s.Dropped.Send, Other: s.Dropped.Other,
		},
	}
	t.Fill(&e)
	_, err = t.Close(e)
	return err
}

// Lane makes a lane and writes it down.
func (t *Target) Lane(name string, kind sdk.LaneKind, reportsWaits bool, opts ...sdk.LaneOption) *sdk.Lane {
	t.Writer.Lane(truth.Lane{Name: name, Kind: string(kind), ReportsWaits: reportsWaits})
	return sdk.NewLane(name, kind, opts...)
}

// Traced waits until the execution trace of a recording runs, at most until limit has passed, and reports whether it does.
// It returns at once when nothing records the process. Some lane must have been made, or cputrace enabled.
func Traced(ctx context.Context, limit time.Duration) bool {
	if !sdk.ReportingActive() {
		return false
	}
	t := time.NewTicker(2 * time.Millisecond)
	defer t.Stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !trace.IsEnabled() {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
	}
	return true
}

// NextWait numbers a wait.
func (t *Target) NextWait() uint64 { return t.waits.Add(1) }

// Reported writes down a dispatch that the SDK took; one without id was not recorded.
func (t *Target) Reported(d truth.Dispatch) {
	if d.ID == 0 {
		t.unrecorded.Add(1)
		return
	}
	t.Dispatch(d)
}

// Exit ends the program with what Run returned.
func Exit(program string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}
