package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/sdk/stage"
)

// filmed runs the camera for 900 frames in a bubble of false time.
func filmed(t *testing.T, o options) (snap stage.RecordSnapshot) {
	synctest.Test(t, func(*testing.T) {
		record := stage.NewRegistry(stage.Options{Mode: stage.On, Buffers: true}).Record("camera.Frame")
		film(context.Background(), record, o)
		snap = record.Snapshot()
	})
	return snap
}

// TestTapCannotKeepUp: 33 ms against 40 ms.
func TestTapCannotKeepUp(t *testing.T) {
	snap := filmed(t, options{frames: 900, every: 33 * time.Millisecond, takes: 40 * time.Millisecond, workers: 1})
	b := snap.Bottleneck
	require.Equal(t, stage.CannotKeepUp, b.Verdict)
	require.Equal(t, []any{stage.KindTap, 0, "frame_processor", int64(40 * time.Millisecond), int64(33 * time.Millisecond)},
		[]any{b.StageType, b.Index, b.Name, b.AvgTimeNanos, b.IntervalNanos})
	require.True(t, strings.HasPrefix(b.Recommendation,
		"Tap 'frame_processor' takes 40 ms per call, but the source delivers every 33 ms (30.3 per second): it cannot keep up with 33 ms."), b.Recommendation)
	require.Contains(t, stage.Format(snap), b.Recommendation)

	source, tap, link := snap.Stages[0], snap.Stages[1], snap.Stages[2]
	require.Equal(t, uint64(900), source.CallCount)
	require.Equal(t, int64(33*time.Millisecond), source.AvgTimeNanos, "the source waits for the next frame: wall time")
	u := snap.Buffers[0]
	require.Equal(t, int64(900), u.ProducedCount)
	require.Equal(t, u.ProducedCount, u.ConsumedCount+u.DroppedCount)
	require.Equal(t, int64(tap.CallCount), u.ConsumedCount)
	require.InDelta(t, 900*(1-33./40), u.DroppedCount, 3)
	require.Positive(t, link.CallCount)
}

func TestTwoWorkersKeepUp(t *testing.T) {
	snap := filmed(t, options{frames: 900, every: 33 * time.Millisecond, takes: 40 * time.Millisecond, workers: 2})
	require.Equal(t, stage.KeepsUp, snap.Bottleneck.Verdict, snap.Bottleneck.Recommendation)
	require.Zero(t, snap.Buffers[0].DroppedCount)
}

func TestFastTap(t *testing.T) {
	snap := filmed(t, options{frames: 100, every: 33 * time.Millisecond, takes: 10 * time.Millisecond, workers: 1})
	require.Equal(t, stage.KeepsUp, snap.Bottleneck.Verdict)
	require.Equal(t, int64(1), snap.Stages[1].MaxInFlight)
}

func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		record := stage.NewRegistry(stage.Options{Mode: stage.On}).Record("camera.Frame")
		film(ctx, record, options{frames: 1 << 30, every: 33 * time.Millisecond, takes: time.Millisecond, workers: 1})
		require.Equal(t, uint64(1), record.Snapshot().Stages[0].ErrorCount)
	})
}
