package main

import (
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// scenario is one way to cause work and to wait for it.
type scenario struct {
	name   string
	weight int // how often, relative to the others
	play   func(*feeder)
}

var scenarios = []scenario{
	{"sync", 6, (*feeder).playSync},
	{"async", 6, (*feeder).playAsync},
	{"late", 2, (*feeder).playLate},
	{"timeout", 1, (*feeder).playTimeout},
	{"overrun", 1, (*feeder).playOverrun},
	{"retry", 1, (*feeder).playRetry},
	{"fault", 1, (*feeder).playFault},
	{"partial", 2, (*feeder).playPartial},
	{"queue", 2, (*feeder).playQueue},
	{"drain", 1, (*feeder).playDrain},
	{"stranger", 2, (*feeder).playStranger},
}

var bufferNames = map[string]sdk.Name{}

func init() {
	for _, s := range scenarios {
		bufferNames[s.name] = sdk.NewName(s.name)
	}
	for _, s := range []string{"cross", "twin"} {
		bufferNames[s] = sdk.NewName(s)
	}
}

// limit is how long a wait with limit lasts.
const limit = 500 * time.Microsecond

func (f *feeder) playSync() {
	s := f.encoded("sync")
	w := commitAndWait(s)
	s.release()
	if f.rng.IntN(2) == 0 {
		w.buffer(s)
	} else {
		w.each(s)
	}
	f.device.commit(s)
	<-s.done
	w.end()
	s.expect(0, len(s.work), truth.Verdict{Class: synchronous}, w)
}

func (f *feeder) playAsync() {
	s := f.encoded("async")
	s.release()
	if f.rng.IntN(8) == 0 {
		s.fail(0)
	}
	f.device.commit(s)
	f.background.Go(func() {
		<-s.done
		s.expect(0, len(s.work), truth.Verdict{Class: asynchronous}, nil)
	})
}

func (f *feeder) playLate() {
	s := f.encoded("late")
	f.device.commit(s)
	<-s.done
	w := waitUntilCompleted(s).buffer(s)
	s.release()
	w.end()
	s.expect(0, len(s.work), truth.Verdict{Class: waitedLate}, w)
}

func (f *feeder) playTimeout() {
	s := f.encoded("timeout")
	s.mayBegin = make(chan struct{})
	f.device.commit(s)
	w := waitWithLimit(s).buffer(s)
	s.release()
	time.Sleep(limit)
	w.giveUp()
	pause(settle)
	close(s.mayBegin)
	<-s.done
	s.expect(0, len(s.work), truth.Verdict{Class: timedOut}, w)
}

func (f *feeder) playOverrun() {
	s := f.encoded("overrun")
	s.mayEnd, s.running = make(chan struct{}), make(chan struct{})
	f.device.commit(s)
	<-s.running
	w := waitWithLimit(s).buffer(s)
	s.release()
	time.Sleep(limit)
	w.giveUp()
	close(s.mayEnd)
	<-s.done
	last := len(s.work) - 1
	s.expect(0, last, truth.Verdict{Class: waitedLate}, w)
	s.expect(last, last+1, truth.Verdict{Class: timedOut}, w)
}

func (f *feeder) playRetry() {
	s := f.encoded("retry")
	s.mayBegin = make(chan struct{})
	f.device.commit(s)
	first := waitWithLimit(s).buffer(s)
	time.Sleep(limit)
	first.giveUp()
	second := waitUntilCompleted(s).buffer(s)
	s.release()
	close(s.mayBegin)
	<-s.done
	second.end()
	s.expect(0, len(s.work), truth.Verdict{Class: synchronous}, second)
}

func (f *feeder) playFault() {
	s := f.encoded("fault")
	s.fail(f.rng.IntN(len(s.work)))
	w := commitAndWait(s).buffer(s)
	s.release()
	f.device.commit(s)
	<-s.done
	w.end()
	s.expect(0, len(s.work), truth.Verdict{Class: synchronous}, w)
}

func (f *feeder) playPartial() {
	s := f.encoded("partial")
	s.mayEnd, s.running = make(chan struct{}), make(chan struct{})
	f.device.commit(s)
	<-s.running
	w := waitUntilCompleted(s).buffer(s)
	s.release()
	close(s.mayEnd)
	<-s.done
	w.end()
	last := len(s.work) - 1
	s.expect(0, last, truth.Verdict{Class: waitedLate}, w)
	s.expect(last, last+1, truth.Verdict{Class: synchronous}, w)
}

// playQueue submits two command buffers to the shared queue and waits for the first by its submission number. What the
// second becomes depends on whether anybody waits for the queue again.
func (f *feeder) playQueue() {
	f.shared.Lock()
	defer f.shared.Unlock()
	q := f.shared
	first, second := f.encoded("queue"), f.encoded("queue")
	first.mayBegin = make(chan struct{})
	upTo := q.take(first)
	q.take(second)
	f.device.commit(first)
	f.device.commit(second)
	w := waitForQueue(first).upTo(q.name, upTo)
	first.release()
	second.release()
	close(first.mayBegin)
	<-first.done
	w.end()
	first.expect(0, len(first.work), truth.Verdict{Class: synchronous}, w)
	q.awaited(w)
	<-second.done
	second.expect(0, len(second.work), truth.Verdict{Class: asynchronous}, nil)
	q.left = second
}

// playDrain waits for everything on the shared queue.
func (f *feeder) playDrain() {
	f.shared.Lock()
	defer f.shared.Unlock()
	q := f.shared
	s := f.encoded("drain")
	s.mayBegin = make(chan struct{})
	q.take(s)
	f.device.commit(s)
	w := waitForQueue(s).upTo(q.name, 0)
	s.release()
	close(s.mayBegin)
	<-s.done
	w.end()
	s.expect(0, len(s.work), truth.Verdict{Class: synchronous}, w)
	q.awaited(w)
}

// playStranger lets another goroutine wait, with nothing in common on its stack. Most often the scheduler runs it on
// the thread that submitted; the flags say what happened.
func (f *feeder) playStranger() {
	s := f.encoded("stranger")
	s.release()
	finished := make(chan struct{})
	go strangerMain(f.device, s, 16, finished)
	<-finished
}

//go:noinline
func strangerMain(d *device, s *submission, tries int, finished chan<- struct{}) {
	if truth.Thread() != s.thread && tries > 0 {
		go strangerMain(d, s, tries-1, finished)
		return
	}
	w := strangerWaits(s).buffer(s)
	d.commit(s)
	<-s.done
	w.end()
	s.expect(0, len(s.work), truth.Verdict{
		Class: synchronous, DifferentStack: true, CrossThread: w.fact.Thread != s.thread,
	}, w)
	close(finished)
}

//go:noinline
func strangerWaits(s *submission) *waiting {
	w := newWaiting(s.ledger, "wait until completed")
	w.fact.Site = truth.Below()
	w.wait = sdk.BeginWait(s.ctx, waitCompleted)
	return w.begun()
}

// pause returns after d, without giving up the thread for longer than needed.
func pause(d time.Duration) { sleepUntil(sdk.Now() + sdk.Time(d)) }
