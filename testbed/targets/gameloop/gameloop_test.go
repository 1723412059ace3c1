package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	otelattribute "go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/stax-otel/stax/sdk/timeline"
	"github.com/stax-otel/stax/sdk/timeline/timelineotel"
)

// frames are n frames of 10 ms with commands, and one of 65 ms near the end.
func frames(n int) []journalLine {
	random := rand.New(rand.NewPCG(1, 2))
	var fs []journalLine
	for i := range n {
		f := journalLine{ElapsedNanos: int64(step), Commands: commandsOf(random)}
		if i == n-10 {
			f.ElapsedNanos = int64(65 * time.Millisecond)
		}
		fs = append(fs, f)
	}
	return fs
}

func byTick(entries []timeline.Entry) map[int64]timeline.Entry {
	m := map[int64]timeline.Entry{}
	for _, e := range entries {
		m[e.Tick] = e
	}
	return m
}

// TestKnownTrouble: every warning of the run, and nothing else.
func TestKnownTrouble(t *testing.T) {
	entries, came := replay(frames(220))
	require.Equal(t, int64(1), came.Panics)
	require.Len(t, entries, int(came.Ticks), "none was lost")
	warned := map[int64]string{}
	for _, e := range entries {
		if e.Warnings != 0 {
			warned[e.Tick] = e.Warnings.String()
		}
	}
	require.Equal(t, map[int64]string{
		61: "SYSTEM_SLOW", 62: "SYSTEM_SLOW", 63: "SYSTEM_SLOW", 64: "SYSTEM_SLOW", // ai; in 60 it was slow only once
		80: "SYSTEM_SLOW", 120: "SYSTEM_SLOW QUEUE_STARVATION", 160: "SYSTEM_SLOW", 200: "SYSTEM_SLOW", // autosave runs rarely, and is always slow
		100: "EXCEEDED_STEP_BUDGET",
		121: "QUEUE_STARVATION", 122: "QUEUE_STARVATION",
	}, warned)

	at := byTick(entries)
	require.Equal(t, []timeline.Stall{{Offset: at[100].Phases[2].Offset, Duration: timeline.Milliseconds(costLoad + costPhysics), In: "system:physics"}}, at[100].Stalls)
	// Economy fills a channel. It is still full after scripts, but nothing has changed.
	require.Equal(t, []timeline.EventDelta{{System: "economy", Utilization: 1, Channels: []timeline.ChannelPressure{
		{Channel: "world", Capacity: 64, InUse: 1, Published: 1},
		{Channel: "trade", Capacity: 16, InUse: 16, Published: 20, Dropped: 4},
	}}}, at[burstTick].Events.Deltas)
}

func TestTroubleInDetail(t *testing.T) {
	entries, _ := replay(frames(220))
	at := byTick(entries)

	failed := at[failTick].Systems[3]
	require.Equal(t, timeline.ErrorLike{Name: "*fmt.wrapError", Message: "script 7: unknown item", Cause: "unknown item"}, *failed.Error)
	panicked := at[panicTick].Systems[3]
	require.Equal(t, "script 8 divides by zero", panicked.Error.Message)
	require.True(t, strings.HasPrefix(panicked.Error.Stack, "main.(*game).scripts game.go:") || strings.Contains(panicked.Error.Stack, "(*game).scripts game.go:"), panicked.Error.Stack)
	require.Len(t, at[panicTick].Phases, 8, "the loop went on after the panic")
	require.False(t, at[panicTick].Unfinished)

	// A frame of 65 ms runs 4 steps at most; the backlog shows, and is worked off.
	var lags []string
	for _, e := range entries {
		if e.HostFrame.Duration() > step {
			lags = append(lags, fmt.Sprintf("%s %s", e.LagBefore, e.LagAfter))
		}
	}
	require.Equal(t, []string{"65 55", "55 45", "45 35", "35 25"}, lags)
	last := entries[len(entries)-1]
	require.Equal(t, "5", last.LagAfter.String())
	require.Equal(t, int64(225), last.Tick)
}

// TestReplaysAreEqual: the same input and a fake clock give the same entries, and a journal survives its file.
func TestReplaysAreEqual(t *testing.T) {
	fs := frames(300)
	first, came := replay(fs)
	second, again := replay(fs)
	require.True(t, reflect.DeepEqual(first, second))
	require.Equal(t, came, again)

	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, f := range fs {
		require.NoError(t, enc.Encode(f))
	}
	require.NoError(t, enc.Encode(journalLine{End: &came}))
	back, end, err := readJournal(&b)
	require.NoError(t, err)
	require.True(t, reflect.DeepEqual(fs, back))
	require.Equal(t, came, *end)
}

// TestPlayAndReplay plays in real time and replays what was written down.
func TestPlayAndReplay(t *testing.T) {
	t.Setenv("STAX_ENDPOINT", "off")
	path := filepath.Join(t.TempDir(), "game.jsonl")
	require.NoError(t, play(300*time.Millisecond, 1, path, true, false))
	var out strings.Builder
	require.NoError(t, runReplay(path, &out))
	require.Contains(t, out.String(), "replayed twice: equal entries")
}

func TestBadJournal(t *testing.T) {
	_, _, err := readJournal(strings.NewReader("{\"elapsed_ns\":1}\nnonsense\n"))
	require.ErrorContains(t, err, "journal line 2")
	cut, end, err := readJournal(strings.NewReader("{\"elapsed_ns\":1}\n"))
	require.NoError(t, err)
	require.Len(t, cut, 1)
	require.Nil(t, end)
}

// TestCounters: the warnings as a real OpenTelemetry SDK counts them.
func TestCounters(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	tel, err := timelineotel.New(provider.Meter("gameloop"))
	require.NoError(t, err)
	var now time.Duration
	g := newGame(timeline.Options{Enabled: true, Telemetry: tel, Clock: func() time.Duration { return now }}, func(d time.Duration) { now += d })
	for _, f := range frames(220) {
		g.frame(time.Duration(f.ElapsedNanos), f.Commands)
	}
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &data))
	got := map[string]int64{}
	for _, m := range data.ScopeMetrics[0].Metrics {
		for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
			label, _ := p.Attributes.Value(otelattribute.Key(timelineotel.SystemKey))
			got[strings.TrimSpace(m.Name+" "+label.AsString())] = p.Value
		}
	}
	require.Equal(t, map[string]int64{
		"runtime_ticks_over_budget_total":    1,
		"runtime_system_slow_total ai":       4,
		"runtime_system_slow_total autosave": 4,
	}, got)
}
