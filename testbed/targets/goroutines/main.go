// Goroutines is ground truth for origins that name a thread and a goroutine but no stack: goroutines that share two
// processors burn CPU in functions of their own and queue work from there. The recording has to find the function in CPU
// samples. What it may conclude depends on the mode:
//
//	own      one function per goroutine, origins with goroutine          the nearest sample of the goroutine is right
//	mixed    each goroutine alternates between two functions             right if the sample is near enough: calibration
//	thread   as own, but origins name the thread only                    ambiguous: other goroutines ran on the thread
//	locked   as thread, each goroutine locked to its thread and says so  the nearest sample of the thread is right
//
// The truth names the function in Origin.Site; it has no file and no line, because a sample lies anywhere in it.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/stax-otel/stax/sdk"
	_ "github.com/stax-otel/stax/sdk/cputrace/auto"
	"github.com/stax-otel/stax/testbed/internal/target"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

const (
	modeOwn    = "own"
	modeMixed  = "mixed"
	modeThread = "thread"
	modeLocked = "locked"
)

func main() {
	n := flag.Int("n", 8, "how many goroutines")
	mode := flag.String("mode", modeOwn, "own, mixed, thread or locked")
	duration := flag.Duration("duration", 3*time.Second, "how long to run")
	seed := flag.Uint64("seed", 1, "seed of the random choices")
	side := flag.String("truth", os.Getenv(truth.EnvPath), "write the ground truth to `file`")
	flag.Parse()
	if !slices.Contains([]string{modeOwn, modeMixed, modeThread, modeLocked}, *mode) || *n < 1 {
		fmt.Fprintln(os.Stderr, "goroutines: unknown mode, or no goroutine")
		os.Exit(2)
	}
	runtime.GOMAXPROCS(2)
	target.Exit("goroutines", target.Run("goroutines", *side, *duration, func(ctx context.Context, t *target.Target) error {
		lane := t.Lane("jobs", sdk.LaneExecutor, false)
		target.Traced(ctx, 2*time.Second)
		var wg sync.WaitGroup
		for i := range *n {
			w := &worker{target: t, lane: lane, mode: *mode, rng: rand.New(rand.NewPCG(*seed, uint64(i))), state: uint64(i + 1)}
			wg.Go(func() { w.run(ctx, i) })
		}
		wg.Wait()
		return nil
	}))
}

// worker is one goroutine.
type worker struct {
	target    *target.Target
	lane      *sdk.Lane
	mode      string
	rng       *rand.Rand
	goroutine int64
	state     uint64 // of the arithmetic
}

var nameJob = sdk.NewName("job")

// kiloRounds is about a millisecond of [scramble].
const kiloRounds = 1800

func (w *worker) run(ctx context.Context, i int) {
	if w.mode == modeLocked {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	w.goroutine = truth.Goroutine()
	for unit := 0; ctx.Err() == nil; unit++ {
		f := i
		if w.mode == modeMixed {
			f += unit % 2 * len(functions) / 2
		}
		rounds := kiloRounds + w.rng.IntN(6*kiloRounds)
		functions[f%len(functions)](w, rounds, w.rng.IntN(rounds))
	}
}

// scramble is about half a microsecond of arithmetic.
func scramble(x uint64) uint64 {
	for range 400 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// queue reports a dispatch that its caller, function, queues now.
//
//go:noinline
func (w *worker) queue(function string) {
	d := truth.Dispatch{
		Lane: "jobs", Scenario: w.mode, Name: nameJob.String(),
		Origin: &truth.Origin{Goroutine: w.goroutine, Site: truth.Site{Function: function}},
	}
	thread := truth.Thread()
	at := sdk.Now()
	if truth.Thread() != thread {
		return // moved in between: what the thread was at that instant is not known
	}
	o := sdk.OriginAt(thread, at)
	switch w.mode {
	case modeOwn, modeMixed:
		o = o.WithGoroutine(w.goroutine)
	case modeLocked:
		o = o.WithThreadLocked()
	}
	d.Origin.Thread, d.Origin.NotBefore, d.Origin.NotAfter = thread, int64(at), int64(at)
	d.StartNanos, d.EndNanos = int64(at), int64(at)+1000
	began := time.Now()
	d.ID = truth.ID(w.lane.ReportFrom(o, nameJob, at, at+1000))
	w.target.Called(began)
	w.target.Reported(d)
}
