package origin

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/stax-otel/stax/archive"
)

// Two origins have a common frame when one activation of a function can be found in both stacks: the
// dispatch and the wait then happened inside it, and a wall view can nest the work there.
//
// Stacks are compared from the root towards the leaf. Frames are equal when function, file and line
// are; the first frame that differs only in its line is still common (one function called both
// branches from different lines) and ends the comparison. What every stack of a thread begins with
// says nothing, so it does not count:
//
//   - the frames with which a runtime or a C library starts a thread (runtime.goexit, runtime.main,
//     start_thread ...), and
//   - the entry function above them (main.main, or the function of a go statement), unless one of the
//     two origins lies directly in it. A program whose main both dispatches and waits has a common
//     frame; two workers that only share their loop's entry do not.
//
// A stack that was cut off before its root is aligned with the other one by its outermost frame.

// frame is one frame with its function and file interned.
type frame struct {
	function, file int32
	line           int64
}

func (f frame) sameFunction(o frame) bool { return f.function == o.function && f.file == o.file }

// stackTable holds the stacks of one runtime.
type stackTable struct {
	rows   map[archive.StackID][]depthFrame
	names  map[string]int32
	roots  map[int32]bool // functions that start threads
	stacks map[archive.StackID]stack

	mu    sync.Mutex
	pairs map[[2]archive.StackID]bool // whether the two have a common frame
}

type depthFrame struct {
	depth uint32
	frame
}

// stack is the part of a stack above its thread-start frames, root first.
type stack struct {
	frames   []frame
	anchored bool // thread-start frames were there: the stack is whole
}

// maxPairs bounds the memory of compared pairs.
const maxPairs = 1 << 16

func (t *stackTable) intern(s string) int32 {
	if t.names == nil {
		t.names, t.roots = map[string]int32{}, map[int32]bool{}
	}
	id, ok := t.names[s]
	if !ok {
		id = int32(len(t.names))
		t.names[strings.Clone(s)] = id
	}
	return id
}

func (t *stackTable) add(f *archive.StackFrame) {
	if t.rows == nil {
		t.rows = map[archive.StackID][]depthFrame{}
	}
	function := t.intern(f.Function)
	if startsThreads(f.Function) {
		t.roots[function] = true
	}
	t.rows[f.Stack] = append(t.rows[f.Stack], depthFrame{f.Depth, frame{function, t.intern(f.File), f.Line}})
}

// seal puts the frames in order. A runtime may send a stack again: one frame of each depth is kept.
func (t *stackTable) seal() {
	t.stacks, t.pairs = make(map[archive.StackID]stack, len(t.rows)), map[[2]archive.StackID]bool{}
	for id, rows := range t.rows {
		slices.SortFunc(rows, func(a, b depthFrame) int {
			return -cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.function, b.function), cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
		})
		rows = slices.CompactFunc(rows, func(a, b depthFrame) bool { return a.depth == b.depth })
		var s stack
		for _, r := range rows {
			if len(s.frames) == 0 && t.roots[r.function] {
				s.anchored = true
				continue
			}
			s.frames = append(s.frames, r.frame)
		}
		t.stacks[id] = s
	}
	t.rows, t.names, t.roots = nil, nil, nil
}

func (t *stackTable) defined(id archive.StackID) bool {
	_, ok := t.stacks[id]
	return ok
}

// common reports whether two defined stacks have a common frame beyond their roots.
func (t *stackTable) common(a, b archive.StackID) bool {
	if a > b {
		a, b = b, a
	}
	key := [2]archive.StackID{a, b}
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.pairs[key]
	if !ok {
		if len(t.pairs) >= maxPairs {
			clear(t.pairs)
		}
		found = commonFrame(t.stacks[a], t.stacks[b])
		t.pairs[key] = found
	}
	return found
}

// CommonFrame reports whether two stacks, given by their rows, have a common frame beyond their roots.
func CommonFrame(a, b []archive.StackFrame) bool {
	var t stackTable
	for i := range a {
		f := a[i]
		f.Stack = 1
		t.add(&f)
	}
	for i := range b {
		f := b[i]
		f.Stack = 2
		t.add(&f)
	}
	t.seal()
	return t.common(1, 2)
}

func commonFrame(a, b stack) bool {
	if len(a.frames) == 0 || len(b.frames) == 0 {
		return false
	}
	if a.frames[0].sameFunction(b.frames[0]) {
		return beyondEntry(a.frames, b.frames)
	}
	// One of them may have been cut off: its outermost frame lies somewhere inside the other.
	if !a.anchored && alignCut(a.frames, b.frames) {
		return true
	}
	return !b.anchored && alignCut(b.frames, a.frames)
}

// beyondEntry compares two stacks that begin with the same function.
func beyondEntry(a, b []frame) bool {
	switch {
	case len(a) == 1 || len(b) == 1:
		return true // one of the origins lies in the entry function itself
	case a[0].line != b[0].line:
		return false // the entry function called the two branches from different lines
	}
	return a[1].sameFunction(b[1])
}

// alignCut reports whether the outermost frame of a stack that was cut off is a frame of the other.
func alignCut(cut, whole []frame) bool {
	return slices.ContainsFunc(whole, func(f frame) bool { return f.sameFunction(cut[0]) })
}

// startsThreads reports whether a function is one that runtimes and C libraries start threads with.
func startsThreads(function string) bool {
	if strings.HasPrefix(function, "runtime.") {
		return true
	}
	switch function {
	case "_start", "start", "start_thread", "thread_start", "_pthread_start", "clone", "clone3", "__clone", "__clone3",
		"__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main", "BaseThreadInitThunk", "RtlUserThreadStart":
		return true
	}
	return false
}
