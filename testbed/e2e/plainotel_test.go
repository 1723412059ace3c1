package e2e

import (
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/internal/query"
	"github.com/stax-otel/stax/testbed/internal/foreign"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// freeAddress is a loopback address that nobody listens on just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// TestPlainOTel records the same work twice: reported through stax's SDK, and through nothing but the OpenTelemetry SDK.
func TestPlainOTel(t *testing.T) {
	w := newWorld(t)
	ours, tr := w.recorded("plainstax", nil, nil)
	calm(w, ours)

	theirs, side := w.path("plainotel.stax"), w.path("plainotel.jsonl")
	p := w.start("stax", "record", "--out", theirs, "--http", freeAddress(t), "--", program("plainotel"), "-truth", side, "-hold")
	ready := p.line(30*time.Second, func(l string) bool { return strings.HasPrefix(l, "ready ") })
	foreignTruth := readTruth(t, side)
	sendSamples(t, strings.Fields(ready), foreignTruth)
	require.NoError(t, syscall.Kill(foreignTruth.Process.PID, syscall.SIGTERM))
	require.Equal(t, 0, p.wait(30*time.Second), "%s", p.err)

	// The same answers to the same questions.
	require.Equal(t, laneAnswers(w, ours), laneAnswers(w, theirs), "lanes")
	require.Equal(t, topAnswers(w, ours), topAnswers(w, theirs), "counts and percentiles")
	classes, want := classAnswers(w, theirs), map[string]int{}
	require.Equal(t, classAnswers(w, ours), classes, "classes of waits")
	for id, v := range tr.Verdicts {
		want[tr.Dispatches[id].Lane+" "+tr.Dispatches[id].Name+" "+v.Class]++
	}
	assert.Equal(t, want, classes, "classes of waits in truth")
	t.Logf("classes: %v", classes)
	waits := func(path string) map[string]int64 {
		out := map[string]int64{}
		for _, r := range ask[query.Answer[query.WaitRow]](w, 0, "target", "waits", path, "--limit", "0").Rows {
			out[r.Name]++
		}
		return out
	}
	assert.Equal(t, waits(ours), waits(theirs), "waits")

	// What a plain SDK cannot tell is said, not guessed.
	c := readCPU(t, theirs)
	for id, d := range foreignTruth.Dispatches {
		l := c.links[id]
		if d.Origin.Locked {
			assert.Equal(t, []string{"linked", "C"}, []string{l.Status, l.Grade}, "%s on a locked thread: %+v", id, l)
		} else {
			assert.Equal(t, "ambiguous_goroutine", l.Status, "%s: %+v", id, l)
		}
	}
	a := audited(w, theirs, 3)
	assert.Equal(t, query.VerdictUnproven, a.Verdict)
	assert.Contains(t, strings.Join(reasonCodes(a), " "), "unsequenced")
	w.t.Logf("%s", w.run("audit", theirs).out)
}

// TestPlainOTelWithoutSamples shows what origins become when nothing samples the process.
func TestPlainOTelWithoutSamples(t *testing.T) {
	w := newWorld(t)
	path, side := w.path("plainotel.stax"), w.path("plainotel.jsonl")
	p := w.start("stax", "record", "--out", path, "--http", freeAddress(t), "--", program("plainotel"), "-truth", side, "-n", "12")
	require.Equal(t, 0, p.wait(30*time.Second), "%s", p.err)
	c, tr := readCPU(t, path), readTruth(t, side)
	v := c.verdicts(tr)
	assert.Equal(t, []string{"missing_thread"}, slices.Collect(maps.Keys(v)), "%v", v)
}

// sendSamples plays the profiler from outside: a sample of the thread every few milliseconds around each origin. said is
// what the program printed: "ready", the endpoint, and the headers that it sends.
func sendSamples(t *testing.T, said []string, tr *truth.File) {
	t.Helper()
	require.Len(t, said, 3)
	_, token, ok := strings.Cut(said[2], "=")
	require.True(t, ok)
	p, err := foreign.New(said[1], token)
	require.NoError(t, err)
	defer p.Close()
	type slot struct{ thread, at int64 }
	const period = int64(4 * time.Millisecond)
	slots := map[slot]bool{}
	for _, d := range tr.Dispatches {
		slots[slot{d.Origin.Thread, d.Origin.NotBefore / period}] = true
	}
	var samples []foreign.Sample
	for s := range slots {
		samples = append(samples, foreign.Sample{Thread: s.thread, UnixNanos: s.at*period + period/2, Stack: []foreign.Frame{
			{Function: "work.sleep", File: "work.go", Line: 1}, {Function: "work.(*player).play", File: "work.go", Line: 2},
		}})
	}
	slices.SortFunc(samples, func(a, b foreign.Sample) int { return int(a.UnixNanos - b.UnixNanos) })
	require.NoError(t, p.Samples(t.Context(), tr.Process.PID, period, samples))
}

type laneAnswer struct {
	Kind           string
	Count, Faulted int64
	TotalNanos     int64
}

func laneAnswers(w *world, path string) map[string]laneAnswer {
	w.t.Helper()
	out := map[string]laneAnswer{}
	for _, r := range ask[query.Answer[query.LaneRow]](w, 0, "target", "lanes", path).Rows {
		out[r.Lane] = laneAnswer{r.Kind, r.Count, r.FaultedCount, r.TotalNanos}
	}
	return out
}

// topAnswers are count, total, average, least, p50, p95, p99 and most, by lane and name.
func topAnswers(w *world, path string) map[string][]int64 {
	w.t.Helper()
	out := map[string][]int64{}
	for _, r := range ask[query.Answer[query.TopRow]](w, 0, "target", "top", path, "--limit", "0").Rows {
		out[r.Lane+" "+r.Name] = []int64{r.Count, r.TotalNanos, r.AvgNanos, r.MinNanos, r.P50Nanos, r.P95Nanos, r.P99Nanos, r.MaxNanos}
	}
	return out
}

func classAnswers(w *world, path string) map[string]int {
	w.t.Helper()
	out := map[string]int{}
	for _, r := range ask[query.Answer[query.DispatchRow]](w, 0, "target", "dispatches", path, "--limit", "0").Rows {
		out[r.Lane+" "+r.Name+" "+r.Class]++
	}
	return out
}
