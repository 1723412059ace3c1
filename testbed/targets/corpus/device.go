package main

import (
	"math/rand/v2"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

const (
	// clockError is the declared error of the device's clock. It has none, but a recording must cope with one.
	clockError = 2 * time.Microsecond
	// settle separates instants whose order decides a class, by far more than the clock error.
	settle = 100 * time.Microsecond
)

// device simulates a GPU with one hardware queue that executes submissions in the order of their commits. Its times are
// simulated; the wall clock only has to have passed them before anything is reported or anybody is woken.
type device struct {
	lane     *sdk.Lane
	counters *sdk.CounterSet
	ledger   *ledger

	committed chan *submission
	executed  chan *submission
	finished  chan struct{}
}

func newDevice(l *ledger) *device {
	d := &device{
		lane: sdk.NewLane("gpu", sdk.LaneMetal, sdk.WithClockError(clockError), sdk.WithQueue("main")),
		counters: sdk.NewCounterSet("device", "Simulated device",
			sdk.Counter{Name: "cycles", Unit: sdk.UnitCycles}, sdk.Counter{Name: "bytes", Unit: sdk.UnitBytes}),
		ledger:    l,
		committed: make(chan *submission, 64),
		executed:  make(chan *submission, 64),
		finished:  make(chan struct{}),
	}
	l.Lane(truth.Lane{Name: "gpu", Kind: string(sdk.LaneMetal), ClockErrorNanos: int64(clockError), ReportsWaits: true})
	go d.execute()
	go d.complete()
	return d
}

// commit hands s to the device.
func (d *device) commit(s *submission) { d.committed <- s }

// close waits until everything committed is reported. Nobody may commit any more.
func (d *device) close() {
	close(d.committed)
	<-d.finished
}

// execute gives every submission its times.
func (d *device) execute() {
	var at sdk.Time // end of the device's work so far
	for s := range d.committed {
		if s.mayBegin != nil {
			<-s.mayBegin
		}
		at = max(at, sdk.Now())
		for i, w := range s.work {
			at += sdk.Time(1000 + i*150) // the device needs a moment between dispatches
			w.start = at
			at += sdk.Time(w.cost)
			if s.mayEnd != nil && i == len(s.work)-1 {
				sleepUntil(w.start + sdk.Time(settle))
				close(s.running)
				<-s.mayEnd
				at = max(at, sdk.Now()+sdk.Time(settle))
			}
			w.end = at
		}
		d.executed <- s
	}
	close(d.executed)
}

// complete reports every submission after the wall clock has passed its end, as a completion handler does.
func (d *device) complete() {
	defer close(d.finished)
	for s := range d.executed {
		sleepUntil(s.work[len(s.work)-1].end + sdk.Time(settle))
		d.report(s)
		close(s.done)
	}
}

func (d *device) report(s *submission) {
	for _, w := range s.work {
		w.dispatch.Counters(d.counters, sdk.AfterDispatch, w.cycles.value(), w.bytes.value())
		if w.fact.Fault != "" {
			w.dispatch.Fault(w.fact.Fault)
		}
		recorded := w.dispatch.Active()
		t := time.Now()
		w.dispatch.Report(w.start, w.end)
		d.ledger.Called(t)
		w.fact.StartNanos, w.fact.EndNanos = int64(w.start), int64(w.end)
		w.fact.Counters = []truth.Counter{
			w.cycles.fact("cycles", string(sdk.UnitCycles)), w.bytes.fact("bytes", string(sdk.UnitBytes)),
		}
		d.ledger.reported(recorded, w.fact, "")
	}
	begin, end := s.work[0].start, s.work[len(s.work)-1].end
	if s.stampLate {
		begin += sdk.Time(clockError) // hardware may stamp a buffer's begin after its first dispatch
	}
	if s.faulted() {
		s.buffer.Fault("a dispatch failed")
		s.fact.Fault = "a dispatch failed"
	}
	if !s.buffer.Active() {
		return
	}
	t := time.Now()
	s.buffer.Report(begin, end)
	d.ledger.Called(t)
	s.fact.StartNanos, s.fact.EndNanos, s.fact.Dispatches = int64(begin), int64(end), len(s.work)
	d.ledger.CommandBuffer(s.fact)
}

// sleepUntil returns when t has passed.
func sleepUntil(t sdk.Time) {
	for {
		left := time.Duration(t - sdk.Now())
		if left <= 0 {
			return
		}
		time.Sleep(left)
	}
}

// reading is a counter value of the simulated device.
type reading struct {
	state string
	n     int64
}

// read makes a reading of n that now and then has no value.
func read(rng *rand.Rand, n int64) reading {
	switch rng.IntN(20) {
	case 0:
		return reading{state: "error"}
	case 1:
		return reading{state: "unresolved"}
	default:
		return reading{state: "ok", n: n}
	}
}

func (r reading) value() sdk.Value {
	switch r.state {
	case "error":
		return sdk.CounterError()
	case "unresolved":
		return sdk.CounterUnresolved()
	default:
		return sdk.IntValue(r.n)
	}
}

func (r reading) fact(name, unit string) truth.Counter {
	return truth.Counter{Set: "device", Point: string(sdk.AfterDispatch), Name: name, Unit: unit, State: r.state, Int: r.n}
}
