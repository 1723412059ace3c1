package query

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/origin"
)

// WallParams are the parameters of [Wall].
type WallParams struct {
	TID   int64 // CPU thread that waited; 0: all
	PID   int64 // process; 0: all
	Limit int   // children of a node, and links; 0: all
}

// Why work is a link of a wall view and not nested in it.
const (
	LinkCrossThread    = "cross_thread"    // one thread queued it, another waited for it
	LinkDifferentStack = "different_stack" // queued and waited for by code without a common frame
	LinkNoStack        = "no_stack"        // the stack that queued it or that waited is not known
)

// WallLinkRow is target work that is not nested under CPU code: which code queued it, and why it is only linked.
type WallLinkRow struct {
	// Why is LinkCrossThread, LinkDifferentStack or LinkNoStack for synchronous work, else the class.
	Why        string `json:"why"`
	Reason     string `json:"reason,omitempty"` // of an unproven class
	QueuedBy   string `json:"queued_by"`        // function that queued it; "" when not known
	WaitedAt   string `json:"waited_at"`        // function that waited; "" when none did or it is not known
	Lane       string `json:"lane"`
	TID        int64  `json:"tid"` // of the lane
	Name       string `json:"name"`
	Count      int64  `json:"count"`
	TotalNanos int64  `json:"total_ns"` // target time
	OwnedNanos int64  `json:"owned_ns"` // wall time for which a thread provably waited for it
}

// WallAnswer is the answer of [Wall]: one row, the root of what is proven; its measure is owned time.
type WallAnswer struct {
	Answer[*FlameNode]
	Measure string        `json:"measure"`
	Links   []WallLinkRow `json:"links"`
	// LinksMatched counts the links before the limit.
	LinksMatched int   `json:"links_matched"`
	Nested       int64 `json:"nested_dispatches"`
	Linked       int64 `json:"linked_dispatches"`
	// Claimed of the nested dispatches rest on the target's word alone: no sample says what the thread did in the wait.
	Claimed int64 `json:"claimed_dispatches"`
}

// Wall draws wall time only where certificates prove it: the frames that the code which queued the work and the code
// which waited for it have in common, then the lane, then the work. Everything else is a link.
func Wall(ctx context.Context, r *archive.Reader, p WallParams) (WallAnswer, error) {
	a := WallAnswer{Answer: newAnswer[*FlameNode]("wall"), Measure: MeasureOwned, Links: []WallLinkRow{}}
	v, ev, err := loadEvidence(ctx, r)
	if err != nil {
		return a, err
	}
	root := &FlameNode{Name: "(all)", Kind: FlameAll}
	links := map[wallLink]*wallSum{}
	origins := newOriginCoverage()
	var dispatches int64
	err = v.attributed(ctx, func(d *archive.Dispatch, c *archive.Certificate, l *archive.Link) {
		w := ev.waits[waitKey{d.Runtime, c.Wait}]
		thread := d.Origin.ThreadID
		if w != nil {
			thread = cmp.Or(w.Origin.ThreadID, thread)
		}
		if p.TID != 0 && p.TID != thread || p.PID != 0 && p.PID != v.pid(d.Runtime) {
			return
		}
		dispatches++
		origins.add(d, l)
		ln := v.lane(d.Runtime, d.Lane)
		queued := v.frames(d.Runtime, causeStack(d.Origin, l))
		var waited []archive.StackFrame
		if w != nil {
			wl := ev.link(archive.OwnerWait, uint64(w.ID), w.Runtime, archive.OriginWait, w.Origin)
			waited = v.frames(w.Runtime, causeStack(w.Origin, &wl))
		}
		why := nestable(c, queued, waited)
		if why == "" {
			a.Nested++
			if c.Corroboration == origin.CorroborationClaimed {
				a.Claimed++
			}
			n := root
			n.weigh(1, c.OwnedNanos)
			for _, f := range commonFrames(queued, waited) {
				n = n.child(flameKey{kind: FlameFunction, name: f.Function, file: f.File})
				n.weigh(1, c.OwnedNanos)
			}
			n = n.child(flameKey{kind: FlameLane, name: ln.Name, lane: ln.index})
			n.LaneKind, n.TID = ln.Kind, int64(ln.PseudoTID)
			n.weigh(1, c.OwnedNanos)
			n = n.child(flameKey{kind: FlameName, name: d.Name})
			n.weigh(1, c.OwnedNanos)
			return
		}
		a.Linked++
		k := wallLink{why: why, lane: ln, name: d.Name, queued: leaf(queued), waited: leaf(waited)}
		if why == c.Class {
			k.reason = c.Reason
		}
		s := links[k]
		if s == nil {
			s = &wallSum{}
			links[k] = s
		}
		s.add(d.StartNanos, d.EndNanos)
		s.owned = addSaturated(s.owned, max(c.OwnedNanos, 0))
	}, "name")
	if err != nil {
		return a, err
	}
	for k, s := range links {
		a.Links = append(a.Links, WallLinkRow{
			Why: k.why, Reason: k.reason, QueuedBy: k.queued, WaitedAt: k.waited, Lane: k.lane.Name, TID: int64(k.lane.PseudoTID),
			Name: k.name, Count: s.count, TotalNanos: s.total, OwnedNanos: s.owned,
		})
	}
	slices.SortFunc(a.Links, func(x, y WallLinkRow) int {
		return cmp.Or(-cmp.Compare(x.OwnedNanos, y.OwnedNanos), -cmp.Compare(x.TotalNanos, y.TotalNanos), -cmp.Compare(x.Count, y.Count),
			cmp.Compare(x.Why, y.Why), cmp.Compare(x.Reason, y.Reason), cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Name, y.Name),
			cmp.Compare(x.QueuedBy, y.QueuedBy), cmp.Compare(x.WaitedAt, y.WaitedAt), cmp.Compare(x.TID, y.TID))
	})
	a.LinksMatched = len(a.Links)
	a.Links = cut(a.Links, p.Limit)
	root.finish(p.Limit)
	a.Rows, a.Matched = append(a.Rows, root), 1
	switch {
	case dispatches == 0:
		thread := ""
		if p.TID != 0 {
			thread = formatTID(p.TID)
		}
		a.Hints = append(a.Hints, v.emptyHints(r.Rows()["dispatches"], "thread", thread)...)
	case a.Nested == 0 && len(ev.order) == 0:
		a.Hints = append(a.Hints, Hint{
			"no_wait", "The target declares no waits, so no wall time is proven: all target work is parallel.",
			"Declare waits with sdk.BeginWait, Await and End around the blocking calls",
		})
	case a.Nested == 0:
		a.Hints = append(a.Hints, Hint{
			"nothing_nested", "No work is proven to block the code that queued it.",
			"Take the id of a dispatch from stax target dispatches, then: stax why dispatch ID",
		})
	}
	a.Coverage, err = v.coverage(ctx)
	a.Coverage.Origins = origins
	return a, err
}

type wallLink struct {
	why, reason, name, queued, waited string
	lane                              *lane
}

type wallSum struct {
	tally
	owned int64
}

// nestable returns why work is not nested under CPU code; "" when it is.
func nestable(c *archive.Certificate, queued, waited []archive.StackFrame) string {
	switch {
	case c.Class != origin.ClassSynchronous:
		return c.Class
	case c.CrossThread:
		return LinkCrossThread
	case c.DifferentStack:
		return LinkDifferentStack
	case len(queued) == 0 || len(waited) == 0:
		return LinkNoStack
	}
	return ""
}

// causeStack is the stack that an origin stands for; 0 when it is not known. A candidate is no cause.
func causeStack(o archive.Origin, l *archive.Link) archive.StackID {
	if l != nil && l.Status == origin.StatusAmbiguousGoroutine {
		return o.Stack
	}
	if l != nil && l.Stack != 0 {
		return l.Stack
	}
	return o.Stack
}

func leaf(frames []archive.StackFrame) string {
	if len(frames) == 0 {
		return ""
	}
	return frames[0].Function
}

// commonFrames returns what two stacks share, outermost first. The first frame that differs only in its line is shared:
// one function called both.
func commonFrames(a, b []archive.StackFrame) []archive.StackFrame {
	// A stack that was cut off before its root is aligned by its outermost frame.
	if len(a) > 0 && len(b) > 0 && !sameFunction(a[len(a)-1], b[len(b)-1]) {
		if n := lastIndexFunction(a, b[len(b)-1]); n >= 0 {
			a = a[:n+1]
		} else if n := lastIndexFunction(b, a[len(a)-1]); n >= 0 {
			b = b[:n+1]
		}
	}
	var out []archive.StackFrame
	for i := 1; i <= min(len(a), len(b)); i++ {
		x, y := a[len(a)-i], b[len(b)-i]
		if !sameFunction(x, y) {
			break
		}
		out = append(out, x)
		if x.Line != y.Line {
			break
		}
	}
	return out
}

func sameFunction(x, y archive.StackFrame) bool { return x.Function == y.Function && x.File == y.File }

func lastIndexFunction(frames []archive.StackFrame, f archive.StackFrame) int {
	for i, x := range slices.Backward(frames) {
		if sameFunction(x, f) {
			return i
		}
	}
	return -1
}

// words renders a snake_case code as words.
func words(code string) string { return strings.ReplaceAll(code, "_", " ") }
