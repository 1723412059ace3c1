package gotrace

import (
	"strconv"
	"strings"

	"golang.org/x/exp/trace"

	"github.com/stax-otel/stax/archive"
)

// Frame is one frame of a stack.
type Frame struct {
	Function string // fully qualified
	File     string // as the compiler recorded it
	Line     int64  // 0: unknown
}

// Stack is a stack, leaf first, and its content hash. It is shared and not to be changed.
type Stack struct {
	ID     archive.StackID
	Frames []Frame
}

// HashFrames is the identity of a stack on the wire and in the archive, the same as sdk.StackID: FNV-1a 64 over the
// frames, each as function, NUL, file, NUL, decimal line, newline. It is never 0.
func HashFrames(frames []Frame) archive.StackID {
	h := uint64(fnvOffset)
	var digits [20]byte
	for i := range frames {
		f := &frames[i]
		h = fnvByte(fnvString(h, f.Function), 0)
		h = fnvByte(fnvString(h, f.File), 0)
		for _, c := range strconv.AppendInt(digits[:0], f.Line, 10) {
			h = fnvByte(h, c)
		}
		h = fnvByte(h, '\n')
	}
	if h == 0 {
		return 1
	}
	return archive.StackID(h)
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func fnvByte(h uint64, c byte) uint64 { return (h ^ uint64(c)) * fnvPrime }

func fnvString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

// stack is what is known about one stack of a generation.
type stack struct {
	*Stack
	sync    string // reason of a wait on a primitive of package sync
	net     string // reason of a wait on the poller
	syscall string // detail of a system call
	cgo     bool   // a call of C code, which may well run
}

// frameClip bounds the names of frames, as the SDK does.
const frameClip = 1 << 10

// stackOf returns the stack of a trace event, nil when it has none. trim takes the frames off that wrote the event.
func (g *generation) stackOf(st trace.Stack, trim bool) *stack {
	if st == trace.NoStack {
		return nil
	}
	cache := g.stacks
	if trim {
		cache = g.trimmed
	}
	if s, ok := cache[st]; ok {
		return s
	}
	s := g.newStack(st, trim)
	cache[st] = s
	return s
}

func (g *generation) newStack(st trace.Stack, trim bool) *stack {
	frames := g.frames[:0]
	for f := range st.Frames() {
		if trim && len(frames) == 0 && writesEvents(f.Func) {
			continue
		}
		frames = append(frames, Frame{Function: clip(f.Func), File: clip(f.File), Line: int64(f.Line)})
	}
	g.frames = frames
	if len(frames) == 0 {
		return nil
	}
	id := HashFrames(frames)
	if s := g.session.stacks[id]; s != nil {
		return s
	}
	if len(g.session.stacks) >= maxRememberedStacks {
		clear(g.session.stacks)
	}
	s := &stack{Stack: &Stack{ID: id, Frames: append([]Frame(nil), frames...)}}
	s.classify()
	g.session.stacks[id] = s
	return s
}

func clip(s string) string {
	if len(s) > frameClip {
		return s[:frameClip]
	}
	return s
}

// use notes that a row of this generation names the stack.
func (g *generation) use(s *stack) archive.StackID {
	if s == nil {
		return 0
	}
	if _, ok := g.used[s.ID]; !ok {
		if len(g.used) >= g.session.o.MaxStacks {
			g.out.Stats.StacksDropped++
			return 0
		}
		g.used[s.ID] = struct{}{}
		g.out.Stacks = append(g.out.Stacks, *s.Stack)
	}
	return s.ID
}

// writesEvents reports whether a frame at the leaf belongs to those who write an event, not to those whom it is about.
func writesEvents(function string) bool {
	for _, prefix := range [...]string{
		"runtime/trace.",
		"github.com/stax-otel/stax/sdk.", "github.com/stax-otel/stax/sdk/",
		"go.opentelemetry.io/otel/sdk/trace.", "go.opentelemetry.io/otel/trace.",
	} {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}
