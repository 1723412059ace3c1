package cli

import "github.com/spf13/cobra"

func newTargetCmd(a *app) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "target",
		Short: "Ask about the target's lanes: work, its causes, who waited for it, counters",
		Long: `Ask about the work that the target reported on its lanes.

Target time is time on a lane, never CPU time. A CPU origin says which code queued the work; the
work ran in parallel to that code unless a declared wait proves that a thread waited for it.`,
		Example: `  stax target lanes
  stax target top --by p95
  stax target dispatches --sort duration --class synchronous
  stax target origins`,
	})
	cmd.AddCommand(newLanesCmd(a), newTopCmd(a), newDispatchesCmd(a), newOriginsCmd(a), newWaitsCmd(a), newCountersCmd(a))
	return cmd
}

const (
	legendTarget = "Target time is time on a lane, never CPU time."
	legendClass  = "synchronous: a thread provably waited for it; asynchronous: none did; unproven: cannot be shown."
	legendQueued = "Queued by: the CPU code that caused the work. The work ran on its lane, in parallel to that code."
)
