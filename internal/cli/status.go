package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/recording"
)

func newStatusCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show what is being recorded right now",
		Example: "  stax status\n  stax status --json",
		Args:    args(cobra.NoArgs),
	}
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		collectors := findCollectors()
		var now []held
		for _, h := range heldRecordings(cmd.Context()) {
			if live(h.Info) {
				now = append(now, h)
			}
		}
		if *asJSON {
			return statusJSON(a, collectors, now)
		}
		for _, c := range collectors {
			fmt.Fprintf(a.stdout, "Collector      pid %d, control socket %s\n", c.pid, c.control)
		}
		if len(now) == 0 {
			fmt.Fprintf(a.stdout, "Nothing is being recorded.\n  -> start with: stax record -- COMMAND\n")
			return nil
		}
		for _, h := range now {
			printStatus(a, h.Info)
		}
		return nil
	}
	return cmd
}

func statusJSON(a *app, collectors []*collectorClient, now []held) error {
	type collectorRow struct {
		PID     int    `json:"pid"`
		Control string `json:"control_socket"`
	}
	type row struct {
		recording.Info
		CollectorPID int `json:"collector_pid"`
	}
	out := struct {
		Schema     string         `json:"schema"`
		Collectors []collectorRow `json:"collectors"`
		Rows       []row          `json:"rows"`
	}{"stax.status/1", []collectorRow{}, []row{}}
	for _, c := range collectors {
		out.Collectors = append(out.Collectors, collectorRow{c.pid, c.control})
	}
	for _, h := range now {
		out.Rows = append(out.Rows, row{h.Info, h.collector.pid})
	}
	return writeJSON(a.stdout, out)
}

func printStatus(a *app, i recording.Info) {
	field := func(name, format string, args ...any) {
		fmt.Fprintf(a.stdout, "%-14s %s\n", name, clean(fmt.Sprintf(format, args...)))
	}
	elapsed := time.Since(time.Unix(0, i.StartedUnixNano))
	field("Recording", "%s, %s for %s (id %s)", i.Name, i.State, formatDuration(int64(elapsed)), i.ID)
	field("Archive", "%s", i.Path)
	if len(i.Command) > 0 {
		field("Command", "%s", strings.Join(i.Command, " "))
	}
	if i.StopAtUnixNano != 0 {
		field("Stops in", "%s", formatDuration(max(i.StopAtUnixNano-time.Now().UnixNano(), 0)))
	}
	if len(i.Runtimes) == 0 {
		field("Processes", "none has reported yet")
	}
	for _, r := range i.Runtimes {
		field("Process", "%d", r.PID)
	}
	for _, d := range i.Drops {
		field("Dropped", "%s %s in the %s: %s", formatCount(d.Count), d.Signal, d.Stage, strings.ReplaceAll(d.Reason, "_", " "))
	}
	if i.Problem != "" {
		field("Problem", "%s", i.Problem)
	}
}
