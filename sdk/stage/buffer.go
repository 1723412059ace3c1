package stage

import (
	"context"
	"iter"
	"sync/atomic"
)

// A BufferMeter counts what goes through a buffer between stages. Make one with [Record.Buffer] for a buffer of your
// own, or use [Buffer]. A nil meter counts nothing.
type BufferMeter struct {
	name      string
	capacity  int
	occupancy func() int

	produced, consumed, dropped atomic.Int64
}

// Buffer registers a buffer. occupancy returns how many values it holds now; it may be nil and may be called from any
// goroutine. While [Options.Buffers] is off the result is nil, which is a meter that counts nothing.
func (r *Record) Buffer(name string, capacity int, occupancy func() int) *BufferMeter {
	if r == nil || !r.g.opt.Buffers {
		return nil
	}
	b := &BufferMeter{name: name, capacity: capacity, occupancy: occupancy}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buffers = append(r.buffers, b)
	return b
}

// Produced counts n values that were offered to the buffer, those that it dropped included.
func (b *BufferMeter) Produced(n int64) {
	if b != nil {
		b.produced.Add(n)
	}
}

// Consumed counts n values that were taken out.
func (b *BufferMeter) Consumed(n int64) {
	if b != nil {
		b.consumed.Add(n)
	}
}

// Dropped counts n values that never reach a consumer.
func (b *BufferMeter) Dropped(n int64) {
	if b != nil {
		b.dropped.Add(n)
	}
}

// held is the number of values in the buffer.
func (b *BufferMeter) held() int64 {
	if b.occupancy != nil {
		return int64(b.occupancy())
	}
	return b.produced.Load() - b.consumed.Load() - b.dropped.Load()
}

func (b *BufferMeter) reset() {
	held := b.held()
	b.consumed.Store(0)
	b.dropped.Store(0)
	b.produced.Store(held)
}

// A Buffer is a bounded channel between stages that counts what goes through it, if its record wants that. Any number of
// goroutines may send and receive.
type Buffer[T any] struct {
	c     chan T
	meter *BufferMeter
}

// NewBuffer makes a buffer for capacity values.
func NewBuffer[T any](r *Record, name string, capacity int) *Buffer[T] {
	b := &Buffer[T]{c: make(chan T, max(capacity, 0))}
	b.meter = r.Buffer(name, capacity, func() int { return len(b.c) })
	return b
}

// Offer puts v in if there is room, and otherwise drops it and reports false. It never blocks.
func (b *Buffer[T]) Offer(v T) bool {
	b.meter.Produced(1)
	select {
	case b.c <- v:
		return true
	default:
		b.meter.Dropped(1)
		return false
	}
}

// Send puts v in and waits for room. When ctx ends first, v is dropped and the context's error returned.
func (b *Buffer[T]) Send(ctx context.Context, v T) error {
	b.meter.Produced(1)
	select {
	case b.c <- v:
		return nil
	case <-ctx.Done():
		b.meter.Dropped(1)
		return ctx.Err()
	}
}

// All returns the values as they come, until the buffer is closed and empty.
func (b *Buffer[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range b.c {
			b.meter.Consumed(1)
			if !yield(v) {
				return
			}
		}
	}
}

// Len is the number of values in the buffer.
func (b *Buffer[T]) Len() int { return len(b.c) }

// Close says that nothing more comes. Sending to a closed buffer panics, as with a channel.
func (b *Buffer[T]) Close() { close(b.c) }
