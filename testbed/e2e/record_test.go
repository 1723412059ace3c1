package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/query"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// TestCorpus records the corpus through the real pipeline and compares everything with its ground truth.
func TestCorpus(t *testing.T) {
	w := newWorld(t)
	path, side := w.path("corpus.stax"), w.path("truth.jsonl")
	p := w.run("record", "--out", path, "--", program("corpus"), "-duration", "3s", "-truth", side)
	require.Equal(t, 0, p.code(), "%s", p.err)
	readable(t, "summary of record", p.out.String()+p.err.String())
	assert.NotContains(t, p.err.String(), "no dispatch", "a hint for an empty recording")

	tr := readTruth(t, side)
	require.NotNil(t, tr.End)
	require.Equal(t, "ok", tr.End.Shutdown)
	require.Greater(t, len(tr.Dispatches), 1000, "the corpus did too little")
	assert.LessOrEqual(t, tr.End.Unrecorded, uint64(0), "work done before the recording began")
	f := readFacts(t, path, "")
	require.Len(t, f.runtimes, 1)
	assert.Equal(t, "finished", f.manifest.Recording.State)

	compareFacts(t, f, tr, true, 0)
	compareVerdicts(w, path, f, tr, true)
	compareNumbers(w, path, tr)

	a := audited(w, path, 0)
	assert.Equal(t, query.VerdictClean, a.Verdict, "%+v", a.Reasons)
	owed, archived, dropped := auditSums(a, "")
	assert.EqualValues(t, tr.Records(), owed, "owed")
	assert.EqualValues(t, tr.Records(), archived, "archived")
	assert.Zero(t, dropped)
	assert.EqualValues(t, len(tr.Dispatches)+len(tr.Simple), a.Certificates.Certificates)

	waits := ask[query.Answer[query.WaitRow]](w, 0, "target", "waits", path, "--limit", "0")
	assert.Len(t, waits.Rows, len(tr.Waits))
	for _, row := range waits.Rows {
		if assert.NotNil(t, row.Parts) && assert.NotNil(t, row.DurationNanos) {
			x := row.Parts
			assert.Equal(t, *row.DurationNanos, x.ExecutingNanos+x.QueuedNanos+x.LaneIdleNanos+x.WakeUpNanos+x.UnknownNanos,
				"the parts of wait %s add up", row.ID)
			assert.Equal(t, *row.DurationNanos, row.EndNanos-row.BeginNanos)
			assert.Zero(t, x.UnknownNanos, "wait %s", row.ID)
		}
	}

	// Lanes are pseudo-threads and flame trees.
	lanes := tr.Summarise(func(d truth.Dispatch) string { return d.Lane })
	threads := ask[query.Answer[query.ThreadRow]](w, 0, "threads", path, "--limit", "0")
	seen := 0
	for _, row := range threads.Rows {
		if row.LaneKind != "" {
			seen++
			assert.GreaterOrEqual(t, row.TID, int64(0xFFF0_0000))
			assert.EqualValues(t, lanes[row.Name].Count, row.Dispatches, row.Name)
		}
	}
	assert.Equal(t, len(lanes), seen, "lanes among the threads")
	found := findings(w, path)
	for code, severity := range found {
		assert.NotEqual(t, query.SeverityError, severity, code)
	}
	assert.Equal(t, query.SeverityOK, found["no_loss"])

	// The same questions as text, for people.
	for _, args := range [][]string{
		{"target", "lanes"},
		{"target", "top"},
		{"target", "top", "--by", "p99"},
		{"target", "dispatches"},
		{"target", "origins"},
		{"target", "waits"},
		{"target", "counters"},
		{"flame"},
		{"threads"},
		{"diagnose"},
		{"audit"},
		{"archive", "info"},
		{"archive", "verify"},
	} {
		p := w.run(append(args, path)...)
		assert.Equal(t, 0, p.code(), "stax %v: %s", args, p.err)
		readable(t, strings.Join(args, " "), p.out.String())
	}
	text := w.run("target", "origins", path, "--limit", "0").out.String()
	for _, function := range []string{"main.submitBlur", "main.submitDeep", "main.queueHash", "main.readBlock", "kernels.go:"} {
		assert.Contains(t, text, function)
	}
	sameAfterText(w, path)
}

// sameAfterText dumps an archive as text, assembles it again and compares the answers.
func sameAfterText(w *world, path string) {
	w.t.Helper()
	dump := w.run("archive", "dump", path)
	require.Equal(w.t, 0, dump.code(), "%s", dump.err)
	text, again := w.path("dump.txt"), w.path("again.stax")
	require.NoError(w.t, os.WriteFile(text, []byte(dump.out.String()), 0o600))
	p := w.run("archive", "assemble", text, again)
	require.Equal(w.t, 0, p.code(), "%s", p.err)
	for _, args := range [][]string{{"target", "top", "--limit", "0"}, {"target", "dispatches", "--limit", "0"}, {"audit"}} {
		a, b := w.run(append(args, path, "--json")...), w.run(append(args, again, "--json")...)
		assert.Equal(w.t, a.out.String(), b.out.String(), "%v", args)
	}
}

// TestShortProgram records a program that lives for a fraction of a second, whole.
func TestShortProgram(t *testing.T) {
	w := newWorld(t)
	path, side := w.path("short.stax"), w.path("truth.jsonl")
	p := w.run("record", "--out", path, "--", program("short"), "-truth", side)
	require.Equal(t, 0, p.code(), "%s", p.err)
	tr := readTruth(t, side)
	require.Len(t, tr.Dispatches, 200, "recorded from its first dispatch on")
	f := readFacts(t, path, "")
	compareFacts(t, f, tr, true, 0)
	compareVerdicts(w, path, f, tr, true)
	assert.Equal(t, query.VerdictClean, audited(w, path, 0).Verdict)
	info := recordingInfo(w, path)
	require.NotNil(t, info.ExitCode)
	assert.Equal(t, 0, *info.ExitCode)
}

// TestChildren records a process tree: children, one after the other and at once, and a grandchild.
func TestChildren(t *testing.T) {
	w := newWorld(t)
	path := w.path("tree.stax")
	side := w.path("truth-{pid}.jsonl")
	one := program("short") + " -truth '" + side + "'"
	script := fmt.Sprintf("%s -lane first; %s -lane left & %s -lane right & (%s -lane deep & wait) & wait", one, one, one, one)
	p := w.run("record", "--out", path, "--", "sh", "-c", script)
	require.Equal(t, 0, p.code(), "%s", p.err)
	files, err := filepath.Glob(w.path("truth-*.jsonl"))
	require.NoError(t, err)
	require.Len(t, files, 4)
	require.Len(t, readFacts(t, path, "").runtimes, 4)
	for _, file := range files {
		tr := readTruth(t, file)
		require.Len(t, tr.Dispatches, 200, file)
		f := readFacts(t, path, archive.RuntimeID(tr.Process.RuntimeID))
		compareFacts(t, f, tr, true, 0)
		rt := f.runtimes[archive.RuntimeID(tr.Process.RuntimeID)]
		assert.EqualValues(t, tr.Process.PID, rt.PID)
	}
	assert.Equal(t, query.VerdictClean, audited(w, path, 0).Verdict)
}

// TestUnprivileged records as a user without any privileges.
func TestUnprivileged(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("runs as an ordinary user anyway: every test shows this")
	}
	w := newWorld(t)
	const nobody = 65534
	w.cred = &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: false}
	for _, dir := range []string{w.dir, w.path("run")} {
		require.NoError(t, os.Chown(dir, nobody, nobody))
	}
	path, side := w.path("mine.stax"), w.path("truth.jsonl")
	p := w.run("record", "--out", path, "--", program("corpus"), "-duration", "400ms", "-truth", side)
	require.Equal(t, 0, p.code(), "%s", p.err)
	tr := readTruth(t, side)
	f := readFacts(t, path, "")
	compareFacts(t, f, tr, true, 0)
	compareVerdicts(w, path, f, tr, true)
	assert.Equal(t, query.VerdictClean, audited(w, path, 0).Verdict)
}

// TestTargetKilled kills the target with SIGKILL in the middle.
func TestTargetKilled(t *testing.T) {
	w := newWorld(t)
	path, side := w.path("killed.stax"), w.path("truth.jsonl")
	p := w.start("stax", "record", "--out", path, "--", program("corpus"), "-duration", "1h", "-truth", side)
	eventually(t, 20*time.Second, "a second of truth", func() bool { return reported(side) > 2000 })
	tr := partialTruth(side)
	killed := time.Now().UnixNano()
	require.NoError(t, syscall.Kill(tr.Process.PID, syscall.SIGKILL))
	require.Equal(t, 1, p.wait(20*time.Second), "%s", p.err)
	tr = readTruth(t, side)
	require.Nil(t, tr.End)

	f := readFacts(t, path, "")
	assert.Equal(t, "finished", f.manifest.Recording.State)
	compareFacts(t, f, tr, false, 300)
	compareVerdicts(w, path, f, tr, false)
	// Whatever was reported half a second before the end has arrived.
	missing := 0
	for id, d := range tr.Dispatches {
		if _, ok := f.dispatches[id]; !ok && d.EndNanos < killed-int64(500*time.Millisecond) {
			missing++
		}
	}
	assert.Zero(t, missing, "dispatches that had half a second to arrive")
	a := audited(w, path, 3)
	assert.Equal(t, query.VerdictUnproven, a.Verdict)
	assert.Equal(t, []string{"no_final_heartbeat"}, reasonCodes(a))
	assert.Contains(t, findings(w, path), "no_final_heartbeat")
	assert.Equal(t, "SIGKILL", recordingInfo(w, path).ExitSignal)
}

// TestNoShutdown records a target that exits without sdk.Shutdown.
func TestNoShutdown(t *testing.T) {
	w := newWorld(t)
	path, side := w.path("rude.stax"), w.path("truth.jsonl")
	p := w.run("record", "--out", path, "--", program("corpus"), "-duration", "700ms", "-no-shutdown", "-truth", side)
	require.Equal(t, 0, p.code(), "%s", p.err)
	tr := readTruth(t, side)
	require.Equal(t, "skipped", tr.End.Shutdown)
	f := readFacts(t, path, "")
	require.NotEmpty(t, f.dispatches)
	compareFacts(t, f, tr, false, 0)
	assert.Contains(t, findings(w, path), "no_final_heartbeat")
	text := w.run("diagnose", path).out.String()
	assert.Contains(t, text, "Shutdown")
	assert.Contains(t, reasonCodes(audited(w, path, 3)), "no_final_heartbeat")
}

// TestDuration lets record stop the target: politely, and one that does not listen.
func TestDuration(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  []string
		least time.Duration
		most  time.Duration
	}{
		{"polite", nil, time.Second, 5 * time.Second},
		{"deaf", []string{"-ignore-signals"}, 6 * time.Second, 12 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			path, side := w.path("limited.stax"), w.path("truth.jsonl")
			began := time.Now()
			p := w.start("stax", append([]string{"record", "--duration", "1s", "--out", path, "--", program("corpus"), "-duration", "1h", "-truth", side}, c.args...)...)
			require.Equal(t, 0, p.wait(30*time.Second), "%s", p.err)
			took := time.Since(began)
			assert.GreaterOrEqual(t, took, c.least)
			assert.Less(t, took, c.most)
			tr := readTruth(t, side)
			f := readFacts(t, path, "")
			require.Greater(t, len(f.dispatches), 300)
			compareFacts(t, f, tr, false, 300)
			a := audited(w, path, 0)
			assert.Equal(t, query.VerdictClean, a.Verdict, "%+v", a.Reasons)
			assert.LessOrEqual(t, f.lastEnd()-f.firstStart(), int64(2*time.Second), "the gate closed after the duration")
			eventually(t, 2*time.Second, "the target is gone", func() bool { return syscall.Kill(tr.Process.PID, 0) != nil })
		})
	}
}

func (f *facts) firstStart() int64 {
	first := int64(1<<63 - 1)
	for _, d := range f.dispatches {
		first = min(first, d.StartNanos)
	}
	return first
}

func (f *facts) lastEnd() int64 {
	last := int64(0)
	for _, d := range f.dispatches {
		last = max(last, d.EndNanos)
	}
	return last
}

// TestCommandFails records commands that fail or do not exist.
func TestCommandFails(t *testing.T) {
	t.Run("exit code", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		path := w.path("failed.stax")
		p := w.run("record", "--out", path, "--", program("short"), "-exit-code", "7")
		require.Equal(t, 1, p.code(), "%s", p.err)
		assert.Contains(t, p.err.String(), "7")
		info := recordingInfo(w, path)
		require.NotNil(t, info.ExitCode)
		assert.Equal(t, 7, *info.ExitCode)
		assert.Equal(t, query.VerdictClean, audited(w, path, 0).Verdict)
	})
	t.Run("not found", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.run("record", "--out", w.path("none.stax"), "--", "no-such-command").failsWith(1, "no-such-command")
		assert.NoDirExists(t, w.path("none.stax"), "an empty archive is left behind")
	})
	t.Run("nothing instrumented", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		path := w.path("plain.stax")
		p := w.run("record", "--out", path, "--", "true")
		require.Equal(t, 0, p.code(), "%s", p.err)
		a := ask[query.Answer[query.LaneRow]](w, 0, "target", "lanes", path)
		assert.Empty(t, a.Rows)
		assert.NotEmpty(t, a.Hints, "an empty answer says why")
	})
	t.Run("usage", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.run("record").failsWith(2)
		require.Equal(t, 0, w.run("record", "--out", w.path("plain.stax"), "--", "true").code())
		w.run("target", "top", "--by", "beauty", w.path("plain.stax")).failsWith(2, "beauty")
		w.run("no-such-command").failsWith(2, "no-such-command")
		w.run("target", "lanes", w.path("missing.stax")).failsWith(1, "missing.stax")
	})
}

// TestLive asks a recording that is still running, through its archive and through its collector.
func TestLive(t *testing.T) {
	w := newWorld(t)
	path, side := w.path("live.stax"), w.path("truth.jsonl")
	p := w.start("stax", "record", "--out", path, "--", program("corpus"), "-duration", "1h", "-truth", side)
	eventually(t, 20*time.Second, "some truth", func() bool { return reported(side) > 1000 })
	tr := partialTruth(side)
	var live query.Answer[query.LaneRow]
	eventually(t, 10*time.Second, "the live archive has what the target reported", func() bool {
		live = ask[query.Answer[query.LaneRow]](w, 0, "target", "lanes", path)
		n := int64(0)
		for _, row := range live.Rows {
			n += row.Count
		}
		return n >= 1000
	})
	assert.Equal(t, query.StateLive, live.Coverage.State)
	found := ask[query.Answer[query.TopRow]](w, 0, "target", "top") // no ARCHIVE: the live one
	assert.NotEmpty(t, found.Rows)
	status := w.run("status")
	assert.Equal(t, 0, status.code())
	assert.Contains(t, status.out.String(), strconv.Itoa(tr.Process.PID))
	f := readFacts(t, path, "")
	assert.True(t, f.live)
	compareFacts(t, f, readTruth(t, side), false, 300)
	compareVerdicts(w, path, f, readTruth(t, side), false)

	stop := w.run("stop")
	require.Equal(t, 0, stop.code(), "%s", stop.err)
	assert.Contains(t, findings(w, path), "no_loss")
	assert.Equal(t, "finished", readFacts(t, path, "").manifest.Recording.State)
	require.Equal(t, 0, p.wait(20*time.Second), "stopped by us: %s", p.err)
}

// TestSilent records a program that ends about when its first request leaves: either that arrives without a final
// heartbeat, or the archive says that the program asked and sent nothing. It is never clean.
func TestSilent(t *testing.T) {
	w := newWorld(t)
	path := w.path("silent.stax")
	p := w.run("record", "--out", path, "--", program("short"), "-n", "1", "-no-shutdown")
	require.Equal(t, 0, p.code(), "%s", p.err)
	a := audited(w, path, 3)
	assert.Equal(t, query.VerdictUnproven, a.Verdict)
	codes := reasonCodes(a)
	// Which reason depends on how much left the process before it ended: nothing, registrations alone, or a batch. Each is
	// named by audit and by diagnose.
	require.NotEmpty(t, codes)
	switch codes[0] {
	case "no_heartbeat", "no_final_heartbeat":
		assert.Contains(t, findings(w, path), "no_final_heartbeat")
	default:
		assert.Contains(t, codes, archive.DiagnosticSilentRuntime)
		assert.Contains(t, findings(w, path), "reported_"+archive.DiagnosticSilentRuntime)
	}
}
