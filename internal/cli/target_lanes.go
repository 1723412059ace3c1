package cli

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

func newLanesCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lanes",
		Short: "List the lanes: how much work they ran, and how long it took",
		Example: `  stax target lanes
  stax target lanes demo.stax --json`,
	}
	filterFlag(cmd, "lane", laneFilterHelp)
	return question[query.Answer[query.LaneRow]]{name: "lanes", cmd: cmd, render: renderLanes}.build(a)
}

func renderLanes(k *asked, answer query.Answer[query.LaneRow]) error {
	t := &table{columns: []column{
		text("LANE", 12), text("KIND", 0), num("PID"), num("THREAD ID"), num("DISPATCHES"), num("TARGET TIME"), num("AVERAGE"), num("P95"), num("MAX"),
	}}
	pids, unclear, faulted := map[int64]bool{}, int64(0), int64(0)
	for _, r := range answer.Rows {
		pids[r.PID] = true
		unclear += r.UntimedCount
		faulted += r.FaultedCount
		t.add(r.Lane, cmp.Or(r.Kind, "unknown"), formatTID(r.PID), formatTID(int64(r.TID)), formatCount(r.Count),
			formatDuration(r.TotalNanos), formatDuration(r.AvgNanos), formatDuration(r.P95Nanos), formatDuration(r.MaxNanos))
	}
	if len(pids) < 2 {
		t.drop("PID")
	}
	if len(answer.Rows) > 0 {
		if err := k.table(t); err != nil {
			return err
		}
		k.untimed(unclear)
		if faulted > 0 {
			k.printf("%s.\n", plural(faulted, "dispatch faulted", "dispatches faulted"))
		}
		k.footer(answer.Coverage, answer.Hints, legendTarget+" A lane's thread id works with stax flame --tid.")
		return nil
	}
	k.footer(answer.Coverage, answer.Hints)
	return nil
}

// untimed says how many dispatches add no time.
func (k *asked) untimed(n int64) {
	if n > 0 {
		k.printf("%s without usable times: counted, adding no time.\n", plural(n, "dispatch", "dispatches"))
	}
}
