package cputrace

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/internal/link"
	"github.com/stax-otel/stax/sdk/otlp"
	"github.com/stax-otel/stax/sdk/semconv"
)

// session is this process's part in one recording. One goroutine runs the sources, another one sends; both end with it.
type session struct {
	target link.Target
	client *otlp.Client
	rec    sdk.Recording
	timing timing
	budget atomic.Int64 // permille
	hz     atomic.Int64 // of the running sampler; 0: not ours
	note   atomic.Pointer[string]

	queue   *queue
	buffers *bufferList
	release func() // of the hold on the recording's last word

	ending  sync.Once
	stop    chan struct{} // closed: the recording is over
	refused chan struct{} // closed: the receiver does not take profiles at all
	idle    chan struct{} // closed: no source runs any more and nothing is added to the queue
	done    chan struct{} // closed: all sent or given up
	ctx     context.Context
	cancel  context.CancelFunc
}

// newSession starts a session whose sources wait for those of the one before.
func newSession(t link.Target, r sdk.Recording, timing timing, before *session) *session {
	s := &session{
		target: t, client: t.Client(), rec: r, timing: timing, queue: newQueue(), buffers: &bufferList{},
		release: t.Hold(r.ID), stop: make(chan struct{}), refused: make(chan struct{}), idle: make(chan struct{}), done: make(chan struct{}),
	}
	s.setBudget(r.SampleBudgetPermille)
	s.ctx, s.cancel = context.WithCancel(t.Context())
	go s.protect(func() {
		defer close(s.idle)
		if before != nil {
			<-before.idle
		}
		s.run()
	})
	go s.protect(func() {
		defer close(s.done)
		defer s.release()
		defer s.cancel()
		s.send()
	})
	return s
}

// protect keeps a defect of ours from the host program.
func (s *session) protect(f func()) {
	defer func() {
		if recover() != nil {
			link.Tracing.Store(false)
			s.end()
		}
	}()
	f()
}

// end says that the recording is over. What is left may be sent for a moment longer.
func (s *session) end() {
	s.ending.Do(func() {
		close(s.stop)
		time.AfterFunc(s.timing.lastWords, s.cancel)
	})
}

func (s *session) setBudget(permille int) {
	if permille <= 0 {
		permille = defaultBudget
	}
	s.budget.Store(int64(permille))
}

func (s *session) stopping() bool {
	select {
	case <-s.stop:
		return true
	case <-s.refused:
		return true
	case <-s.ctx.Done():
		return true
	default:
		return false
	}
}

// outcome says why a source ended.
type outcome struct {
	state  string // stopped, reduced, refused
	reason string
}

// run keeps the best source that is possible running.
func (s *session) run() {
	backoff := s.timing.backoff
	told := ""
	for !s.stopping() {
		out := s.trace(backoff)
		pause := s.timing.refused
		switch out.state {
		case semconv.ProfileStateStopped:
			s.say(semconv.ProfileSourceGoExecTrace, out)
			return
		case semconv.ProfileStateReduced:
			pause, backoff = backoff, min(2*backoff, s.timing.maxBackoff)
		}
		if out.state == semconv.ProfileStateReduced || told != out.reason { // a refusal is told once
			told = out.reason
			s.say(semconv.ProfileSourceGoExecTrace, out)
		}
		s.profile(pause)
	}
	s.say(semconv.ProfileSourceGoExecTrace, outcome{semconv.ProfileStateStopped, "the recording of this process ended"})
}

// say tells the state of a source from now on.
func (s *session) say(source string, o outcome) {
	now := sdk.Now()
	s.queue.add(&entry{begin: now, end: now, source: source, state: o.state, reason: o.reason})
}

// trace runs the execution trace with CPU samples until the recording ends or the trace costs too much.
func (s *session) trace(backoff time.Duration) outcome {
	over := make(chan string, 1)
	w := newSplitter(s.buffers, s.watch(over, backoff))
	if err := trace.Start(w); err != nil {
		return outcome{semconv.ProfileStateRefused, "the program runs an execution trace of its own (" + err.Error() + "); a CPU profile alone is taken meanwhile"}
	}
	link.Tracing.Store(true)
	var sam *sampler
	defer func() {
		link.Tracing.Store(false)
		trace.Stop() // returns after the last write
		w.finish()
		if sam != nil {
			sam.stop()
		}
	}()
	tick := time.NewTicker(s.timing.check)
	defer tick.Stop()
	for {
		if sam != nil && sam.lost() {
			sam = nil
		}
		if sam == nil {
			sam = s.sample()
		}
		select {
		case <-tick.C:
		case reason := <-over:
			return outcome{semconv.ProfileStateReduced, reason}
		case <-s.stop:
			return outcome{semconv.ProfileStateStopped, "the recording of this process ended"}
		case <-s.refused:
			return outcome{semconv.ProfileStateStopped, "the receiver takes no profiles"}
		case <-s.ctx.Done():
			return outcome{semconv.ProfileStateStopped, "the runtime ended"}
		}
	}
}

// sample starts the CPU profiler, or notes that the program has it.
func (s *session) sample() *sampler {
	sam, err := startSampler(s.rec.SampleHz)
	if err != nil {
		s.hz.Store(0)
		text := err.Error() + ": its samples are used"
		s.note.Store(&text)
		return nil
	}
	s.hz.Store(int64(sam.hz))
	s.note.Store(nil)
	return sam
}

// watch returns what the splitter calls for each generation: it queues it and looks at its cost. It runs in the tracer's
// goroutine and does not block.
func (s *session) watch(over chan<- string, backoff time.Duration) func(*generation) {
	inRow := 0
	return func(g *generation) {
		e := &entry{
			begin: g.begin, end: g.end, source: semconv.ProfileSourceGoExecTrace, state: semconv.ProfileStateRunning,
			format: semconv.PayloadGoExecTrace, payload: g.data, hz: int(s.hz.Load()), costNanos: g.costNanos(), processCPU: g.processCPU,
		}
		if note := s.note.Load(); note != nil {
			e.reason = *note
		}
		if g.data == nil {
			l := e.loss(g.reason)
			l.lostBytes = g.bytes
			s.queue.add(l)
		} else {
			s.add(e)
		}
		reason := s.judge(g, backoff)
		if reason == "" {
			inRow = 0
			return
		}
		if inRow++; inRow == 2 {
			select {
			case over <- reason:
			default:
			}
		}
	}
}

// minJudged is how long a generation must be for its cost to count, in nanoseconds; they are of a second unless somebody,
// such as a flight recorder of the program, ends one early.
const minJudged = 200_000_000

// judge says in one sentence that a generation cost more than the budget, or nothing.
func (s *session) judge(g *generation, backoff time.Duration) string {
	wall := int64(max(g.end-g.begin, 1))
	if wall < minJudged {
		return "" // somebody else flushed the trace; the head of a generation weighs too much in so short a time
	}
	cost, of, what := g.costNanos(), g.processCPU, "processor time"
	if of <= 0 {
		of, what = wall, "time"
	}
	budget := s.budget.Load()
	if cost*1000 <= budget*of || cost <= int64(float64(s.timing.floor)*float64(wall)/1e9) {
		return ""
	}
	return fmt.Sprintf("the execution trace cost about %s of %s %s (%.0f %%) in %s, more than the budget of %s %%: a CPU profile alone goes on for %s",
		millis(cost), millis(of), what, 100*float64(cost)/float64(of), millis(wall), percent(budget), backoff)
}

func millis(ns int64) string { return fmt.Sprintf("%d ms", (ns+500_000)/1_000_000) }

func percent(permille int64) string { return fmt.Sprintf("%g", float64(permille)/10) }

// add queues a payload, or notes its loss.
func (s *session) add(e *entry) {
	if !s.queue.add(e) {
		s.queue.add(e.loss("the collector takes data too slowly or not at all"))
		s.buffers.put(e.payload)
	}
}

// profile runs a plain CPU profile in slices, for d or until the recording ends.
func (s *session) profile(d time.Duration) {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	refused := false
	for done := false; !done; {
		var buf boundedBuffer
		begin, cpu := sdk.Now(), processCPU()
		own := pprof.StartCPUProfile(&buf) == nil
		if !own && !refused {
			refused = true
			s.say(semconv.ProfileSourceGoCPUProfile, outcome{semconv.ProfileStateRefused, errProfilerTaken.Error()})
		}
		slice := time.NewTimer(s.timing.slice)
		select {
		case <-slice.C:
		case <-deadline.C:
			done = true
		case <-s.stop:
			done = true
		case <-s.refused:
			done = true
		case <-s.ctx.Done():
			done = true
		}
		slice.Stop()
		if !own {
			continue
		}
		refused = false
		pprof.StopCPUProfile()
		e := &entry{
			begin: begin, end: sdk.Now(), source: semconv.ProfileSourceGoCPUProfile, state: semconv.ProfileStateRunning,
			format: formatPprof, payload: buf.Bytes(), hz: portableHz, processCPU: max(processCPU()-cpu, 0),
		}
		if buf.dropped {
			e.payload = nil
			s.queue.add(e.loss("a CPU profile was larger than 8 MiB"))
			continue
		}
		s.add(e)
	}
}

// send delivers the queue until the sources have ended and it is empty, or until nothing may be sent any more.
func (s *session) send() {
	enc := newEncoder(s.target.Resource(s.rec.ID))
	var packed bytes.Buffer
	idle := (<-chan struct{})(s.idle)
	for {
		entries := s.queue.next()
		if len(entries) == 0 {
			if idle == nil {
				return
			}
			select {
			case <-s.queue.wake:
			case <-idle:
				idle = nil // once more: it may have been added before
			case <-s.ctx.Done():
				return
			}
			continue
		}
		last := entries[len(entries)-1]
		err := s.deliver(enc, &packed, entries)
		if s.ctx.Err() != nil {
			return
		}
		var e *otlp.Error
		switch {
		case err == nil:
			s.queue.drop(len(entries))
		case errors.As(err, &e) && unsupported(e.Status):
			close(s.refused)
			return
		default:
			// Notes that are refused alone would be refused for ever.
			forGood := e != nil && !e.Retryable && last.payload == nil
			s.queue.fail(len(entries), "the collector could not be reached or refused it", forGood)
		}
		s.buffers.put(last.payload)
	}
}

// unsupported reports whether the answer means that the receiver has no profiles.
func unsupported(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusUnsupportedMediaType:
		return true
	}
	return false
}

// deliver sends one request with retries.
func (s *session) deliver(enc *encoder, packed *bytes.Buffer, entries []*entry) error {
	body, gzipped := enc.request(entries), false
	if s.timing.compress || !s.client.Local() {
		packed.Reset()
		z, _ := gzip.NewWriterLevel(packed, gzip.BestSpeed) // the level is legal
		_, _ = z.Write(body)                                // a buffer takes everything
		_ = z.Close()
		body, gzipped = packed.Bytes(), true
	}
	begin := time.Now()
	for pause := s.timing.retry; ; pause = min(2*pause, s.timing.maxRetry) {
		ctx, cancel := context.WithTimeout(s.ctx, s.timing.sendTimeout)
		_, err := s.client.Profiles(ctx, body, gzipped)
		cancel()
		var e *otlp.Error
		if err == nil || !errors.As(err, &e) || !e.Retryable || time.Since(begin) > s.timing.sendBudget {
			return err
		}
		select {
		case <-time.After(max(pause, min(e.RetryAfter, s.timing.maxRetry))):
		case <-s.ctx.Done():
			return err
		}
	}
}
