package sdk

import (
	"slices"
	"sync/atomic"
)

// Recording is what a recording wants of this process. The zero Recording, whose ID is empty, means that nothing
// records it now.
type Recording struct {
	ID                   string     // empty: not recorded
	SampleHz             int        // wanted CPU samples per second and thread; 0: none
	SampleBudgetPermille int        // thousandths of the process's own CPU time that sampling may cost; 0: the sampler's default
	OriginMode           OriginMode // the dearest kind of origin that it wants
	StopAt               Time       // when it will stop by itself; 0: unknown
	Timelines            []string   // subscribed diagnostic timelines; read only
	StageResetEpoch      uint64     // grows with each reset of stages
}

func (r Recording) equal(o Recording) bool {
	return r.ID == o.ID && r.SampleHz == o.SampleHz && r.SampleBudgetPermille == o.SampleBudgetPermille &&
		r.OriginMode == o.OriginMode && r.StopAt == o.StopAt && r.StageResetEpoch == o.StageResetEpoch &&
		slices.Equal(r.Timelines, o.Timelines)
}

type subscriber struct {
	fn   func(Recording)
	last Recording
	gone atomic.Bool
}

// Subscribe is [Runtime.Subscribe] for the default runtime.
func Subscribe(fn func(Recording)) (cancel func()) { return std.Subscribe(fn) }

// Subscribe calls fn with the recording of this process at once, before it returns, and then whenever it changes. It
// starts the runtime as the first lane does, with the same first question to the gate.
//
// fn is called by one goroutine at a time, mostly the one that asks the gate, so it should return soon; it must not
// call Subscribe, cancel or Shutdown of the same runtime. A panic of fn ends its subscription. Shutdown tells fn the
// zero Recording. After cancel has returned fn is not called any more.
func (rt *Runtime) Subscribe(fn func(Recording)) (cancel func()) {
	rt.init()
	rt.launchOnce.Do(rt.launch)
	s := &subscriber{fn: fn}
	rt.subMu.Lock()
	defer rt.subMu.Unlock()
	rt.subs = append(rt.subs, s)
	s.tell(rt.recording())
	return func() {
		s.gone.Store(true)
		rt.subMu.Lock()
		defer rt.subMu.Unlock()
		rt.subs = slices.DeleteFunc(rt.subs, func(o *subscriber) bool { return o == s })
	}
}

// recording is the gate's last word for subscribers.
func (rt *Runtime) recording() Recording {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closing || rt.sink != nil || rt.want.state != StateRecording {
		return Recording{}
	}
	r := rt.want.reply
	return Recording{
		ID: r.RecordingID, SampleHz: max(r.SampleHz, 0), SampleBudgetPermille: max(r.SampleBudgetPermille, 0),
		OriginMode: rt.want.originMode(), StopAt: Time(r.StopAtUnixNano), Timelines: r.Timelines, StageResetEpoch: r.StageResetEpoch,
	}
}

// notify tells subscribers what changed. It must not be called with rt.mu held.
func (rt *Runtime) notify() {
	rt.subMu.Lock()
	defer rt.subMu.Unlock()
	if len(rt.subs) == 0 {
		return
	}
	now := rt.recording()
	for _, s := range rt.subs {
		if !s.last.equal(now) {
			s.tell(now)
		}
	}
}

func (s *subscriber) tell(r Recording) {
	if s.gone.Load() {
		return
	}
	defer func() {
		if recover() != nil {
			diagPanic.add()
			s.gone.Store(true)
		}
	}()
	s.last = r
	s.fn(r)
}
