// Channels hands numbers through a pipeline of goroutines over unbuffered channels as fast as it can: the worst case for
// an execution trace, which writes down every hop. It reports a dispatch for every batch that came out, and writes down
// how much it moved.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	"github.com/stax-otel/stax/sdk"
	_ "github.com/stax-otel/stax/sdk/cputrace/auto"
	"github.com/stax-otel/stax/testbed/internal/target"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

func main() {
	stages := flag.Int("stages", 8, "goroutines that the numbers pass through")
	duration := flag.Duration("duration", 5*time.Second, "how long to run")
	side := flag.String("truth", os.Getenv(truth.EnvPath), "write the ground truth to `file`")
	flag.Parse()
	target.Exit("channels", target.Run("channels", *side, *duration, func(ctx context.Context, t *target.Target) error {
		lane := t.Lane("pipeline", sdk.LaneExecutor, false)
		target.Traced(ctx, 2*time.Second)
		in := make(chan int)
		out := (<-chan int)(in)
		for range *stages {
			out = stage(out)
		}
		go func() {
			defer close(in)
			for n := 0; ctx.Err() == nil; n++ {
				in <- n
			}
		}()
		drain(t, lane, out)
		return nil
	}))
}

func stage(in <-chan int) <-chan int {
	out := make(chan int)
	go func() {
		defer close(out)
		for n := range in {
			out <- n + 1
		}
	}()
	return out
}

var nameBatch = sdk.NewName("batch")

// batch is how many numbers make one dispatch.
const batch = 1000

func drain(t *target.Target, lane *sdk.Lane, out <-chan int) {
	start := sdk.Now()
	n := 0
	for range out {
		if n++; n%batch != 0 {
			continue
		}
		end := sdk.Now()
		d := truth.Dispatch{
			Lane: "pipeline", Scenario: "batch", Name: nameBatch.String(), StartNanos: int64(start), EndNanos: int64(end),
			Origin: &truth.Origin{NotBefore: int64(sdk.Now())},
		}
		d.Origin.Site = truth.Below()
		o := sdk.CaptureOrigin(context.Background())
		d.Origin.NotAfter = int64(sdk.Now())
		d.ID = truth.ID(lane.ReportFrom(o, nameBatch, start, end))
		t.Reported(d)
		start = sdk.Now()
	}
}
