package main

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// feeder is a goroutine that plays scenarios.
type feeder struct {
	ctx        context.Context //nolint:containedctx // the life of the goroutine
	device     *device
	rng        *rand.Rand
	pace       time.Duration
	shared     *sharedQueue
	background *sync.WaitGroup
}

// feederMain plays every scenario once, beginning with number first, and then draws by weight.
//
//go:noinline
func feederMain(f *feeder, first int) {
	f.loop(first)
}

//go:noinline
func (f *feeder) loop(first int) {
	for i := 0; f.ctx.Err() == nil; i++ {
		if i < len(scenarios) {
			scenarios[(first+i)%len(scenarios)].play(f)
		} else {
			f.draw().play(f)
		}
		rest(f.ctx, f.rng, f.pace)
	}
}

func (f *feeder) draw() scenario {
	total := 0
	for _, s := range scenarios {
		total += s.weight
	}
	n := f.rng.IntN(total)
	for _, s := range scenarios {
		if n -= s.weight; n < 0 {
			return s
		}
	}
	panic("unreachable")
}

// encoded makes a filled submission. The caller releases it.
func (f *feeder) encoded(scenario string) *submission {
	s := newSubmission(f.ctx, f.device, f.rng, scenario)
	encode(s)
	return s
}

// rest sleeps for about d, or until ctx ends.
func rest(ctx context.Context, rng *rand.Rand, d time.Duration) {
	t := time.NewTimer(d/2 + time.Duration(rng.Int64N(int64(d)+1)))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// sharedQueue is a queue with numbered submissions that scenarios take turns on.
type sharedQueue struct {
	sync.Mutex
	name sdk.Queue
	last uint64
	left *submission // done, and not covered by any wait so far
}

// take puts s on the queue and returns its last number.
func (q *sharedQueue) take(s *submission) uint64 {
	s.onQueue(q.name, q.last+1)
	q.last += uint64(len(s.work))
	return q.last
}

// awaited says that w, which has ended, covers everything that was left on the queue: late, for that was done already.
func (q *sharedQueue) awaited(w *waiting) {
	if q.left != nil && w.recorded {
		late := truth.Verdict{Class: waitedLate, CrossThread: w.fact.Thread != q.left.thread}
		q.left.expect(0, len(q.left.work), late, w)
		q.left = nil
	}
}

// The pairs below each keep two threads: one goroutine submits, the other waits.

// crossPair makes a submitter and a waiter that have no code in common.
func crossPair(ctx context.Context, d *device, rng *rand.Rand, pace time.Duration, wg *sync.WaitGroup) {
	handover, back := make(chan *submission), make(chan struct{})
	wg.Go(func() { crossSubmitterMain(ctx, d, rng, pace, handover, back) })
	wg.Go(func() { crossWaiterMain(handover, back) })
}

//go:noinline
func crossSubmitterMain(ctx context.Context, d *device, rng *rand.Rand, pace time.Duration, handover chan<- *submission, back <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(handover)
	for ctx.Err() == nil {
		s := newSubmission(ctx, d, rng, "cross")
		s.mayBegin = make(chan struct{})
		encode(s)
		s.release()
		d.commit(s)
		handover <- s
		<-back
		rest(ctx, rng, pace)
	}
}

//go:noinline
func crossWaiterMain(handover <-chan *submission, back chan<- struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for s := range handover {
		w := waitForOthers(s)
		close(s.mayBegin)
		<-s.done
		w.end()
		s.expect(0, len(s.work), truth.Verdict{Class: synchronous, CrossThread: true, DifferentStack: true}, w)
		back <- struct{}{}
	}
}

//go:noinline
func waitForOthers(s *submission) *waiting {
	w := newWaiting(s.ledger, "wait until completed")
	w.fact.Site = truth.Below()
	w.wait = sdk.BeginWait(s.ctx, waitCompleted)
	return w.begun().buffer(s)
}

// twins are two goroutines that run the same code: each submits for the other to wait.
func twins(ctx context.Context, d *device, rng *rand.Rand, pace time.Duration, wg *sync.WaitGroup) {
	handover, back := make(chan *submission), make(chan struct{})
	for _, submits := range []bool{true, false} {
		t := &twin{ctx: ctx, device: d, rng: rng, pace: pace, submits: submits, handover: handover, back: back}
		wg.Go(func() { twinMain(t) })
	}
}

type twin struct {
	ctx      context.Context //nolint:containedctx // the life of the goroutine
	device   *device
	rng      *rand.Rand // of the one that submits
	pace     time.Duration
	submits  bool
	handover chan *submission
	back     chan struct{}
}

//go:noinline
func twinMain(t *twin) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for t.step() {
	}
}

//go:noinline
func (t *twin) step() bool {
	if t.submits {
		if t.ctx.Err() != nil {
			close(t.handover)
			return false
		}
		s := newSubmission(t.ctx, t.device, t.rng, "twin")
		s.mayBegin = make(chan struct{})
		encode(s)
		s.release()
		t.device.commit(s)
		t.handover <- s
		<-t.back
		rest(t.ctx, t.rng, t.pace)
		return true
	}
	s, ok := <-t.handover
	if !ok {
		return false
	}
	w := waitForOthers(s)
	close(s.mayBegin)
	<-s.done
	w.end()
	s.expect(0, len(s.work), truth.Verdict{Class: synchronous, CrossThread: true}, w)
	t.back <- struct{}{}
	return true
}
