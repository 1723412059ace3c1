package origin

import (
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

// frameTable holds the frames of all stacks, each once.
type frameTable struct {
	names interner[string]
	roots []bool // by function: it starts threads
	list  interner[frame]

	mu    sync.Mutex
	pairs map[[2]*stack]bool // whether the two have a common frame
}

// stack is one stack, root first.
type stack struct {
	rows     []depthFrame
	start    int  // the rows before this one start the thread
	anchored bool // there are such rows: the stack is whole
	settled  bool
	pinned   bool  // the target sends it once and never again
	used     int64 // the latest instant at which something refers to it
}

type depthFrame struct {
	depth uint32
	frame uint32
}

// maxPairs bounds the memory of compared pairs.
const maxPairs = 1 << 16

func newFrameTable() *frameTable { return &frameTable{pairs: map[[2]*stack]bool{}} }

func (t *frameTable) intern(s string) int32 {
	if i, ok := t.names.index[s]; ok {
		return int32(i)
	}
	return int32(t.names.of(strings.Clone(s)))
}

func (t *frameTable) frame(f *archive.StackFrame) uint32 {
	function := t.intern(f.Function)
	for int(function) >= len(t.roots) {
		t.roots = append(t.roots, false)
	}
	t.roots[function] = startsThreads(f.Function)
	return t.list.of(frame{function, t.intern(f.File), f.Line})
}

// add takes one frame of a stack, in any order. A runtime may send a stack again: the first frame of each depth counts.
func (s *stack) add(depth, f uint32) bool {
	if n := len(s.rows); n > 0 && depth < s.rows[n-1].depth { // rootward first: never in practice
		s.rows, s.settled = append(s.rows, depthFrame{depth, f}), false
		return true
	}
	at, found := slices.BinarySearchFunc(s.rows, depth, func(r depthFrame, d uint32) int { return int(int64(d) - int64(r.depth)) })
	if found {
		return false
	}
	s.rows, s.settled = slices.Insert(s.rows, at, depthFrame{depth, f}), false
	return true
}

// settle finds the rows that start the thread.
func (s *stack) settle(t *frameTable) {
	s.start, s.settled = 0, true
	for s.start < len(s.rows) && t.roots[t.list.values[s.rows[s.start].frame].function] {
		s.start++
	}
	s.anchored = s.start > 0
}

// complete reports whether nothing of the stack was cut off.
func (s *stack) complete() bool { return s.anchored || len(s.rows) < wholeFrames }

// sameEntry reports whether two stacks are known to have the same entry function.
func (t *frameTable) sameEntry(a, whole *stack) bool {
	return whole.complete() && a.len() > 0 && whole.len() > 0 && t.at(a, 0).function == t.at(whole, 0).function
}

// len returns the number of frames without those that start the thread.
func (s *stack) len() int { return len(s.rows) - s.start }

// at returns a frame, the outermost that does not start the thread first.
func (t *frameTable) at(s *stack, i int) frame { return t.list.values[s.rows[s.start+i].frame] }

// waitFrames returns the frames of a wait's stack of which one stays on the stack while the thread waits: the innermost
// ones, less what helpers that began the wait may take with them. None: even those are the thread's entry function, which
// never leaves the stack.
func (t *frameTable) waitFrames(s *stack) []frame {
	if s == nil || s.len() < helperFrames+2 {
		return nil
	}
	var frames []frame
	for i := s.len() - 1 - helperFrames; i < s.len(); i++ {
		frames = append(frames, t.at(s, i))
	}
	return frames
}

func (t *frameTable) functions(frames []frame) (names []string) {
	for _, f := range frames {
		names = append(names, t.names.values[f.function])
	}
	return names
}

// holds reports whether one of the functions is on a stack.
func (t *frameTable) holds(s *stack, frames []frame) bool {
	for _, r := range s.rows {
		function := t.list.values[r.frame].function
		for _, f := range frames {
			if f.function == function {
				return true
			}
		}
	}
	return false
}

// common reports whether two stacks have a common frame beyond their roots.
func (t *frameTable) common(a, b *stack) bool {
	key := [2]*stack{a, b}
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.pairs[key]
	if !ok {
		if len(t.pairs) >= maxPairs {
			clear(t.pairs)
		}
		found = t.commonFrame(a, b)
		t.pairs[key] = found
	}
	return found
}

// CommonFrame reports whether two stacks, given by their rows, have a common frame beyond their roots.
func CommonFrame(a, b []archive.StackFrame) bool {
	t := newFrameTable()
	stackOf := func(frames []archive.StackFrame) *stack {
		s := &stack{}
		for i := range frames {
			s.add(frames[i].Depth, t.frame(&frames[i]))
		}
		s.settle(t)
		return s
	}
	return t.commonFrame(stackOf(a), stackOf(b))
}

func (t *frameTable) commonFrame(a, b *stack) bool {
	if a.len() == 0 || b.len() == 0 {
		return false
	}
	if t.at(a, 0).sameFunction(t.at(b, 0)) {
		return t.beyondEntry(a, b)
	}
	// One of them may have been cut off: its outermost frame lies somewhere inside the other.
	return !a.anchored && t.alignCut(a, b) || !b.anchored && t.alignCut(b, a)
}

// beyondEntry compares two stacks that begin with the same function.
func (t *frameTable) beyondEntry(a, b *stack) bool {
	switch {
	case a.len() == 1 || b.len() == 1:
		return true // one of the origins lies in the entry function itself
	case t.at(a, 0).line != t.at(b, 0).line:
		return false // the entry function called the two branches from different lines
	}
	return t.at(a, 1).sameFunction(t.at(b, 1))
}

// alignCut reports whether the outermost frame of a stack that was cut off is a frame of the other.
func (t *frameTable) alignCut(cut, whole *stack) bool {
	for i := range whole.len() {
		if t.at(whole, i).sameFunction(t.at(cut, 0)) {
			return true
		}
	}
	return false
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
