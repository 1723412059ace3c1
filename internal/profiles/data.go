package profiles

import (
	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/gotrace"
)

// Frame is one frame of a stack.
type Frame = gotrace.Frame

// Stack is a stack, leaf first, with its content hash.
type Stack = gotrace.Stack

// Data is CPU evidence about one runtime. The rows have no Runtime: [Data.AppendTo] sets it, or whoever copies them.
type Data struct {
	Samples      []archive.Sample
	OffCPU       []archive.OffCPU
	OriginEvents []archive.OriginEvent
	Sources      []archive.ProfileSource
	Threads      []archive.Thread
	Stacks       []Stack // those that the rows name, each once
	// LostGenerations and LostBytes are what the target gave up.
	LostGenerations, LostBytes uint64
}

// Len returns the number of rows, without the frames of stacks.
func (d *Data) Len() int {
	return len(d.Samples) + len(d.OffCPU) + len(d.OriginEvents) + len(d.Sources) + len(d.Threads)
}

// AppendTo appends all rows to b as rows of a runtime. d is not changed.
func (d *Data) AppendTo(b *archive.Batch, runtime archive.RuntimeID) {
	d.AppendRows(b, runtime)
	for _, t := range d.Threads {
		t.Runtime = runtime
		b.Threads = append(b.Threads, t)
	}
	for i := range d.Stacks {
		AppendStack(b, runtime, &d.Stacks[i])
	}
}

// AppendRows is AppendTo without Threads and Stacks, which an archive needs only once.
func (d *Data) AppendRows(b *archive.Batch, runtime archive.RuntimeID) {
	at := len(b.Samples)
	b.Samples = append(b.Samples, d.Samples...)
	for i := range b.Samples[at:] {
		b.Samples[at+i].Runtime = runtime
	}
	at = len(b.OffCPU)
	b.OffCPU = append(b.OffCPU, d.OffCPU...)
	for i := range b.OffCPU[at:] {
		b.OffCPU[at+i].Runtime = runtime
	}
	at = len(b.OriginEvents)
	b.OriginEvents = append(b.OriginEvents, d.OriginEvents...)
	for i := range b.OriginEvents[at:] {
		b.OriginEvents[at+i].Runtime = runtime
	}
	at = len(b.ProfileSources)
	b.ProfileSources = append(b.ProfileSources, d.Sources...)
	for i := range b.ProfileSources[at:] {
		b.ProfileSources[at+i].Runtime = runtime
	}
}

// AppendStack appends the frames of one stack.
func AppendStack(b *archive.Batch, runtime archive.RuntimeID, s *Stack) {
	for depth, f := range s.Frames {
		b.StackFrames = append(b.StackFrames, archive.StackFrame{
			Runtime: runtime, Stack: s.ID, Depth: uint32(depth), Function: f.Function, File: f.File, Line: f.Line,
		})
	}
}

// Sample types.
const (
	typeSamples = "samples" // count
	typeCPU     = "cpu"     // nanoseconds
	typeOffCPU  = "off_cpu" // nanoseconds
	typeEvents  = "events"  // count
	unitCount   = "count"
	unitNanos   = "nanoseconds"
)

// eventWaker is the stax.event.name of a sum: so often somebody with this stack ended an off-CPU interval.
const eventWaker = "stax.waker"
