package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// pool executes CPU jobs on a few workers. Its lane reports no waits.
type pool struct {
	lane     *sdk.Lane
	counters *sdk.CounterSet
	ledger   *ledger
	jobs     chan *job
	workers  sync.WaitGroup
}

// job is one unit of CPU work.
type job struct {
	dispatch sdk.Dispatch
	fact     truth.Dispatch
	size     int
	run      func(size int) (iterations int)
}

func newPool(l *ledger, workers int) *pool {
	p := &pool{
		lane: sdk.NewLane("pool", sdk.LaneThreadPool),
		counters: sdk.NewCounterSet("job", "Job",
			sdk.Counter{Name: "iterations", Unit: sdk.UnitInvocations}, sdk.Counter{Name: "load", Unit: sdk.UnitPercent}),
		ledger: l,
		jobs:   make(chan *job, 128),
	}
	l.Lane(truth.Lane{Name: "pool", Kind: string(sdk.LaneThreadPool)})
	for range workers {
		p.workers.Go(p.work)
	}
	return p
}

func (p *pool) close() {
	close(p.jobs)
	p.workers.Wait()
}

func (p *pool) work() {
	for j := range p.jobs {
		load := float64(len(p.jobs)) / float64(cap(p.jobs)) * 100
		start := sdk.Now()
		iterations := j.run(j.size)
		end := sdk.Now()
		j.dispatch.Counters(p.counters, sdk.AfterDispatch, sdk.IntValue(int64(iterations)), sdk.FloatValue(load))
		recorded := j.dispatch.Active()
		t := time.Now()
		j.dispatch.Report(start, end)
		p.ledger.Called(t)
		j.fact.StartNanos, j.fact.EndNanos = int64(start), int64(end)
		j.fact.Counters = []truth.Counter{
			{Set: "job", Point: string(sdk.AfterDispatch), Name: "iterations", Unit: string(sdk.UnitInvocations), State: "ok", Int: int64(iterations)},
			{Set: "job", Point: string(sdk.AfterDispatch), Name: "load", Unit: string(sdk.UnitPercent), State: "ok", IsFloat: true, Float: load},
		}
		p.ledger.reported(recorded, j.fact, unproven)
	}
}

// begin makes a job. The caller captures its origin and sends it.
func (p *pool) begin(name sdk.Name, size int, run func(int) int) *job {
	t := time.Now()
	j := &job{dispatch: p.lane.Dispatch(name), size: size, run: run}
	p.ledger.Called(t)
	j.fact = truth.Dispatch{
		ID: truth.ID(j.dispatch.ID()), Lane: "pool", Scenario: "job", Name: name.String(),
		Origin: &truth.Origin{NotBefore: int64(sdk.Now())},
	}
	return j
}

func (j *job) captured() { j.fact.Origin.NotAfter = int64(sdk.Now()) }

// producerMain queues jobs of all kinds. Its goroutine moves between threads as the scheduler likes.
func producerMain(ctx context.Context, p *pool, rng *rand.Rand, pace time.Duration) {
	for ctx.Err() == nil {
		switch rng.IntN(4) {
		case 0:
			queueHash(ctx, p, 32<<10+rng.IntN(64<<10))
		case 1:
			queueSort(ctx, p, 1000+rng.IntN(2000))
		case 2:
			queueMultiply(ctx, p, 24+rng.IntN(24))
		default:
			queueSieve(ctx, p, 40, 20000+rng.IntN(20000))
		}
		rest(ctx, rng, pace)
	}
}

var (
	nameHash     = sdk.NewName("hash")
	nameSort     = sdk.NewName("sort")
	nameMultiply = sdk.NewName("multiply")
	nameSieve    = sdk.NewName("sieve")
)

//go:noinline
func queueHash(ctx context.Context, p *pool, size int) {
	j := p.begin(nameHash, size, hashBlock)
	j.fact.Origin.Site = truth.Below()
	j.dispatch.CaptureOrigin(ctx)
	j.captured()
	p.jobs <- j
}

//go:noinline
func queueSort(ctx context.Context, p *pool, size int) {
	j := p.begin(nameSort, size, sortNumbers)
	j.fact.Origin.Site = truth.Below()
	o := p.lane.CaptureOrigin(ctx)
	j.captured()
	j.dispatch.Origin(o)
	p.jobs <- j
}

//go:noinline
func queueMultiply(ctx context.Context, p *pool, size int) {
	j := p.begin(nameMultiply, size, multiplyMatrices)
	j.fact.Origin.Site = truth.Below()
	o := sdk.CaptureOrigin(ctx)
	j.captured()
	j.dispatch.Origin(o)
	p.jobs <- j
}

// queueSieve recurses past the frames that an origin keeps before it queues.
//
//go:noinline
func queueSieve(ctx context.Context, p *pool, depth, size int) {
	if depth > 0 {
		queueSieve(ctx, p, depth-1, size)
		return
	}
	j := p.begin(nameSieve, size, sievePrimes)
	j.fact.Origin.Site = truth.Below()
	j.dispatch.CaptureOrigin(ctx)
	j.captured()
	p.jobs <- j
}
