package archive

// Batch is a set of rows that belong together: Writer.Append stores all of them or none.
// The zero value is empty and ready to use. A Batch may be reused: Reset keeps the memory.
type Batch struct {
	Runtimes       []Runtime
	Lanes          []Lane
	Threads        []Thread
	Dispatches     []Dispatch
	CommandBuffers []CommandBuffer
	Waits          []Wait
	Awaits         []Await
	ExtraOrigins   []ExtraOrigin
	StackFrames    []StackFrame
	Counters       []Counter
	CounterSamples []CounterSample
	Heartbeats     []Heartbeat
	Drops          []Drop
	ClockSamples   []ClockSample
	Diagnostics    []Diagnostic
	Samples        []Sample
	OffCPU         []OffCPU
	OriginEvents   []OriginEvent
	ProfileSources []ProfileSource
	Passthrough    []Passthrough
}

// Len returns the number of rows of all tables.
func (b *Batch) Len() int {
	return len(b.Runtimes) + len(b.Lanes) + len(b.Threads) + len(b.Dispatches) + len(b.CommandBuffers) +
		len(b.Waits) + len(b.Awaits) + len(b.ExtraOrigins) + len(b.StackFrames) + len(b.Counters) +
		len(b.CounterSamples) + len(b.Heartbeats) + len(b.Drops) + len(b.ClockSamples) +
		len(b.Diagnostics) + len(b.Samples) + len(b.OffCPU) + len(b.OriginEvents) + len(b.ProfileSources) + len(b.Passthrough)
}

// Reset empties the batch and keeps its memory. The old rows are cleared, so that the strings they
// name can be collected.
func (b *Batch) Reset() {
	b.Runtimes = empty(b.Runtimes)
	b.Lanes = empty(b.Lanes)
	b.Threads = empty(b.Threads)
	b.Dispatches = empty(b.Dispatches)
	b.CommandBuffers = empty(b.CommandBuffers)
	b.Waits = empty(b.Waits)
	b.Awaits = empty(b.Awaits)
	b.ExtraOrigins = empty(b.ExtraOrigins)
	b.StackFrames = empty(b.StackFrames)
	b.Counters = empty(b.Counters)
	b.CounterSamples = empty(b.CounterSamples)
	b.Heartbeats = empty(b.Heartbeats)
	b.Drops = empty(b.Drops)
	b.ClockSamples = empty(b.ClockSamples)
	b.Diagnostics = empty(b.Diagnostics)
	b.Samples = empty(b.Samples)
	b.OffCPU = empty(b.OffCPU)
	b.OriginEvents = empty(b.OriginEvents)
	b.ProfileSources = empty(b.ProfileSources)
	b.Passthrough = empty(b.Passthrough)
}

func empty[T any](s []T) []T {
	clear(s)
	return s[:0]
}
