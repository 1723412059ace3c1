//go:build (darwin || linux) && (amd64 || arm64)

package mtl

import (
	"encoding/binary"
	"fmt"

	"github.com/stax-otel/stax/metal/internal/objc"
)

// Granularity is an MTL4TimestampGranularity.
type Granularity int64

// The granularities of timestamps inside an encoder.
const (
	Relaxed Granularity = iota
	Precise
)

// HeapTypeTimestamp is MTL4CounterHeapTypeTimestamp, the only type of the 26.5 SDK.
const HeapTypeTimestamp = 1

// Stages and visibility of a barrier between dispatches.
const (
	StageDispatch    = 0x8000000
	VisibilityDevice = 1
)

// Heap is an MTL4CounterHeap of timestamps.
type Heap struct {
	object
	entry uint64 // bytes
}

// NewHeap makes a timestamp heap of count entries.
func (d *Device) NewHeap(count uint64, label string) (*Heap, error) {
	if err := d.need("newCounterHeapWithDescriptor:error:"); err != nil {
		return nil, err
	}
	entry := d.s.m.Device.SizeOfCounterHeapEntry(d.id, HeapTypeTimestamp)
	if entry != 8 {
		return nil, fmt.Errorf("new timestamp heap: entries of %d bytes, only 8 are known: %w", entry, errUnsupported)
	}
	desc, err := d.s.descriptor("MTL4CounterHeapDescriptor")
	if err != nil {
		return nil, err
	}
	defer desc.Release()
	d.s.m.HeapDescriptor.SetType(desc.id, HeapTypeTimestamp)
	d.s.m.HeapDescriptor.SetCount(desc.id, count)
	got, err := d.created("new timestamp heap", func(e *id) id { return d.s.m.Device.NewCounterHeap(d.id, desc.id, e) })
	if err != nil {
		return nil, err
	}
	h := &Heap{got, entry}
	h.label(d.s.m.Heap.SetLabel, label)
	return h, nil
}

// Count is the number of entries.
func (h *Heap) Count() uint64 { return h.s.m.Heap.Count(h.id) }

// Resolve reads n entries from the first on, in heap ticks. Only entries whose command buffers completed may be read; a
// zero is an entry that was never written.
func (h *Heap) Resolve(first, n uint64) ([]uint64, error) {
	var raw []byte
	h.s.Pool(func() { raw = h.s.rt.Bytes(h.s.m.Heap.Resolve(h.id, rng{Location: first, Length: n})) })
	if raw == nil {
		return nil, fmt.Errorf("resolve timestamps [%d, %d): %w", first, first+n, ErrNil)
	}
	if uint64(len(raw)) != n*h.entry {
		return nil, fmt.Errorf("resolve timestamps [%d, %d): %d bytes, want %d", first, first+n, len(raw), n*h.entry)
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(raw[i*8:])
	}
	return out, nil
}

// Invalidate zeroes n entries from the first on. Nothing that uses the heap may be in flight: later writes would be
// wiped too (phosphor engine notes; not run here).
func (h *Heap) Invalidate(first, n uint64) {
	h.s.m.Heap.Invalidate(h.id, rng{Location: first, Length: n})
}

// Queue4 is an MTL4CommandQueue.
type Queue4 struct{ object }

// NewQueue4 makes a Metal 4 command queue.
func (d *Device) NewQueue4() (*Queue4, error) {
	if err := d.SupportsMetal4(); err != nil {
		return nil, err
	}
	q := d.s.m.Device.NewMTL4CommandQueue(d.id)
	if q == 0 {
		return nil, fmt.Errorf("new MTL4 command queue: %w", ErrNil)
	}
	return &Queue4{object{d.s, q}}, nil
}

// Feedback is what a commit reports when its work ended. Times are host seconds.
type Feedback struct {
	Start, End float64
	Err        error
}

// Commit hands command buffers to the device. feedback, which may be nil, is called once on a thread of the system when
// the work ended either way.
func (q *Queue4) Commit(buffers []*CommandBuffer4, feedback func(Feedback)) error {
	if len(buffers) == 0 {
		return nil
	}
	ids := make([]id, len(buffers))
	for i, b := range buffers {
		ids[i] = b.id
	}
	var opts object
	if feedback != nil {
		var err error
		if opts, err = q.s.descriptor("MTL4CommitOptions"); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		defer opts.Release()
		s := q.s
		block := s.rt.NewBlock(func(fb objc.ID) {
			var f Feedback
			s.Pool(func() {
				f.Start, f.End = s.m.Feedback.Start(fb), s.m.Feedback.End(fb)
				if e := s.rt.Error(s.m.Feedback.Error(fb)); e != nil {
					f.Err = e
				}
			})
			feedback(f)
		})
		s.m.CommitOptions.AddFeedback(opts.id, block)
		defer s.rt.ReleaseBlock(block)
	}
	q.s.m.Queue4.Commit(q.id, &ids[0], uint64(len(ids)), opts.id)
	return nil
}

// Signal sets an event after all work committed so far.
func (q *Queue4) Signal(e *SharedEvent, value uint64) { q.s.m.Queue4.Signal(q.id, e.id, value) }

// WaitFor holds later work back until the event reaches the value.
func (q *Queue4) WaitFor(e *SharedEvent, value uint64) { q.s.m.Queue4.WaitFor(q.id, e.id, value) }

// AddResidencySet makes the allocations of a set usable by the queue's work.
func (q *Queue4) AddResidencySet(r *ResidencySet) { q.s.m.Queue4.AddResidencySet(q.id, r.id) }

// RemoveResidencySet takes a set away.
func (q *Queue4) RemoveResidencySet(r *ResidencySet) { q.s.m.Queue4.RemoveResidency(q.id, r.id) }

// ResidencySet is an MTLResidencySet. Buffers that are in none read as zeros without any error (Snowapril/vkm
// implementation notes; not run here).
type ResidencySet struct{ object }

// NewResidencySet makes a set with room for capacity allocations.
func (d *Device) NewResidencySet(capacity uint64, label string) (*ResidencySet, error) {
	if err := d.need("newResidencySetWithDescriptor:error:"); err != nil {
		return nil, err
	}
	desc, err := d.s.descriptor("MTLResidencySetDescriptor")
	if err != nil {
		return nil, err
	}
	defer desc.Release()
	d.s.m.ResidencySetDescriptor.SetCapacity(desc.id, capacity)
	desc.label(d.s.m.ResidencySetDescriptor.SetLabel, label)
	got, err := d.created("new residency set", func(e *id) id { return d.s.m.Device.NewResidencySet(d.id, desc.id, e) })
	if err != nil {
		return nil, err
	}
	return &ResidencySet{got}, nil
}

// Add adds a buffer; it takes effect with Commit.
func (r *ResidencySet) Add(b *Buffer) { r.s.m.ResidencySet.Add(r.id, b.id) }

// Remove removes a buffer; it takes effect with Commit.
func (r *ResidencySet) Remove(b *Buffer) { r.s.m.ResidencySet.Remove(r.id, b.id) }

// Contains tells whether a buffer is in the set.
func (r *ResidencySet) Contains(b *Buffer) bool { return r.s.m.ResidencySet.Contains(r.id, b.id) }

// Count is the number of allocations.
func (r *ResidencySet) Count() uint64 { return r.s.m.ResidencySet.Count(r.id) }

// Commit applies additions and removals and asks for residency.
func (r *ResidencySet) Commit() {
	r.s.m.ResidencySet.Commit(r.id)
	r.s.m.ResidencySet.Request(r.id)
}

// EndResidency takes the request back.
func (r *ResidencySet) EndResidency() { r.s.m.ResidencySet.End(r.id) }

// Allocator is an MTL4CommandAllocator.
type Allocator struct{ object }

// NewAllocator makes the memory that command buffers are encoded into.
func (d *Device) NewAllocator() (*Allocator, error) {
	if err := d.need("newCommandAllocator"); err != nil {
		return nil, err
	}
	a := d.s.m.Device.NewCommandAllocator(d.id)
	if a == 0 {
		return nil, fmt.Errorf("new command allocator: %w", ErrNil)
	}
	return &Allocator{object{d.s, a}}, nil
}

// Reset reuses the memory: only after all work encoded with it completed.
func (a *Allocator) Reset() { a.s.m.Allocator.Reset(a.id) }

// Size is the allocator's memory in bytes.
func (a *Allocator) Size() uint64 { return a.s.m.Allocator.AllocatedSize(a.id) }

// ArgumentTable is an MTL4ArgumentTable of buffers.
type ArgumentTable struct{ object }

// NewArgumentTable makes a table of buffers places.
func (d *Device) NewArgumentTable(buffers uint64) (*ArgumentTable, error) {
	if err := d.need("newArgumentTableWithDescriptor:error:"); err != nil {
		return nil, err
	}
	desc, err := d.s.descriptor("MTL4ArgumentTableDescriptor")
	if err != nil {
		return nil, err
	}
	defer desc.Release()
	d.s.m.ArgumentTableDescriptor.SetMaxBuffers(desc.id, buffers)
	d.s.m.ArgumentTableDescriptor.SetInitialize(desc.id, true)
	got, err := d.created("new argument table", func(e *id) id { return d.s.m.Device.NewArgumentTable(d.id, desc.id, e) })
	if err != nil {
		return nil, err
	}
	return &ArgumentTable{got}, nil
}

// SetBuffer binds a buffer at a byte offset.
func (t *ArgumentTable) SetBuffer(b *Buffer, offset, index uint64) {
	t.s.m.ArgumentTable.SetAddress(t.id, b.GPUAddress()+offset, index)
}

// CommandBuffer4 is an MTL4CommandBuffer. It belongs to the device and can be begun again after its work completed.
type CommandBuffer4 struct{ object }

// NewCommandBuffer4 makes a command buffer.
func (d *Device) NewCommandBuffer4(label string) (*CommandBuffer4, error) {
	if err := d.need("newCommandBuffer"); err != nil {
		return nil, err
	}
	c := d.s.m.Device.NewCommandBuffer(d.id)
	if c == 0 {
		return nil, fmt.Errorf("new MTL4 command buffer: %w", ErrNil)
	}
	out := &CommandBuffer4{object{d.s, c}}
	out.label(d.s.m.CommandBuffer4.SetLabel, label)
	return out, nil
}

// Begin begins encoding with an allocator.
func (c *CommandBuffer4) Begin(a *Allocator) { c.s.m.CommandBuffer4.Begin(c.id, a.id) }

// End ends encoding; the command buffer can then be committed.
func (c *CommandBuffer4) End() { c.s.m.CommandBuffer4.End(c.id) }

// WriteTimestamp writes an entry between encoders. Such stamps must never be subtracted from stamps taken inside an
// encoder: on an M3 Max 6 to 14 % came after the encoder's first stamp (VectorAccelerate report; not run here).
func (c *CommandBuffer4) WriteTimestamp(h *Heap, index uint64) {
	c.s.m.CommandBuffer4.WriteTimestamp(c.id, h.id, index)
}

// ResolveHeap encodes a resolve of n entries into a buffer at a byte offset.
func (c *CommandBuffer4) ResolveHeap(h *Heap, first, n uint64, dst *Buffer, offset uint64) {
	c.s.m.CommandBuffer4.ResolveHeap(c.id, h.id, rng{Location: first, Length: n},
		BufferRange{dst.GPUAddress() + offset, n * h.entry}, 0, 0)
}

// ComputeEncoder4 encodes Metal 4 compute work.
type ComputeEncoder4 struct{ object }

// ComputeEncoder begins an encoder.
func (c *CommandBuffer4) ComputeEncoder(label string) (*ComputeEncoder4, error) {
	o, err := c.borrowed("MTL4 compute encoder", func() id { return c.s.m.CommandBuffer4.ComputeEncoder(c.id) })
	if err != nil {
		return nil, err
	}
	o.label(c.s.m.Encoder4.SetLabel, label)
	return &ComputeEncoder4{o}, nil
}

// SetPipeline sets the code of the next dispatches.
func (e *ComputeEncoder4) SetPipeline(p *Pipeline) { e.s.m.Compute4.SetPipeline(e.id, p.id) }

// SetArguments sets the argument table of the next dispatches; its state counts at each dispatch.
func (e *ComputeEncoder4) SetArguments(t *ArgumentTable) { e.s.m.Compute4.SetArgumentTable(e.id, t.id) }

// DispatchThreadgroups runs groups × threads.
func (e *ComputeEncoder4) DispatchThreadgroups(groups, threads Size) {
	e.s.m.Compute4.DispatchThreadgroups(e.id, groups, threads)
}

// DispatchThreads runs a grid of threads.
func (e *ComputeEncoder4) DispatchThreads(grid, threads Size) {
	e.s.m.Compute4.DispatchThreads(e.id, grid, threads)
}

// WriteTimestamp writes an entry between the dispatches before and after it. What separates dispatches of one encoder
// depends on device and barriers; sources contradict each other, so the granularity is recorded with every span.
func (e *ComputeEncoder4) WriteTimestamp(g Granularity, h *Heap, index uint64) {
	e.s.m.Compute4.WriteTimestamp(e.id, int64(g), h.id, index)
}

// Barrier makes later dispatches of the encoder wait for the earlier ones.
func (e *ComputeEncoder4) Barrier() {
	e.s.m.Encoder4.Barrier(e.id, StageDispatch, StageDispatch, VisibilityDevice)
}

// Fill fills part of a buffer with a byte.
func (e *ComputeEncoder4) Fill(dst *Buffer, first, n uint64, value uint8) {
	e.s.m.Compute4.Fill(e.id, dst.id, rng{Location: first, Length: n}, value)
}

// PushDebugGroup opens a named group.
func (e *ComputeEncoder4) PushDebugGroup(s string) { e.label(e.s.m.Encoder4.PushDebugGroup, s) }

// PopDebugGroup closes the last group.
func (e *ComputeEncoder4) PopDebugGroup() { e.s.m.Encoder4.PopDebugGroup(e.id) }

// End ends the encoder and releases it.
func (e *ComputeEncoder4) End() {
	e.s.m.Encoder4.End(e.id)
	e.Release()
}
