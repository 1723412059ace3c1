package query

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
)

// TestCPUOracle compares the answers about samples with plain loops over random archives.
func TestCPUOracle(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 7))
		b := randomActivity(rng)
		r := makeArchive(t, seed%2 == 0, b)
		stacks := map[archive.StackID][]string{}
		for _, f := range b.StackFrames {
			stacks[f.Stack] = append(stacks[f.Stack], f.Function)
		}
		type figures struct{ self, total, selfNanos, totalNanos int64 }
		want := map[string]figures{}
		threads := map[int64]CPUTime{}
		for i := range b.Samples {
			s := &b.Samples[i]
			frames := stacks[s.Stack]
			if len(frames) == 0 {
				frames = []string{""}
			}
			seen := map[string]bool{}
			for j, f := range frames {
				w := want[f]
				if j == 0 {
					w.self += int64(s.Count)
					w.selfNanos += s.CPUNanos
				}
				if !seen[f] {
					w.total += int64(s.Count)
					w.totalNanos += s.CPUNanos
				}
				seen[f] = true
				want[f] = w
			}
			c := threads[s.ThreadID]
			c.add(s)
			threads[s.ThreadID] = c
		}
		top, err := CPUTop(t.Context(), r, CPUTopParams{})
		require.NoError(t, err)
		got := map[string]figures{}
		for _, row := range top.Rows {
			got[row.Function] = figures{row.SelfSamples, row.TotalSamples, row.SelfNanos, row.TotalNanos}
		}
		assert.Equal(t, want, got, "seed %d", seed)

		// Flame: the root is everything, and each node at least the sum of its children.
		flame, err := Flame(t.Context(), r, FlameParams{Mode: FlameModeCPU})
		require.NoError(t, err)
		assert.Equal(t, top.Samples, flame.Rows[0].Count, "seed %d", seed)
		assert.Equal(t, top.OnCPUNanos, flame.Rows[0].TotalNanos, "seed %d", seed)
		checkTree(t, flame.Rows[0])

		answer, err := Threads(t.Context(), r, ThreadsParams{})
		require.NoError(t, err)
		for _, row := range answer.Rows {
			if row.Kind == ThreadCPU {
				assert.Equal(t, threads[row.TID], row.CPUTime, "seed %d, thread %d", seed, row.TID)
				delete(threads, row.TID)
			}
		}
		assert.Empty(t, threads, "seed %d: every sampled thread is listed", seed)

		// Gaps: the time of the lane instant by instant.
		busy := map[int64]bool{}
		first, last := int64(1<<62), int64(0)
		for _, d := range b.Dispatches {
			first, last = min(first, d.StartNanos), max(last, d.EndNanos)
			for at := d.StartNanos; at < d.EndNanos; at++ {
				busy[at] = true
			}
		}
		var idle, samples, off int64
		for at := first; at < last; at++ {
			if !busy[at] {
				idle++
			}
		}
		in := func(at int64) bool { return at >= first && at < last && !busy[at] }
		for _, s := range b.Samples {
			if s.TimeNanos != 0 && in(s.TimeNanos) {
				samples += int64(s.Count)
			}
		}
		for _, o := range b.OffCPU {
			for at := o.BeginNanos; at < o.EndNanos; at++ {
				if in(at) {
					off++
				}
			}
		}
		gaps, err := Gaps(t.Context(), r, GapsParams{Lane: "gpu"})
		require.NoError(t, err)
		assert.Equal(t, idle, gaps.IdleNanos, "seed %d", seed)
		assert.Equal(t, last-first-idle, gaps.BusyNanos, "seed %d", seed)
		assert.Equal(t, samples, gaps.CPU.Samples, "seed %d", seed)
		assert.Equal(t, off, gaps.OffCPUNanos, "seed %d", seed)
	}
}

// randomActivity makes samples and waits over a few hundred nanoseconds, so that a test can go through every instant.
func randomActivity(rng *rand.Rand) *archive.Batch {
	b := &archive.Batch{
		Runtimes: []archive.Runtime{{ID: "r", PID: 5}},
		Lanes:    []archive.Lane{{Runtime: "r", ID: "g", Name: "gpu", PseudoTID: pseudoThreads}},
	}
	for stack := range 6 {
		for depth := range 1 + rng.IntN(6) {
			b.StackFrames = append(b.StackFrames, archive.StackFrame{
				Runtime: "r", Stack: archive.StackID(stack + 1), Depth: uint32(depth), Function: fmt.Sprintf("f%d", rng.IntN(5)),
			})
		}
	}
	const begin = 1_000_000
	for range 1 + rng.IntN(60) {
		s := archive.Sample{Runtime: "r", ThreadID: int64(1 + rng.IntN(4)), TimeNanos: begin + rng.Int64N(400), Stack: archive.StackID(rng.IntN(8)), Count: 1, CPUNanos: rng.Int64N(3)}
		if rng.IntN(8) == 0 {
			s.TimeNanos, s.Count = 0, 7
		}
		b.Samples = append(b.Samples, s)
	}
	for range rng.IntN(30) {
		at := begin + rng.Int64N(400)
		b.OffCPU = append(b.OffCPU, archive.OffCPU{
			Runtime: "r", ThreadID: int64(1 + rng.IntN(4)), GoroutineID: rng.Int64N(3), BeginNanos: at, EndNanos: at + rng.Int64N(100), Reason: "lock",
		})
	}
	for i := range 1 + rng.IntN(20) {
		at := begin + rng.Int64N(300)
		b.Dispatches = append(b.Dispatches, archive.Dispatch{
			Runtime: "r", Lane: "g", ID: archive.DispatchID(i + 1), Name: "k", StartNanos: at, EndNanos: at + rng.Int64N(40),
		})
	}
	return b
}

func checkTree(t *testing.T, n *FlameNode) {
	t.Helper()
	var count, total int64
	for _, c := range n.Children {
		count += c.Count
		total += c.TotalNanos
		checkTree(t, c)
	}
	assert.LessOrEqual(t, count, n.Count, n.Name)
	assert.LessOrEqual(t, total, n.TotalNanos, n.Name)
}

func TestCommonFrames(t *testing.T) {
	stack := func(spec ...string) []archive.StackFrame {
		var out []archive.StackFrame
		for _, s := range spec {
			var f archive.StackFrame
			_, err := fmt.Sscanf(s, "%s %d", &f.Function, &f.Line)
			require.NoError(t, err)
			out = append(out, f)
		}
		return out
	}
	for _, tc := range []struct {
		name string
		a, b []archive.StackFrame
		want []string
	}{
		{"called from two lines", stack("submit 1", "step 20", "main 9"), stack("wait 2", "step 22", "main 9"), []string{"main", "step"}},
		{"different branches", stack("submit 1", "left 5", "main 9"), stack("wait 2", "right 5", "main 9"), []string{"main"}},
		{"lines part", stack("submit 1", "step 20", "main 9"), stack("wait 2", "step 20", "main 10"), []string{"main"}},
		{"one within the other", stack("step 20", "main 9"), stack("wait 2", "step 20", "main 9"), []string{"main", "step"}},
		{"cut off", stack("submit 1", "step 20"), stack("wait 2", "step 22", "main 9"), []string{"step"}},
		{"nothing", stack("submit 1"), stack("wait 2"), nil},
		{"empty", nil, stack("wait 2"), nil},
	} {
		var got []string
		for _, f := range commonFrames(tc.a, tc.b) {
			got = append(got, f.Function)
		}
		assert.Equal(t, tc.want, got, tc.name)
	}
}

func TestDur(t *testing.T) {
	for nanos, want := range map[int64]string{
		0: "0 ns", 999: "999 ns", 61_000_000: "61 ms", 4_300_000: "4.3 ms", 1_250_000_000: "1.25 s", -5_000: "-5 µs", 999_600: "1 ms",
		999_499_999: "999 ms", 999_500_000: "1 s", 1_234_000_000_000: "1,234 s",
	} {
		assert.Equal(t, want, dur(nanos), "%d", nanos)
	}
}
