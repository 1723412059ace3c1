package cputrace

import (
	"sync"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/internal/link"
)

// defaultBudget is the share of the process's processor time that the trace may cost, in thousandths, when the recording
// names none.
const defaultBudget = 50

// Options configures [Enable]. The zero Options are right for most programs.
type Options struct {
	// Runtime is the runtime whose recording decides. nil: the default runtime.
	Runtime *sdk.Runtime

	timing timing // changed by tests
}

// timing holds the intervals, so that tests can shorten them. Zero fields take the defaults.
type timing struct {
	slice       time.Duration // of the CPU profile that replaces the trace
	check       time.Duration // between looks at the sampler
	backoff     time.Duration // before the trace that cost too much is tried again; doubles
	maxBackoff  time.Duration
	refused     time.Duration // before the trace that the program kept from us is tried again
	sendTimeout time.Duration // of one request
	sendBudget  time.Duration // of one payload with all retries
	retry       time.Duration // first pause between retries; doubles
	maxRetry    time.Duration
	lastWords   time.Duration // for everything left after the recording ended
	floor       int64         // ns of trace cost per second that are never too much
	compress    bool          // for a receiver on this machine, too
}

func (t timing) withDefaults() timing {
	d := func(v *time.Duration, def time.Duration) {
		if *v <= 0 {
			*v = def
		}
	}
	d(&t.slice, 5*time.Second)
	d(&t.check, time.Second)
	d(&t.backoff, 30*time.Second)
	d(&t.maxBackoff, 10*time.Minute)
	d(&t.refused, 10*time.Second)
	d(&t.sendTimeout, 5*time.Second)
	d(&t.sendBudget, 30*time.Second)
	d(&t.retry, 100*time.Millisecond)
	d(&t.maxRetry, 5*time.Second)
	d(&t.lastWords, 1500*time.Millisecond)
	if t.floor <= 0 {
		t.floor = 20_000_000
	}
	return t
}

// Enable makes the process deliver CPU samples, waits and exact origins to every recording of the runtime that wants
// samples. It starts the runtime as its first lane would. Further calls for the same runtime share the first one's work
// and options.
//
// stop undoes it: it returns when a running trace has ended and its data was sent or given up, after 2 seconds at most.
// It may be called more than once and from any goroutine. A program that shuts its runtime down needs no stop:
// [sdk.Shutdown] ends and delivers the trace. [sdk.Flush] does not wait for the trace.
func Enable(o Options) (stop func()) {
	enabledMu.Lock()
	defer enabledMu.Unlock()
	d := enabled[o.Runtime]
	if d == nil {
		d = &driver{target: link.Of(o.Runtime), timing: o.timing.withDefaults()}
		d.subscribe(o.Runtime)
		enabled[o.Runtime] = d
	}
	d.users++
	var once sync.Once
	return func() { once.Do(func() { release(o.Runtime) }) }
}

// enabled are the drivers by runtime; nil is the default runtime.
var (
	enabledMu sync.Mutex
	enabled   = map[*sdk.Runtime]*driver{}
)

func release(rt *sdk.Runtime) {
	enabledMu.Lock()
	d := enabled[rt]
	if d.users--; d.users > 0 {
		enabledMu.Unlock()
		return
	}
	delete(enabled, rt)
	enabledMu.Unlock()
	d.cancel()
	if s := d.cur; s != nil { // nobody else uses it any more
		s.end()
		limit := time.After(2 * time.Second)
		for _, ended := range []<-chan struct{}{s.idle, s.done} {
			select {
			case <-ended:
			case <-limit:
				return
			}
		}
	}
}

// driver follows the recordings of one runtime. hear is never called twice at a time.
type driver struct {
	target link.Target
	timing timing
	users  int
	cancel func()
	cur    *session
}

func (d *driver) subscribe(rt *sdk.Runtime) {
	if rt == nil {
		d.cancel = sdk.Subscribe(d.hear)
		return
	}
	d.cancel = rt.Subscribe(d.hear)
}

// hear takes a change of the recording. It returns at once: sources start and stop in the session's goroutine.
func (d *driver) hear(r sdk.Recording) {
	if s := d.cur; s != nil {
		if s.rec.ID == r.ID && s.rec.SampleHz == r.SampleHz {
			s.setBudget(r.SampleBudgetPermille)
			return
		}
		s.end()
	}
	if r.ID == "" || r.SampleHz == 0 || d.target.Client() == nil {
		return // d.cur stays: the next session waits for its sources
	}
	d.cur = newSession(d.target, r, d.timing, d.cur)
}
