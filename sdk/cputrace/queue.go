package cputrace

import (
	"sync"

	"github.com/stax-otel/stax/sdk/semconv"
)

// queue holds what is to be sent, in order and bounded: payloads that find no room are given up and leave a note. Notes
// always find room, because equal ones are merged.
type queue struct {
	mu       sync.Mutex
	entries  []*entry
	payloads int
	bytes    int
	sending  int // entries at the front that are being sent: nothing is merged into them
	wake     chan struct{}
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

const maxNotes = 256

// add never blocks. It reports false for a payload that found no room.
func (q *queue) add(e *entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.signal()
	if e.payload != nil {
		if q.payloads >= maxQueued || q.bytes+len(e.payload) > maxQueuedBytes {
			return false
		}
		q.payloads++
		q.bytes += len(e.payload)
	} else if n := len(q.entries); n > q.sending && (n >= maxNotes || q.entries[n-1].merges(e)) {
		q.entries[n-1].merge(e)
		return true
	}
	q.entries = append(q.entries, e)
	return true
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next returns the first payload with the notes before it, or all notes. They stay in the queue until drop.
func (q *queue) next() []*entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sending = len(q.entries)
	for i, e := range q.entries {
		if e.payload != nil {
			q.sending = i + 1
			break
		}
	}
	return append([]*entry(nil), q.entries[:q.sending]...)
}

// drop removes the first n entries.
func (q *queue) drop(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries[:n] {
		if e.payload != nil {
			q.payloads--
			q.bytes -= len(e.payload)
		}
	}
	q.entries = append(q.entries[:0], q.entries[n:]...)
	q.sending = 0
}

// fail gives up the payload among the first n entries, of which a note remains. Notes stay in the queue, unless they
// were refused for themselves.
func (q *queue) fail(n int, reason string, refused bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var keep []*entry
	note := func(e *entry) {
		if k := len(keep); k > 0 && keep[k-1].merges(e) {
			keep[k-1].merge(e)
			return
		}
		keep = append(keep, e)
	}
	for _, e := range q.entries[:n] {
		switch {
		case e.payload != nil:
			q.payloads--
			q.bytes -= len(e.payload)
			note(e.loss(reason))
		case !refused:
			note(e)
		}
	}
	for _, e := range q.entries[n:] {
		note(e)
	}
	q.entries, q.sending = keep, 0
}

// merges reports whether two losses can be told as one.
func (e *entry) merges(o *entry) bool {
	return e.payload == nil && o.payload == nil && e.state == semconv.ProfileStateLost && o.state == e.state &&
		e.source == o.source && e.reason == o.reason
}

func (e *entry) merge(o *entry) {
	e.begin, e.end = min(e.begin, o.begin), max(e.end, o.end)
	e.costNanos += o.costNanos
	e.processCPU += o.processCPU
	e.lostBytes += o.lostBytes
	e.generations += o.generations
}

// loss is the note that remains of a payload that was given up.
func (e *entry) loss(reason string) *entry {
	return &entry{
		begin: e.begin, end: e.end, source: e.source, state: semconv.ProfileStateLost, reason: reason,
		costNanos: e.costNanos, processCPU: e.processCPU, lostBytes: int64(len(e.payload)), generations: 1,
	}
}
