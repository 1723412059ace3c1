package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

func newCountersCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "counters",
		Short: "Summarise the counters that dispatches carried",
		Example: `  stax target counters
  stax target counters --lane "GPU tq1s" --name bytes`,
	}
	filterFlag(cmd, "lane", laneFilterHelp)
	filterFlag(cmd, "name", "only counters with this text in their name, matching a pattern, or exactly =TEXT")
	limitFlag(cmd, 0, "counters")
	return question[query.Answer[query.CounterRow]]{name: "counters", cmd: cmd, render: renderCounters}.build(a)
}

func renderCounters(k *asked, answer query.Answer[query.CounterRow]) error {
	t := &table{columns: []column{
		text("COUNTER", 12), text("LANE", 8), text("UNIT", 0), text("SAMPLED", 8), num("SAMPLES"), num("TOTAL"), num("AVERAGE"), num("MIN"), num("MAX"), num("FAILED"),
	}}
	value := func(x *float64) string {
		if x == nil {
			return "-"
		}
		return formatValue(*x)
	}
	failed := false
	for _, r := range answer.Rows {
		total := value(r.Total)
		if r.IntTotal != nil {
			total = formatCount(*r.IntTotal)
		}
		bad := r.Errors + r.Unresolved
		failed = failed || bad > 0
		t.add(string(r.Set)+"/"+r.Name, r.Lane, r.Unit, strings.ReplaceAll(r.Point, "_", " "), formatCount(r.Count), total,
			value(r.Avg), value(r.Min), value(r.Max), formatNonZero(bad))
	}
	if len(answer.Rows) == 0 {
		k.footer(answer.Coverage, answer.Hints)
		return nil
	}
	if !failed {
		t.drop("FAILED")
	}
	legend := []string{}
	if same, ok := t.dropSame("SAMPLED"); ok {
		legend = append(legend, "Sampled "+same+". Percentages are averaged, never summed.")
	} else {
		legend = append(legend, "Percentages are averaged, never summed.")
	}
	if err := k.table(t); err != nil {
		return err
	}
	k.cutNote(len(answer.Rows), answer.Matched, "counters")
	if failed {
		legend = append(legend, "FAILED: samples that did not resolve; they are never counted as numbers.")
	}
	k.footer(answer.Coverage, answer.Hints, legend...)
	return nil
}
