package main

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// submission is one command buffer on its way through the device.
type submission struct {
	ctx      context.Context //nolint:containedctx // the CPU span context of this submission, as a tracing program has it
	ledger   *ledger
	lane     *sdk.Lane
	rng      *rand.Rand
	scenario string
	thread   int64
	// goroutine is 0 unless it is asked for: it is dear to find out.
	goroutine int64

	buffer    sdk.CommandBuffer
	fact      truth.CommandBuffer
	work      []*work
	stampLate bool

	mayBegin chan struct{} // the device begins only when it is closed; nil: at once
	mayEnd   chan struct{} // the last dispatch ends only when it is closed; nil: by itself
	running  chan struct{} // with mayEnd: closed when the last dispatch has begun
	done     chan struct{} // closed when the work is done and reported
}

// work is one dispatch of a submission.
type work struct {
	dispatch   sdk.Dispatch
	fact       truth.Dispatch
	cost       time.Duration
	start, end sdk.Time
	cycles     reading
	bytes      reading
}

// newSubmission makes an empty submission. It locks the caller to its thread, so that everything it captures up to
// release comes from one known thread.
func newSubmission(ctx context.Context, d *device, rng *rand.Rand, scenario string) *submission {
	runtime.LockOSThread()
	s := &submission{
		ctx: ctx, ledger: d.ledger, lane: d.lane, rng: rng, scenario: scenario, thread: truth.Thread(), goroutine: d.ledger.goroutine(),
		stampLate: rng.IntN(16) == 0, done: make(chan struct{}),
	}
	t := time.Now()
	s.buffer = d.lane.CommandBuffer(bufferNames[scenario])
	s.ledger.Called(t)
	s.fact = truth.CommandBuffer{ID: truth.ID(s.buffer.ID()), Lane: "gpu", Queue: "main", Name: scenario}
	return s
}

// release gives the thread back to the scheduler.
func (s *submission) release() { runtime.UnlockOSThread() }

// begin adds a dispatch. The caller captures its origin and then calls captured.
func (s *submission) begin(k *kernel) *work {
	w := &work{cost: k.cost(s.rng)}
	t := time.Now()
	w.dispatch = s.lane.Dispatch(k.name)
	s.ledger.Called(t)
	w.dispatch.CommandBuffer(s.buffer.ID())
	w.dispatch.Shader(k.shader)
	w.dispatch.Tag(tagPhase, s.scenario)
	w.cycles = read(s.rng, int64(w.cost)*7/5)
	w.bytes = read(s.rng, int64(s.rng.IntN(1<<20)))
	w.fact = truth.Dispatch{
		ID: truth.ID(w.dispatch.ID()), Lane: "gpu", Scenario: s.scenario, CommandBuffer: s.fact.ID, Queue: "main",
		Name: k.name.String(), Shader: k.shader.String(), Tags: map[string]string{"phase": s.scenario},
		Origin: &truth.Origin{Thread: s.thread},
	}
	s.work = append(s.work, w)
	w.fact.Origin.NotBefore = int64(sdk.Now())
	return w
}

// captured says that the origin has just been captured.
func (w *work) captured() { w.fact.Origin.NotAfter = int64(sdk.Now()) }

// seal ends the encoding: it lets the clock run past the last origin, so that no order is inside the clock error.
func (s *submission) seal() {
	last := sdk.Time(s.work[len(s.work)-1].fact.Origin.NotAfter)
	for sdk.Now() < last+5*sdk.Time(clockError) {
		runtime.Gosched() // stays on this thread: it is locked
	}
}

// onQueue moves the submission to another queue, numbering its dispatches from first.
func (s *submission) onQueue(q sdk.Queue, first uint64) {
	s.buffer.Queue(q, first)
	s.fact.Queue, s.fact.QueueSeq = q.String(), first
	for i, w := range s.work {
		w.dispatch.Queue(q, first+uint64(i))
		w.fact.Queue, w.fact.QueueSeq = q.String(), first+uint64(i)
	}
}

// fail makes dispatch i fail.
func (s *submission) fail(i int) { s.work[i].fact.Fault = "page fault in " + s.work[i].fact.Name }

func (s *submission) faulted() bool {
	for _, w := range s.work {
		if w.fact.Fault != "" {
			return true
		}
	}
	return false
}

// expect writes what a recording must conclude about dispatches i to j of s. The caller fills class and flags of v; by
// is the deciding wait, or nil. Nothing is expected of what was not recorded.
func (s *submission) expect(i, j int, v truth.Verdict, by *waiting) {
	for _, w := range s.work[i:j] {
		if w.fact.ID == 0 || by != nil && !by.recorded {
			continue
		}
		v := v
		v.Dispatch, v.Faulted = w.fact.ID, w.fact.Fault != ""
		if by != nil {
			v.Wait = by.fact.Number
			v.CrossGoroutine = by.fact.Goroutine != s.goroutine
		}
		if v.Class == synchronous {
			v.OwnedMin, v.OwnedMax = by.overlap(w.fact.StartNanos, w.fact.EndNanos)
		}
		s.ledger.Verdict(v)
	}
}
