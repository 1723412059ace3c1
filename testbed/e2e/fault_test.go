package e2e

import (
	"net"
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
)

// TestCollectorKilled kills the recorder with SIGKILL in the middle.
func TestCollectorKilled(t *testing.T) {
	w := newWorld(t)
	path, side := w.path("crashed.stax"), w.path("truth.jsonl")
	p := w.start("stax", "record", "--out", path, "--", program("corpus"), "-duration", "1h", "-truth", side)
	eventually(t, 20*time.Second, "a second of truth", func() bool { return reported(side) > 2000 })
	before := readFacts(t, path, "")
	killed := time.Now().UnixNano()
	p.signal(syscall.SIGKILL)
	<-p.done
	tr := partialTruth(side)
	require.NoError(t, syscall.Kill(tr.Process.PID, syscall.SIGTERM), "the target lives on without its recorder")
	eventually(t, 20*time.Second, "the target ends", func() bool { return ended(side) })
	tr = readTruth(t, side)
	assert.Less(t, time.Duration(tr.End.MaxCallNanos), 500*time.Millisecond, "no call blocked")

	f := readFacts(t, path, "")
	assert.False(t, f.live)
	assert.Equal(t, "recording", f.manifest.Recording.State)
	compareFacts(t, f, tr, false, 0)
	for id := range before.dispatches {
		if _, ok := f.dispatches[id]; !ok {
			t.Fatalf("dispatch %s was readable before the recorder was killed", id)
		}
	}
	missing := 0
	for id, d := range tr.Dispatches {
		if _, ok := f.dispatches[id]; !ok && d.EndNanos < killed-int64(500*time.Millisecond) {
			missing++
		}
	}
	assert.Zero(t, missing, "dispatches that had half a second to arrive")
	compareVerdicts(w, path, f, tr, false) // certificates are computed in memory

	lanes := ask[query.Answer[query.LaneRow]](w, 0, "target", "lanes", path)
	assert.Equal(t, query.StateCrashed, lanes.Coverage.State)
	assert.Len(t, lanes.Rows, 5)
	for _, args := range [][]string{{"target", "top"}, {"target", "origins"}, {"target", "waits"}, {"flame"}, {"threads"}, {"diagnose"}, {"archive", "verify"}} {
		q := w.run(append(args, path)...)
		assert.Equal(t, 0, q.code(), "%v: %s", args, q.err)
	}
	a := audited(w, path, 3)
	assert.Contains(t, reasonCodes(a), "not_finished")
	assert.NotContains(t, reasonCodes(a), "unaccounted", "everything that a heartbeat announced is there")
}

// TestStalledCollector stops the recorder for a while: no call of the target may wait for it.
func TestStalledCollector(t *testing.T) {
	w := newWorld(t)
	path, side := w.path("stalled.stax"), w.path("truth.jsonl")
	p := w.start("stax", "record", "--out", path, "--", program("corpus"), "-duration", "1h", "-truth", side)
	eventually(t, 20*time.Second, "some truth", func() bool { return reported(side) > 1000 })
	p.signal(syscall.SIGSTOP)
	at := reported(side)
	// The target goes on reporting until it concludes that nobody listens.
	eventually(t, 10*time.Second, "the target goes on", func() bool { return reported(side) > at+1000 })
	stalled := time.NewTimer(2 * time.Second)
	defer stalled.Stop()
	<-stalled.C // longer than the SDK's grace: it must survive the loss of its gate too
	p.signal(syscall.SIGCONT)
	resumed := reported(side)
	eventually(t, 10*time.Second, "the target is recorded again", func() bool { return reported(side) > resumed+500 })
	tr := partialTruth(side)
	require.NoError(t, syscall.Kill(tr.Process.PID, syscall.SIGTERM))
	p.wait(20 * time.Second)
	tr = readTruth(t, side)
	require.NotNil(t, tr.End)
	t.Logf("slowest of %d calls %v, %d over 10 ms", tr.End.Calls, time.Duration(tr.End.MaxCallNanos), tr.End.SlowCalls)
	assert.Less(t, time.Duration(tr.End.MaxCallNanos), 500*time.Millisecond, "a call blocked")
	assert.Less(t, tr.End.SlowCalls, tr.End.Calls/100, "calls were slow")
	compareFacts(t, readFacts(t, path, ""), tr, false, 0)
	a := audited(w, path, 0)
	owed, archived, dropped := auditSums(a, "")
	t.Logf("owed %d, archived %d, dropped %d: %s", owed, archived, dropped, a.Verdict)
	assert.LessOrEqual(t, archived, owed)
}

// TestOverflow reports far more than the SDK can buffer: the newest is dropped, and every drop is counted.
func TestOverflow(t *testing.T) {
	w := newWorld(t)
	path, side := w.path("burst.stax"), w.path("truth.jsonl")
	p := w.run("record", "--out", path, "--", program("short"), "-burst", "4", "-n", "150000", "-truth", side)
	require.Equal(t, 0, p.code(), "%s", p.err)
	tr := readTruth(t, side)
	require.NotNil(t, tr.End)
	made, lost := tr.End.SDK.Emitted, tr.End.SDK.Full+tr.End.SDK.Send+tr.End.SDK.Other
	require.EqualValues(t, 600000, made)
	require.Positive(t, lost, "the burst was no burst")
	assert.Equal(t, made, tr.End.SDK.Sent+lost)
	t.Logf("made %d, dropped %d (full %d, send %d, other %d)", made, lost, tr.End.SDK.Full, tr.End.SDK.Send, tr.End.SDK.Other)

	a := audited(w, path, 0)
	owed, archived, dropped := auditSums(a, "")
	assert.Equal(t, made, owed)
	assert.Equal(t, lost, dropped)
	assert.Equal(t, made-lost, archived)
	assert.Equal(t, query.VerdictAccounted, a.Verdict)
	lanes := ask[query.Answer[query.LaneRow]](w, 0, "target", "lanes", path)
	require.Len(t, lanes.Rows, 1)
	assert.EqualValues(t, archived, lanes.Rows[0].Count)
	assert.EqualValues(t, archived*1000, lanes.Rows[0].TotalNanos)
	assert.Equal(t, lost, lanes.Coverage.Dropped)
	assert.Contains(t, w.run("audit", path).out.String(), strings.ToLower("dropped in the target"))
	assert.Equal(t, query.SeverityWarn, findings(w, path)["dropped"])
	assert.Less(t, time.Duration(tr.End.MaxCallNanos), 500*time.Millisecond, "a call blocked")
}

// TestFullDisk writes the archive to a file system that fills up.
func TestFullDisk(t *testing.T) {
	w := newWorld(t)
	disk := w.path("disk")
	require.NoError(t, os.Mkdir(disk, 0o700))
	if err := mountSmall(disk, "256k"); err != nil {
		t.Skipf("needs a small file system of its own: %v", err)
	}
	t.Cleanup(func() {
		assert.Eventually(t, func() bool { return unmount(disk) == nil }, 10*time.Second, 20*time.Millisecond)
	})
	path, side := filepath.Join(disk, "full.stax"), w.path("truth.jsonl")
	p := w.start("stax", "record", "--out", path, "--", program("corpus"), "-duration", "2s", "-scale", "8", "-truth", side)
	require.Equal(t, 1, p.wait(40*time.Second), "%s", p.err)
	lines := strings.Split(strings.TrimSpace(p.err.String()), "\n")
	assert.Contains(t, lines[len(lines)-1], "no space left on device")
	assert.LessOrEqual(t, len(lines), 5, "that it records and seals, a warning or two meanwhile, and one line why it failed: %s", p.err)
	tr := readTruth(t, side)
	require.NotNil(t, tr.End, "the target was not harmed")
	assert.Less(t, time.Duration(tr.End.MaxCallNanos), 500*time.Millisecond, "a call blocked")

	f := readFacts(t, path, "")
	assert.NotEmpty(t, f.dispatches, "what fitted is readable")
	compareFacts(t, f, tr, false, 0)
	a := ask[query.AuditAnswer](w, 3, "audit", path)
	assert.NotEqual(t, query.VerdictClean, a.Verdict)
}

// TestPlaces gives stax places that do not work: one line, exit code 1.
func TestPlaces(t *testing.T) {
	t.Run("directory missing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.run("record", "--out", w.path("no", "such", "dir", "x.stax"), "--", "true").failsWith(1, w.path("no"))
	})
	t.Run("archive exists", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		path := w.path("x.stax")
		require.Equal(t, 0, w.run("record", "--out", path, "--", program("short")).code())
		w.run("record", "--out", path, "--", "true").failsWith(1, path)
		assert.Len(t, readFacts(t, path, "").dispatches, 200, "the first recording is untouched")
	})
	t.Run("no permission", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		if os.Getuid() == 0 {
			w.cred = &syscall.Credential{Uid: 65534, Gid: 65534}
			require.NoError(t, os.Chown(w.path("run"), 65534, 65534))
			require.NoError(t, os.Chmod(w.dir, 0o755))
		} else {
			require.NoError(t, os.Chmod(w.dir, 0o555))
			t.Cleanup(func() { _ = os.Chmod(w.dir, 0o700) })
		}
		w.run("record", "--out", w.path("x.stax"), "--", "true").failsWith(1, "permission denied")
	})
	t.Run("port taken", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		for _, flag := range []string{"--listen", "--http", "--grpc"} {
			args := []string{"serve", flag, l.Addr().String()}
			if flag != "--listen" {
				args = append(args, "--listen", "")
			}
			w.run(args...).failsWith(1, l.Addr().String(), "address already in use")
		}
		w.run("record", "--http", l.Addr().String(), "--out", w.path("x.stax"), "--", "true").failsWith(1, "address already in use")
		assert.NoDirExists(t, w.path("x.stax"))
	})
	t.Run("socket path too long", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		long := w.path(strings.Repeat("d", 100))
		require.NoError(t, os.Mkdir(long, 0o700))
		w.env = append(w.env, "XDG_RUNTIME_DIR="+long)
		w.run("record", "--out", w.path("x.stax"), "--", "true").failsWith(1, "107", "XDG_RUNTIME_DIR")
		w.run("serve", "--listen", "").failsWith(1, "107", "XDG_RUNTIME_DIR")
	})
	t.Run("runtime directory of others", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		require.NoError(t, os.MkdirAll(w.path("run", "stax"), 0o700))
		require.NoError(t, os.Chmod(w.path("run", "stax"), 0o777))
		w.run("record", "--out", w.path("x.stax"), "--", "true").failsWith(1, w.path("run", "stax"), "0700")
	})
	t.Run("unknown key", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		file := w.path("extra.yaml")
		for config, words := range map[string][]string{
			"exporters:\n  staxarchive:\n    segment_rowz: 7\n":   {"segment_rowz"},
			"receivers:\n  staxtarget:\n    protokols: {}\n":      {"protokols"},
			"exporters:\n  staxarchive:\n    segment_age: soon\n": {"segment_age"},
			"extensions:\n  staxqueri: {}\n":                      {"staxqueri"},
			"exporters: [\n":                                      {file},
		} {
			require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
			w.run("serve", "--listen", "", "--config", file).failsWith(1, words...)
		}
		w.run("serve", "--listen", "", "--config", w.path("missing.yaml")).failsWith(1, "missing.yaml")
	})
	t.Run("served twice", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		p := w.serve()
		w.run("serve", "--listen", "").failsWith(1, strconv.Itoa(p.pid()))
	})
	t.Run("no archive", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		require.NoError(t, os.Mkdir(w.path("empty.stax"), 0o700))
		for _, args := range [][]string{{"target", "lanes"}, {"audit"}, {"archive", "verify"}, {"diagnose"}} {
			w.run(append(args, w.path("empty.stax"))...).failsWith(1, "empty.stax")
		}
		_, err := archive.Open(w.path("empty.stax"), archive.ReaderOptions{})
		require.ErrorIs(t, err, archive.ErrNotArchive)
	})
}

// TestGateGone takes the gate away from a target and gives it back, and leaves nothing behind.
func TestGateGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	side := w.path("truth.jsonl")
	w.env = append(w.env, "STAX_ENDPOINT=unix://"+w.path("nobody.sock"))
	p := w.start("corpus", "-duration", "300ms", "-truth", side)
	require.Equal(t, 0, p.wait(20*time.Second), "a target without a gate runs as if stax were not there")
	assert.Empty(t, p.err.String(), "the SDK says nothing")
	tr := readTruth(t, side)
	assert.Empty(t, tr.Dispatches)
	assert.Equal(t, "ok", tr.End.Shutdown)
	w.run("stop").failsWith(1, "nothing is being recorded")
	_, err := os.Stat(w.path("data"))
	assert.ErrorIs(t, err, os.ErrNotExist, "nothing is created by asking")
}
