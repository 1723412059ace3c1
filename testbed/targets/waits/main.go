// Waits is ground truth for off-CPU time and for the corroboration of declared waits: goroutines that block in every way
// that Go knows, for work that somebody else executes, and declare each block as a stax wait.
//
//	kind       how it blocks                       off-CPU reason  what samples must say
//	channel    receives from a channel             ipc             slept
//	mutex      locks a mutex that is held          lock            slept
//	sleep      sleeps past the end of the work     sleep           slept
//	network    reads from a TCP connection         conn            slept
//	cond       waits for a condition variable      idle            slept
//	group      waits for a wait group              sem             slept
//	pipe       read(2) of a blocking pipe          syscall         slept
//	spin       polls an atomic flag                none            spun
//	liar       computes something else             none            contradicted: the dispatch is unproven
//
// The truth has the instants right before and right after the blocking call (BeginNotAfter and EndNotBefore of a wait).
package main

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stax-otel/stax/sdk"
	_ "github.com/stax-otel/stax/sdk/cputrace/auto"
	"github.com/stax-otel/stax/testbed/internal/target"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

func main() {
	rounds := flag.Int("rounds", 60, "how often to block in each way")
	limit := flag.Duration("duration", 30*time.Second, "stop after this time, whatever -rounds says")
	seed := flag.Uint64("seed", 1, "seed of the random choices")
	side := flag.String("truth", os.Getenv(truth.EnvPath), "write the ground truth to `file`")
	flag.Parse()
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 2)) // the spinning wait needs somebody else to end it
	target.Exit("waits", target.Run("waits", *side, *limit, func(ctx context.Context, t *target.Target) error {
		lane := t.Lane("device", sdk.LaneExecutor, true)
		target.Traced(ctx, 2*time.Second)
		blocked, err := blockers()
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		play := func(i int, k kind, rounds int) {
			w := &waiter{
				target: t, lane: lane, kind: k, rng: rand.New(rand.NewPCG(*seed, uint64(i))),
				jobs: make(chan *job), finished: make(chan struct{}),
			}
			wg.Go(func() { w.run(ctx, rounds) })
			wg.Go(w.execute)
		}
		for i, k := range blocked {
			play(i, k, *rounds)
		}
		wg.Wait()
		// These burn CPU and would make the others late: one after the other.
		for i, k := range []kind{spinKind, liarKind} {
			play(100+i, k, *rounds/4)
			wg.Wait()
		}
		return nil
	}))
}

// kind is one way to block.
type kind struct {
	name          string
	reason        string // of the off-CPU interval; "": none
	corroboration string
	class         string
	length        time.Duration // of the work, at least
	prepare       func()        // by the executor, before the waiter goes on; may be nil
	wake          func()        // by the executor, when the work is done; may be nil
	wait          func(w *waiter, j *job)
}

// waiter is a goroutine that blocks, with the goroutine that executes what it waits for.
type waiter struct {
	target    *target.Target
	lane      *sdk.Lane
	kind      kind
	rng       *rand.Rand
	goroutine int64
	jobs      chan *job
	finished  chan struct{} // the executor is done with a job, its wake included
}

// job is one round.
type job struct {
	dispatch sdk.Dispatch
	fact     truth.Dispatch
	length   time.Duration
	ready    chan struct{} // the executor has begun
	wokenAt  int64         // when the executor woke the waiter; valid after finished
	done     atomic.Bool   // the work is done and reported
	again    bool          // it blocked more than once
	ended    bool

	wait sdk.Wait
	seen truth.Wait
}

var (
	nameWork = sdk.NewName("work")
	tagWait  = sdk.NewKey(truth.KeyWait)
)

func (w *waiter) run(ctx context.Context, rounds int) {
	defer close(w.jobs)
	w.goroutine = truth.Goroutine()
	for range rounds {
		if ctx.Err() != nil {
			return
		}
		j := &job{length: w.kind.length + time.Duration(w.rng.Int64N(int64(w.kind.length))), ready: make(chan struct{})}
		w.queue(j)
		w.jobs <- j
		<-j.ready
		w.kind.wait(w, j)
		w.end(j)
		<-w.finished
		w.judge(j)
	}
}

//go:noinline
func (w *waiter) queue(j *job) {
	j.fact = truth.Dispatch{
		Lane: "device", Scenario: w.kind.name, Name: nameWork.String(),
		Origin: &truth.Origin{NotBefore: int64(sdk.Now()), Goroutine: w.goroutine},
	}
	j.dispatch = w.lane.Dispatch(nameWork)
	j.fact.ID = truth.ID(j.dispatch.ID())
	j.fact.Origin.Site = truth.Below()
	j.dispatch.CaptureOrigin(context.Background())
	j.fact.Origin.NotAfter = int64(sdk.Now())
}

// execute is the executor: it does the work of each job, reports it, and wakes the waiter.
func (w *waiter) execute() {
	for j := range w.jobs {
		if w.kind.prepare != nil {
			w.kind.prepare()
		}
		close(j.ready)
		start := sdk.Now()
		time.Sleep(j.length)
		end := sdk.Now()
		j.dispatch.Report(start, end)
		j.fact.StartNanos, j.fact.EndNanos = int64(start), int64(end)
		w.target.Reported(j.fact)
		j.done.Store(true)
		j.wokenAt = int64(sdk.Now())
		if w.kind.wake != nil {
			w.kind.wake()
		}
		w.finished <- struct{}{}
	}
}

// begun takes over a wait that its caller has just begun: what it captured is the caller's own place.
func (w *waiter) begun(j *job, notBefore int64, x sdk.Wait) {
	j.wait = x
	j.seen = truth.Wait{
		Number: w.target.NextWait(), Name: w.kind.name, Thread: truth.Thread(), Goroutine: w.goroutine,
		BeginNotBefore: notBefore,
	}
	j.wait.Await(j.dispatch.ID())
	j.wait.Tag(tagWait, strconv.FormatUint(j.seen.Number, 10))
	j.seen.BeginNotAfter = int64(sdk.Now())
}

// end ends the wait of a job, once.
func (w *waiter) end(j *job) {
	if j.ended {
		return
	}
	j.ended = true
	j.seen.EndNotBefore = int64(sdk.Now())
	recorded := j.wait.Active()
	j.wait.End()
	j.seen.EndNotAfter = int64(sdk.Now())
	j.seen.Awaits = []string{"dispatch:" + j.fact.ID.String()}
	if !recorded {
		j.seen.Number = 0
	}
}

// surelyBlocked is how long before its wake a goroutine must have begun to block, to have blocked for certain.
const surelyBlocked = int64(time.Millisecond)

// judge writes down what the recording must say about the job.
func (w *waiter) judge(j *job) {
	if j.seen.Number == 0 || j.fact.ID == 0 {
		return
	}
	v := truth.Verdict{Dispatch: j.fact.ID, Class: w.kind.class, Wait: j.seen.Number}
	if w.kind.corroboration != slept || !j.again && j.wokenAt-j.seen.BeginNotAfter >= surelyBlocked {
		j.seen.Reason, v.Corroboration = w.kind.reason, w.kind.corroboration
	}
	w.target.Wait(j.seen)
	w.target.Verdict(v)
}
