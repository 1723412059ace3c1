// Short is a small target for the awkward cases: it reports a few dispatches and is gone, bursts more than the SDK can
// take, or stays and says when it begins and ceases to be recorded. Like corpus it writes down what it really did.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

type options struct {
	n          int
	lane       string
	burst      int
	watch      bool
	hold       bool
	noShutdown bool
	exitCode   int
	truth      string
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 200, "how many dispatches to report; with -burst per goroutine")
	flag.StringVar(&o.lane, "lane", "short", "name of the lane")
	flag.IntVar(&o.burst, "burst", 0, "report from this many goroutines as fast as possible; the truth has totals only")
	flag.BoolVar(&o.watch, "watch", false, "report until SIGTERM and print when recording begins (on) and ceases (off), with the time in Unix ns")
	flag.BoolVar(&o.hold, "hold", false, "when all is reported, print \"ready\" and wait for SIGTERM")
	flag.BoolVar(&o.noShutdown, "no-shutdown", false, "exit without sdk.Shutdown")
	flag.IntVar(&o.exitCode, "exit-code", 0, "exit with this code")
	flag.StringVar(&o.truth, "truth", os.Getenv(truth.EnvPath), "write the ground truth to `file` (default $"+truth.EnvPath+"); {pid} becomes the process id")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "short:", err)
		os.Exit(1)
	}
	os.Exit(o.exitCode)
}

// target is the state that the modes share.
type target struct {
	*truth.Writer
	truth.Meter
	lane   *sdk.Lane
	name   sdk.Name
	missed atomic.Uint64
}

func run(o options) error {
	terminate, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	path := strings.ReplaceAll(o.truth, "{pid}", strconv.Itoa(os.Getpid()))
	w, err := truth.Create(path, truth.Process{PID: os.Getpid(), ParentPID: os.Getppid(), Program: "short", RuntimeID: sdk.RuntimeID()})
	if err != nil {
		return err
	}
	t := &target{Writer: w, lane: sdk.NewLane(o.lane, sdk.LaneExecutor), name: sdk.NewName("step")}
	w.Lane(truth.Lane{Name: o.lane, Kind: string(sdk.LaneExecutor)})

	reason := "done"
	switch {
	case o.watch:
		t.watch(terminate, o)
		reason = "signal"
	case o.burst > 0:
		t.burst(o)
	default:
		for range o.n {
			t.step(o.lane)
		}
	}
	if o.hold {
		fmt.Println("ready")
		<-terminate.Done()
	}
	return t.finish(o, reason)
}

// step does about 10 µs of nothing and reports it.
//
//go:noinline
func (t *target) step(lane string) {
	d := truth.Dispatch{Lane: lane, Scenario: "step", Name: "step", Origin: &truth.Origin{NotBefore: int64(sdk.Now())}}
	d.Origin.Site = truth.Below()
	o := sdk.CaptureOrigin(context.Background())
	d.Origin.NotAfter = int64(sdk.Now())
	start := sdk.Now()
	end := start
	for end-start < 10_000 {
		end = sdk.Now()
	}
	began := time.Now()
	id := t.lane.ReportFrom(o, t.name, start, end)
	t.Called(began)
	if id == 0 {
		t.missed.Add(1)
		return
	}
	d.ID, d.StartNanos, d.EndNanos = truth.ID(id), int64(start), int64(end)
	t.Dispatch(d)
	t.Verdict(truth.Verdict{Dispatch: d.ID, Class: "unproven"})
}

// burst reports from many goroutines without any pause. Every dispatch lasts 1 µs on paper.
func (t *target) burst(o options) {
	var wg sync.WaitGroup
	var reported atomic.Uint64
	for range o.burst {
		wg.Go(func() {
			n := uint64(0)
			for range o.n {
				at := sdk.Now()
				began := time.Now()
				if t.lane.ReportFrom(sdk.Origin{}, t.name, at, at+1000) != 0 {
					n++
				} else {
					t.missed.Add(1)
				}
				t.Called(began)
			}
			reported.Add(n)
		})
	}
	wg.Wait()
	t.Count(o.lane, reported.Load(), int64(reported.Load())*1000)
}

// watch reports every few milliseconds and prints changes of the recording state.
func (t *target) watch(ctx context.Context, o options) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	was := false
	fmt.Println("ready")
	for {
		if is := sdk.ReportingActive(); is != was {
			was = is
			fmt.Printf("%s %d\n", map[bool]string{true: "on", false: "off"}[is], time.Now().UnixNano())
		}
		t.step(o.lane)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (t *target) finish(o options, reason string) error {
	shutdown := "skipped"
	if !o.noShutdown {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		shutdown = "ok"
		if err := sdk.Shutdown(ctx); err != nil {
			shutdown = err.Error()
		}
	}
	s := sdk.Stats()
	e := truth.End{
		Reason: reason, Unrecorded: t.missed.Load(), Shutdown: shutdown,
		SDK: truth.SDK{
			State: string(s.State), Emitted: s.Emitted, Queued: s.Queued, Sent: s.Sent,
			Full: s.Dropped.Full, Send: s.Dropped.Send, Other: s.Dropped.Other,
		},
	}
	t.Fill(&e)
	_, err := t.Close(e)
	return err
}
