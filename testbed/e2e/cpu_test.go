package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/query"
	"github.com/stax-otel/stax/sdk/semconv"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// cpuFacts are the raw rows about CPU threads, and the verdicts that rest on them.
type cpuFacts struct {
	links   map[truth.ID]archive.Link // of dispatch origins
	certs   map[truth.ID]archive.Certificate
	stacks  map[archive.StackID][]archive.StackFrame // leaf first
	samples []archive.Sample
	offCPU  map[int64][]archive.OffCPU // by goroutine
	events  int
	sources []archive.ProfileSource
}

func readCPU(t *testing.T, path string) *cpuFacts {
	t.Helper()
	r, err := archive.Open(path, archive.ReaderOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	c := &cpuFacts{
		links: map[truth.ID]archive.Link{}, certs: map[truth.ID]archive.Certificate{},
		stacks: map[archive.StackID][]archive.StackFrame{}, offCPU: map[int64][]archive.OffCPU{},
	}
	_, derived := r.HasDerived()
	require.True(t, derived, "the archive is finished")
	scan(t, r, func(x archive.Link) {
		if x.OwnerKind == archive.OwnerDispatch && x.Kind == archive.OriginDispatch {
			c.links[truth.ID(x.Owner)] = x
		}
	})
	scan(t, r, func(x archive.Certificate) { c.certs[truth.ID(x.Dispatch)] = x })
	seen := map[archive.StackFrame]bool{}
	scan(t, r, func(x archive.StackFrame) {
		x.Runtime = "" // equal stacks of several runtimes have one id
		if !seen[x] {
			seen[x] = true
			c.stacks[x.Stack] = append(c.stacks[x.Stack], x)
		}
	})
	for _, s := range c.stacks {
		slices.SortFunc(s, func(a, b archive.StackFrame) int { return cmp.Compare(a.Depth, b.Depth) })
	}
	scan(t, r, func(x archive.Sample) { c.samples = append(c.samples, x) })
	scan(t, r, func(x archive.OffCPU) { c.offCPU[x.GoroutineID] = append(c.offCPU[x.GoroutineID], x) })
	scan(t, r, func(archive.OriginEvent) { c.events++ })
	scan(t, r, func(x archive.ProfileSource) { c.sources = append(c.sources, x) })
	return c
}

// names reports whether a function is on a stack.
func (c *cpuFacts) names(stack archive.StackID, function string) bool {
	return slices.ContainsFunc(c.stacks[stack], func(f archive.StackFrame) bool { return f.Function == function })
}

// leaf is the innermost frame of a stack as a site.
func (c *cpuFacts) leaf(stack archive.StackID) truth.Site {
	if s := c.stacks[stack]; len(s) > 0 {
		return truth.Site{Function: s[0].Function, File: s[0].File, Line: int(s[0].Line)}
	}
	return truth.Site{}
}

// verdicts counts the dispatches by status and grade.
func (c *cpuFacts) verdicts(tr *truth.File) map[string]int {
	out := map[string]int{}
	for id := range tr.Dispatches {
		l, ok := c.links[id]
		if !ok {
			l.Status = "no link"
		}
		out[strings.TrimSpace(l.Status+" "+l.Grade)]++
	}
	return out
}

// states lists the states of the CPU sample sources, with their reasons.
func (c *cpuFacts) states() map[string]int {
	out := map[string]int{}
	for _, s := range c.sources {
		out[strings.TrimRight(s.Source+" "+s.State+": "+s.Reason, ": ")]++
	}
	return out
}

// recorded runs a target under stax record and returns the archive and the truth.
func (w *world) recorded(name string, record, args []string) (path string, tr *truth.File) {
	w.t.Helper()
	path, side := w.path(name+".stax"), w.path(name+".jsonl")
	command := append([]string{"record", "--out", path}, record...)
	p := w.start("stax", append(append(command, "--", program(name), "-truth", side), args...)...)
	require.Equal(w.t, 0, p.wait(2*time.Minute), "%s\n%s", p.out, p.err)
	tr = readTruth(w.t, side)
	require.NotNil(w.t, tr.End)
	require.Equal(w.t, "ok", tr.End.Shutdown)
	return path, tr
}

// calm fails when a recording is not proven complete, or when diagnose has an error.
func calm(w *world, path string) {
	w.t.Helper()
	a := audited(w, path, 0)
	assert.Equal(w.t, query.VerdictClean, a.Verdict, "%+v", a.Reasons)
	for code, severity := range findings(w, path) {
		assert.NotEqual(w.t, query.SeverityError, severity, code)
	}
}

// TestGoroutines compares what CPU samples say about origins without a stack with the function that really queued.
func TestGoroutines(t *testing.T) {
	right := func(c *cpuFacts, tr *truth.File, grade string) (n, good int) {
		for id, d := range tr.Dispatches {
			if l := c.links[id]; l.Status == "linked" && l.Grade == grade {
				n++
				if c.names(l.Stack, d.Origin.Site.Function) {
					good++
				}
			}
		}
		return n, good
	}
	play := func(t *testing.T, mode string) (*cpuFacts, *truth.File) {
		w := newWorld(t)
		path, tr := w.recorded("goroutines", nil, []string{"-mode", mode, "-duration", "3s"})
		calm(w, path)
		c := readCPU(t, path)
		t.Logf("%s: %d dispatches, %d samples: %v; sources %v", mode, len(tr.Dispatches), len(c.samples), c.verdicts(tr), c.states())
		require.Greater(t, len(tr.Dispatches), 20) // on a machine that has better things to do
		require.Greater(t, len(c.samples), 20)
		return c, tr
	}
	t.Run("one function each", func(t *testing.T) {
		c, tr := play(t, "own")
		n, good := right(c, tr, "B")
		t.Logf("grade B names the right function for %d of %d = %.2f %%", good, n, percent(good, n))
		require.Greater(t, n, len(tr.Dispatches)/2, "dispatches of grade B")
		assert.GreaterOrEqual(t, percent(good, n), 99.0)
		for _, l := range c.links {
			assert.NotContains(t, []string{"A", "C"}, l.Grade, "%+v", l)
		}
	})
	t.Run("mixed functions", func(t *testing.T) {
		c, tr := play(t, "mixed")
		calibrate(t, c, tr)
	})
	t.Run("thread only", func(t *testing.T) {
		c, tr := play(t, "thread")
		v := c.verdicts(tr)
		for verdict, n := range v {
			assert.False(t, strings.HasPrefix(verdict, "linked"), "%d %s", n, verdict)
		}
		assert.Greater(t, percent(v["ambiguous_goroutine D"], len(tr.Dispatches)), 90.0)
	})
	t.Run("locked to threads", func(t *testing.T) {
		c, tr := play(t, "locked")
		n, good := right(c, tr, "C")
		t.Logf("grade C names the right function for %d of %d = %.2f %%", good, n, percent(good, n))
		require.Greater(t, n, len(tr.Dispatches)/2, "dispatches of grade C")
		assert.GreaterOrEqual(t, percent(good, n), 99.0)
	})
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

// calibrate prints how often the borrowed stack is right, by the distance of the sample that it was borrowed from.
func calibrate(t *testing.T, c *cpuFacts, tr *truth.File) {
	t.Helper()
	bounds := []time.Duration{
		500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond,
		8 * time.Millisecond, 16 * time.Millisecond, 32 * time.Millisecond, time.Hour,
	}
	type bucket struct{ n, good, weak int }
	buckets := make([]bucket, len(bounds))
	for id, d := range tr.Dispatches {
		l := c.links[id]
		if l.Grade != "B" {
			continue
		}
		i := slices.IndexFunc(bounds, func(b time.Duration) bool { return time.Duration(l.DistanceNanos) < b })
		buckets[i].n++
		if c.names(l.Stack, d.Origin.Site.Function) {
			buckets[i].good++
		}
		if l.Weak {
			buckets[i].weak++
		}
	}
	var sum bucket
	var table strings.Builder
	least := time.Duration(0)
	for i, b := range buckets {
		if b.n > 0 {
			fmt.Fprintf(&table, "\n%9v to %-9v %5d dispatches, right %5.1f %%, weak %5.1f %%",
				least, bounds[i], b.n, percent(b.good, b.n), percent(b.weak, b.n))
		}
		least = bounds[i]
		sum.n, sum.good = sum.n+b.n, sum.good+b.good
	}
	t.Logf("calibration of grade B, goroutines that alternate between two functions of 1 to 7 ms of CPU:%s\n%d dispatches, right %.1f %%",
		&table, sum.n, percent(sum.good, sum.n))
	assert.Positive(t, sum.n)
}

// TestWaits compares off-CPU intervals, and the corroboration of declared waits, with waits of known kind and time.
func TestWaits(t *testing.T) {
	w := newWorld(t)
	path, tr := w.recorded("waits", nil, nil)
	calm(w, path)
	c := readCPU(t, path)
	t.Logf("%d waits; sources %v", len(tr.Waits), c.states())

	// Every block is an off-CPU interval of its goroutine, for its reason.
	p := &problems{t: t}
	var begins, ends []int64
	found, wrong, checked := map[string]int{}, map[string]int{}, map[string]int{}
	for _, n := range slices.Sorted(maps.Keys(tr.Waits)) {
		x := tr.Waits[n]
		if x.Reason == "" {
			continue
		}
		checked[x.Name]++
		off, ok := longestWithin(c.offCPU[x.Goroutine], x.BeginNotBefore, x.EndNotAfter)
		switch {
		case !ok:
			p.add("wait %d (%s) of goroutine %d, %d to %d, is not among the off-CPU intervals", n, x.Name, x.Goroutine, x.BeginNotAfter, x.EndNotBefore)
			continue
		case off.Reason != x.Reason:
			wrong[x.Name+" as "+off.Reason+" ("+off.Detail+")"]++
		}
		found[x.Name]++
		begins = append(begins, distance(off.BeginNanos, x.BeginNotAfter))
		ends = append(ends, distance(off.EndNanos, x.EndNotBefore))
	}
	p.close()
	t.Logf("waits found: %v of %v", found, checked)
	assert.Empty(t, wrong, "waits with another reason")
	for _, kind := range []string{"channel", "mutex", "sleep", "network", "cond", "group", "pipe"} {
		assert.Greater(t, checked[kind], 20, kind)
	}
	slices.Sort(begins)
	slices.Sort(ends)
	for what, errors := range map[string][]int64{"begin": begins, "end": ends} {
		if assert.NotEmpty(t, errors) {
			p99 := time.Duration(truth.Rank(errors, 99))
			t.Logf("%s of %d waits: off by p50 %v, p99 %v, at most %v", what, len(errors), time.Duration(truth.Rank(errors, 50)), p99, time.Duration(errors[len(errors)-1]))
			assert.LessOrEqual(t, p99, 100*time.Microsecond, "p99 of the error of the %s", what)
		}
	}

	// Declared waits are corroborated or contradicted, and a contradicted one proves nothing.
	said, lies, awake := map[string]map[string]int{}, 0, map[string]int{}
	for _, id := range truth.SortedIDs(tr.Verdicts) {
		v, d := tr.Verdicts[id], tr.Dispatches[id]
		cert, ok := c.certs[id]
		require.True(t, ok, "dispatch %s has no certificate", id)
		if said[d.Scenario] == nil {
			said[d.Scenario] = map[string]int{}
		}
		said[d.Scenario][cert.Class+" "+cert.Corroboration]++
		if v.Class == "unproven" && cert.Class == "synchronous" {
			lies++
		}
		if got := cert.Class + " " + cert.Corroboration; v.Corroboration == "slept" && got != "synchronous slept" {
			awake[d.Scenario+" "+got]++
		}
	}
	t.Logf("corroboration: %v", said)
	assert.Empty(t, awake, "waits that slept and are not said to")
	assert.Zero(t, lies, "false synchronous")
	spun, all := said["spin"]["synchronous spun"], 0
	for _, n := range said["spin"] {
		all += n
	}
	assert.GreaterOrEqual(t, percent(spun, all), 90.0, "spinning waits that were seen to spin: %v", said["spin"])
	assert.NotEmpty(t, said["liar"])
}

// longestWithin is the longest of the intervals that overlap [begin, end].
func longestWithin(rows []archive.OffCPU, begin, end int64) (best archive.OffCPU, ok bool) {
	most := int64(0)
	for _, x := range rows {
		if n := min(x.EndNanos, end) - max(x.BeginNanos, begin); n > most {
			best, most, ok = x, n, true
		}
	}
	return best, ok
}

func distance(a, b int64) int64 { return max(a-b, b-a) }

// TestCorpusWithSamples records the corpus with cputrace: everything that holds without samples still holds, and origins
// without a captured stack get theirs from the execution trace.
func TestCorpusWithSamples(t *testing.T) {
	for _, origins := range []string{"stack", "thread"} {
		t.Run("origins "+origins, func(t *testing.T) {
			w := newWorld(t)
			path, tr := w.recorded("corpus", []string{"--origins", origins}, []string{"-duration", "3s", "-cputrace"})
			calm(w, path)
			c := readCPU(t, path)
			t.Logf("%d dispatches, %d samples, %d origin events: %v; sources %v", len(tr.Dispatches), len(c.samples), c.events, c.verdicts(tr), c.states())
			require.NotEmpty(t, c.samples)
			with, good, ab := 0, 0, 0
			p := &problems{t: t}
			for _, id := range truth.SortedIDs(tr.Dispatches) {
				d, l := tr.Dispatches[id], c.links[id]
				if d.Origin == nil {
					continue
				}
				with++
				switch l.Grade {
				case "A":
					ab++
					if c.leaf(l.Stack) != d.Origin.Site {
						p.add("dispatch %s of %s: %+v, queued at %+v", id, d.Scenario, c.leaf(l.Stack), d.Origin.Site)
					} else {
						good++
					}
				case "B":
					ab++
				default:
					if l.Status == "" || l.Status == "linked" {
						p.add("dispatch %s of %s has neither grade nor status: %+v", id, d.Scenario, l)
					}
				}
			}
			p.close()
			t.Logf("grade A or B: %d of %d = %.2f %%; A names the right line: %d", ab, with, percent(ab, with), good)
			assert.GreaterOrEqual(t, percent(ab, with), 95.0)
			f := readFacts(t, path, "")
			if origins == "stack" {
				for id, v := range tr.Verdicts { // goroutines are known now, and threads are only what they ran on
					v.CrossThread = v.CrossGoroutine
					tr.Verdicts[id] = v
				}
				compareFacts(t, f, tr, true, 0)
				compareVerdicts(w, path, f, tr, true)
				compareNumbers(w, path, tr)
			}
			// Nothing counts as synchronous that was not.
			for _, id := range truth.SortedIDs(tr.Verdicts) {
				if got := c.certs[id]; got.Class == "synchronous" && tr.Verdicts[id].Class != "synchronous" {
					t.Errorf("dispatch %s of %s is %+v, want %s", id, tr.Dispatches[id].Scenario, got, tr.Verdicts[id].Class)
				}
			}
			said := map[string]int{}
			for id, v := range tr.Verdicts {
				if v.Class == "synchronous" {
					said[c.certs[id].Class+" "+c.certs[id].Corroboration]++
				}
			}
			t.Logf("what is synchronous: %v", said)
		})
	}
}

// TestBadOrigins checks that every way to get an origin wrong gets its status, and that diagnose and why explain it.
func TestBadOrigins(t *testing.T) {
	w := newWorld(t)
	path, tr := w.recorded("badorigins", nil, nil)
	c := readCPU(t, path)
	t.Logf("sources %v", c.states())
	found := ask[query.Answer[query.Finding]](w, 0, "diagnose", path)
	byText := ""
	for _, f := range found.Rows {
		byText += f.Code + ": " + f.Text + " " + f.Hint + "\n"
	}
	text := w.run("diagnose", path)
	readable(t, "diagnose", text.out.String())
	seen := map[string]int{}
	for _, id := range truth.SortedIDs(tr.Dispatches) {
		d := tr.Dispatches[id]
		l := c.links[id]
		assert.Equal(t, d.Scenario, l.Status, "dispatch %s: %+v", id, l)
		if seen[d.Scenario]++; seen[d.Scenario] > 1 {
			continue
		}
		assert.Contains(t, byText, d.Scenario, "diagnose explains it")
		p := w.run("why", "dispatch", id.String(), path)
		require.Equal(t, 0, p.code(), "why %s: %s", id, p.err)
		said := p.out.String()
		t.Logf("%s:\n%s", d.Scenario, said)
		readable(t, "why", said)
		assert.Contains(t, said, d.Scenario)
		assert.Regexp(t, explanations[d.Scenario], strings.Join(strings.Fields(said), " "), "%s is explained with numbers", d.Scenario)
		j := w.run("why", "dispatch", id.String(), path, "--json")
		require.Equal(t, 0, j.code(), "%s", j.err)
		assert.True(t, json.Valid([]byte(j.out.String())))
	}
	assert.Len(t, seen, len(explanations))
	assert.Contains(t, byText, "1 wrong pid", "spans of another process are refused and counted")
}

// explanations are the numbers that an explanation of a status must contain.
var explanations = map[string]string{
	"outside_recording":   `lies .* (before the recording began|after the recording ended); up to 50.* ms`,
	"synthetic_thread":    `thread 0xFFF00001`,
	"bad_thread":          `thread (0|-7), which is no thread id`,
	"missing_thread":      `None of the [0-9,]+ CPU samples .* thread 5000001`,
	"too_far":             `Nearest sample [0-9.]+ m?s > limit 50.* ms.* Sampler 250 Hz.* off-CPU (for )?[0-9.]+ m?s of (those|the) [0-9.]+ m?s`,
	"stale":               `The last of [0-9,]+ samples .* lies [0-9.]+ m?s before this origin, which is more than the limit of 50`,
	"no_stack":            `nearest sample of thread 5000002 is .* away, within the limit of 50.* has no stack`,
	"ambiguous_goroutine": `nearest sample of thread [0-9]+ is [0-9.]+ .s away.*grade D`,
	"clock_step":          `clock jumped by (49|50|51)[0-9.]* ms`,
}

// TestChannels records the program that an execution trace is dearest for: the recording must step down and say so.
func TestChannels(t *testing.T) {
	w := newWorld(t)
	path, tr := w.recorded("channels", nil, []string{"-duration", "8s"})
	c := readCPU(t, path)
	t.Logf("%d batches; sources %v", len(tr.Dispatches), c.states())
	a := audited(w, path, 0)
	assert.Contains(t, []string{query.VerdictClean, query.VerdictAccounted}, a.Verdict, "%+v", a.Reasons) // a generation may be too large
	reduced := slices.IndexFunc(c.sources, func(s archive.ProfileSource) bool { return s.State == semconv.ProfileStateReduced })
	require.NotEqual(t, -1, reduced, "it never stepped down")
	assert.NotEmpty(t, c.sources[reduced].Reason)
	assert.True(t, slices.ContainsFunc(c.samples, func(s archive.Sample) bool { return s.Source == semconv.ProfileSourceGoCPUProfile }),
		"the cheaper source delivers")
	said := w.run("diagnose", path).out.String()
	t.Logf("%s", said)
	assert.Regexp(t, `replaced by a cheaper one.* more than the budget of 5 %`, strings.Join(strings.Fields(said), " "))
}
