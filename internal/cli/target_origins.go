package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

func newOriginsCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "origins",
		Short: "Say which lines of the program queued the target work",
		Long: `Say which lines of the program queued the target work, and how much of it was waited for.

Grades: A exact stack captured in the target, B nearest sample of the same thread and goroutine,
C nearest sample of the thread, D ambiguous.`,
		Example: `  stax target origins
  stax target origins --lane "GPU tq1s" --json
  stax target origins --dispatch 53995a8be8ce1c4f`,
	}
	filterFlag(cmd, "lane", laneFilterHelp)
	filterFlag(cmd, "name", nameFilterHelp)
	filterFlag(cmd, "thread", "only what this CPU thread queued")
	limitFlag(cmd, 20, "places")
	id := cmd.Flags().String("dispatch", "", "the full stacks around the dispatch with this id")
	list := question[query.Answer[query.OriginRow]]{name: "origins", cmd: cmd, render: renderOrigins}.build(a)
	runList := list.RunE
	one := question[query.Answer[query.OriginDetail]]{name: "origins", cmd: &cobra.Command{Use: "origins"}, render: renderDispatchOrigins}.build(a)
	list.RunE = func(cmd *cobra.Command, given []string) error {
		if !cmd.Flags().Changed("dispatch") {
			return runList(cmd, given)
		}
		for _, f := range []string{"lane", "name", "thread", "limit"} {
			if cmd.Flags().Changed(f) {
				return usageError("--dispatch names one dispatch, so --%s has no meaning beside it", f)
			}
		}
		return runWith(one, cmd, "dispatch", *id, given)
	}
	return list
}

// runWith runs a hidden variant of a command with one more parameter.
func runWith(variant, cmd *cobra.Command, name, value string, given []string) error {
	if err := variant.Flags().Set("json", cmd.Flag("json").Value.String()); err != nil {
		return err
	}
	variant.Flags().String(name, "", "")
	if err := variant.Flags().Set(name, value); err != nil {
		return err
	}
	variant.SetContext(cmd.Context())
	return variant.RunE(variant, given)
}

func renderOrigins(k *asked, answer query.Answer[query.OriginRow]) error {
	t := &table{columns: []column{
		text("QUEUED BY", 24), text("LANE", 8), num("COUNT"), num("TARGET TIME"), num("WAITED FOR"), num("SYNC"), num("ASYNC"), num("OTHER"), text("LINK", 0),
	}}
	for _, r := range answer.Rows {
		where := site(r.Function, r.File, r.Line)
		if where == "" {
			where = "(no origin reported)"
			if r.ThreadID != 0 {
				where = fmt.Sprintf("thread %s (no stack)", formatTID(r.ThreadID))
			}
		}
		sync, async := r.Classes["synchronous"], r.Classes["asynchronous"]
		t.add(where, strings.Join(r.Lanes, ","), formatCount(r.Count), formatDuration(r.TotalNanos), formatDuration(r.OwnedNanos),
			formatNonZero(sync), formatNonZero(async), formatNonZero(r.Count-sync-async), links(r.Grades, r.Statuses))
	}
	if len(answer.Rows) == 0 {
		k.footer(answer.Coverage, answer.Hints)
		return nil
	}
	link := "LINK: grade of the evidence (A exact stack ... D ambiguous), or why there is none."
	if same, ok := t.dropSame("LINK"); ok && same == "A" {
		link = "Every place is known from an exact stack (grade A)."
	} else if ok {
		link = "Link of every row: " + same + "."
	}
	if err := k.table(t); err != nil {
		return err
	}
	k.cutNote(len(answer.Rows), answer.Matched, "places")
	k.footer(answer.Coverage, answer.Hints, legendQueued,
		"SYNC: dispatches that a thread provably waited for, WAITED FOR how long; ASYNC: none waited.", link)
	return nil
}

// links sums up grades and the statuses of what is not linked: "A", "A, missing_thread".
func links(grades, statuses map[string]int64) string {
	var parts []string
	for _, g := range []string{"A", "B", "C", "D"} {
		if grades[g] > 0 {
			parts = append(parts, g)
		}
	}
	for _, s := range sortedKeys(statuses) {
		if s != "linked" && s != "ambiguous_goroutine" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ", ")
}

func renderDispatchOrigins(k *asked, answer query.Answer[query.OriginDetail]) error {
	for i := range answer.Rows {
		if i > 0 {
			k.printf("\n")
		}
		renderOrigin(k, &answer.Rows[i], func(nanos int64) string { return formatOffset(nanos, k.info.StartedNanos) })
	}
	if len(answer.Rows) > 0 {
		k.printf("\n")
	}
	k.footer(answer.Coverage, answer.Hints, legendQueued)
	return nil
}
