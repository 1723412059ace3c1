package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/stax-otel/stax/internal/query"
)

func renderInfo(k *asked, answer query.Answer[query.InfoRow]) error {
	for i := range answer.Rows {
		r := &answer.Rows[i]
		field := func(name, format string, args ...any) {
			writeNote(k.w, k.app.width, pad(name, 16), fmt.Sprintf(format, args...))
		}
		field("Recording", "%s (%s)", r.Name, r.ID)
		field("State", "%s", stateText(r))
		if len(r.Command) > 0 {
			field("Command", "%s%s", strings.Join(r.Command, " "), exitText(r))
		}
		field("Started", "%s%s", formatClock(r.StartedNanos), lastedText(r))
		if h := r.Host; h.Hostname != "" {
			field("Host", "%s, %s/%s, %s", h.Hostname, h.OS, h.Arch, plural(h.CPUs, "CPU", "CPUs"))
		}
		for _, rt := range r.Runtimes {
			field("Process", "%d %s", rt.PID, describeRuntime(&rt))
		}
		renderTotals(field, r, answer.Coverage)
		for _, l := range r.Losses {
			field("Lost", "%s", lossText(l))
		}
		for _, p := range r.Privacy {
			field("Holds", "%s: %s", strings.ReplaceAll(p.Class, "_", " "), p.Detail)
		}
	}
	k.footer(answer.Coverage, answer.Hints)
	return nil
}

// renderTotals prints what a recording holds: the summary of info, open and record.
func renderTotals(field func(name, format string, args ...any), r *query.InfoRow, c query.Coverage) {
	field("Lanes", "%s, %s, %s of target time", plural(r.Lanes, "lane", "lanes"), plural(r.Dispatches, "dispatch", "dispatches"),
		formatDuration(r.TargetNanos))
	if r.CommandBuffers+r.CounterSamples+r.Waits > 0 {
		field("With", "%s, %s, %s", plural(r.Waits, "wait", "waits"), plural(r.CommandBuffers, "command buffer", "command buffers"),
			plural(r.CounterSamples, "counter sample", "counter samples"))
	}
	for _, x := range r.CPUSources {
		what := fmt.Sprintf("%s, %s by %s", plural(x.Samples, "sample", "samples"), plural(x.Waits, "wait", "waits"), x.Source)
		if len(r.Runtimes) > 1 {
			what += fmt.Sprintf(" in process %d", x.PID)
		}
		if x.State != "running" && x.State != "stopped" && x.State != "" {
			what += ", " + x.State
		}
		if x.LostStretches > 0 && x.State != "lost" {
			what += ", in part lost"
		}
		field("CPU", "%s", what)
	}
	if len(r.CPUSources) == 0 && r.Samples+r.OffCPU > 0 {
		field("CPU", "%s, %s off-CPU", plural(r.Samples, "row of samples", "rows of samples"), plural(r.OffCPU, "interval", "intervals"))
	}
	if r.Dispatches > 0 {
		if o := c.Origins; o != nil {
			field("Origins", "%s of %s linked to the code that queued them%s", formatCount(o.Statuses["linked"]),
				plural(o.Dispatches, "dispatch", "dispatches"), gradesText(o))
		}
		field("Classes", "%s", longClassCounts(r.Classes))
		if r.OwnedNanos > 0 {
			field("Waited for", "%s of target time, provably", formatDuration(r.OwnedNanos))
		}
	}
	field("Records", "%s archived, %s dropped", formatCount(c.Archived), formatCount(c.Dropped))
}

func gradesText(o *query.OriginCoverage) string {
	var parts []string
	for _, g := range sortedKeys(o.Grades) {
		parts = append(parts, formatCount(o.Grades[g])+" grade "+g)
	}
	if n := o.Dispatches - o.Reported; n > 0 {
		parts = append(parts, formatCount(n)+" without an origin")
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func stateText(r *query.InfoRow) string {
	switch r.State {
	case query.StateLive:
		return "still recording"
	case query.StateCrashed:
		return "not sealed: its recorder died"
	}
	return "finished" + cmp.Or(map[bool]string{true: " (" + strings.ReplaceAll(r.StopReason, "_", " ") + ")"}[r.StopReason != ""], "")
}

func exitText(r *query.InfoRow) string {
	switch {
	case r.ExitSignal != "":
		return " (ended by " + r.ExitSignal + ")"
	case r.ExitCode != nil && *r.ExitCode != 0:
		return fmt.Sprintf(" (exit code %d)", *r.ExitCode)
	}
	return ""
}

func lastedText(r *query.InfoRow) string {
	if r.StoppedNanos == 0 {
		return ""
	}
	return ", for " + formatDuration(r.StoppedNanos-r.StartedNanos)
}

func describeRuntime(r *query.RuntimeRow) string {
	var parts []string
	if name := cmp.Or(r.ServiceName, r.Executable); name != "" {
		parts = append(parts, name)
	}
	if r.SDKName != "" {
		parts = append(parts, strings.TrimSpace(r.SDKName+" SDK "+r.SDKVersion))
	}
	if r.SDKLanguage != "" {
		parts = append(parts, r.SDKLanguage)
	}
	if !r.Sequenced {
		parts = append(parts, "unsequenced")
	}
	return strings.Join(parts, ", ")
}
