// Package work is one piece of work that two programs report in different ways: through stax's SDK, and through nothing
// but a plain OpenTelemetry SDK. Lanes, names, durations and ways of waiting depend on the seed alone, so whatever reports
// them, the answers have to be the same. It imports neither SDK.
package work

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/stax-otel/stax/testbed/internal/truth"
)

// The lanes. Only the work of Render is ever waited for.
const (
	Render = "render" // of kind gpu
	Disk   = "disk"   // of kind storage
)

// A Reporter is a way to report. It is used by several goroutines.
type Reporter interface {
	// Queue says that the calling goroutine queues a dispatch now. Locked: the goroutine is bound to its thread.
	Queue(lane, name string, locked bool) Dispatch
	// BeginWait says that the calling goroutine begins to wait for a dispatch now.
	BeginWait(name string, locked bool, d Dispatch) Wait
}

// A Dispatch is queued and not yet reported.
type Dispatch interface {
	ID() uint64
	// Report reports it with its times in Unix nanoseconds; fault is "" or what went wrong.
	Report(start, end int64, fault string)
}

// A Wait has begun and not yet ended.
type Wait interface{ End(timedOut bool) }

// Play does n pieces of work on each of two goroutines, one of them locked to its thread, and writes them down.
func Play(r Reporter, w *truth.Writer, seed uint64, n int) {
	w.Lane(truth.Lane{Name: Render, Kind: "gpu", ReportsWaits: true})
	w.Lane(truth.Lane{Name: Disk, Kind: "storage"})
	var wg sync.WaitGroup
	for i, locked := range []bool{false, true} {
		p := &player{r: r, w: w, rng: rand.New(rand.NewPCG(seed, uint64(i))), locked: locked}
		wg.Go(func() { p.play(n) })
	}
	wg.Wait()
}

type player struct {
	r      Reporter
	w      *truth.Writer
	rng    *rand.Rand
	locked bool
}

func (p *player) play(n int) {
	if p.locked {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	for i := range n {
		switch i % 6 {
		case 0, 1:
			p.one("asynchronous", nil, nil)
		case 2, 3:
			p.one("synchronous", func(d Dispatch) Wait { return p.r.BeginWait("wait", p.locked, d) }, nil)
		case 4:
			p.one("timed_out", func(d Dispatch) Wait { p.r.BeginWait("poll", p.locked, d).End(true); return nil }, nil)
		case 5:
			p.one("waited_late", nil, func(d Dispatch) { p.r.BeginWait("look", p.locked, d).End(false) })
		}
		p.read()
	}
}

// one does one piece of work that is waited for in the way that its class says.
func (p *player) one(class string, before func(Dispatch) Wait, after func(Dispatch)) {
	names := []string{"shade", "blend", "present"}
	name := names[p.rng.IntN(len(names))]
	length := time.Duration(20_000 + p.rng.ExpFloat64()*80_000)
	fault := ""
	if p.rng.IntN(16) == 0 {
		fault = "device lost"
	}
	at := time.Now().UnixNano()
	d := p.r.Queue(Render, name, p.locked)
	fact := p.fact(d, Render, name, class, at)
	fact.Fault = fault
	var w Wait
	if before != nil {
		w = before(d)
	}
	p.finish(d, fact, length)
	if w != nil {
		w.End(false)
	}
	if after != nil {
		after(d)
	}
	p.w.Verdict(truth.Verdict{Dispatch: fact.ID, Class: class, Faulted: fault != ""})
}

// read does one piece of work on the lane that nobody waits for.
func (p *player) read() {
	length := time.Duration(5_000 + p.rng.Int64N(30_000))
	name := fmt.Sprintf("read %d", p.rng.IntN(4))
	at := time.Now().UnixNano()
	d := p.r.Queue(Disk, name, p.locked)
	fact := p.fact(d, Disk, name, "unproven", at)
	p.finish(d, fact, length)
	p.w.Verdict(truth.Verdict{Dispatch: fact.ID, Class: "unproven"})
}

func (p *player) fact(d Dispatch, lane, name, scenario string, notBefore int64) *truth.Dispatch {
	return &truth.Dispatch{
		ID: truth.ID(d.ID()), Lane: lane, Name: name, Scenario: scenario,
		Origin: &truth.Origin{
			Thread: truth.Thread(), Locked: p.locked, NotBefore: notBefore, NotAfter: time.Now().UnixNano(),
		},
	}
}

// settle separates instants whose order decides a class by more than the resolution of any clock.
const settle = 20 * time.Microsecond

// finish lets the wall clock pass the work's times and reports it.
func (p *player) finish(d Dispatch, fact *truth.Dispatch, length time.Duration) {
	sleep(settle)
	start := time.Now().UnixNano()
	sleep(length + settle)
	fact.StartNanos, fact.EndNanos = start, start+int64(length)
	d.Report(fact.StartNanos, fact.EndNanos, fact.Fault)
	p.w.Dispatch(*fact)
}

// sleep returns when d has passed on the wall clock.
func sleep(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		runtime.Gosched()
	}
}
