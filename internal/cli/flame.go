package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

func newFlameCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "flame",
		Short: "Draw target time as a tree: lane, name; or what a CPU thread queued",
		Long: `Draw target time as a tree: (all), lane, name of the dispatches.

With --tid of a lane (0xFFF00000 and up, see stax threads) only that lane. With --tid of a CPU thread
the work that was queued from it, under the stack that queued it: that work ran in parallel on the
lanes, it is not time of the thread.`,
		Example: `  stax flame
  stax flame --tid 0xFFF00000
  stax flame --tid 4242 --limit 5`,
	}
	filterFlag(cmd, "tid", "a lane's thread id, or a CPU thread's")
	filterFlag(cmd, "lane", laneFilterHelp)
	filterFlag(cmd, "name", nameFilterHelp)
	limitFlag(cmd, 20, "children of each node")
	q := question[query.FlameAnswer]{name: "flame", cmd: cmd, render: renderFlame}
	return q.build(a)
}

func renderFlame(k *asked, answer query.FlameAnswer) error {
	root := answer.Rows[0]
	if root.Count == 0 {
		k.footer(answer.Coverage, answer.Hints)
		return nil
	}
	t := &table{columns: []column{num("TARGET TIME"), num("SHARE"), num("DISPATCHES"), text(flameHead(answer), 20)}}
	var draw func(n *query.FlameNode, depth int)
	draw = func(n *query.FlameNode, depth int) {
		label := n.Name
		switch n.Kind {
		case query.FlameFunction:
			label = site(n.Name, n.File, n.Line)
		case query.FlameLane:
			if n.LaneKind != "" {
				label += " [" + n.LaneKind + "]"
			}
		}
		t.add(formatDuration(n.TotalNanos), formatShare(n.TotalNanos, root.TotalNanos), formatCount(n.Count), strings.Repeat("  ", depth)+label)
		for _, c := range n.Children {
			draw(c, depth+1)
		}
	}
	draw(root, 0)
	if err := k.table(t); err != nil {
		return err
	}
	k.untimed(root.UntimedCount)
	legend := legendTarget
	if answer.Relation == query.RelationQueued {
		legend = "Work queued from thread " + formatTID(answer.TID) + ": it ran in parallel on the lanes. " + legendTarget
	}
	k.footer(answer.Coverage, answer.Hints, legend)
	return nil
}

func flameHead(answer query.FlameAnswer) string {
	if answer.Relation == query.RelationQueued {
		return "QUEUED FROM (stack) > LANE > NAME"
	}
	return "LANE > NAME"
}
