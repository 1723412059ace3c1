package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

func newAuditCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Prove that nothing vanished, and check every certificate again",
		Long: `Prove that nothing vanished: each process numbers its records before anything can drop them, so what
it made must be in the archive or counted as dropped. Every certificate is checked from the raw facts.

Exit code 0: clean, or every loss is accounted for. Exit code 3: it cannot be proven; the reasons say why.`,
		Example: `  stax audit
  stax audit demo.stax --json`,
	}
	return question[query.AuditAnswer]{
		name: "audit", cmd: cmd, render: renderAudit,
		verdict: func(answer query.AuditAnswer) error {
			if !answer.Proven() {
				return &exitError{code: ExitCheck}
			}
			return nil
		},
	}.build(a)
}

func renderAudit(k *asked, answer query.AuditAnswer) error {
	t := &table{columns: []column{
		num("PID"), num("SHARD"), num("MADE"), num("ARCHIVED"), num("DROPPED"), num("UNACCOUNTED"), num("REPEATED"), text("FINAL", 0), text("VERDICT", 0),
	}}
	for _, r := range answer.Rows {
		last := "no"
		if r.Final {
			last = "yes"
		}
		t.add(formatTID(r.PID), fmt.Sprint(r.Shard), formatCount(r.Owed), formatCount(r.Archived), formatNonZero(int64(r.Dropped)),
			formatNonZero(int64(r.Unaccounted)), formatNonZero(int64(r.Duplicates+r.Repeated)), last, r.Verdict)
	}
	if len(answer.Rows) > 0 {
		if err := k.table(t); err != nil {
			return err
		}
		k.note("MADE: records (dispatches, command buffers, waits) that the process numbered for this recording. " +
			"FINAL: it said that nothing more follows.")
		k.printf("\n")
	}
	for _, r := range answer.Rows {
		for _, d := range r.Drops {
			k.printf("Process %d, shard %d: %s in the %s: %s.\n", r.PID, r.Shard, plural(d.Count, "record dropped", "records dropped"),
				clean(stage(d.Stage)), clean(strings.ReplaceAll(d.Reason, "_", " ")))
		}
		if r.Repeated > 0 {
			k.note("Process %d, shard %d: %s again and dropped: nothing is lost by that.", r.PID, r.Shard,
				plural(r.Repeated, "record was sent", "records were sent"))
		}
		if r.Overcounted > 0 {
			k.printf("Process %d, shard %d: %s given up by the sender arrived nevertheless.\n", r.PID, r.Shard, plural(r.Overcounted, "record", "records"))
		}
	}
	for _, d := range answer.OtherDrops {
		k.printf("Not numbered: %s %s dropped in the %s: %s.\n", formatCount(d.Count), clean(d.Signal), clean(stage(d.Stage)),
			clean(strings.ReplaceAll(d.Reason, "_", " ")))
	}
	for _, l := range answer.ProfileLosses {
		reason := ""
		if l.Reason != "" {
			reason = ": " + l.Reason
		}
		k.note("CPU samples of process %d by %s: %s of %s lost%s.", l.PID, l.Source, formatDuration(l.LostNanos), plural(l.Stretches, "stretch", "stretches"), reason)
	}
	c := answer.Certificates
	how := "derived just now"
	if c.Compared {
		how = "compared with those stored"
	}
	k.note("%s and %s %s; %s that rest on a wait checked one by one: %s wrong.", plural(c.Certificates, "certificate", "certificates"),
		plural(c.Links, "link", "links"), how, formatCount(c.Rechecked), formatCount(c.Failed))
	for _, f := range c.Failures {
		k.printf("  %s\n", clean(f))
	}
	k.printf("\nVerdict: %s\n", verdicts[answer.Verdict])
	for _, r := range answer.Reasons {
		writeNote(k.w, k.app.width, "- ", r.Text)
	}
	k.footer(query.Coverage{}, answer.Hints)
	return nil
}

var verdicts = map[string]string{
	query.VerdictClean:     "clean. Everything the target made is in the archive.",
	query.VerdictAccounted: "accounted. Something was lost, and all of it is counted.",
	query.VerdictUnproven:  "unproven. It cannot be shown that nothing vanished:",
}

func stage(name string) string {
	if name == "sdk" {
		return "target"
	}
	return name
}
