package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/cputrace"
	"github.com/stax-otel/stax/testbed/internal/target"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// options are the command line.
type options struct {
	duration      time.Duration
	scale         float64
	seed          uint64
	truth         string
	noShutdown    bool
	waitForSignal bool
	ignoreSignals bool
	exitCode      int
	cputrace      bool
	quiet         bool
}

func main() {
	var o options
	flag.DurationVar(&o.duration, "duration", 30*time.Second, "how long to run")
	flag.Float64Var(&o.scale, "scale", 1, "how much work to cause, relative to about 2000 dispatches per second")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the random choices")
	flag.StringVar(&o.truth, "truth", os.Getenv(truth.EnvPath), "write the ground truth to `file` (default $"+truth.EnvPath+")")
	flag.BoolVar(&o.noShutdown, "no-shutdown", false, "exit without sdk.Shutdown")
	flag.BoolVar(&o.waitForSignal, "wait-for-signal", false, "run until a signal arrives, whatever -duration says")
	flag.BoolVar(&o.ignoreSignals, "ignore-signals", false, "ignore SIGTERM and SIGINT")
	flag.IntVar(&o.exitCode, "exit-code", 0, "exit with this code")
	flag.BoolVar(&o.cputrace, "cputrace", false, "give recordings CPU samples and waits")
	flag.BoolVar(&o.quiet, "quiet", false, "print no summary")
	flag.Parse()
	if flag.NArg() > 0 || o.scale <= 0 || o.duration < 0 {
		fmt.Fprintln(os.Stderr, "corpus: no arguments, a positive -scale and no negative -duration, please")
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		os.Exit(1)
	}
	os.Exit(o.exitCode)
}

func run(o options) error {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	signals := make(chan os.Signal, 1)
	if o.ignoreSignals {
		signal.Ignore(syscall.SIGTERM, os.Interrupt)
	} else {
		signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	}
	w, err := truth.Create(o.truth, truth.Process{
		PID: os.Getpid(), ParentPID: os.Getppid(), Program: "corpus", RuntimeID: sdk.RuntimeID(), Seed: o.seed,
	})
	if err != nil {
		return err
	}
	l := &ledger{Writer: w, goroutines: o.cputrace}
	if o.cputrace {
		defer cputrace.Enable(cputrace.Options{})()
		target.Traced(ctx, 2*time.Second) // at once when nothing records
	}
	started := time.Now()
	go func() {
		var end <-chan time.Time
		if !o.waitForSignal {
			end = time.After(o.duration)
		}
		select {
		case s := <-signals:
			stop(fmt.Errorf("signal %v", s))
		case <-end:
			stop(errDuration)
		}
	}()
	play(ctx, l, o)

	shutdown := "skipped"
	if !o.noShutdown {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		shutdown = "ok"
		if err := sdk.Shutdown(ctx); err != nil {
			shutdown = err.Error()
		}
	}
	end, err := l.close(context.Cause(ctx).Error(), shutdown)
	if err != nil {
		return err
	}
	if !o.quiet {
		summarise(end, time.Since(started))
	}
	return nil
}

var errDuration = errors.New("duration")

// play causes work until ctx ends, and returns when all of it is done and reported.
func play(ctx context.Context, l *ledger, o options) {
	device, pool, plain := newDevice(l), newPool(l, 2), newPlain(l)
	shared := &sharedQueue{name: sdk.NewQueue("readback")}
	random := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(o.seed, n)) }
	pace := func(d time.Duration) time.Duration { return time.Duration(float64(d) / o.scale) }

	var sources, background sync.WaitGroup
	for i := range 4 {
		f := &feeder{
			ctx: ctx, device: device, rng: random(uint64(i)), pace: pace(14 * time.Millisecond),
			shared: shared, background: &background,
		}
		sources.Go(func() { feederMain(f, 3*i) })
	}
	crossPair(ctx, device, random(10), pace(40*time.Millisecond), &sources)
	twins(ctx, device, random(11), pace(40*time.Millisecond), &sources)
	for i := range 3 {
		rng := random(uint64(20 + i))
		sources.Go(func() { producerMain(ctx, pool, rng, pace(8*time.Millisecond)) })
	}
	sources.Go(func() { plainMain(ctx, plain, random(30), pace(20*time.Millisecond)) })

	sources.Wait()
	pool.close()
	device.close()
	background.Wait()
}

func summarise(e truth.End, d time.Duration) {
	fmt.Printf("corpus: ran %.1f s (%s); shutdown: %s\n", d.Seconds(), e.Reason, e.Shutdown)
	if e.Dispatches == 0 {
		fmt.Printf("corpus: nothing recorded this process (%d units of work done unrecorded)\n", e.Unrecorded)
		return
	}
	fmt.Printf("corpus: reported %d dispatches, %d command buffers and %d waits while recorded\n", e.Dispatches, e.CommandBuffers, e.Waits)
	for _, t := range e.Lanes {
		fmt.Printf("corpus:   %-6s %7d dispatches %12.3f ms\n", t.Lane, t.Count, float64(t.TotalNanos)/1e6)
	}
}
