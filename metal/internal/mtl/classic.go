//go:build (darwin || linux) && (amd64 || arm64)

package mtl

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/stax-otel/stax/metal/internal/objc"
)

// Queue is a classic MTLCommandQueue.
type Queue struct{ object }

// NewQueue makes a classic command queue.
func (d *Device) NewQueue(label string) (*Queue, error) {
	q := d.s.m.Device.NewCommandQueue(d.id)
	if q == 0 {
		return nil, fmt.Errorf("new command queue: %w", ErrNil)
	}
	out := &Queue{object{d.s, q}}
	out.label(d.s.m.Queue.SetLabel, label)
	return out, nil
}

// Status is an MTLCommandBufferStatus.
type Status uint64

// The states of a classic command buffer.
const (
	StatusNotEnqueued Status = iota
	StatusEnqueued
	StatusCommitted
	StatusScheduled
	StatusCompleted
	StatusError
)

// CommandBuffer is a classic MTLCommandBuffer.
type CommandBuffer struct{ object }

// CommandBuffer makes a command buffer.
func (q *Queue) CommandBuffer() (*CommandBuffer, error) {
	o, err := q.borrowed("command buffer", func() id { return q.s.m.Queue.CommandBuffer(q.id) })
	if err != nil {
		return nil, err
	}
	return &CommandBuffer{o}, nil
}

// SetLabel names the command buffer.
func (c *CommandBuffer) SetLabel(s string) { c.label(c.s.m.CommandBuffer.SetLabel, s) }

// OnCompleted calls fn once, on a thread of the system, when the work ended either way. Call it before Commit.
func (c *CommandBuffer) OnCompleted(fn func()) {
	b := c.s.rt.NewBlock(func(objc.ID) { fn() })
	c.s.m.CommandBuffer.AddCompleted(c.id, b)
	c.s.rt.ReleaseBlock(b)
}

// Signal makes the command buffer signal an event after the work encoded so far.
func (c *CommandBuffer) Signal(e *SharedEvent, value uint64) {
	c.s.m.CommandBuffer.EncodeSignal(c.id, e.id, value)
}

// Commit hands the work to the device.
func (c *CommandBuffer) Commit() { c.s.m.CommandBuffer.Commit(c.id) }

// Wait blocks the calling thread until the work ended and returns its error.
func (c *CommandBuffer) Wait() error {
	c.s.m.CommandBuffer.WaitUntilCompleted(c.id)
	return c.Err()
}

// Status is the command buffer's state.
func (c *CommandBuffer) Status() Status { return Status(c.s.m.CommandBuffer.Status(c.id)) }

// Err is the command buffer's error, nil without one.
func (c *CommandBuffer) Err() (err error) {
	c.s.Pool(func() {
		if e := c.s.rt.Error(c.s.m.CommandBuffer.Error(c.id)); e != nil {
			err = e
		}
	})
	return err
}

// GPUTimes are the command buffer's start and end in host seconds.
func (c *CommandBuffer) GPUTimes() (start, end float64) {
	return c.s.m.CommandBuffer.GPUStartTime(c.id), c.s.m.CommandBuffer.GPUEndTime(c.id)
}

// ComputeEncoder encodes classic compute work. End it before the command buffer is committed.
type ComputeEncoder struct {
	object
	dev *Device
}

// PassSamples asks for two samples of a whole encoder.
type PassSamples struct {
	Buffer     *SampleBuffer
	Start, End uint64 // sample indices; ErrorValue (MTLCounterDontSample) takes none
}

// ComputeEncoder begins an encoder; samples may be nil.
func (c *CommandBuffer) ComputeEncoder(d *Device, samples *PassSamples) (*ComputeEncoder, error) {
	m := &c.s.m
	if samples == nil {
		o, err := c.borrowed("compute encoder", func() id { return m.CommandBuffer.ComputeEncoder(c.id) })
		return &ComputeEncoder{o, d}, err
	}
	pass, err := c.s.rt.Class("MTLComputePassDescriptor")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, errUnsupported)
	}
	o, err := c.borrowed("compute encoder with samples", func() id {
		desc := m.ComputePass.New(pass)
		at := m.ComputePass.At(m.ComputePass.Attachments(desc), 0)
		m.ComputePass.SetBuffer(at, samples.Buffer.id)
		m.ComputePass.SetStart(at, samples.Start)
		m.ComputePass.SetEnd(at, samples.End)
		return m.CommandBuffer.ComputeWithPass(c.id, desc)
	})
	return &ComputeEncoder{o, d}, err
}

// SetLabel names the encoder.
func (e *ComputeEncoder) SetLabel(s string) { e.label(e.s.m.Encoder.SetLabel, s) }

// SetPipeline sets the code of the next dispatches.
func (e *ComputeEncoder) SetPipeline(p *Pipeline) { e.s.m.Compute.SetPipeline(e.id, p.id) }

// SetBuffer binds a buffer at a byte offset.
func (e *ComputeEncoder) SetBuffer(b *Buffer, offset, index uint64) {
	e.s.m.Compute.SetBuffer(e.id, b.id, offset, index)
}

// SetBytes binds a copy of data (at most 4 KiB).
func (e *ComputeEncoder) SetBytes(data []byte, index uint64) {
	e.s.m.Compute.SetBytes(e.id, unsafe.Pointer(unsafe.SliceData(data)), uint64(len(data)), index)
	runtime.KeepAlive(data)
}

// DispatchThreadgroups runs groups × threads.
func (e *ComputeEncoder) DispatchThreadgroups(groups, threads Size) {
	e.s.m.Compute.DispatchThreadgroups(e.id, groups, threads)
}

// DispatchThreads runs a grid of threads.
func (e *ComputeEncoder) DispatchThreads(grid, threads Size) {
	e.s.m.Compute.DispatchThreads(e.id, grid, threads)
}

// Barrier orders buffer accesses of the dispatches before and after it.
func (e *ComputeEncoder) Barrier() { e.s.m.Compute.MemoryBarrier(e.id, 1) }

// SampleCounters samples between dispatches. Where the device does not support that, Metal would abort the process, so
// an error wrapping errors.ErrUnsupported is returned and nothing is sent.
func (e *ComputeEncoder) SampleCounters(b *SampleBuffer, index uint64, barrier bool) error {
	if !e.dev.SupportsSampling(AtDispatch) {
		return fmt.Errorf("sample counters at dispatch boundary: %w", errUnsupported)
	}
	e.s.m.Compute.SampleCounters(e.id, b.id, index, barrier)
	return nil
}

// PushDebugGroup opens a named group.
func (e *ComputeEncoder) PushDebugGroup(s string) { e.label(e.s.m.Encoder.PushDebugGroup, s) }

// PopDebugGroup closes the last group.
func (e *ComputeEncoder) PopDebugGroup() { e.s.m.Encoder.PopDebugGroup(e.id) }

// End ends the encoder and releases it.
func (e *ComputeEncoder) End() {
	e.s.m.Encoder.End(e.id)
	e.Release()
}

// ResolveInto encodes a blit that resolves samples into a buffer.
func (c *CommandBuffer) ResolveInto(b *SampleBuffer, first, n uint64, dst *Buffer, offset uint64) error {
	o, err := c.borrowed("blit encoder", func() id { return c.s.m.CommandBuffer.BlitEncoder(c.id) })
	if err != nil {
		return err
	}
	c.s.m.Blit.ResolveCounters(o.id, b.id, rng{Location: first, Length: n}, dst.id, offset)
	c.s.m.Encoder.End(o.id)
	o.Release()
	return nil
}

// Fill encodes a blit that fills part of a buffer with a byte.
func (c *CommandBuffer) Fill(dst *Buffer, first, n uint64, value uint8) error {
	o, err := c.borrowed("blit encoder", func() id { return c.s.m.CommandBuffer.BlitEncoder(c.id) })
	if err != nil {
		return err
	}
	c.s.m.Blit.Fill(o.id, dst.id, rng{Location: first, Length: n}, value)
	c.s.m.Encoder.End(o.id)
	o.Release()
	return nil
}
