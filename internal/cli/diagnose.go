package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

func newDiagnoseCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diagnose",
		Short: "Check the health of a recording: what arrived, what links, what is lost, and what to do",
		Example: `  stax diagnose
  stax diagnose demo.stax --json`,
	}
	return question[query.Answer[query.Finding]]{name: "diagnose", cmd: cmd, render: renderDiagnose}.build(a)
}

func renderDiagnose(k *asked, answer query.Answer[query.Finding]) error {
	counts := map[string]int{}
	for _, f := range answer.Rows {
		counts[f.Severity]++
		writeNote(k.w, k.app.width, pad(strings.ToUpper(f.Severity), 7)+pad(f.Topic, 11), f.Text)
		if f.Hint != "" && f.Severity != query.SeverityOK {
			writeNote(k.w, k.app.width, pad("", 18)+"-> ", f.Hint)
		}
	}
	k.printf("%s: %s, %s.\n", plural(len(answer.Rows), "check", "checks"),
		plural(counts[query.SeverityError], "error", "errors"), plural(counts[query.SeverityWarn], "warning", "warnings"))
	k.footer(query.Coverage{}, answer.Hints)
	return nil
}
