package e2e

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/internal/query"
)

// reaction is how soon a target must notice that something records it, or ceases to.
const reaction = 2 * time.Second

// watched is a target that says when recording begins and ceases.
type watched struct {
	*process
	truth string
}

func (w *world) watch(name string) *watched {
	w.t.Helper()
	x := &watched{truth: w.path(name + ".jsonl")}
	x.process = w.start("short", "-watch", "-truth", x.truth)
	x.line(10*time.Second, func(l string) bool { return l == "ready" })
	return x
}

// becomes waits until the target says on or off, and checks that it noticed soon after since.
func (x *watched) becomes(state string, since time.Time) {
	x.t.Helper()
	line := x.line(20*time.Second, func(l string) bool { return strings.HasPrefix(l, "on ") || strings.HasPrefix(l, "off ") })
	word, at, _ := strings.Cut(line, " ")
	require.Equal(x.t, state, word)
	n, err := strconv.ParseInt(at, 10, 64)
	require.NoError(x.t, err)
	took := time.Unix(0, n).Sub(since)
	x.t.Logf("%s after %v", state, took.Round(time.Millisecond))
	assert.Less(x.t, took, reaction, "%s", state)
}

// serve starts the daemon and waits until it answers.
func (w *world) serve(args ...string) *process {
	w.t.Helper()
	p := w.start("stax", append([]string{"serve", "--listen", ""}, args...)...)
	eventually(w.t, 20*time.Second, "stax serve answers", func() bool {
		select {
		case <-p.done:
			require.Failf(w.t, "serve ended", "%s", p.err)
		default:
		}
		return strings.Contains(w.run("status", "--json").out.String(), `"pid": `+strconv.Itoa(p.pid()))
	})
	return p
}

// TestAttach starts a target before any collector, and then collectors and recordings come and go.
func TestAttach(t *testing.T) {
	w := newWorld(t)
	target := w.watch("first")

	// A collector appears; nothing records the target yet.
	serve := w.serve()
	since := time.Now()
	path := w.path("attached.stax")
	record := w.start("stax", "record", "--pid", strconv.Itoa(target.pid()), "--out", path)
	target.becomes("on", since)

	// Detach.
	eventually(t, 10*time.Second, "dispatches arrive", func() bool { return reported(target.truth) > 50 })
	since = time.Now()
	stop := w.run("stop")
	require.Equal(t, 0, stop.code(), "%s", stop.err)
	target.becomes("off", since)
	require.Equal(t, 0, record.wait(20*time.Second), "%s", record.err)
	tr := readTruth(t, target.truth)
	f := readFacts(t, path, "")
	require.Len(t, f.runtimes, 1)
	compareFacts(t, f, tr, false, 10)
	assert.GreaterOrEqual(t, len(f.dispatches), 40)
	a := audited(w, path, 0)
	assert.Equal(t, query.VerdictClean, a.Verdict, "%+v", a.Reasons)

	// Attach again; the collector dies in the middle.
	path = w.path("again.stax")
	since = time.Now()
	record = w.start("stax", "record", "--pid", strconv.Itoa(target.pid()), "--out", path)
	target.becomes("on", since)
	eventually(t, 10*time.Second, "dispatches are archived", func() bool { return len(readFacts(t, path, "").dispatches) > 20 })
	since = time.Now()
	serve.signal(syscall.SIGKILL)
	target.becomes("off", since)
	require.Equal(t, 1, record.wait(20*time.Second), "record says that its collector is gone")
	lines := strings.Split(strings.TrimSpace(record.err.String()), "\n")
	assert.Contains(t, lines[len(lines)-1], "collector")
	assert.Contains(t, reasonCodes(audited(w, path, 3)), "not_finished")

	// The collector comes back.
	serve = w.serve()
	since = time.Now()
	path = w.path("third.stax")
	record = w.start("stax", "record", "--pid", strconv.Itoa(target.pid()), "--out", path)
	target.becomes("on", since)

	// The target restarts. What was recorded of it is complete, and the new one is recorded when somebody asks for it.
	target.signal(syscall.SIGTERM)
	require.Equal(t, 0, target.wait(10*time.Second))
	second := w.watch("second")
	since = time.Now()
	other := w.start("stax", "record", "--pid", strconv.Itoa(second.pid()), "--out", w.path("fourth.stax"))
	second.becomes("on", since)
	eventually(t, 10*time.Second, "dispatches of the new process", func() bool { return reported(second.truth) > 10 })
	since = time.Now()
	other.signal(syscall.SIGINT)
	second.becomes("off", since)
	require.Equal(t, 0, other.wait(20*time.Second), "%s", other.err)
	require.Equal(t, 0, record.wait(20*time.Second), "the recording of a process that has ended ends: %s", record.err)
	for _, path := range []string{path, w.path("fourth.stax")} {
		a := audited(w, path, 0)
		assert.Equal(t, query.VerdictClean, a.Verdict, "%s: %+v", path, a.Reasons)
	}
	serve.signal(syscall.SIGTERM)
	require.Equal(t, 0, serve.wait(20*time.Second), "%s", serve.err)
}

// TestAttachWithoutServe attaches a recorder of its own to a running target.
func TestAttachWithoutServe(t *testing.T) {
	w := newWorld(t)
	target := w.watch("target")
	path := w.path("attached.stax")
	since := time.Now()
	record := w.start("stax", "record", "--pid", strconv.Itoa(target.pid()), "--duration", "1s", "--out", path)
	target.becomes("on", since)
	target.becomes("off", since.Add(time.Second))
	require.Equal(t, 0, record.wait(20*time.Second), "%s", record.err)
	require.NoError(t, syscall.Kill(target.pid(), 0), "a process that was only attached to lives on")
	compareFacts(t, readFacts(t, path, ""), readTruth(t, target.truth), false, 10)
	assert.Equal(t, query.VerdictClean, audited(w, path, 0).Verdict)
}

// TestPIDNotThere attaches to a process that does not exist.
func TestPIDNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start("short", "-n", "1")
	p.wait(10 * time.Second)
	w.run("record", "--pid", strconv.Itoa(p.pid()), "--out", w.path("x.stax")).failsWith(1, strconv.Itoa(p.pid()))
}
