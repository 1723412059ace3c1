package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrDisabled is the answer of Flush on a runtime that reports nothing any more.
var ErrDisabled = errors.New("sdk: reporting is disabled")

// launch runs once, at the first lane: it resolves the endpoint, puts the synchronous first question and starts the
// runtime's two goroutines.
func (rt *Runtime) launch() {
	rt.mu.Lock()
	if rt.closing {
		rt.mu.Unlock()
		return
	}
	if rt.sink != nil {
		rt.launchSink()
		rt.mu.Unlock()
		return
	}
	rt.endpoint = newEndpoint(rt.cfg)
	if rt.endpoint.client == nil {
		rt.want = verdict{state: StateDisabled, reason: rt.endpoint.reason}
		rt.mu.Unlock()
		return
	}
	rt.done = make(chan struct{})
	rt.mu.Unlock()

	defer rt.notify()
	first := verdict{state: StateDisconnected, reason: "not asked yet"}
	w := &worker{rt: rt}
	rt.protect(func() {
		if rt.endpoint.stated {
			ctx, cancel := context.WithTimeout(rt.ctx, rt.cfg.timing.firstPoll)
			first = rt.ask(ctx, "", 0)
			cancel()
		}
		rt.mu.Lock()
		if !rt.closing {
			rt.want = first
		}
		rt.mu.Unlock()
		if first.state == StateRecording {
			rt.begin(first)
			w.s = rt.cur
		}
	})

	var gateLoop sync.WaitGroup
	life, stop := context.WithCancel(rt.ctx)
	gateLoop.Go(func() { rt.protect(func() { rt.gateLoop(life, first) }) })
	go func() {
		rt.protect(w.run)
		stop()
		gateLoop.Wait()
		rt.cancel()
		rt.endpoint.client.Close()
		close(rt.done)
	}()
}

// fail switches the runtime off for good after an internal error and returns the recording that it was in. Records in
// rings are lost and stay counted as queued.
func (rt *Runtime) fail(reason string) (recording string) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.cur != nil {
		recording = rt.cur.id
	}
	rt.active.Store(0)
	rt.closing = true
	rt.want = verdict{state: StateDisabled, reason: reason}
	rt.stacks.Store(nil)
	for i := range rt.shards {
		rt.shards[i].acquire()
		rt.shards[i].ring = nil
		rt.shards[i].unlock()
	}
	rt.cancel()
	return recording
}

// Stats is a snapshot of the runtime's reporter.
func (rt *Runtime) Stats() ReporterStats {
	rt.init()
	var st ReporterStats
	rt.mu.Lock()
	v := rt.want
	if rt.cur != nil {
		st.RecordingID = rt.cur.id
	}
	rt.mu.Unlock()
	st.State, st.Reason = v.state, v.reason
	if v.state == "" {
		st.State, st.Reason = StateDisabled, "no lane yet"
	}
	c := &rt.counts
	st.Sent, st.Rejected, st.Dropped.Send = c.sent.Load(), c.rejected.Load(), c.droppedSend.Load()
	st.Requests, st.Retries = c.requests.Load(), c.retries.Load()
	st.Emitted = rt.contended.Load()
	st.Dropped.Other = st.Emitted
	for i := range rt.shards {
		sh := &rt.shards[i]
		sh.acquire()
		st.Emitted += sh.n
		st.Dropped.Full += sh.droppedFull
		st.Dropped.Other += sh.droppedOther
		sh.unlock()
	}
	if gone := st.Sent + st.Dropped.Full + st.Dropped.Send + st.Dropped.Other; gone < st.Emitted {
		st.Queued = st.Emitted - gone
	}
	return st
}

// Flush sends what is queued. It returns nil when everything recorded before the call was accepted, an error when some
// of it was given up or when ctx ended first. A runtime that is not recorded has nothing to flush.
func (rt *Runtime) Flush(ctx context.Context) error {
	rt.init()
	rt.mu.Lock()
	done, reason := rt.done, rt.want.reason
	rt.mu.Unlock()
	if done == nil {
		return nil
	}
	f := &flushRequest{done: make(chan error, 1)}
	select {
	case rt.flushes <- f:
	case <-done:
		return fmt.Errorf("%w: %s", ErrDisabled, reason)
	case <-ctx.Done():
		return fmt.Errorf("sdk: flush: %w", ctx.Err())
	}
	select {
	case err := <-f.done:
		return err
	case <-done:
		return fmt.Errorf("%w: %s", ErrDisabled, reason)
	case <-ctx.Done():
		return fmt.Errorf("sdk: flush: %w", ctx.Err())
	}
}

// Shutdown ends reporting for good: calls become no-ops, what is queued is sent, the recording is told that nothing
// follows, and the goroutines end. When ctx ends first, or after a few seconds without collector, the rest is given up
// and counted. Further calls wait for the first one's end.
func (rt *Runtime) Shutdown(ctx context.Context) error {
	rt.init()
	rt.mu.Lock()
	first := !rt.closing
	if first {
		rt.closing = true
		rt.active.Store(0)
		rt.want = verdict{state: StateDisabled, reason: "shut down"}
		if rt.cur != nil {
			rt.cur.end(rt.cfg.timing.drainTimeout)
		}
		select {
		case rt.changed <- struct{}{}:
		default:
		}
	}
	done := rt.done
	rt.mu.Unlock()
	if first {
		rt.notify()
	}
	if done == nil {
		return nil
	}
	before := rt.counts.droppedSend.Load()
	select {
	case <-done:
	case <-ctx.Done():
		rt.cancel()
		select {
		case <-done:
		case <-time.After(rt.cfg.timing.firstPoll):
			return fmt.Errorf("sdk: shutdown: %w", ctx.Err())
		}
	}
	if n := rt.counts.droppedSend.Load() - before; first && n > 0 {
		return fmt.Errorf("sdk: shutdown: %d records: %w", n, errGivenUp)
	}
	return nil
}
