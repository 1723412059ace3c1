package sdk

import "time"

// timing holds every interval of the runtime, so that tests can shorten them. Zero fields take the defaults.
type timing struct {
	drain        time.Duration // between drains of the rings
	heartbeat    time.Duration // between heartbeats and clock samples when nothing else is sent
	poll         time.Duration // the gate's long poll, and the least time between two equal answers
	firstPoll    time.Duration // the synchronous first question
	pollRetry    time.Duration // after the gate could not be reached
	grace        time.Duration // without gate before a recorded runtime goes off
	hold         time.Duration // without gate before the queued records of its recording are given up
	sendTimeout  time.Duration // of one export request
	sendBudget   time.Duration // of one batch with all its retries, while the gate says that it is recorded
	backoff      time.Duration // first pause between retries; doubles
	maxBackoff   time.Duration // longest pause, also for Retry-After
	drainTimeout time.Duration // for the last batches after the recording ended
	holdTimeout  time.Duration // of these, how long the last word waits for what others still send
	segmentAge   time.Duration // of one lane segment
	segmentSpans int           // of one lane segment
	batchRecords int           // in one export request
	batchBytes   int           // in one export request, about
}

func (t timing) withDefaults() timing {
	d := func(v *time.Duration, def time.Duration) {
		if *v <= 0 {
			*v = def
		}
	}
	n := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	d(&t.drain, 50*time.Millisecond)
	d(&t.heartbeat, time.Second)
	d(&t.poll, time.Second)
	d(&t.firstPoll, 50*time.Millisecond)
	d(&t.pollRetry, 500*time.Millisecond)
	d(&t.grace, time.Second)
	d(&t.hold, 10*time.Second)
	d(&t.sendTimeout, 5*time.Second)
	d(&t.sendBudget, 30*time.Second)
	d(&t.backoff, 100*time.Millisecond)
	d(&t.maxBackoff, 5*time.Second)
	d(&t.drainTimeout, 2*time.Second)
	t.holdTimeout = t.drainTimeout * 3 / 4
	d(&t.segmentAge, time.Second)
	n(&t.segmentSpans, 4998) // with its root, under 5000
	n(&t.batchRecords, 4096)
	n(&t.batchBytes, 1<<20)
	return t
}
