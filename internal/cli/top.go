package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

func newCPUTopCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Rank functions by CPU samples, and beside them the work of the lanes",
		Long: `Rank functions by the CPU samples in which they ran: SELF as the innermost frame, TOTAL anywhere on the
stack (a function that calls itself counts once). Below, never mixed with them, the names of dispatches
by target time: target time is time on a lane, and no CPU time.`,
		Example: `  stax top
  stax top --by total --tid 4242
  stax top --name 'encoding/*' --limit 0`,
	}
	cmd.Flags().String("by", query.BySelf, "rank by self or total")
	filterFlag(cmd, "tid", "only this CPU thread, or only this lane")
	filterFlag(cmd, "pid", "only this process")
	filterFlag(cmd, "source", "only samples of this source; see stax diagnose")
	filterFlag(cmd, "lane", "below: "+laneFilterHelp)
	filterFlag(cmd, "name", nameFilterHelp)
	limitFlag(cmd, 20, "functions, and as many names of lanes")
	return question[query.CPUTopAnswer]{name: "cpu_top", cmd: cmd, render: renderCPUTop}.build(a)
}

func renderCPUTop(k *asked, answer query.CPUTopAnswer) error {
	if len(answer.Rows) > 0 {
		t := &table{columns: []column{num("SELF"), num("SHARE"), num("TIME"), num("TOTAL"), num("SHARE"), num("TIME"), text("CPU: FUNCTION", 24)}}
		known := answer.SamplesWithoutTime == 0
		for _, r := range answer.Rows {
			name := "(no stack)"
			if r.Function != "" {
				name = shortFunction(r.Function) + " " + shortFile(r.File)
			}
			t.add(formatCount(r.SelfSamples), formatShare(r.SelfSamples, answer.Samples), formatDuration(r.SelfNanos),
				formatCount(r.TotalSamples), formatShare(r.TotalSamples, answer.Samples), formatDuration(r.TotalNanos), name)
		}
		if !known {
			t.drop("TIME")
			t.drop("TIME")
		}
		if err := k.table(t); err != nil {
			return err
		}
		k.cutNote(len(answer.Rows), answer.Matched, "functions")
		legend := fmt.Sprintf("Samples, %s in all: SELF with the function innermost, TOTAL with it anywhere on the stack.", formatCount(answer.Samples))
		if known {
			legend += fmt.Sprintf(" TIME: the CPU time that they stand for, %s in all.", formatDuration(answer.OnCPUNanos))
		} else {
			legend += " Not every one says how much CPU time it stands for."
		}
		k.note("%s", legend)
	}
	if len(answer.Lanes) > 0 {
		if len(answer.Rows) > 0 {
			k.printf("\n")
		}
		t := &table{columns: []column{num("TARGET TIME"), num("COUNT"), num("P95"), num("MAX"), text("LANE", 10), text("LANES: NAME", 16)}}
		for _, r := range answer.Lanes {
			t.add(formatDuration(r.TotalNanos), formatCount(r.Count), formatDuration(r.P95Nanos), formatDuration(r.MaxNanos),
				r.Lane+inBrackets(r.Kind), r.Name)
		}
		if err := k.table(t); err != nil {
			return err
		}
		k.cutNote(len(answer.Lanes), answer.LanesMatched, "names of lanes")
	}
	legend := []string{}
	if len(answer.Lanes) > 0 {
		legend = append(legend, legendTarget)
	}
	if len(answer.Rows)+len(answer.Lanes) > 0 && len(answer.Rows) == 0 && len(answer.Hints) > 0 {
		k.printf("\n")
	}
	k.footer(answer.Coverage, answer.Hints, legend...)
	return nil
}

func inBrackets(kind string) string {
	if kind == "" {
		return ""
	}
	return fmt.Sprintf(" [%s]", kind)
}
