package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stax-otel/stax/sdk/otlp"
)

// The worker is the runtime's second goroutine. It turns verdicts of the gate into sessions, drains the rings into
// export requests, and sends them one at a time: while a request is on its way or waits for a retry nothing is drained,
// so what a slow collector costs is ring space, and then the newest records, and never a caller's time.

// reporterCounts are the parts of [ReporterStats] that the worker writes.
type reporterCounts struct {
	sent, rejected, droppedSend, requests, retries atomic.Uint64
}

type flushRequest struct {
	done    chan error
	session *session
	targets []uint64 // ring heads at the request
	losses  uint64   // worker.losses at the request
}

// errGivenUp is the cause of a flush or shutdown that lost records.
var errGivenUp = errors.New("sdk: records were given up: the collector cannot be reached or refuses them")

type worker struct {
	rt      *Runtime
	s       *session
	p       *batch // on its way, or waiting for a retry
	waiters []*flushRequest
	losses  uint64 // batches and rings given up
	next    int    // shard to drain first
}

// batch is one built export request pair: logs first, then traces.
type batch struct {
	logs, traces []byte
	records      uint64
	final        bool
	logsDone     bool
	tries        int
	built        time.Time
	retryAt      time.Time
}

func (w *worker) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		w.apply(now)
		w.step()
		w.answer()
		if w.s == nil && w.closing() {
			return
		}
		pause := time.Hour
		switch {
		case w.s == nil:
		case w.p != nil:
			pause = max(time.Until(w.p.retryAt), 0)
		default:
			pause = w.rt.cfg.timing.drain
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-w.rt.wakeup:
		case <-w.rt.changed:
		case <-w.rt.ctx.Done():
		case f := <-w.rt.flushes:
			w.flush(f)
		}
	}
}

func (w *worker) closing() bool {
	w.rt.mu.Lock()
	defer w.rt.mu.Unlock()
	return w.rt.closing
}

// apply follows the gate's last word.
func (w *worker) apply(now time.Time) {
	rt := w.rt
	rt.mu.Lock()
	want, closing := rt.want, rt.closing
	s := w.s
	if s != nil && !s.detached {
		switch {
		case closing:
			s.end(rt.cfg.timing.drainTimeout)
		case want.state == StateDisconnected:
			if s.paused.IsZero() {
				s.paused = now
			}
			if now.Sub(s.paused) >= rt.cfg.timing.hold {
				s.end(0)
				s.cancel()
			}
		default:
			s.paused = time.Time{}
		}
	}
	rt.mu.Unlock()
	if s != nil && s.ending.Load() {
		rt.detach(s)
	}
	if w.s == nil && !closing && want.state == StateRecording {
		rt.begin(want)
		w.s = rt.cur
	}
}

// step builds and sends until the rings are empty or a retry is due later.
func (w *worker) step() {
	for w.s != nil {
		if w.s.ctx.Err() != nil {
			w.abandon()
			return
		}
		if w.p == nil {
			if w.p = w.build(time.Now()); w.p == nil {
				return
			}
		}
		if time.Now().Before(w.p.retryAt) {
			return
		}
		w.send()
		w.apply(time.Now())
	}
}

// send tries the pending batch once.
func (w *worker) send() {
	t, s, p := w.rt.cfg.timing, w.s, w.p
	ctx, cancel := context.WithTimeout(s.ctx, t.sendTimeout)
	defer cancel()
	res, err := w.post(ctx, p)
	if err == nil {
		c := &w.rt.counts
		c.requests.Add(1)
		c.sent.Add(p.records)
		if res.Rejected > 0 {
			c.rejected.Add(uint64(res.Rejected))
			diagRejected.addN(uint64(res.Rejected))
		}
		w.settle(false)
		return
	}
	var e *otlp.Error
	retry := errors.As(err, &e) && e.Retryable && s.ctx.Err() == nil
	if retry && s.paused.IsZero() && time.Since(p.built) > t.sendBudget {
		retry = false
	}
	if !retry {
		w.settle(true)
		return
	}
	pause := min(t.backoff<<min(p.tries, 10), t.maxBackoff)
	pause = max(pause, min(e.RetryAfter, t.maxBackoff))
	p.tries++
	p.retryAt = time.Now().Add(pause)
	w.rt.counts.retries.Add(1)
}

// post sends logs, then traces. A receiver that refuses the logs for good still gets the traces.
func (w *worker) post(ctx context.Context, p *batch) (otlp.Result, error) {
	c := w.rt.endpoint.client
	if len(p.logs) > 0 && !p.logsDone {
		res, err := c.Logs(ctx, p.logs)
		var e *otlp.Error
		if err != nil && (!errors.As(err, &e) || e.Retryable) {
			return otlp.Result{}, err
		}
		p.logsDone = true
		diagRejected.addN(uint64(res.Rejected))
	}
	return c.Traces(ctx, p.traces)
}

// settle closes the account of the pending batch.
func (w *worker) settle(lost bool) {
	s, p := w.s, w.p
	w.p = nil
	for i := range s.shards {
		a := &s.shards[i]
		if lost {
			a.droppedSend += a.inBatch
		}
		a.inBatch = 0
	}
	if lost {
		w.losses++
		w.rt.counts.droppedSend.Add(p.records)
		if !p.logsDone {
			s.enc.forget()
		}
	}
	if p.final {
		w.finish()
	}
}

// abandon gives up everything that the session still holds: its requests may no longer be sent.
func (w *worker) abandon() {
	s := w.s
	w.rt.mu.Lock()
	s.end(0)
	w.rt.mu.Unlock()
	w.rt.detach(s)
	if w.p != nil {
		w.p.final = false
		w.settle(true)
	}
	if n := s.discard(); n > 0 {
		w.losses++
		w.rt.counts.droppedSend.Add(n)
	}
	w.finish()
}

// finish ends the session: its buffers become garbage, its account stays.
func (w *worker) finish() {
	s := w.s
	s.cancel()
	for i := range s.shards {
		s.shards[i].ring = nil
	}
	s.enc, s.stacks = nil, nil
	w.rt.mu.Lock()
	w.rt.cur, w.rt.last = nil, s
	w.rt.mu.Unlock()
	w.s = nil
}

// flush notes what a caller waits for and makes the next step send at once.
func (w *worker) flush(f *flushRequest) {
	f.losses = w.losses
	if f.session = w.s; w.s != nil {
		w.rt.snapshot(w.s)
		for i := range w.s.shards {
			f.targets = append(f.targets, w.s.shards[i].head)
		}
		w.s.nextBeat = time.Time{}
	}
	w.waiters = append(w.waiters, f)
}

// answer tells the callers whose records are gone from the rings and from the pending batch.
func (w *worker) answer() {
	if len(w.waiters) == 0 {
		return
	}
	keep := w.waiters[:0]
	for _, f := range w.waiters {
		if f.session != nil && f.session == w.s && (w.p != nil || !f.reached()) {
			keep = append(keep, f)
			continue
		}
		var err error
		if w.losses != f.losses {
			err = errGivenUp
		}
		f.done <- err
	}
	clear(w.waiters[len(keep):])
	w.waiters = keep
}

func (f *flushRequest) reached() bool {
	for i := range f.session.shards {
		if r := f.session.shards[i].ring; r != nil && r.tail.Load() < f.targets[i] {
			return false
		}
	}
	return true
}

// build drains up to one request's worth of records. It returns nil when there is nothing to say.
func (w *worker) build(now time.Time) *batch {
	rt, s, t := w.rt, w.s, w.rt.cfg.timing
	rt.waking.Store(false)
	rt.snapshot(s)
	beat := !now.Before(s.nextBeat)
	if s.empty() && !beat && (!s.detached || rt.held(s, now)) {
		return nil
	}
	e := s.enc
	e.reset(now)
	news := !now.Before(s.nextNews)
	if news {
		s.nextNews = now.Add(t.heartbeat)
	}
	e.registrations(news)
	records := 0
	for i := range s.shards {
		k := (w.next + i) % len(s.shards)
		a := &s.shards[k]
		if a.ring == nil {
			continue
		}
		tail, side := a.ring.tail.Load(), a.ring.sideTail.Load()
		for tail != a.head && records < t.batchRecords && e.size() < t.batchBytes {
			r := &a.ring.recs[int(tail)&(len(a.ring.recs)-1)]
			ok := e.record(uint64(k), r, a.ring.sideBytes(side, int(r.side), &e.scratch))
			side += uint64(r.side)
			tail++
			if !ok {
				a.droppedSend++
				rt.counts.droppedSend.Add(1)
				continue
			}
			records++
			a.inBatch++
		}
		a.ring.sideTail.Store(side)
		a.ring.tail.Store(tail)
	}
	w.next = (w.next + 1) % len(s.shards)
	s.nextBeat = now.Add(t.heartbeat)
	p := &batch{records: uint64(records), built: now, final: s.detached && s.empty() && !rt.held(s, now)}
	p.logs = e.finishLogs()
	p.traces = e.finishTraces(p.final)
	return p
}

// sideBytes returns n side bytes at offset at, joined in scratch when they wrap.
func (r *ring) sideBytes(at uint64, n int, scratch *[]byte) []byte {
	i := int(at) & (len(r.side) - 1)
	if i+n <= len(r.side) {
		return r.side[i : i+n]
	}
	*scratch = append(append((*scratch)[:0], r.side[i:]...), r.side[:i+n-len(r.side)]...)
	return *scratch
}

// protect runs a goroutine of the runtime and switches the runtime off when it panics: the host program goes on.
func (rt *Runtime) protect(f func()) {
	defer func() {
		if r := recover(); r != nil {
			diagPanic.add()
			id := rt.fail(fmt.Sprintf("internal error: %v", r))
			rt.lastWords(id)
		}
	}()
	f()
}

// lastWords tells the recording that the runtime failed, if that still works.
func (rt *Runtime) lastWords(recording string) {
	defer func() { _ = recover() }()
	if recording == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rt.cfg.timing.drainTimeout)
	defer cancel()
	e := newEncoder(rt, &session{id: recording})
	e.reset(time.Now())
	e.diagnostics()
	_, _ = rt.endpoint.client.Logs(ctx, e.finishLogs())
}
