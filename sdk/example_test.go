package sdk_test

import (
	"context"
	"time"

	"github.com/stax-otel/stax/sdk"
)

// A renderer reports what its GPU did and when the CPU waited for it.
func Example() {
	lane := sdk.NewLane("render", sdk.LaneGPU, sdk.WithClockError(2*time.Microsecond))
	draw, submit, finish := lane.Name("draw"), lane.Name("frame"), lane.Name("wait for frame")
	cycles := sdk.NewCounterSet("gpu", "GPU counters", sdk.Counter{Name: "cycles", Unit: sdk.UnitCycles})
	ctx := context.Background()

	frame := lane.CommandBuffer(submit)
	d := lane.Dispatch(draw)
	d.CommandBuffer(frame.ID())
	d.CaptureOrigin(ctx) // just before the work is queued
	start := time.Now()  // stands for the device's timestamps

	w := sdk.BeginWait(ctx, finish)
	w.AwaitCommandBuffer(frame.ID())
	// ... the thread blocks here ...
	w.End()

	d.Counters(cycles, sdk.AfterDispatch, sdk.IntValue(90210))
	d.Report(sdk.TimeOf(start), sdk.Now())
	frame.Report(sdk.TimeOf(start), sdk.Now())

	if err := sdk.Shutdown(ctx); err != nil {
		panic(err)
	}
	// Output:
}

// A pool reports each task with the place that submitted it.
func ExampleLane_ReportFrom() {
	lane := sdk.NewLane("workers", sdk.LaneThreadPool)
	task := lane.Name("resize")
	type job struct{ from sdk.Origin }
	jobs := make(chan job, 1)

	jobs <- job{from: lane.CaptureOrigin(context.Background())} // in the submitter

	j := <-jobs // in the worker
	start := sdk.Now()
	lane.ReportFrom(j.from, task, start, sdk.Now())
	// Output:
}
