package main

import (
	"sync/atomic"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// ledger is the truth file and the measure of what the SDK costs its callers.
type ledger struct {
	*truth.Writer
	truth.Meter
	waits      atomic.Uint64
	unrecorded atomic.Uint64
	goroutines bool // note goroutines, which costs microseconds each time
}

// goroutine is the id of the calling goroutine, or 0 when nobody will compare it.
func (l *ledger) goroutine() int64 {
	if !l.goroutines {
		return 0
	}
	return truth.Goroutine()
}

// reported writes a dispatch that the SDK took, with what is expected of it when that is known already.
func (l *ledger) reported(recorded bool, d truth.Dispatch, class string) {
	if !recorded {
		l.unrecorded.Add(1)
		return
	}
	l.Dispatch(d)
	if class != "" && d.ID != 0 {
		l.Verdict(truth.Verdict{Dispatch: d.ID, Class: class, Faulted: d.Fault != ""})
	}
}

func (l *ledger) close(reason, shutdown string) (truth.End, error) {
	s := sdk.Stats()
	e := truth.End{
		Reason:     reason,
		Unrecorded: l.unrecorded.Load(),
		Shutdown:   shutdown,
		SDK: truth.SDK{
			State: string(s.State), Emitted: s.Emitted, Queued: s.Queued, Sent: s.Sent,
			Full: s.Dropped.Full, Send: s.Dropped.Send, Other: s.Dropped.Other,
		},
	}
	l.Fill(&e)
	return l.Close(e)
}

// The classes that a recording can conclude.
const (
	synchronous  = "synchronous"
	timedOut     = "timed_out"
	waitedLate   = "waited_late"
	asynchronous = "asynchronous"
	unproven     = "unproven"
)
