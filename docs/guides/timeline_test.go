package guides

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/timeline"
	"github.com/stax-otel/stax/sdk/timeline/ticklane"
)

type guideSystem struct {
	id  string
	run func() error
}

type guideGame struct {
	systems                          []guideSystem
	drainCommands, dispatch, publish func()
	pending                          func() int64
	report                           func(id string, err error)
}

// The code of timeline.md, compiled.

func timelineLoop(game guideGame, frames <-chan time.Duration) *timeline.Recorder {
	lane := sdk.NewLane("simulation", sdk.LaneTick) // once; only if ticks shall stand in recordings
	queue := timeline.NewQueueMeter(game.pending)   // tell it what is accepted, drained, dropped, rejected
	steps := timeline.FixedStep{Step: 10 * time.Millisecond, MaxSteps: 4}
	rec := timeline.New(timeline.Options{
		Enabled:    true,
		StepBudget: steps.Step,
		Queue:      queue,
		Sink:       ticklane.New(lane),
	})

	for elapsed := range frames {
		for range steps.Frame(elapsed) {
			rec.BeginTick(steps.Begin())
			rec.CapturePhase(timeline.PhaseCommands, game.drainCommands)
			rec.CapturePhase(timeline.PhaseEventsBeforeSystems, game.dispatch)
			for _, s := range game.systems {
				if err := rec.CaptureSystem(s.id, s.run); err != nil {
					game.report(s.id, err)
				}
			}
			rec.CapturePhase(timeline.PhaseEventsAfterSystems, game.dispatch)
			rec.CapturePhase(timeline.PhasePublish, game.publish)
			rec.EndTick(timeline.TickEnd{LagAfter: steps.End()})
		}
	}
	return rec
}

func timelineRead(rec *timeline.Recorder, head uint64) uint64 {
	delta := rec.ReadDelta(head) // from any goroutine; 0 the first time
	if delta.Dropped > 0 {
		fmt.Printf("%d ticks were overwritten before they were read\n", delta.Dropped)
	}
	for _, e := range delta.Entries {
		if e.Warnings != 0 {
			fmt.Print(timeline.Format(e))
		}
	}
	return delta.Head
}

func TestTimelineGuide(t *testing.T) {
	requireSameCode(t, "timeline.md", "timeline_test.go", 2)
	nothing := func() {}
	frames := make(chan time.Duration, 2)
	frames <- 25 * time.Millisecond
	frames <- 5 * time.Millisecond
	close(frames)
	var failed string
	rec := timelineLoop(guideGame{
		systems:       []guideSystem{{"physics", func() error { return fmt.Errorf("lost a wheel") }}},
		drainCommands: nothing, dispatch: nothing, publish: nothing,
		pending: func() int64 { return 0 },
		report:  func(id string, err error) { failed = id + ": " + err.Error() },
	}, frames)
	require.Equal(t, uint64(3), timelineRead(rec, 0))
	require.Equal(t, "physics: lost a wheel", failed)
}
