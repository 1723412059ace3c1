package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stax-otel/stax/archive"
)

// view is an archive with its small tables loaded: runtimes, lanes, threads and on demand stacks.
type view struct {
	r        *archive.Reader
	info     archive.RecordingInfo
	runtimes map[archive.RuntimeID]*archive.Runtime
	order    []archive.RuntimeID // in the order seen
	lanes    []*lane
	laneOf   map[laneKey]*lane
	recent   [64]*lane // by address of the id, see nameCache
	stacks   map[stackKey][]archive.StackFrame
	shared   map[pidStack]stackKey // stacks by process, where several runtimes report for one
	threads  *threadNames
	declared *waitTable
	ev       *evidence
}

type laneKey struct {
	runtime archive.RuntimeID
	id      archive.LaneID
}

type stackKey struct {
	runtime archive.RuntimeID
	id      archive.StackID
}

// pidStack finds a stack that another runtime of the same process defined: ids are hashes of the frames.
type pidStack struct {
	pid int64
	id  archive.StackID
}

type threadKey struct {
	runtime archive.RuntimeID
	id      int64
}

// lane is a lane of the archive, registered or only named by dispatches.
type lane struct {
	archive.Lane
	index      int
	registered bool
	pid        int64
}

func load(ctx context.Context, r *archive.Reader) (*view, error) {
	v := &view{
		r:        r,
		info:     r.Manifest().Recording,
		runtimes: map[archive.RuntimeID]*archive.Runtime{},
		laneOf:   map[laneKey]*lane{},
	}
	for rows, err := range archive.Scan[archive.Runtime](ctx, r) {
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if v.runtimes[row.ID] == nil {
				v.order = append(v.order, row.ID)
			}
			v.runtimes[row.ID] = &row // the last row for an id counts
		}
	}
	for rows, err := range archive.Scan[archive.Lane](ctx, r) {
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			l := v.lane(row.Runtime, row.ID)
			l.Lane, l.registered = row, true
			if l.Name == "" {
				l.Name = string(row.ID)
			}
		}
	}
	return v, nil
}

// lane finds the lane, or makes one that nobody registered: data is never left out for want of a registration.
func (v *view) lane(rt archive.RuntimeID, id archive.LaneID) *lane {
	recent := &v.recent[(slotOf(string(id))^slotOf(string(rt)))%uintptr(len(v.recent))]
	if l := *recent; l != nil && l.ID == id && l.Runtime == rt {
		return l
	}
	key := laneKey{rt, id}
	l := v.laneOf[key]
	if l == nil {
		l = &lane{Lane: archive.Lane{Runtime: rt, ID: id, Name: string(id)}, index: len(v.lanes)}
		if r := v.runtimes[rt]; r != nil {
			l.pid = r.PID
		}
		v.laneOf[key] = l
		v.lanes = append(v.lanes, l)
	}
	*recent = l
	return l
}

func (v *view) pid(rt archive.RuntimeID) int64 {
	if r := v.runtimes[rt]; r != nil {
		return r.PID
	}
	return 0
}

// laneFilter says which lanes pass. An exact name, id or thread id wins over a part of a name, so that "GPU 1" does
// not also mean "GPU 10".
type laneFilter struct {
	text  string
	exact bool
	pat   pattern
}

func (v *view) laneFilter(text string) laneFilter {
	f := laneFilter{text: text, pat: newPattern(text)}
	if text == "" {
		return f
	}
	for _, l := range v.lanes {
		if f.same(l) {
			f.exact = true
		}
	}
	return f
}

func (f *laneFilter) same(l *lane) bool {
	if l.Name == f.text || string(l.ID) == f.text {
		return true
	}
	n, err := strconv.ParseUint(f.text, 0, 32)
	return err == nil && n >= pseudoThreads && uint32(n) == l.PseudoTID
}

func (f *laneFilter) match(l *lane) bool {
	switch {
	case f.text == "":
		return true
	case f.exact:
		return f.same(l)
	}
	return f.pat.match(l.Name)
}

// pseudoThreads is the first thread id that stands for a lane.
const pseudoThreads = 0xFFF0_0000

// loadStacks reads the stack table once.
func (v *view) loadStacks(ctx context.Context) error {
	if v.stacks != nil {
		return nil
	}
	stacks := map[stackKey][]archive.StackFrame{}
	for rows, err := range archive.Scan[archive.StackFrame](ctx, v.r) {
		if err != nil {
			return err
		}
		for _, f := range rows {
			key := stackKey{f.Runtime, f.Stack}
			stacks[key] = append(stacks[key], f)
		}
	}
	for key, frames := range stacks {
		// A runtime sends its stacks again on a reconnect: sort, keep one of each depth.
		slices.SortStableFunc(frames, func(a, b archive.StackFrame) int { return cmp.Compare(a.Depth, b.Depth) })
		stacks[key] = slices.CompactFunc(frames, func(a, b archive.StackFrame) bool { return a.Depth == b.Depth })
	}
	v.stacks = stacks
	processes := map[int64]int{}
	for _, rt := range v.runtimes {
		processes[rt.PID]++
	}
	for key := range stacks {
		if pid := v.pid(key.runtime); pid != 0 && processes[pid] > 1 {
			if v.shared == nil {
				v.shared = map[pidStack]stackKey{}
			}
			k := pidStack{pid, key.id}
			if have, ok := v.shared[k]; !ok || key.runtime < have.runtime {
				v.shared[k] = key
			}
		}
	}
	return nil
}

// frames returns a stack, leaf first: the runtime's own, else that of another runtime of the same process.
// loadStacks must have run.
func (v *view) frames(rt archive.RuntimeID, id archive.StackID) []archive.StackFrame {
	if id == 0 {
		return nil
	}
	if frames, ok := v.stacks[stackKey{rt, id}]; ok || v.shared == nil {
		return frames
	}
	if key, ok := v.shared[pidStack{v.pid(rt), id}]; ok {
		return v.stacks[key]
	}
	return nil
}

// threadNames are the names of CPU threads.
type threadNames struct {
	named map[threadKey]string
	byPID map[[2]int64]string // by process and thread
}

// threadNames reads the names of CPU threads once.
func (v *view) threadNames(ctx context.Context) (*threadNames, error) {
	if v.threads != nil {
		return v.threads, nil
	}
	names := &threadNames{named: map[threadKey]string{}, byPID: map[[2]int64]string{}}
	for rows, err := range archive.Scan[archive.Thread](ctx, v.r) {
		if err != nil {
			return nil, err
		}
		for _, t := range rows {
			key := threadKey{t.Runtime, t.ID}
			if t.Name != "" || names.named[key] == "" {
				names.named[key] = t.Name
			}
			if pid := v.pid(t.Runtime); pid != 0 && t.Name != "" {
				names.byPID[[2]int64{pid, t.ID}] = t.Name
			}
		}
	}
	v.threads = names
	return names, nil
}

// of returns the name that the runtime gave a thread, else that of another runtime of the same process; "": none.
func (n *threadNames) of(v *view, rt archive.RuntimeID, id int64) string {
	if name := n.named[threadKey{rt, id}]; name != "" {
		return name
	}
	return n.byPID[[2]int64{v.pid(rt), id}]
}

// emptyHints says why there are no dispatches to show, and what to do about it.
func (v *view) emptyHints(dispatches int64, filters ...string) []Hint {
	var given []string
	for i := 0; i+1 < len(filters); i += 2 {
		if filters[i+1] != "" {
			given = append(given, fmt.Sprintf("%s %q", filters[i], filters[i+1]))
		}
	}
	switch losses := v.r.Losses(); {
	case dispatches == 0 && len(losses) > 0:
		return []Hint{{
			"unreadable", fmt.Sprintf("Parts of the archive cannot be read: %s.", lossText(losses[0])), "stax archive verify says what is lost",
		}}
	case len(v.runtimes) == 0:
		return []Hint{{
			"no_runtime", "No instrumented process reported to this recording.",
			"Instrument the target with the stax SDK or an OTLP exporter, let it call sdk.Shutdown before it exits, and start it with: stax record -- COMMAND",
		}}
	case dispatches > 0 && len(given) > 0:
		return []Hint{{
			"no_match", "Nothing matches " + strings.Join(given, " and ") + ".",
			"See what there is: stax target lanes, stax target top --limit 0",
		}}
	case len(v.lanes) == 0:
		return []Hint{{
			"no_lane", count(int64(len(v.runtimes)), "process reported, but it has no lane.", "processes reported, but none has a lane."),
			"Make one in the target with sdk.NewLane and report work on it; stax diagnose says what arrived.",
		}}
	case dispatches == 0 || len(given) == 0:
		return []Hint{{
			"no_dispatch", count(int64(len(v.lanes)), "lane is registered, but no dispatch was reported on it.", "lanes are registered, but no dispatch was reported on them."),
			"Check that the target reports while the gate is on (sdk.ReportingActive); run: stax diagnose",
		}}
	}
	return nil
}

// lossText says in one line what cannot be read and why.
func lossText(l archive.Loss) string {
	reason := strings.TrimPrefix(strings.TrimPrefix(l.Reason, "archive: "), l.File+": ")
	if l.Offset > 0 {
		return fmt.Sprintf("%s from byte %d on: %s", l.File, l.Offset, reason)
	}
	return l.File + ": " + reason
}
