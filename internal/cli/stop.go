package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newStopCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "stop [ID]",
		Short: "Stop a live recording and seal its archive",
		Long: `Stop a live recording and seal its archive. When there are several, name one by its id, the begin of its id
(four digits or more) or its name.`,
		Example: `  stax stop
  stax stop demo`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			h, err := chooseLive(heldRecordings(cmd.Context()), first(given))
			if err != nil {
				return err
			}
			info, err := h.collector.stop(cmd.Context(), h.ID)
			if err != nil {
				return fmt.Errorf("stop %s: %w", h.Name, err)
			}
			a.say("stopped %s", h.Name)
			return a.summary(cmd.Context(), info.Path)
		},
	}
}

// chooseLive finds the live recording that is meant.
func chooseLive(all []held, want string) (held, error) {
	var match, exact []held
	for _, h := range all {
		if !live(h.Info) {
			continue
		}
		if string(h.ID) == want || h.Name == want {
			exact = append(exact, h)
		}
		if want == "" || len(want) >= 4 && len(h.ID) > len(want) && string(h.ID[:len(want)]) == want {
			match = append(match, h)
		}
	}
	if len(exact) > 0 {
		match = exact
	}
	switch {
	case len(match) == 1:
		return match[0], nil
	case len(match) > 1:
		return held{}, fmt.Errorf("%d live recordings match; name one by its id from stax status", len(match))
	case want != "":
		return held{}, fmt.Errorf("no live recording %s; stax status shows them", want)
	}
	return held{}, fmt.Errorf("nothing is being recorded")
}
