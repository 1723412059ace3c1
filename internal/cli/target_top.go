package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

func newTopCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Rank the names of dispatches by time, count, average, maximum or a percentile",
		Example: `  stax target top
  stax target top --by p99 --lane "GPU tq1s"
  stax target top --by count --name '*matmul*' --limit 0`,
	}
	cmd.Flags().String("by", query.ByTime, "rank by "+strings.Join(query.TopOrders, ", "))
	filterFlag(cmd, "lane", laneFilterHelp)
	filterFlag(cmd, "name", nameFilterHelp)
	limitFlag(cmd, 20, "names")
	return question[query.Answer[query.TopRow]]{name: "top", cmd: cmd, render: renderTop}.build(a)
}

func renderTop(k *asked, answer query.Answer[query.TopRow]) error {
	t := &table{columns: []column{
		text("NAME", 12), text("LANE", 8), num("PID"), num("COUNT"), num("TARGET TIME"), num("AVERAGE"), num("P50"), num("P95"), num("P99"), num("MAX"),
	}}
	pids, untimed := map[int64]bool{}, int64(0)
	for _, r := range answer.Rows {
		pids[r.PID] = true
		untimed += r.UntimedCount
		t.add(r.Name, r.Lane, formatTID(r.PID), formatCount(r.Count), formatDuration(r.TotalNanos), formatDuration(r.AvgNanos),
			formatDuration(r.P50Nanos), formatDuration(r.P95Nanos), formatDuration(r.P99Nanos), formatDuration(r.MaxNanos))
	}
	if len(pids) < 2 {
		t.drop("PID")
	}
	if len(answer.Rows) == 0 {
		k.footer(answer.Coverage, answer.Hints)
		return nil
	}
	if err := k.table(t); err != nil {
		return err
	}
	k.cutNote(len(answer.Rows), answer.Matched, "names")
	k.untimed(untimed)
	k.footer(answer.Coverage, answer.Hints, legendTarget+" Percentiles are exact.")
	return nil
}
