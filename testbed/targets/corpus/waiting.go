package main

import (
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// waiting is a wait in progress.
type waiting struct {
	ledger   *ledger
	wait     sdk.Wait
	fact     truth.Wait
	recorded bool
}

var tagWait = sdk.NewKey(truth.KeyWait)

// newWaiting prepares a wait. The caller sets the site, begins the wait and calls begun, all on one thread.
func newWaiting(l *ledger, name string) *waiting {
	runtime.LockOSThread()
	return &waiting{ledger: l, fact: truth.Wait{
		Number: l.waits.Add(1), Name: name, Thread: truth.Thread(), Goroutine: l.goroutine(), BeginNotBefore: int64(sdk.Now()),
	}}
}

// begun says that the wait has just begun.
func (w *waiting) begun() *waiting {
	w.fact.BeginNotAfter = int64(sdk.Now())
	runtime.UnlockOSThread()
	w.wait.Tag(tagWait, strconv.FormatUint(w.fact.Number, 10))
	return w
}

// buffer awaits a whole submission. One that was made while nothing recorded has no id, and nothing can name it.
func (w *waiting) buffer(s *submission) *waiting {
	w.wait.AwaitCommandBuffer(s.buffer.ID())
	if s.fact.ID != 0 {
		w.fact.Awaits = append(w.fact.Awaits, "command_buffer:"+s.fact.ID.String())
	}
	return w
}

// each awaits every dispatch of a submission by its own id.
func (w *waiting) each(s *submission) *waiting {
	for _, x := range s.work {
		w.wait.Await(x.dispatch.ID())
		if x.fact.ID != 0 {
			w.fact.Awaits = append(w.fact.Awaits, "dispatch:"+x.fact.ID.String())
		}
	}
	return w
}

// upTo awaits everything on q up to submission number n; 0: everything submitted before.
func (w *waiting) upTo(q sdk.Queue, n uint64) *waiting {
	w.wait.AwaitQueue(q, n)
	ref := "queue:" + q.String()
	if n > 0 {
		ref += fmt.Sprintf("@%d", n)
	}
	w.fact.Awaits = append(w.fact.Awaits, ref)
	return w
}

// end ends the wait now.
func (w *waiting) end() {
	w.recorded = w.wait.Active()
	w.fact.EndNotBefore = int64(sdk.Now())
	t := time.Now()
	w.wait.End()
	w.ledger.Called(t)
	w.ended()
}

// giveUp ends the wait by its own time limit.
func (w *waiting) giveUp() {
	w.recorded = w.wait.Active()
	w.fact.TimedOut = true
	w.fact.EndNotBefore = int64(sdk.Now())
	w.wait.EndTimedOut()
	w.ended()
}

func (w *waiting) ended() {
	w.fact.EndNotAfter = int64(sdk.Now())
	if w.recorded {
		w.ledger.Wait(w.fact)
	}
}

// overlap bounds the overlap of the wait with [start, end].
func (w *waiting) overlap(start, end int64) (least, most int64) {
	least = min(end, w.fact.EndNotBefore) - max(start, w.fact.BeginNotAfter)
	most = min(end, w.fact.EndNotAfter) - max(start, w.fact.BeginNotBefore)
	return max(least, 0), max(most, 0)
}

// Each of these begins a wait at a place of its own.

//go:noinline
func commitAndWait(s *submission) *waiting {
	w := newWaiting(s.ledger, "commit and wait")
	w.fact.Site = truth.Below()
	w.wait = sdk.BeginWait(s.ctx, waitCommit)
	return w.begun()
}

//go:noinline
func waitUntilCompleted(s *submission) *waiting {
	w := newWaiting(s.ledger, "wait until completed")
	w.fact.Site = truth.Below()
	w.wait = sdk.BeginWait(s.ctx, waitCompleted)
	return w.begun()
}

//go:noinline
func waitWithLimit(s *submission) *waiting {
	w := newWaiting(s.ledger, "wait with limit")
	w.fact.Site = truth.Below()
	w.wait = sdk.BeginWait(s.ctx, waitLimit)
	return w.begun()
}

//go:noinline
func waitForQueue(s *submission) *waiting {
	w := newWaiting(s.ledger, "wait for queue")
	w.fact.Site = truth.Below()
	w.wait = sdk.BeginWait(s.ctx, waitQueue)
	return w.begun()
}

var (
	waitCommit    = sdk.NewName("commit and wait")
	waitCompleted = sdk.NewName("wait until completed")
	waitLimit     = sdk.NewName("wait with limit")
	waitQueue     = sdk.NewName("wait for queue")
)
