// Plainstax is the twin of plainotel: it reports the same work through stax's SDK.
package main

import (
	"context"
	"flag"
	"os"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/internal/target"
	"github.com/stax-otel/stax/testbed/internal/truth"
	"github.com/stax-otel/stax/testbed/internal/work"
)

func main() {
	n := flag.Int("n", 120, "pieces of work per goroutine")
	seed := flag.Uint64("seed", 1, "seed of the random choices")
	side := flag.String("truth", os.Getenv(truth.EnvPath), "write the ground truth to `file`")
	flag.Parse()
	target.Exit("plainstax", target.Run("plainstax", *side, 0, func(_ context.Context, t *target.Target) error {
		work.Play(reporter{
			work.Render: sdk.NewLane(work.Render, sdk.LaneGPU), work.Disk: sdk.NewLane(work.Disk, sdk.LaneStorage),
		}, t.Writer, *seed, *n)
		return nil
	}))
}

// reporter has the lanes by name.
type reporter map[string]*sdk.Lane

type dispatch struct{ sdk.Dispatch }

// Queue implements work.Reporter.
func (r reporter) Queue(lane, name string, _ bool) work.Dispatch {
	d := &dispatch{r[lane].Dispatch(sdk.NewName(name))}
	d.CaptureOrigin(context.Background())
	return d
}

func (d *dispatch) ID() uint64 { return uint64(d.Dispatch.ID()) }

func (d *dispatch) Report(start, end int64, fault string) {
	if fault != "" {
		d.Fault(fault)
	}
	d.Dispatch.Report(sdk.Time(start), sdk.Time(end))
}

type wait struct{ sdk.Wait }

// BeginWait implements work.Reporter.
func (r reporter) BeginWait(name string, _ bool, d work.Dispatch) work.Wait {
	w := &wait{sdk.BeginWait(context.Background(), sdk.NewName(name))}
	w.Await(sdk.DispatchID(d.ID()))
	return w
}

func (w *wait) End(timedOut bool) {
	if timedOut {
		w.EndTimedOut()
	} else {
		w.Wait.End()
	}
}
