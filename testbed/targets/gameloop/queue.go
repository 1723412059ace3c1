package main

import "github.com/stax-otel/stax/sdk/timeline"

// command is what a player or a script asks for.
type command struct {
	Kind   string `json:"kind"`
	Amount int64  `json:"amount"`
}

// commandQueue is a bounded queue that tells the recorder what happens to it. It belongs to the loop's goroutine.
type commandQueue struct {
	waiting []command
	meter   *timeline.QueueMeter
}

const queueCapacity = 32

func newCommandQueue() *commandQueue {
	q := &commandQueue{}
	q.meter = timeline.NewQueueMeter(func() int64 { return int64(len(q.waiting)) })
	return q
}

// put takes a command, refuses nonsense, and throws away what does not fit.
func (q *commandQueue) put(c command) {
	switch {
	case c.Amount == 0:
		q.meter.Rejected(1)
	case len(q.waiting) >= queueCapacity:
		q.meter.Accepted(1)
		q.meter.Dropped(1)
	default:
		q.waiting = append(q.waiting, c)
		q.meter.Accepted(1)
	}
}

// drain takes everything out.
func (q *commandQueue) drain(execute func(command)) {
	for _, c := range q.waiting {
		execute(c)
	}
	q.meter.Drained(int64(len(q.waiting)))
	q.waiting = q.waiting[:0]
}
