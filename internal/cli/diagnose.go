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
		k.wrap(strings.ToUpper(f.Severity), 7, f.Topic, 11, f.Text)
		if f.Hint != "" && f.Severity != query.SeverityOK {
			k.wrap("", 7, "", 11, "-> "+f.Hint)
		}
	}
	k.printf("%s: %s, %s.\n", plural(len(answer.Rows), "check", "checks"),
		plural(counts[query.SeverityError], "error", "errors"), plural(counts[query.SeverityWarn], "warning", "warnings"))
	k.footer(query.Coverage{}, answer.Hints)
	return nil
}

// wrap prints two narrow columns and text that is broken at spaces.
func (k *asked) wrap(one string, oneWidth int, two string, twoWidth int, s string) {
	indent := oneWidth + twoWidth
	head := pad(one, oneWidth) + pad(two, twoWidth)
	for _, line := range wrapText(clean(s), max(k.app.width-indent, 30)) {
		k.printf("%s\n", strings.TrimRight(head+line, " "))
		head = strings.Repeat(" ", indent)
	}
}
