package stage

import (
	"context"
	"iter"
	"sync/atomic"
)

// Source wraps a function that produces one value per call. Its time is the time that the value takes to come.
func Source[T any](r *Record, f func() T, o ...Option) func() T {
	return produce(r.stage(KindSource, o), f)
}

// SourceErr is [Source] for a function that can fail.
func SourceErr[T any](r *Record, f func() (T, error), o ...Option) func() (T, error) {
	return produceErr(r.stage(KindSource, o), f)
}

// SourceCtx is [Source] for a function that takes a context and can fail.
func SourceCtx[T any](r *Record, f func(context.Context) (T, error), o ...Option) func(context.Context) (T, error) {
	s := r.stage(KindSource, o)
	if s == nil {
		return f
	}
	return func(ctx context.Context) (T, error) {
		if atomic.LoadUint32(&s.on) != 0 {
			return timedSourceCtx(ctx, s, f)
		}
		return f(ctx)
	}
}

// SourceSeq wraps an iterator that produces values. The time of a value is the time that the iterator runs for it: from
// the end of the loop's body before it to the begin of its own. The search that finds the end is not counted.
func SourceSeq[T any](r *Record, seq iter.Seq[T], o ...Option) iter.Seq[T] {
	s := r.stage(KindSource, o)
	if s == nil {
		return seq
	}
	return func(yield func(T) bool) {
		var c call
		running, ended := false, false // ended: the iterator returned by itself
		begin := func() {
			if running = atomic.LoadUint32(&s.on) != 0; running {
				c = call{s: s, start: s.begin()}
			}
		}
		defer func() {
			switch {
			case !running:
			case ended:
				c.cancel()
			default:
				c.end() // aborted
			}
		}()
		begin()
		seq(func(v T) bool {
			if running {
				c.returned = true
				c.end()
				running = false
			}
			if !yield(v) {
				return false
			}
			begin()
			return true
		})
		ended = true
	}
}

// SourceChan is [SourceSeq] for a channel: the time of a value is the time that the receiver waits for it.
func SourceChan[T any](r *Record, c <-chan T, o ...Option) iter.Seq[T] {
	return SourceSeq(r, values(c), o...)
}

// Tap wraps a function that consumes values.
func Tap[T any](r *Record, f func(T), o ...Option) func(T) {
	return consume(r.stage(KindTap, o), f)
}

// TapErr is [Tap] for a function that can fail.
func TapErr[T any](r *Record, f func(T) error, o ...Option) func(T) error {
	return mapOne(r.stage(KindTap, o), f, isError)
}

// TapCtx is [Tap] for a function that takes a context and can fail.
func TapCtx[T any](r *Record, f func(context.Context, T) error, o ...Option) func(context.Context, T) error {
	return consumeCtx(r.stage(KindTap, o), f)
}

// TapSeq makes the body of a range loop a tap:
//
//	for frame := range stage.TapSeq(frames, incoming) { ... }
func TapSeq[T any](r *Record, seq iter.Seq[T], o ...Option) iter.Seq[T] {
	return body(r.stage(KindTap, o), seq)
}

// TapChan is [TapSeq] for the values of a channel until it is closed.
func TapChan[T any](r *Record, c <-chan T, o ...Option) iter.Seq[T] {
	return TapSeq(r, values(c), o...)
}

// Link wraps a function that hands values to another system.
func Link[T any](r *Record, f func(T), o ...Option) func(T) {
	return consume(r.stage(KindLink, o), f)
}

// LinkErr is [Link] for a function that can fail.
func LinkErr[T any](r *Record, f func(T) error, o ...Option) func(T) error {
	return mapOne(r.stage(KindLink, o), f, isError)
}

// LinkCtx is [Link] for a function that takes a context and can fail.
func LinkCtx[T any](r *Record, f func(context.Context, T) error, o ...Option) func(context.Context, T) error {
	return consumeCtx(r.stage(KindLink, o), f)
}

// LinkSeq makes the body of a range loop a link.
func LinkSeq[T any](r *Record, seq iter.Seq[T], o ...Option) iter.Seq[T] {
	return body(r.stage(KindLink, o), seq)
}

// LinkChan is [LinkSeq] for the values of a channel until it is closed.
func LinkChan[T any](r *Record, c <-chan T, o ...Option) iter.Seq[T] {
	return LinkSeq(r, values(c), o...)
}

// Transform wraps a function that makes a value of another one.
func Transform[I, O any](r *Record, f func(I) O, o ...Option) func(I) O {
	return mapOne(r.stage(KindTransform, o), f, nil)
}

// TransformErr is [Transform] for a function that can fail.
func TransformErr[I, O any](r *Record, f func(I) (O, error), o ...Option) func(I) (O, error) {
	return mapErr(r.stage(KindTransform, o), f)
}

// TransformCtx is [Transform] for a function that takes a context and can fail.
func TransformCtx[I, O any](r *Record, f func(context.Context, I) (O, error), o ...Option) func(context.Context, I) (O, error) {
	return mapCtx(r.stage(KindTransform, o), f)
}

// TransformSeq applies f, as a transform, to the values of an iterator.
func TransformSeq[I, O any](r *Record, seq iter.Seq[I], f func(I) O, o ...Option) iter.Seq[O] {
	f = Transform(r, f, o...)
	return func(yield func(O) bool) {
		for v := range seq {
			if !yield(f(v)) {
				return
			}
		}
	}
}

// TransformChan is [TransformSeq] for the values of a channel until it is closed.
func TransformChan[I, O any](r *Record, c <-chan I, f func(I) O, o ...Option) iter.Seq[O] {
	return TransformSeq(r, values(c), f, o...)
}

func isError(err error) bool { return err != nil }

// Each wrapper is two functions: a small one that only asks whether the stage is on, so that off costs a load and a
// branch, and a timed one with the deferred end.

func produce[T any](s *timer, f func() T) func() T {
	if s == nil {
		return f
	}
	return func() T {
		if atomic.LoadUint32(&s.on) != 0 {
			return timedProduce(s, f)
		}
		return f()
	}
}

//go:noinline
func timedProduce[T any](s *timer, f func() T) T {
	c := call{s: s, start: s.begin()}
	defer c.end()
	v := f()
	c.returned = true
	return v
}

func produceErr[T any](s *timer, f func() (T, error)) func() (T, error) {
	if s == nil {
		return f
	}
	return func() (T, error) {
		if atomic.LoadUint32(&s.on) != 0 {
			return timedProduceErr(s, f)
		}
		return f()
	}
}

//go:noinline
func timedProduceErr[T any](s *timer, f func() (T, error)) (T, error) {
	c := call{s: s, start: s.begin()}
	defer c.end()
	v, err := f()
	c.returned, c.failed = true, err != nil
	return v, err
}

func consume[T any](s *timer, f func(T)) func(T) {
	if s == nil {
		return f
	}
	return func(v T) {
		if atomic.LoadUint32(&s.on) != 0 {
			timedConsume(s, f, v)
			return
		}
		f(v)
	}
}

//go:noinline
func timedConsume[T any](s *timer, f func(T), v T) {
	c := call{s: s, start: s.begin()}
	defer c.end()
	f(v)
	c.returned = true
}

// mapOne wraps a function with one result. failed, if not nil, tells whether the result is an error.
func mapOne[I, O any](s *timer, f func(I) O, failed func(O) bool) func(I) O {
	if s == nil {
		return f
	}
	return func(v I) O {
		if atomic.LoadUint32(&s.on) != 0 {
			return timedMapOne(s, f, failed, v)
		}
		return f(v)
	}
}

//go:noinline
func timedMapOne[I, O any](s *timer, f func(I) O, failed func(O) bool, v I) O {
	c := call{s: s, start: s.begin()}
	defer c.end()
	out := f(v)
	c.returned, c.failed = true, failed != nil && failed(out)
	return out
}

func mapErr[I, O any](s *timer, f func(I) (O, error)) func(I) (O, error) {
	if s == nil {
		return f
	}
	return func(v I) (O, error) {
		if atomic.LoadUint32(&s.on) != 0 {
			return timedMapErr(s, f, v)
		}
		return f(v)
	}
}

//go:noinline
func timedMapErr[I, O any](s *timer, f func(I) (O, error), v I) (O, error) {
	c := call{s: s, start: s.begin()}
	defer c.end()
	out, err := f(v)
	c.returned, c.failed = true, err != nil
	return out, err
}

func consumeCtx[T any](s *timer, f func(context.Context, T) error) func(context.Context, T) error {
	if s == nil {
		return f
	}
	return func(ctx context.Context, v T) error {
		if atomic.LoadUint32(&s.on) != 0 {
			return timedConsumeCtx(ctx, s, f, v)
		}
		return f(ctx, v)
	}
}

//go:noinline
func timedConsumeCtx[T any](ctx context.Context, s *timer, f func(context.Context, T) error, v T) error {
	c := call{s: s, start: s.begin()}
	defer c.end()
	err := f(ctx, v)
	c.returned, c.failed = true, err != nil
	return err
}

func mapCtx[I, O any](s *timer, f func(context.Context, I) (O, error)) func(context.Context, I) (O, error) {
	if s == nil {
		return f
	}
	return func(ctx context.Context, v I) (O, error) {
		if atomic.LoadUint32(&s.on) != 0 {
			return timedMapCtx(ctx, s, f, v)
		}
		return f(ctx, v)
	}
}

//go:noinline
func timedMapCtx[I, O any](ctx context.Context, s *timer, f func(context.Context, I) (O, error), v I) (O, error) {
	c := call{s: s, start: s.begin()}
	defer c.end()
	out, err := f(ctx, v)
	c.returned, c.failed = true, err != nil
	return out, err
}

//go:noinline
func timedSourceCtx[T any](ctx context.Context, s *timer, f func(context.Context) (T, error)) (T, error) {
	c := call{s: s, start: s.begin()}
	defer c.end()
	v, err := f(ctx)
	c.returned, c.failed = true, err != nil
	return v, err
}

// body times the body of the loop that ranges over the result.
func body[T any](s *timer, seq iter.Seq[T]) iter.Seq[T] {
	if s == nil {
		return seq
	}
	return func(yield func(T) bool) { seq(mapOne(s, yield, nil)) }
}

func values[T any](c <-chan T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for v := range c {
			if !yield(v) {
				return
			}
		}
	}
}
