package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

func newDispatchesCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dispatches",
		Short: "List single dispatches, or everything about one",
		Example: `  stax target dispatches --sort duration --limit 10
  stax target dispatches --lane "GPU tq1s" --class synchronous
  stax target dispatches --id 53995a8be8ce1c4f`,
	}
	filterFlag(cmd, "lane", laneFilterHelp)
	filterFlag(cmd, "name", nameFilterHelp)
	filterFlag(cmd, "shader", "only these shaders, as for --name")
	filterFlag(cmd, "class", "only this class: "+strings.Join(query.Classes, ", "))
	filterFlag(cmd, "thread", "only what this CPU thread queued")
	cmd.Flags().String("sort", query.SortStart, "order: start or duration")
	limitFlag(cmd, 20, "dispatches")
	id := cmd.Flags().String("id", "", "everything about the dispatch with this id")
	list := question[query.Answer[query.DispatchRow]]{name: "dispatches", cmd: cmd, render: renderDispatches}.build(a)
	runList := list.RunE
	one := question[query.Answer[query.DispatchDetail]]{name: "dispatch", cmd: &cobra.Command{Use: "dispatch"}, render: renderDispatch}.build(a)
	list.RunE = func(cmd *cobra.Command, given []string) error {
		if !cmd.Flags().Changed("id") {
			return runList(cmd, given)
		}
		for _, f := range []string{"lane", "name", "shader", "class", "thread", "sort", "limit"} {
			if cmd.Flags().Changed(f) {
				return usageError("--id names one dispatch, so --%s has no meaning beside it", f)
			}
		}
		return runWith(one, cmd, "id", *id, given)
	}
	return list
}

func renderDispatches(k *asked, answer query.Answer[query.DispatchRow]) error {
	t := &table{columns: []column{
		text("DISPATCH", 0), num("START"), num("DURATION"), text("LANE", 8), text("NAME", 10), text("CLASS", 0), text("FLAGS", 0), text("GRADE", 0), text("QUEUED BY", 14),
	}}
	flags, queued, graded := false, false, false
	for _, r := range answer.Rows {
		by, grade := "", ""
		if o := r.Origin; o != nil {
			by = cmp.Or(tightSite(o.Function, o.Line), "thread "+formatTID(o.ThreadID))
			queued = true
			grade = o.Grade
			if o.Weak {
				grade += " weak"
			}
			graded = graded || o.Grade != "" && o.Grade != "A"
		}
		flags = flags || len(r.Flags) > 0
		t.add(r.ID.String(), formatOffset(r.StartNanos, k.info.StartedNanos), formatDurationOf(r.DurationNanos), r.Lane, r.Name,
			r.Class, flagLetters(r.Flags), grade, by)
	}
	if len(answer.Rows) == 0 {
		k.footer(answer.Coverage, answer.Hints)
		return nil
	}
	legend := []string{legendClass}
	if flags {
		legend = append(legend, "Flags: F faulted, T waited for by another thread than queued it, S by a different stack.")
	} else {
		t.drop("FLAGS")
	}
	if graded {
		legend = append(legend, "Grade: A exact stack, B nearest sample of the goroutine, C of the thread, D ambiguous; stax why dispatch ID explains.")
	} else {
		t.drop("GRADE")
	}
	if err := k.table(t); err != nil {
		return err
	}
	k.cutNote(len(answer.Rows), answer.Matched, "dispatches")
	if queued {
		legend = append(legend, legendQueued)
	}
	k.footer(answer.Coverage, answer.Hints, legend...)
	return nil
}

// flagLetters shortens the flags of a dispatch.
func flagLetters(flags []string) string {
	letters := map[string]string{"faulted": "F", "cross_thread": "T", "different_stack": "S"}
	s := ""
	for _, f := range flags {
		s += cmp.Or(letters[f], f)
	}
	return s
}

// renderDispatch prints a sheet with everything about a dispatch.
func renderDispatch(k *asked, answer query.Answer[query.DispatchDetail]) error {
	for i := range answer.Rows {
		d := &answer.Rows[i]
		field := func(name, format string, args ...any) {
			writeNote(k.w, k.app.width, pad(name, 16), fmt.Sprintf(format, args...))
		}
		at := func(nanos int64) string { return formatOffset(nanos, k.info.StartedNanos) }
		field("Dispatch", "%s  %s", d.ID, d.Name)
		field("Lane", "%s (%s, thread id %s) of process %d", d.Lane, cmp.Or(d.Kind, "unknown kind"), formatTID(int64(d.TID)), d.PID)
		field("Ran", "%s to %s, %s of target time", at(d.StartNanos), at(d.EndNanos), formatDurationOf(d.DurationNanos))
		if d.Shader != "" {
			field("Shader", "%s", d.Shader)
		}
		if d.Queue != "" {
			if d.QueueSeq > 0 {
				field("Queue", "%s, submission %d", d.Queue, d.QueueSeq)
			} else {
				field("Queue", "%s", d.Queue)
			}
		}
		if c := d.CommandBuffer; c != nil {
			field("Command buffer", "%s  %s, %s to %s, %s", c.ID, c.Name, at(c.StartNanos), at(c.EndNanos),
				plural(c.Dispatches, "dispatch", "dispatches"))
		}
		if d.Faulted {
			field("Fault", "%s", cmp.Or(d.StatusMessage, "faulted"))
		}
		for _, tag := range tags(d.Tags) {
			field("Tag", "%s", tag)
		}
		for _, c := range d.Counters {
			value := string(c.State)
			if c.Value != "" {
				value = strings.TrimSpace(c.Value.String() + " " + c.Unit)
			}
			field("Counter", "%s/%s = %s (%s)", c.Set, c.Name, value, strings.ReplaceAll(c.Point, "_", " "))
		}
		k.printf("\n")
		renderVerdict(d, field, at)
		for _, o := range d.Origins {
			k.printf("\n")
			renderOrigin(k, &o, at)
		}
	}
	k.printf("\n")
	k.footer(answer.Coverage, answer.Hints, legendClass)
	return nil
}

func renderVerdict(d *query.DispatchDetail, field func(string, string, ...any), at func(int64) string) {
	c := d.Certificate
	class := c.Class
	if c.Reason != "" {
		class += ": " + strings.ReplaceAll(c.Reason, "_", " ")
	}
	if len(c.Flags) > 0 {
		class += " (" + strings.Join(c.Flags, ", ") + ")"
	}
	field("Class", "%s", class)
	if c.Wait != 0 {
		field("Evidence", "queued %s, wait %s to %s, clock error %s, %s", at(c.OriginNanos), at(c.BeginNanos), at(c.EndNanos),
			formatClockError(c.ClockErrorNanos), c.Corroboration)
	}
	if c.OwnedNanos > 0 {
		field("Owned", "%s of the wait is this dispatch", formatDuration(c.OwnedNanos))
	}
	for _, w := range d.Waits {
		field("Wait", "%s  %s, %s on thread %s%s", w.ID, w.Name, formatDurationOf(w.DurationNanos), formatTID(w.ThreadID), timedOut(w.TimedOut))
		if p := w.Parts; p != nil {
			field("", "%s executing, %s queued, %s lane idle, %s wake-up", formatDuration(p.ExecutingNanos), formatDuration(p.QueuedNanos),
				formatDuration(p.LaneIdleNanos), formatDuration(p.WakeUpNanos))
		}
	}
	if d.LaterWaits > 0 {
		field("", "%s", laterWaits(d.LaterWaits))
	}
}

// laterWaits says that waits which began after the work had ended are not shown.
func laterWaits(n int64) string {
	return plural(n, "later wait covers it too, and began when it had ended", "later waits cover it too, and began when it had ended")
}

func timedOut(yes bool) string {
	if yes {
		return ", timed out"
	}
	return ""
}

func formatClockError(nanos int64) string {
	if nanos < 0 {
		return "unknown"
	}
	return formatDuration(nanos)
}

// originTitles says what an origin of each kind did.
var originTitles = map[string]string{
	"dispatch": "Queued by", "wait": "Waited for by", "completion": "Completion handled by", "fault": "Fault handled by",
}

func renderOrigin(k *asked, o *query.OriginDetail, at func(int64) string) {
	title := originTitles[string(o.Kind)]
	if o.Owner != "dispatch" && o.Owner != "wait" {
		title += " (" + strings.ReplaceAll(string(o.Owner), "_", " ") + ")"
	}
	verdict := o.Status
	if o.Grade != "" {
		verdict += ", grade " + o.Grade
	}
	if o.Weak {
		verdict += ", weak"
	}
	name := ""
	if o.ThreadName != "" {
		name = " " + o.ThreadName
	}
	if o.GoroutineID != 0 {
		name += fmt.Sprintf(", goroutine %d,", o.GoroutineID)
	}
	if o.DistanceNanos >= 0 {
		verdict += ", sample " + formatDuration(o.DistanceNanos) + " away"
	}
	k.note("%s thread %s%s at %s (%s)", title, formatTID(o.ThreadID), name, at(o.TimeNanos), verdict)
	if o.Candidate != "" {
		k.printf("  %s\n", clean("perhaps in "+shortFunction(o.Candidate)+": goroutines share threads, so this is a candidate and no cause"))
	}
	for _, f := range o.Stack {
		line := "  " + f.Function
		if f.File != "" {
			line += fmt.Sprintf("  %s:%d", f.File, f.Line)
		}
		k.printf("%s\n", shorten(clean(line), k.app.width))
	}
}

// tags renders a JSON object as lines.
func tags(raw json.RawMessage) []string {
	var m map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil {
		return nil
	}
	lines := make([]string, 0, len(m))
	for key, value := range m {
		lines = append(lines, key+" = "+string(value))
	}
	sort.Strings(lines)
	return lines
}
