package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

func newWaitsCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "waits",
		Short: "List the waits of CPU threads: for what, and where their time went",
		Long: `List the waits that CPU threads declared: which thread waited where, for how many dispatches, and
what the time of the wait was.

  EXECUTING  awaited work was running          QUEUED   its lane was busy with other work
  LANE IDLE  its lane ran nothing              WAKE-UP  the work was done, the thread not yet running`,
		Example: `  stax target waits
  stax target waits --class timed_out
  stax target waits --thread 4242 --sort start --json`,
	}
	filterFlag(cmd, "thread", "only waits of this CPU thread")
	filterFlag(cmd, "name", nameFilterHelp)
	filterFlag(cmd, "class", "only waits that decide a dispatch of this class: "+strings.Join(query.Classes, ", "))
	cmd.Flags().String("sort", query.SortDuration, "order: duration, start or owned")
	limitFlag(cmd, 20, "waits")
	return question[query.Answer[query.WaitRow]]{name: "waits", cmd: cmd, render: renderWaits}.build(a)
}

func renderWaits(k *asked, answer query.Answer[query.WaitRow]) error {
	t := &table{columns: []column{
		text("WAITED AT", 14), num("THREAD"), num("DURATION"), num("EXECUTING"), num("QUEUED"), num("LANE IDLE"), num("WAKE-UP"), text("DISPATCHES", 10),
	}}
	for _, r := range answer.Rows {
		where := cmp.Or(r.Name, r.ID.String())
		if r.Origin != nil {
			where = cmp.Or(tightSite(r.Origin.Function, r.Origin.Line), where)
		}
		cells := []string{where, formatTID(r.ThreadID), formatDurationOf(r.DurationNanos)}
		if p := r.Parts; p == nil || p.UnknownNanos > 0 {
			cells = append(cells, "unknown", "unknown", "unknown", "unknown")
		} else {
			cells = append(cells, formatDuration(p.ExecutingNanos), formatDuration(p.QueuedNanos), formatDuration(p.LaneIdleNanos), formatDuration(p.WakeUpNanos))
		}
		t.add(append(cells, classCounts(r.Classes))...)
	}
	if len(answer.Rows) == 0 {
		k.footer(answer.Coverage, answer.Hints)
		return nil
	}
	if err := k.table(t); err != nil {
		return err
	}
	k.cutNote(len(answer.Rows), answer.Matched, "waits")
	k.footer(answer.Coverage, answer.Hints,
		"DURATION = EXECUTING (awaited work ran) + QUEUED (its lane ran other work) + LANE IDLE + WAKE-UP.",
		"DISPATCHES: whose class the wait decides; sync: the thread provably waited for them.")
	return nil
}

// shortClasses are the classes as they fit a table.
var shortClasses = []struct{ class, short string }{
	{"synchronous", "sync"}, {"timed_out", "timed out"}, {"waited_late", "late"}, {"asynchronous", "async"}, {"unproven", "unproven"},
}

// classCounts renders counts per class: "12 sync, 1 timed out".
func classCounts(classes map[string]int64) string {
	var parts []string
	for _, c := range shortClasses {
		if n := classes[c.class]; n > 0 {
			parts = append(parts, formatCount(n)+" "+c.short)
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// longClassCounts renders counts per class with their full names.
func longClassCounts(classes map[string]int64) string {
	var parts []string
	for _, c := range shortClasses {
		if n := classes[c.class]; n > 0 {
			parts = append(parts, formatCount(n)+" "+strings.ReplaceAll(c.class, "_", " "))
		}
	}
	return strings.Join(parts, ", ")
}
