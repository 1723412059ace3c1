package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

func newThreadsCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "threads",
		Short: "List lanes and CPU threads: on CPU, off CPU and why, work they ran or queued, waits",
		Long: `List lanes and CPU threads: how long a thread ran on the CPU and did not run, the target time of the work
that a lane ran or that a thread queued, and declared waits.

Waits of goroutines belong to goroutines, not to threads: they are summed up for each process in a
table of their own.`,
		Example: `  stax threads
  stax threads --limit 0 --json`,
	}
	limitFlag(cmd, 20, "threads (lanes with dispatches are always shown)")
	return question[query.ThreadsAnswer]{name: "threads", cmd: cmd, render: renderThreads}.build(a)
}

func renderThreads(k *asked, answer query.ThreadsAnswer) error {
	t := &table{columns: []column{
		num("THREAD ID"), text("NAME", 6), text("KIND", 0), num("PID"), num("ON CPU"), num("SAMPLES"), num("OFF CPU"), num("RAN"), num("QUEUED"),
		num("DISPATCHES"), num("WAITS"), num("IN WAITS"), text("QUEUED ON", 9),
	}}
	pids := map[int64]bool{}
	var sampled, off, unknown bool
	for _, r := range answer.Rows {
		pids[r.PID] = true
		sampled = sampled || r.Samples > 0
		unknown = unknown || r.SamplesWithoutTime > 0
		off = off || len(r.OffCPU) > 0
		kind, ran, queued, in, onCPU, offCPU := "cpu", "-", "-", "-", "-", "-"
		if r.Kind == query.ThreadLane {
			kind, ran = r.LaneKind, formatDuration(r.TargetNanos)
		} else if r.Dispatches > 0 {
			queued = formatDuration(r.TargetNanos)
		}
		if r.Waits > 0 {
			in = formatDuration(r.WaitNanos)
		}
		switch {
		case r.Samples == 0:
		case r.OnCPUNanos == 0:
			onCPU = "unknown"
		case r.SamplesWithoutTime > 0:
			onCPU = "> " + formatDuration(r.OnCPUNanos)
		default:
			onCPU = formatDuration(r.OnCPUNanos)
		}
		if len(r.OffCPU) > 0 {
			offCPU = formatDuration(r.OffCPUNanos)
		}
		var lanes []string
		for _, l := range r.Lanes {
			lanes = append(lanes, l.Lane)
		}
		name := r.Name
		if r.Kind == query.ThreadCPU && r.TID == 0 {
			name = "(not known)"
		}
		t.add(formatTID(r.TID), name, kind, formatTID(r.PID), onCPU, formatNonZero(r.Samples), offCPU, ran, queued, formatNonZero(r.Dispatches),
			formatNonZero(r.Waits), in, strings.Join(lanes, ", "))
	}
	if len(answer.Rows) == 0 {
		k.footer(answer.Coverage, answer.Hints)
		return nil
	}
	if len(pids) < 2 {
		t.drop("PID")
	}
	if !sampled {
		t.drop("ON CPU")
	}
	if !unknown {
		t.drop("SAMPLES")
	}
	if !off {
		t.drop("OFF CPU")
	}
	if sampled || off {
		t.drop("WAITS") // IN WAITS says more where there is little room
	}
	for _, head := range []string{"DISPATCHES", "IN WAITS"} {
		if t.narrowest() > k.app.width {
			t.drop(head)
		}
	}
	if err := k.table(t); err != nil {
		return err
	}
	k.cutNote(len(answer.Rows), answer.Matched, "threads")
	legend := "RAN: target time on the lane. QUEUED: target time of work queued from the thread, run in parallel on lanes. " +
		"Neither is CPU time. IN WAITS: wall time in declared waits."
	if sampled {
		legend = "ON CPU: CPU time by samples. " + legend
	}
	if unknown {
		legend += " Samples that do not say how much CPU time they stand for are counted only."
	}
	if off {
		k.printf("\n")
		var rows []offRow
		for _, r := range answer.Rows {
			if len(r.OffCPU) > 0 {
				rows = append(rows, offRow{[]string{formatTID(r.TID), r.Name}, r.OffCPUNanos, r.OffCPU})
			}
		}
		if err := k.offCPU([]column{num("THREAD ID"), text("NAME", 6)}, rows); err != nil {
			return err
		}
	}
	if len(answer.Goroutines) > 0 {
		k.printf("\n")
		var rows []offRow
		var short, shortNanos int64
		for _, r := range answer.Goroutines {
			rows = append(rows, offRow{
				[]string{strings.TrimSpace(r.Name + " " + formatTID(r.PID)), formatCount(r.Goroutines), formatCount(r.Waits)}, r.OffCPUNanos, r.OffCPU,
			})
			short += r.ShortWaits
			shortNanos += r.ShortNanos
		}
		if err := k.offCPU([]column{text("PROCESS", 8), num("GOROUTINES"), num("WAITS")}, rows); err != nil {
			return err
		}
		k.note("Goroutines wait side by side: these sums can exceed the time that passed, and belong to no thread.")
		if short > 0 {
			k.note("%s too short to be kept, %s in all.", plural(short, "more wait was", "more waits were"), formatDuration(shortNanos))
		}
	}
	if off || len(answer.Goroutines) > 0 {
		k.printf("\n")
	}
	k.footer(answer.Coverage, answer.Hints, legend)
	return nil
}

// offRow is a row of a table of off-CPU time.
type offRow struct {
	head    []string
	total   int64
	reasons []query.OffCPUReason
}

// maxReasons is how many reasons have a column of their own; the rest is summed.
const maxReasons = 6

// offCPU prints off-CPU time by reason, the reasons with the most time first.
func (k *asked) offCPU(head []column, rows []offRow) error {
	sums := map[string]int64{}
	for _, r := range rows {
		for _, x := range r.reasons {
			sums[x.Reason] += x.TotalNanos
		}
	}
	reasons := sortedKeys(sums)
	slices.SortStableFunc(reasons, func(x, y string) int { return -cmp.Compare(sums[x], sums[y]) })
	t := &table{columns: append(head, num("OFF CPU"))}
	shown := reasons[:min(len(reasons), maxReasons)]
	for _, reason := range shown {
		t.columns = append(t.columns, num(strings.ToUpper(strings.ReplaceAll(reason, "_", " "))))
	}
	if len(shown) < len(reasons) {
		t.columns = append(t.columns, num("THE REST"))
	}
	for _, r := range rows {
		nanos := map[string]int64{}
		rest := r.total
		for _, x := range r.reasons {
			nanos[x.Reason] = x.TotalNanos
		}
		cells := append(slices.Clone(r.head), formatDuration(r.total))
		for _, reason := range shown {
			cells = append(cells, formatNonZeroDuration(nanos[reason]))
			rest -= nanos[reason]
		}
		if len(shown) < len(reasons) {
			cells = append(cells, formatNonZeroDuration(rest))
		}
		t.add(cells...)
	}
	return k.table(t)
}

func formatNonZeroDuration(nanos int64) string {
	if nanos == 0 {
		return "-"
	}
	return formatDuration(nanos)
}
