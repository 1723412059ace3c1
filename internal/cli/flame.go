package cli

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stax-otel/stax/internal/query"
)

func newFlameCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "flame",
		Short: "Draw time as a tree: of lanes, of CPU threads, or of what the CPU did in a lane's gaps",
		Long: `Draw target time as a tree: (all), lane, name of the dispatches.

With --tid of a lane (0xFFF00000 and up, see stax threads) only that lane. With --tid of a CPU thread
its CPU samples by stack, and below the work that was queued from it, under the stack that queued it:
that work ran in parallel on the lanes, it is not time of the thread.

  --cpu      CPU samples by stack (the default where nothing ran on lanes)
  --off-cpu  time not running, by reason and stack
  --gaps     what the CPU did, and why it did not run, while the lane of --lane or --tid was idle
  --wall     work that a thread provably waited for, nested under the code that queued it and waited;
             everything else is listed as links`,
		Example: `  stax flame
  stax flame --tid 0xFFF00000
  stax flame --tid 4242 --limit 5
  stax flame --gaps --lane "GPU tq1s"`,
	}
	filterFlag(cmd, "tid", "a lane's thread id, or a CPU thread's")
	filterFlag(cmd, "pid", "with --cpu, --off-cpu and --wall only this process")
	filterFlag(cmd, "lane", laneFilterHelp)
	filterFlag(cmd, "name", nameFilterHelp)
	limitFlag(cmd, 20, "children of each node")
	modes := map[string]*bool{}
	for _, m := range flameModes {
		modes[m.flag] = cmd.Flags().Bool(m.flag, false, m.help)
	}
	q := question[query.FlameAnswer]{name: "flame", cmd: cmd, render: renderFlame}
	q.build(a)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		v, mode := url.Values{}, ""
		for _, m := range flameModes {
			if !*modes[m.flag] {
				continue
			}
			if mode != "" {
				return usageError("--%s and --%s are two questions; ask one", mode, m.flag)
			}
			mode = m.flag
		}
		var err error
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if notParams[f.Name] || modes[f.Name] != nil {
				return
			}
			if mode != "" && !flameFlags[mode][f.Name] && err == nil {
				err = usageError("--%s has no meaning with --%s", f.Name, mode)
			}
			v.Set(f.Name, f.Value.String())
		})
		if err != nil {
			return err
		}
		if !v.Has("limit") {
			v.Set("limit", cmd.Flag("limit").DefValue)
		}
		asJSON, path := cmd.Flag("json").Value.String() == "true", first(given)
		switch mode {
		case "gaps":
			return question[query.GapsAnswer]{name: "gaps", render: renderGaps}.run(cmd.Context(), a, v, path, asJSON)
		case "wall":
			return question[query.WallAnswer]{name: "wall", render: renderWall}.run(cmd.Context(), a, v, path, asJSON)
		case "cpu":
			v.Set("mode", query.FlameModeCPU)
		case "off-cpu":
			v.Set("mode", query.FlameModeOffCPU)
		}
		return q.run(cmd.Context(), a, v, path, asJSON)
	}
	return cmd
}

var flameModes = []struct{ flag, help string }{
	{"cpu", "draw CPU samples by stack"},
	{"off-cpu", "draw time not running, by reason and stack"},
	{"gaps", "draw what the CPU did while a lane was idle"},
	{"wall", "draw work that a thread provably waited for"},
}

// flameFlags are the flags that each mode takes.
var flameFlags = map[string]map[string]bool{
	"cpu":     {"tid": true, "pid": true, "limit": true},
	"off-cpu": {"tid": true, "pid": true, "limit": true},
	"gaps":    {"tid": true, "lane": true, "limit": true},
	"wall":    {"tid": true, "pid": true, "limit": true},
}

func renderFlame(k *asked, answer query.FlameAnswer) error {
	root := answer.Rows[0]
	if answer.Measure != query.MeasureTarget {
		if root.Count > 0 {
			if err := k.tree(root, answer.Measure, answer.SamplesWithoutTime > 0, ""); err != nil {
				return err
			}
		}
		k.footer(answer.Coverage, answer.Hints)
		return nil
	}
	if answer.CPU != nil {
		if err := k.tree(answer.CPU, query.MeasureCPU, answer.SamplesWithoutTime > 0, ""); err != nil {
			return err
		}
		k.printf("\n")
	}
	if root.Count == 0 {
		k.footer(answer.Coverage, answer.Hints)
		return nil
	}
	head := "LANE > NAME"
	legend := legendTarget
	if answer.Relation == query.RelationQueued {
		head = "QUEUED FROM (stack) > LANE > NAME"
		legend = "Work queued from thread " + formatTID(answer.TID) + ": it ran in parallel on the lanes. " + legendTarget
	}
	if err := k.tree(root, query.MeasureTarget, false, head); err != nil {
		return err
	}
	k.untimed(root.UntimedCount)
	k.footer(answer.Coverage, answer.Hints, legend)
	return nil
}

// tree prints a flame tree. head names its levels; "" for the usual ones of the measure. Without times it shows counts.
func (k *asked) tree(root *query.FlameNode, measure string, timeless bool, head string) error {
	unit, counts := "TARGET TIME", "DISPATCHES"
	switch measure {
	case query.MeasureCPU:
		unit, counts, head = "CPU TIME", "SAMPLES", cmp.Or(head, "STACK (CPU samples)")
	case query.MeasureOffCPU:
		unit, counts, head = "OFF CPU", "WAITS", cmp.Or(head, "REASON > STACK (time not running)")
	case query.MeasureOwned:
		unit, head = "OWNED", cmp.Or(head, "STACK (common) > LANE > NAME")
	}
	t := &table{columns: []column{num(unit), num("SHARE"), num(counts), text(head, 20)}}
	var draw func(n *query.FlameNode, depth int)
	draw = func(n *query.FlameNode, depth int) {
		label := n.Name
		switch n.Kind {
		case query.FlameFunction:
			label = site(n.Name, n.File, n.Line)
		case query.FlameLane:
			label += inBrackets(n.LaneKind)
		}
		share := formatShare(n.TotalNanos, root.TotalNanos)
		if timeless {
			share = formatShare(n.Count, root.Count)
		}
		t.add(formatDuration(n.TotalNanos), share, formatCount(n.Count), strings.Repeat("  ", depth)+label)
		for _, c := range n.Children {
			draw(c, depth+1)
		}
	}
	draw(root, 0)
	if timeless {
		t.drop(unit)
	}
	if err := k.table(t); err != nil {
		return err
	}
	if timeless {
		k.note("Not every sample says how much CPU time it stands for: shares are of samples.")
	}
	return nil
}

func renderGaps(k *asked, answer query.GapsAnswer) error {
	on, off := answer.Rows[0], answer.Rows[1]
	if answer.LastNanos > answer.FirstNanos {
		k.note("Lane %s was idle for %s of %s between its first and last dispatch, in %s; the longest took %s.", answer.Lane,
			formatDuration(answer.IdleNanos), formatDuration(answer.LastNanos-answer.FirstNanos), plural(answer.Gaps, "gap", "gaps"),
			formatDuration(answer.LongestGap))
	}
	if on.Count > 0 {
		k.printf("\n")
		if err := k.tree(on, query.MeasureCPU, answer.CPU.SamplesWithoutTime > 0, "IN THE GAPS: STACK (CPU samples, all threads)"); err != nil {
			return err
		}
	} else if answer.IdleNanos > 0 {
		k.note("No CPU sample lies in the gaps.")
	}
	if off.Count > 0 {
		k.printf("\n")
		if err := k.tree(off, query.MeasureOffCPU, false, "IN THE GAPS: REASON > STACK (not running)"); err != nil {
			return err
		}
	}
	if answer.GoroutineWaits > 0 {
		k.note("Waits of goroutines overlap: OFF CPU sums them, so it can exceed the idle time. It is no thread's time.")
	}
	switch {
	case answer.ClockErrorNanos < 0:
		k.note("The error between the lane's clock and the CPU's is not known: the borders of the gaps may be off.")
	case answer.ClockErrorNanos > 0:
		k.note("The borders of the gaps may be off by %s, the error between the lane's clock and the CPU's.", formatDuration(answer.ClockErrorNanos))
	}
	k.footer(answer.Coverage, answer.Hints)
	return nil
}

func renderWall(k *asked, answer query.WallAnswer) error {
	if root := answer.Rows[0]; root.Count > 0 {
		if err := k.tree(root, answer.Measure, false, ""); err != nil {
			return err
		}
		k.note("OWNED: wall time for which the code provably waited for the work; work that ran side by side counts once each.")
		if answer.Claimed > 0 {
			k.note("Of %s, %s on the target's word alone: no sample confirms the wait.", plural(answer.Nested, "dispatch", "dispatches"),
				plural(answer.Claimed, "rests", "rest"))
		}
	}
	if len(answer.Links) > 0 {
		if answer.Rows[0].Count > 0 {
			k.printf("\n")
		}
		t := &table{columns: []column{
			text("LINKED, NOT NESTED: WHY", 0), num("COUNT"), num("TARGET TIME"), num("OWNED"), text("LANE > NAME", 12), text("QUEUED BY", 12), text("WAITED AT", 12),
		}}
		waited := false
		for _, l := range answer.Links {
			why := strings.ReplaceAll(l.Why, "_", " ")
			if l.Reason != "" {
				why += ": " + strings.ReplaceAll(l.Reason, "_", " ")
			}
			waited = waited || l.WaitedAt != ""
			owned := "-"
			if l.OwnedNanos > 0 {
				owned = formatDuration(l.OwnedNanos)
			}
			t.add(why, formatCount(l.Count), formatDuration(l.TotalNanos), owned, l.Lane+" > "+l.Name,
				cmp.Or(shortFunction(l.QueuedBy), "-"), cmp.Or(shortFunction(l.WaitedAt), "-"))
		}
		if !waited {
			t.drop("WAITED AT")
		}
		if err := k.table(t); err != nil {
			return err
		}
		k.cutNote(len(answer.Links), answer.LinksMatched, "links")
	}
	if answer.Nested+answer.Linked == 0 {
		k.footer(answer.Coverage, answer.Hints)
		return nil
	}
	k.footer(answer.Coverage, answer.Hints, legendTarget+" What is linked ran in parallel as far as is known; stax why dispatch ID says why.")
	return nil
}
