package guides

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/sdk"
)

// The code of containment.md, compiled.

func waitForDispatch(ctx context.Context, lane *sdk.Lane, name, waitName sdk.Name, submit func(sdk.Dispatch) <-chan struct{}) {
	d := lane.Dispatch(name)
	d.CaptureOrigin(ctx) // the instant from which a wait can count
	done := submit(d)    // reports d when the work has ended

	w := sdk.BeginWait(ctx, waitName)
	w.Await(d.ID())
	<-done
	w.End()
}

func waitWithLimit(ctx context.Context, waitName sdk.Name, id sdk.DispatchID, done <-chan struct{}, limit <-chan time.Time) {
	w := sdk.BeginWait(ctx, waitName)
	w.Await(id)
	select {
	case <-done:
		w.End()
	case <-limit:
		w.EndTimedOut()
	}
}

func waitForMuch(ctx context.Context, waitName sdk.Name, buffer sdk.CommandBufferID, queue, other sdk.Queue, waitForAll func()) {
	w := sdk.BeginWait(ctx, waitName)
	w.AwaitCommandBuffer(buffer) // all dispatches of the command buffer
	w.AwaitQueue(queue, 17)      // everything on the queue up to submission 17
	w.AwaitQueue(other, 0)       // everything queued there before this wait began
	waitForAll()
	w.End()
}

// TestContainmentGuide keeps the guide's code equal to the code above, which compiles and runs.
func TestContainmentGuide(t *testing.T) {
	requireSameCode(t, "containment.md", "containment_test.go", 3)

	lane := sdk.NewLane("guide", sdk.LaneGeneric)
	name, id := sdk.NewName("work"), sdk.DispatchID(0)
	closed := make(chan struct{})
	close(closed)
	waitForDispatch(t.Context(), lane, name, name, func(d sdk.Dispatch) <-chan struct{} {
		id = d.ID()
		now := sdk.Now()
		d.Report(now, now)
		return closed
	})
	waitWithLimit(t.Context(), name, id, closed, nil)
	waitForMuch(t.Context(), name, 0, sdk.NewQueue("q"), sdk.NewQueue("p"), func() {})
	require.NoError(t, sdk.Shutdown(t.Context()))
}
