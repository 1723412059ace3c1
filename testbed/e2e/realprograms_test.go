package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	exptrace "golang.org/x/exp/trace"

	"github.com/stax-otel/stax/internal/query"
)

// realReport is what a real program says about itself (package unit of testbed/realprograms).
type realReport struct {
	Program    string `json:"program"`
	PID        int    `json:"pid"`
	Lane       string `json:"lane"`
	Dispatches int64  `json:"dispatches"`
	CPUNanos   int64  `json:"cpu_ns"`
	Result     string `json:"result"`
}

// buildReal builds the real programs, which are a module of their own.
func buildReal(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	cmd := exec.Command("go", "build", "-o", dir+string(os.PathSeparator), "./...")
	cmd.Dir = filepath.Join("..", "realprograms")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// recordReal records a program and returns what it said.
func (w *world) recordReal(path, program string, args ...string) (r realReport) {
	w.t.Helper()
	p := w.start("stax", append([]string{"record", "--out", path, "--", program}, args...)...)
	require.Equal(w.t, 0, p.wait(3*time.Minute), "%s\n%s", p.out, p.err)
	for line := range strings.Lines(p.out.String()) {
		if strings.HasPrefix(line, "{") {
			require.NoError(w.t, json.Unmarshal([]byte(line), &r))
		}
	}
	require.NotEmpty(w.t, r.Program, "%s", p.out)
	return r
}

// TestRealPrograms records programs that nobody here wrote and compares the CPU functions with go tool pprof of a CPU
// profile that the program takes of the same run itself, and the dispatches with the program's own count.
func TestRealPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs real programs")
	}
	dir := buildReal(t)
	sdkDir, err := filepath.Abs(filepath.Join("..", "..", "sdk"))
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		args []string
	}{
		{"esbuild", nil},
		{"zstd", nil},
		{"staticcheck", []string{"-dir", sdkDir, "-packages", "./gate,./semconv,./internal/wire"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			path, profile, exe := w.path(c.name+".stax"), w.path(c.name+".pprof"), filepath.Join(dir, c.name)
			w.env = append(w.env, "REALPROGRAMS_CPUPROFILE="+profile)
			if home, err := os.UserHomeDir(); err == nil {
				w.env = append(w.env, "HOME="+home) // go list, which the linter runs, needs its caches
			}
			r := w.recordReal(path, exe, c.args...)
			calm(w, path)
			t.Logf("%s: %s; %.2f s of CPU; %d dispatches", r.Program, r.Result, float64(r.CPUNanos)/1e9, r.Dispatches)
			for _, row := range ask[query.Answer[query.LaneRow]](w, 0, "target", "lanes", path).Rows {
				assert.Equal(t, r.Lane, row.Lane)
				assert.Equal(t, r.Dispatches, row.Count, "dispatches by the program's own count")
			}
			compareTop(w, path, pprofTop(t, exe, profile))
		})
	}
}

// function is a function with the samples in which it was the innermost frame.
type function struct {
	name    string
	samples int64
}

// pprofTop asks go tool pprof for the functions of a profile, most samples first.
func pprofTop(t *testing.T, exe, profile string) (top []function) {
	t.Helper()
	cmd := exec.Command("go", "tool", "pprof", "-top", "-sample_index=samples", "-nodefraction=0", "-edgefraction=0", "-nodecount=100000", exe, profile)
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &failed)
	_, table, ok := strings.Cut(string(out), "flat%")
	require.True(t, ok, "%s", out)
	for line := range strings.Lines(table) {
		// flat flat% sum% cum cum% name
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		n, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			continue
		}
		name := strings.TrimSuffix(strings.Join(f[5:], " "), " (inline)")
		top = append(top, function{name, n})
	}
	require.NotEmpty(t, top, "%s", out)
	return top
}

// compareTop compares the functions of an archive with an independent account of the same run. The two saw the same
// ticks of the same timers but for the first moments and the last: those are the slack.
func compareTop(w *world, path string, want []function) {
	w.t.Helper()
	t := w.t
	a := ask[query.CPUTopAnswer](w, 0, "top", path, "--by", "self", "--limit", "0")
	got := map[string]int64{}
	total := int64(0)
	for _, row := range a.Rows {
		got[row.Function] += row.SelfSamples
		total += row.SelfSamples
	}
	all := int64(0)
	for _, f := range want {
		all += f.samples
	}
	slack := max(all*2/100, 15)
	var table strings.Builder
	for i, f := range want[:min(10, len(want))] {
		rank := slices.IndexFunc(a.Rows, func(r query.CPUTopRow) bool { return r.Function == f.name }) + 1
		fmt.Fprintf(&table, "\n%2d  %5d  %5d (#%d)  %s", i+1, f.samples, got[f.name], rank, f.name)
		assert.InDelta(t, f.samples, got[f.name], float64(slack), "samples of %s", f.name)
		if f.samples > all/50 { // ranks of rare functions are dice
			assert.LessOrEqual(t, rank, 12, "rank of %s", f.name)
			assert.Positive(t, rank, "rank of %s", f.name)
		}
	}
	t.Logf("top 10 CPU functions; %d samples in pprof, %d in stax\n #  pprof  stax%s", all, total, &table)
	require.Greater(t, all, int64(100), "too few samples to compare")
	assert.InDelta(t, all, total, float64(slack), "samples")
}

// TestRealTrace compares every sample of a recorded run with the program's own execution trace, which the runtime wrote
// for a flight recorder beside ours.
func TestRealTrace(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a real program")
	}
	w := newWorld(t)
	path, side := w.path("zstd.stax"), w.path("zstd.trace")
	r := w.recordReal(path, filepath.Join(buildReal(t), "zstd"), "-trace", side)
	t.Logf("%s: %s; %.2f s of CPU", r.Program, r.Result, float64(r.CPUNanos)/1e9)
	a := audited(w, path, 0)
	// Saving the recorder's trace ends generations in quick succession, of which one may be given up, and is counted.
	assert.Contains(t, []string{query.VerdictClean, query.VerdictAccounted}, a.Verdict, "%+v", a.Reasons)
	c := readCPU(t, path)
	t.Logf("sources %v", c.states())

	f, err := os.Open(side)
	require.NoError(t, err)
	defer f.Close()
	reader, err := exptrace.NewReader(f)
	require.NoError(t, err)
	type key struct {
		thread, goroutine int64
		leaf              string
	}
	want, n := map[key]int{}, 0
	for {
		e, err := reader.ReadEvent()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e.Kind() != exptrace.EventStackSample {
			continue
		}
		k := key{thread: int64(e.Thread())}
		if g := e.Goroutine(); g != exptrace.NoGoroutine {
			k.goroutine = int64(g)
		}
		for frame := range e.Stack().Frames() {
			k.leaf = frame.Func
			break
		}
		want[k]++
		n++
	}
	same := 0
	for _, s := range c.samples {
		k := key{s.ThreadID, s.GoroutineID, c.leaf(s.Stack).Function}
		if want[k] > 0 {
			want[k]--
			same++
		}
	}
	t.Logf("%d samples in the runtime's own trace, %d in the archive, %d of them the same thread, goroutine and function", n, len(c.samples), same)
	require.Greater(t, n, 200)
	assert.InDelta(t, n, len(c.samples), float64(n)/50)
	assert.GreaterOrEqual(t, percent(same, n), 98.0)
}
