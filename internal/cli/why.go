package cli

import (
	"cmp"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

func newWhyCmd(a *app) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "why",
		Short: "Explain one verdict with its numbers, and say the one thing to do",
		Long: `Explain one verdict with its numbers: which sample, wait or clock decides the origin and the class of a
dispatch, or the origin and the time of a wait, and the one thing to do where the answer is poor.`,
		Example: `  stax why dispatch 53995a8be8ce1c4f
  stax why wait 9f21aa03be8c11d2 demo.stax`,
	})
	cmd.AddCommand(
		newWhyObjectCmd(a, "dispatch", "Explain which code queued a dispatch and whether anyone waited for it"),
		newWhyObjectCmd(a, "wait", "Explain which code waited, for what, and where the time went"))
	return cmd
}

func newWhyObjectCmd(a *app, object, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     object + " ID [ARCHIVE]",
		Short:   short,
		Example: "  stax why " + object + " 53995a8be8ce1c4f\n  stax why " + object + " 53995a8be8ce1c4f demo.stax --json",
		Args:    args(cobra.RangeArgs(1, 2)),
	}
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object: schema, rows, coverage, hints")
	q := question[query.WhyAnswer]{name: "why", cmd: cmd, render: renderWhy}
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if _, err := query.ParseID(given[0]); err != nil {
			return usageError("%q: want the id of a %s, 1 to 16 hex digits, not all zero", given[0], object)
		}
		return q.run(cmd.Context(), a, url.Values{object: {given[0]}}, first(given[1:]), *asJSON)
	}
	return cmd
}

func renderWhy(k *asked, answer query.WhyAnswer) error {
	for i := range answer.Rows {
		r := &answer.Rows[i]
		last := ""
		for _, s := range r.Steps {
			head := whyHeads[s.About]
			if head == last {
				head = ""
			}
			writeNote(k.w, k.app.width, pad(head, 10), s.Text)
			last = cmp.Or(head, last)
		}
		if r.Fix != "" {
			writeNote(k.w, k.app.width, pad("Fix", 10), r.Fix)
		} else {
			writeNote(k.w, k.app.width, pad("Fix", 10), "Nothing to fix.")
		}
	}
	k.footer(answer.Coverage, answer.Hints)
	return nil
}

// whyHeads name what a sentence is about.
var whyHeads = map[string]string{
	query.AboutObject: "What", query.AboutOrigin: "Origin", query.AboutSamples: "", query.AboutSource: "",
	query.AboutClass: "Waited", query.AboutProof: "", query.AboutTime: "",
}
