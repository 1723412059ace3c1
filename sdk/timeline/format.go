package timeline

import (
	"fmt"
	"strings"
)

// Format shows an entry on a console: a line for the tick, a line for what surrounds it, and a line per phase.
func Format(e Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "tick %d: %s ms of %s ms", e.Tick, e.Duration, e.StepBudget)
	if e.Unfinished {
		b.WriteString(", unfinished")
	}
	if e.Warnings != 0 {
		fmt.Fprintf(&b, "  %s", e.Warnings)
	}
	fmt.Fprintf(&b, "\n  frame    %s ms, lag %s ms before, %s ms after\n", e.HostFrame, e.LagBefore, e.LagAfter)
	q := e.Queue
	fmt.Fprintf(&b, "  queue    %d pending, %d drained, %d accepted, %d dropped, %d rejected\n",
		q.PendingBefore, q.Drained, q.Accepted, q.Dropped, q.Rejected)
	if e.GC.Cycles > 0 {
		fmt.Fprintf(&b, "  gc       paused %[2]s ms by collections: %[1]d\n", e.GC.Cycles, e.GC.Pause)
	}
	for _, s := range e.Stalls {
		fmt.Fprintf(&b, "  stall    %s ms at %s ms", s.Duration, s.Offset)
		if s.In != "" {
			b.WriteString(" in " + s.In)
		}
		b.WriteByte('\n')
	}
	formatEvents(&b, &e.Events)
	next := 0
	for _, p := range e.Phases {
		fmt.Fprintf(&b, "  %9s ms +%-9s %s", p.Duration, p.Offset, p.Name)
		if id, ok := p.System(); ok && next < len(e.Systems) && id == e.Systems[next].ID {
			s := &e.Systems[next]
			next++
			if s.Slow {
				b.WriteString("  slow")
			}
			if s.Error != nil {
				fmt.Fprintf(&b, "  %s: %s", s.Error.Name, s.Error.Message)
			}
		}
		b.WriteByte('\n')
	}
	if e.Truncated > 0 {
		fmt.Fprintf(&b, "  and %d more phases and systems\n", e.Truncated)
	}
	return b.String()
}

func formatEvents(b *strings.Builder, e *Events) {
	if len(e.Before)+len(e.Final) > 0 {
		b.WriteString("  events  ")
		channels := e.Final
		for i, c := range channels {
			was := ""
			if i < len(e.Before) && e.Before[i].Channel == c.Channel {
				was = fmt.Sprintf("%d -> ", e.Before[i].InUse)
			}
			fmt.Fprintf(b, " %s %s%d/%d", c.Channel, was, c.InUse, c.Capacity)
		}
		b.WriteByte('\n')
	}
	for _, d := range e.Deltas {
		fmt.Fprintf(b, "  pressure %.0f%% after %s:", d.Utilization*100, d.System)
		for _, c := range d.Channels {
			fmt.Fprintf(b, " %s %+d in use, %d published, %d dropped;", c.Channel, c.InUse, c.Published, c.Dropped)
		}
		b.WriteByte('\n')
	}
}
