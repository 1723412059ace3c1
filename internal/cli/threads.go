package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

func newThreadsCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "threads",
		Short: "List lanes and CPU threads: work they ran, work they queued, waits",
		Example: `  stax threads
  stax threads --limit 0 --json`,
	}
	limitFlag(cmd, 20, "threads (lanes with dispatches are always shown)")
	return question[query.Answer[query.ThreadRow]]{name: "threads", cmd: cmd, render: renderThreads}.build(a)
}

func renderThreads(k *asked, answer query.Answer[query.ThreadRow]) error {
	t := &table{columns: []column{
		num("THREAD ID"), text("NAME", 10), text("KIND", 0), num("PID"), num("RAN"), num("QUEUED"), num("DISPATCHES"), num("WAITS"), num("IN WAITS"), text("QUEUED ON", 10),
	}}
	pids, names := map[int64]bool{}, false
	for _, r := range answer.Rows {
		pids[r.PID] = true
		names = names || r.Name != ""
		kind, ran, queued, in := "cpu", "-", "-", "-"
		if r.Kind == query.ThreadLane {
			kind, ran = r.LaneKind, formatDuration(r.TargetNanos)
		} else if r.Dispatches > 0 {
			queued = formatDuration(r.TargetNanos)
		}
		if r.Waits > 0 {
			in = formatDuration(r.WaitNanos)
		}
		var lanes []string
		for _, l := range r.Lanes {
			lanes = append(lanes, l.Lane)
		}
		t.add(formatTID(r.TID), r.Name, kind, formatTID(r.PID), ran, queued, formatNonZero(r.Dispatches), formatNonZero(r.Waits), in, strings.Join(lanes, ", "))
	}
	if len(answer.Rows) == 0 {
		k.footer(answer.Coverage, answer.Hints)
		return nil
	}
	if len(pids) < 2 {
		t.drop("PID")
	}
	if err := k.table(t); err != nil {
		return err
	}
	k.cutNote(len(answer.Rows), answer.Matched, "threads")
	k.footer(answer.Coverage, answer.Hints,
		"RAN: target time on the lane. QUEUED: target time of work queued from the thread, run in parallel on lanes. "+
			"Neither is CPU time. IN WAITS: wall time in declared waits.")
	return nil
}
