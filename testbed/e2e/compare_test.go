package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/query"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// facts are the raw rows of an archive.
type facts struct {
	runtimes   map[archive.RuntimeID]archive.Runtime
	lanes      map[archive.LaneID]archive.Lane
	dispatches map[truth.ID]archive.Dispatch
	simple     []archive.Dispatch // on lanes whose dispatches have no ids in the truth
	buffers    map[truth.ID]archive.CommandBuffer
	waits      map[uint64]archive.Wait // by the number in their tag
	unnumbered int                     // waits without that tag
	awaits     map[archive.WaitID][]string
	leaf       map[archive.StackID]archive.StackFrame
	counters   map[uint64][]archive.CounterSample
	manifest   archive.Manifest
	live       bool
	losses     []archive.Loss
}

func scan[T archive.Row](t *testing.T, r *archive.Reader, each func(T)) {
	t.Helper()
	for rows, err := range archive.Scan[T](t.Context(), r) {
		require.NoError(t, err)
		for _, row := range rows {
			each(row)
		}
	}
}

// readFacts reads the rows of one runtime; "" reads all.
func readFacts(t *testing.T, path string, rt archive.RuntimeID) *facts {
	t.Helper()
	r, err := archive.Open(path, archive.ReaderOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	mine := func(id archive.RuntimeID) bool { return rt == "" || id == rt }
	f := &facts{
		runtimes: map[archive.RuntimeID]archive.Runtime{}, lanes: map[archive.LaneID]archive.Lane{},
		dispatches: map[truth.ID]archive.Dispatch{}, buffers: map[truth.ID]archive.CommandBuffer{},
		waits: map[uint64]archive.Wait{}, awaits: map[archive.WaitID][]string{}, leaf: map[archive.StackID]archive.StackFrame{},
		counters: map[uint64][]archive.CounterSample{}, manifest: r.Manifest(), live: r.Live(),
	}
	scan(t, r, func(x archive.Runtime) { f.runtimes[x.ID] = x })
	scan(t, r, func(x archive.Lane) {
		if mine(x.Runtime) {
			f.lanes[x.ID] = x
		}
	})
	scan(t, r, func(x archive.Dispatch) {
		if !mine(x.Runtime) {
			return
		}
		if f.lanes[x.Lane].Name == "codec" {
			f.simple = append(f.simple, x)
			return
		}
		_, twice := f.dispatches[truth.ID(x.ID)]
		assert.False(t, twice, "dispatch %x twice", x.ID)
		f.dispatches[truth.ID(x.ID)] = x
	})
	scan(t, r, func(x archive.CommandBuffer) {
		if mine(x.Runtime) {
			f.buffers[truth.ID(x.ID)] = x
		}
	})
	scan(t, r, func(x archive.Wait) {
		if !mine(x.Runtime) {
			return
		}
		_, tag, ok := strings.Cut(x.Tags, `"`+truth.KeyWait+`":"`)
		n, err := strconv.ParseUint(strings.SplitN(tag, `"`, 2)[0], 10, 64)
		if !ok || err != nil {
			f.unnumbered++
			return
		}
		f.waits[n] = x
	})
	scan(t, r, func(x archive.Await) {
		if !mine(x.Runtime) {
			return
		}
		ref := string(x.Kind) + ":" + truth.ID(x.Ref).String()
		if x.Kind == archive.AwaitQueue {
			ref = "queue:" + string(x.Queue)
			if x.UpTo > 0 {
				ref += fmt.Sprintf("@%d", x.UpTo)
			}
		}
		f.awaits[x.Wait] = append(f.awaits[x.Wait], ref)
	})
	scan(t, r, func(x archive.StackFrame) {
		if mine(x.Runtime) && x.Depth == 0 {
			f.leaf[x.Stack] = x
		}
	})
	scan(t, r, func(x archive.CounterSample) {
		if mine(x.Runtime) {
			f.counters[x.Owner] = append(f.counters[x.Owner], x)
		}
	})
	f.losses = r.Losses()
	return f
}

// problems collects what differs, and prints only the first few of it.
type problems struct {
	t *testing.T
	n int
}

func (p *problems) add(format string, args ...any) {
	p.t.Helper()
	if p.n++; p.n <= 10 {
		p.t.Errorf(format, args...)
	}
}

func (p *problems) close() {
	if p.n > 10 {
		p.t.Errorf("... and %d more differences", p.n-10)
	}
}

// compareFacts compares every archived row with the truth. Whole: nothing may be missing on either side. Otherwise rows
// may be missing in the archive, and up to few rows in the truth, which is written a moment later.
func compareFacts(t *testing.T, f *facts, tr *truth.File, whole bool, few int) {
	t.Helper()
	p := &problems{t: t}
	defer p.close()
	for name, l := range tr.Lanes {
		got, ok := f.lane(name)
		if !ok {
			if whole {
				p.add("lane %s is missing", name)
			}
			continue
		}
		if got.Kind != l.Kind || got.ClockErrorNanos != l.ClockErrorNanos || got.PseudoTID < 0xFFF0_0000 {
			p.add("lane %s is %+v, want %+v", name, got, l)
		}
	}
	for _, id := range truth.SortedIDs(tr.Dispatches) {
		want := tr.Dispatches[id]
		got, ok := f.dispatches[id]
		if !ok {
			if whole {
				p.add("dispatch %s of %s is missing", id, want.Scenario)
			}
			continue
		}
		if why := f.differs(want, got); why != "" {
			p.add("dispatch %s %s/%s: %s", id, want.Scenario, want.Name, why)
		}
	}
	unknown := 0
	for id, got := range f.dispatches {
		if _, ok := tr.Dispatches[id]; !ok {
			unknown++
			if whole {
				p.add("dispatch %s (%s) was never reported", id, got.Name)
			}
		}
	}
	assert.LessOrEqual(t, unknown, few, "archived dispatches that the truth does not know")
	for _, id := range truth.SortedIDs(tr.CommandBuffers) {
		want := tr.CommandBuffers[id]
		got, ok := f.buffers[id]
		switch {
		case !ok && whole:
			p.add("command buffer %s is missing", id)
		case ok && (got.Name != want.Name || got.StartNanos != want.StartNanos || got.EndNanos != want.EndNanos ||
			string(got.Queue) != want.Queue || got.QueueSeq != want.QueueSeq || got.Faulted != (want.Fault != "") || got.StatusMessage != want.Fault):
			p.add("command buffer %s is %+v, want %+v", id, got, want)
		}
	}
	for n, want := range tr.Waits {
		got, ok := f.waits[n]
		if !ok {
			if whole {
				p.add("wait %d is missing", n)
			}
			continue
		}
		if why := f.waitDiffers(want, got); why != "" {
			p.add("wait %d (%s): %s", n, want.Name, why)
		}
	}
	if whole {
		compareSimple(t, f, tr)
		assert.Len(t, f.dispatches, len(tr.Dispatches))
		assert.Len(t, f.buffers, len(tr.CommandBuffers))
		assert.Len(t, f.waits, len(tr.Waits))
		assert.Zero(t, f.unnumbered, "waits without number")
		assert.Empty(t, f.losses)
	}
}

func (f *facts) lane(name string) (archive.Lane, bool) {
	for _, l := range f.lanes {
		if l.Name == name {
			return l, true
		}
	}
	return archive.Lane{}, false
}

// compareSimple compares the dispatches without ids as multisets.
func compareSimple(t *testing.T, f *facts, tr *truth.File) {
	t.Helper()
	var got, want []string
	for _, d := range f.simple {
		got = append(got, fmt.Sprintf("%s %s %d %d", f.lanes[d.Lane].Name, d.Name, d.StartNanos, d.EndNanos))
	}
	for _, d := range tr.Simple {
		want = append(want, fmt.Sprintf("%s %s %d %d", d.Lane, d.Name, d.StartNanos, d.EndNanos))
	}
	slices.Sort(got)
	slices.Sort(want)
	assert.Equal(t, want, got, "dispatches without ids")
}

// differs returns the first difference between a dispatch and the truth.
func (f *facts) differs(want truth.Dispatch, got archive.Dispatch) string {
	switch {
	case got.Name != want.Name || f.lanes[got.Lane].Name != want.Lane:
		return fmt.Sprintf("is %s on %s", got.Name, f.lanes[got.Lane].Name)
	case want.Bracketed && (got.StartNanos < want.StartNanos || got.StartNanos > want.Origin.NotAfter || got.EndNanos < got.StartNanos || got.EndNanos > want.EndNanos):
		return fmt.Sprintf("times %d %d outside %d %d", got.StartNanos, got.EndNanos, want.StartNanos, want.EndNanos)
	case !want.Bracketed && (got.StartNanos != want.StartNanos || got.EndNanos != want.EndNanos):
		return fmt.Sprintf("times %d %d, want %d %d", got.StartNanos, got.EndNanos, want.StartNanos, want.EndNanos)
	case truth.ID(got.CommandBuffer) != want.CommandBuffer:
		return fmt.Sprintf("command buffer %x, want %s", got.CommandBuffer, want.CommandBuffer)
	case string(got.Queue) != want.Queue || got.QueueSeq != want.QueueSeq:
		return fmt.Sprintf("queue %s@%d, want %s@%d", got.Queue, got.QueueSeq, want.Queue, want.QueueSeq)
	case string(got.Shader) != want.Shader:
		return fmt.Sprintf("shader %s, want %s", got.Shader, want.Shader)
	case got.Faulted != (want.Fault != "") || got.StatusMessage != want.Fault:
		return fmt.Sprintf("fault %t %q, want %q", got.Faulted, got.StatusMessage, want.Fault)
	case got.Seq.N == 0:
		return "has no number"
	}
	for k, v := range want.Tags {
		if !strings.Contains(got.Tags, fmt.Sprintf("%q:%q", k, v)) {
			return fmt.Sprintf("tags %s lack %s=%s", got.Tags, k, v)
		}
	}
	if why := f.countersDiffer(want, f.counters[uint64(got.ID)]); why != "" {
		return why
	}
	if want.Origin == nil {
		return ""
	}
	o, leaf := got.Origin, f.leaf[got.Origin.Stack]
	switch {
	case leaf.Function != want.Origin.Site.Function || leaf.File != want.Origin.Site.File || int(leaf.Line) != want.Origin.Site.Line:
		return fmt.Sprintf("origin %s %s:%d, want %+v", leaf.Function, leaf.File, leaf.Line, want.Origin.Site)
	case want.Origin.Thread != 0 && o.ThreadID != want.Origin.Thread:
		return fmt.Sprintf("origin thread %d, want %d", o.ThreadID, want.Origin.Thread)
	case o.TimeNanos < want.Origin.NotBefore || o.TimeNanos > want.Origin.NotAfter:
		return fmt.Sprintf("origin at %d, want within %d to %d", o.TimeNanos, want.Origin.NotBefore, want.Origin.NotAfter)
	case want.Origin.CPUSpan != "" && (truth.ID(o.CPUSpan).String() != want.Origin.CPUSpan || fmt.Sprintf("%x", o.CPUTrace[:]) != want.Origin.CPUTrace):
		return fmt.Sprintf("CPU span %x/%x, want %s/%s", o.CPUTrace, o.CPUSpan, want.Origin.CPUTrace, want.Origin.CPUSpan)
	case want.Origin.CPUSpan == "" && o.CPUSpan != 0:
		return fmt.Sprintf("CPU span %x, want none", o.CPUSpan)
	}
	return ""
}

func (f *facts) countersDiffer(want truth.Dispatch, got []archive.CounterSample) string {
	if len(got) != len(want.Counters) {
		return fmt.Sprintf("%d counter samples, want %d", len(got), len(want.Counters))
	}
	for _, c := range want.Counters {
		i := slices.IndexFunc(got, func(s archive.CounterSample) bool {
			return string(s.Set) == c.Set && s.Name == c.Name && s.Point == c.Point
		})
		if i < 0 {
			return fmt.Sprintf("counter %s/%s is missing", c.Set, c.Name)
		}
		s := got[i]
		if string(s.State) != c.State || c.State == "ok" && (s.IsFloat != c.IsFloat || s.Int != c.Int || math.Float64bits(s.Float) != math.Float64bits(c.Float)) {
			return fmt.Sprintf("counter %+v, want %+v", s, c)
		}
	}
	return ""
}

func (f *facts) waitDiffers(want truth.Wait, got archive.Wait) string {
	leaf := f.leaf[got.Origin.Stack]
	awaits := slices.Clone(f.awaits[got.ID])
	slices.Sort(awaits)
	wantAwaits := slices.Sorted(slices.Values(want.Awaits))
	switch {
	case got.Name != want.Name || got.TimedOut != want.TimedOut:
		return fmt.Sprintf("is %s, timed out %t", got.Name, got.TimedOut)
	case got.BeginNanos < want.BeginNotBefore || got.BeginNanos > want.BeginNotAfter:
		return fmt.Sprintf("begins at %d, want %d to %d", got.BeginNanos, want.BeginNotBefore, want.BeginNotAfter)
	case got.EndNanos < want.EndNotBefore || got.EndNanos > want.EndNotAfter:
		return fmt.Sprintf("ends at %d, want %d to %d", got.EndNanos, want.EndNotBefore, want.EndNotAfter)
	case want.Thread != 0 && got.Origin.ThreadID != want.Thread:
		return fmt.Sprintf("on thread %d, want %d", got.Origin.ThreadID, want.Thread)
	case leaf.Function != want.Site.Function || leaf.File != want.Site.File || int(leaf.Line) != want.Site.Line:
		return fmt.Sprintf("at %s %s:%d, want %+v", leaf.Function, leaf.File, leaf.Line, want.Site)
	case !slices.Equal(awaits, wantAwaits):
		return fmt.Sprintf("awaits %v, want %v", awaits, wantAwaits)
	}
	return ""
}

// compareVerdicts compares what stax concludes about every dispatch with what the target expects of it.
func compareVerdicts(w *world, path string, f *facts, tr *truth.File, whole bool) {
	w.t.Helper()
	p := &problems{t: w.t}
	defer p.close()
	a := ask[query.Answer[query.DispatchRow]](w, 0, "target", "dispatches", path, "--limit", "0")
	rows := map[truth.ID]query.DispatchRow{}
	for _, row := range a.Rows {
		if string(row.Runtime) == tr.Process.RuntimeID {
			rows[truth.ID(row.ID)] = row
		}
	}
	checked := map[string]int{}
	for _, id := range truth.SortedIDs(tr.Verdicts) {
		want, d := tr.Verdicts[id], tr.Dispatches[id]
		row, ok := rows[id]
		if !ok {
			if whole {
				p.add("dispatch %s of %s is missing in the answer", id, d.Scenario)
			}
			continue
		}
		if !whole && want.Wait != 0 && f.waits[want.Wait].ID == 0 {
			continue // the wait did not make it into the archive
		}
		if !whole && want.Class == "asynchronous" && d.Scenario == "queue" {
			continue // a wait for the queue that came later may cover it
		}
		checked[want.Class]++
		var flags []string
		for _, flag := range []struct {
			name string
			on   bool
		}{{"cross_thread", want.CrossThread}, {"different_stack", want.DifferentStack}, {"faulted", want.Faulted}} {
			if flag.on {
				flags = append(flags, flag.name)
			}
		}
		got := slices.Sorted(slices.Values(row.Flags))
		switch site := d.Origin; {
		case row.Class != want.Class:
			p.add("dispatch %s of %s: class %s %s, want %s", id, d.Scenario, row.Class, row.Reason, want.Class)
		case !slices.Equal(got, flags):
			p.add("dispatch %s of %s (%s): flags %v, want %v", id, d.Scenario, row.Class, got, flags)
		case row.OwnedNanos < want.OwnedMin || row.OwnedNanos > want.OwnedMax:
			p.add("dispatch %s of %s: owns %d ns, want %d to %d", id, d.Scenario, row.OwnedNanos, want.OwnedMin, want.OwnedMax)
		case want.Wait != 0 && f.waits[want.Wait].ID != archive.WaitID(row.Wait):
			p.add("dispatch %s of %s: decided by wait %s, want %x", id, d.Scenario, row.Wait, f.waits[want.Wait].ID)
		case site != nil && (row.Origin == nil || row.Origin.Status != "linked" || row.Origin.Grade != "A" ||
			row.Origin.Function != site.Site.Function || row.Origin.File != site.Site.File || int(row.Origin.Line) != site.Site.Line):
			p.add("dispatch %s of %s: origin %+v, want %+v", id, d.Scenario, row.Origin, site.Site)
		}
		if c, ok := f.waits[want.Wait]; ok && row.Class == "synchronous" && !d.Bracketed {
			if exact := max(min(c.EndNanos, d.EndNanos)-max(c.BeginNanos, d.StartNanos), 0); exact != row.OwnedNanos {
				p.add("dispatch %s of %s: owns %d ns, wait and dispatch overlap by %d", id, d.Scenario, row.OwnedNanos, exact)
			}
		}
	}
	w.t.Logf("verdicts as expected: %v", checked)
}

// exactLanes are the lanes whose times the target reported itself.
func exactLane(name string) bool { return name != "tick" }

// compareNumbers compares lane totals, counts, percentiles and counters, which must be exactly those of the truth.
func compareNumbers(w *world, path string, tr *truth.File) {
	w.t.Helper()
	t := w.t
	byLane := tr.Summarise(func(d truth.Dispatch) string { return d.Lane })
	lanes := ask[query.Answer[query.LaneRow]](w, 0, "target", "lanes", path)
	assert.Len(t, lanes.Rows, len(byLane))
	for _, row := range lanes.Rows {
		want := byLane[row.Lane]
		assert.EqualValues(t, want.Count, row.Count, row.Lane)
		assert.EqualValues(t, want.Faulted, row.FaultedCount, row.Lane)
		assert.Equal(t, tr.Lanes[row.Lane].Kind, row.Kind)
		if exactLane(row.Lane) {
			assert.Equal(t, want.TotalNanos, row.TotalNanos, row.Lane)
			assert.Equal(t, want.FirstStart, row.FirstStartNanos, row.Lane)
			assert.Equal(t, want.LastEnd, row.LastEndNanos, row.Lane)
		}
	}

	type key struct{ lane, name string }
	byName := tr.Summarise(func(d truth.Dispatch) string { return d.Lane + "\x00" + d.Name })
	for _, by := range []string{"time", "count", "avg", "max", "p50", "p95", "p99"} {
		top := ask[query.Answer[query.TopRow]](w, 0, "target", "top", path, "--by", by, "--limit", "0")
		assert.Len(t, top.Rows, len(byName), by)
		for i, row := range top.Rows {
			want := byName[row.Lane+"\x00"+row.Name]
			assert.EqualValues(t, want.Count, row.Count, "%s %s", row.Lane, row.Name)
			if !exactLane(row.Lane) {
				continue
			}
			assert.Equal(t,
				[]int64{want.TotalNanos, want.TotalNanos / int64(want.Count), want.MinNanos, want.P50, want.P95, want.P99, want.MaxNanos},
				[]int64{row.TotalNanos, row.AvgNanos, row.MinNanos, row.P50Nanos, row.P95Nanos, row.P99Nanos, row.MaxNanos},
				"%v: total avg min p50 p95 p99 max", key{row.Lane, row.Name})
			if i > 0 {
				rank := map[string]func(query.TopRow) int64{
					"time": func(r query.TopRow) int64 { return r.TotalNanos }, "count": func(r query.TopRow) int64 { return r.Count },
					"avg": func(r query.TopRow) int64 { return r.AvgNanos }, "max": func(r query.TopRow) int64 { return r.MaxNanos },
					"p50": func(r query.TopRow) int64 { return r.P50Nanos }, "p95": func(r query.TopRow) int64 { return r.P95Nanos },
					"p99": func(r query.TopRow) int64 { return r.P99Nanos },
				}[by]
				assert.GreaterOrEqual(t, rank(top.Rows[i-1]), rank(row), "order by %s", by)
			}
		}
	}
	compareCounterSums(w, path, tr)
	compareOriginSums(w, path, tr)
}

func compareCounterSums(w *world, path string, tr *truth.File) {
	w.t.Helper()
	type key struct{ lane, set, name, point string }
	type sum struct {
		ok, bad, none, total int64
		unit                 string
		float                bool
	}
	want := map[key]sum{}
	for _, d := range tr.Dispatches {
		for _, c := range d.Counters {
			k := key{d.Lane, c.Set, c.Name, c.Point}
			s := want[k]
			s.unit, s.float = c.Unit, c.IsFloat
			switch c.State {
			case "ok":
				s.ok++
				s.total += c.Int
			case "error":
				s.bad++
			default:
				s.none++
			}
			want[k] = s
		}
	}
	a := ask[query.Answer[query.CounterRow]](w, 0, "target", "counters", path, "--limit", "0")
	assert.Len(w.t, a.Rows, len(want))
	for _, row := range a.Rows {
		k := key{row.Lane, string(row.Set), row.Name, row.Point}
		s := want[k]
		assert.Equal(w.t, []int64{s.ok, s.bad, s.none}, []int64{row.Count, row.Errors, row.Unresolved}, "%v: ok, error, unresolved", k)
		assert.Equal(w.t, s.unit, row.Unit, "%v", k)
		if !s.float && assert.NotNil(w.t, row.IntTotal, "%v", k) {
			assert.Equal(w.t, s.total, *row.IntTotal, "%v", k)
		}
		if s.float {
			assert.Nil(w.t, row.Total, "%v: percentages are never summed", k)
		}
	}
}

// compareOriginSums compares the work per source line.
func compareOriginSums(w *world, path string, tr *truth.File) {
	w.t.Helper()
	type sum struct{ count, total int64 }
	want := map[truth.Site]sum{}
	for _, d := range tr.Dispatches {
		if d.Origin != nil && exactLane(d.Lane) {
			s := want[d.Origin.Site]
			want[d.Origin.Site] = sum{s.count + 1, s.total + d.EndNanos - d.StartNanos}
		}
	}
	got := map[truth.Site]sum{}
	a := ask[query.Answer[query.OriginRow]](w, 0, "target", "origins", path, "--limit", "0")
	for _, row := range a.Rows {
		if row.Function != "" && !slices.Contains(row.Lanes, "tick") {
			got[truth.Site{Function: row.Function, File: row.File, Line: int(row.Line)}] = sum{row.Count, row.TotalNanos}
		}
	}
	assert.Equal(w.t, want, got, "work per source line")
}

// audited asks for the audit and checks that it adds up. The exit code must be the given one.
func audited(w *world, path string, code int) query.AuditAnswer {
	w.t.Helper()
	a := ask[query.AuditAnswer](w, code, "audit", path)
	for _, row := range a.Rows {
		assert.Equal(w.t, row.Owed, row.Archived+row.Missing, "shard %d of %d", row.Shard, row.PID)
	}
	assert.Zero(w.t, a.Certificates.Failed, "%+v", a.Certificates.Failures)
	return a
}

func auditSums(a query.AuditAnswer, rt string) (owed, archived, dropped uint64) {
	for _, row := range a.Rows {
		if rt == "" || string(row.Runtime) == rt {
			owed, archived, dropped = owed+row.Owed, archived+row.Archived, dropped+row.Dropped
		}
	}
	return owed, archived, dropped
}

// reasonCodes lists why an audit is not clean.
func reasonCodes(a query.AuditAnswer) []string {
	var out []string
	for _, r := range a.Reasons {
		out = append(out, r.Code)
	}
	return out
}

// findings lists the codes that diagnose gives, by severity.
func findings(w *world, path string) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, f := range ask[query.Answer[query.Finding]](w, 0, "diagnose", path).Rows {
		out[f.Code] = f.Severity
	}
	return out
}

func recordingInfo(w *world, path string) query.InfoRow {
	w.t.Helper()
	a := ask[query.Answer[query.InfoRow]](w, 0, "archive", "info", path)
	require.Len(w.t, a.Rows, 1)
	return a.Rows[0]
}

func readTruth(t *testing.T, path string) *truth.File {
	t.Helper()
	tr, err := truth.Read(path)
	require.NoError(t, err)
	return tr
}

// reported counts the dispatches that a running target has written down so far.
func reported(path string) int {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0 // not begun
	}
	return bytes.Count(b, []byte("\n{\"dispatch\":"))
}

// ended reports whether a target has said goodbye in its truth. Its process may stay as a zombie of somebody else.
func ended(path string) bool {
	b, err := os.ReadFile(path)
	return err == nil && bytes.Contains(b, []byte("\n{\"end\":"))
}

// partialTruth is what a running target has written so far; empty before it has begun.
func partialTruth(path string) *truth.File {
	if _, err := os.Stat(path); err != nil {
		return &truth.File{}
	}
	tr, err := truth.Read(path)
	if err != nil {
		return &truth.File{}
	}
	return cmp.Or(tr, &truth.File{})
}
