package stage

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Mode says whether stages are timed.
type Mode uint8

// The modes.
const (
	// Off: wrappers return the very function that they are given. It cannot be switched on later.
	Off Mode = iota
	// On: every call is timed.
	On
	// Switchable: calls are timed while [Registry.SetEnabled] says so. It starts off.
	Switchable
)

// Options configures a [Registry]. The zero value does nothing and costs nothing.
type Options struct {
	// Mode switches the timing of stages.
	Mode Mode
	// Buffers switches the counting of buffers, which does not depend on Mode.
	Buffers bool
	// Clock replaces the monotonic clock: the time since any fixed origin. It is called from the stages' goroutines.
	Clock func() time.Duration
}

// A Registry holds the records of a program's pipelines. All methods may be called from any goroutine. A nil Registry is
// one that is Off.
type Registry struct {
	opt Options

	mu      sync.Mutex
	on      bool      // the timers have copies
	records []*Record // in the order in which they were made
}

// NewRegistry makes a registry.
func NewRegistry(o Options) *Registry {
	return &Registry{opt: o, on: o.Mode == On}
}

// SetEnabled switches the timing of a [Switchable] registry. Calls that are running keep the state that they began with.
// In other modes it does nothing.
func (g *Registry) SetEnabled(on bool) {
	if g == nil || g.opt.Mode != Switchable {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.on = on
	for _, r := range g.records {
		r.mu.Lock()
		for _, t := range r.stages {
			atomic.StoreUint32(&t.on, word(on))
		}
		r.mu.Unlock()
	}
}

func word(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

// Enabled reports whether calls that begin now are timed.
func (g *Registry) Enabled() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.on
}

// Record returns the record of that name, and makes it if there is none. A record is what flows through a pipeline, with
// all the stages that touch it.
func (g *Registry) Record(name string) *Record {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.records {
		if r.name == name {
			return r
		}
	}
	r := &Record{g: g, name: name}
	g.records = append(g.records, r)
	return r
}

// Reset starts the counts of all records anew.
func (g *Registry) Reset() {
	for _, r := range g.all() {
		r.Reset()
	}
}

// Snapshot reads all records in the order in which they were made.
func (g *Registry) Snapshot() []RecordSnapshot {
	all := []RecordSnapshot{}
	for _, r := range g.all() {
		all = append(all, r.Snapshot())
	}
	return all
}

func (g *Registry) all() []*Record {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.records)
}

// A Record holds the stages and buffers of one kind of value. A nil Record is one of a registry that is Off.
type Record struct {
	g    *Registry
	name string

	mu      sync.Mutex
	stages  []*timer
	buffers []*BufferMeter
}

// Name is the record's name.
func (r *Record) Name() string {
	if r == nil {
		return ""
	}
	return r.name
}

// Reset starts the counts of the record's stages and buffers anew. A call counts where it ends: one that is running
// belongs to the time after the reset, with its whole duration. One that ends at the very moment of the reset may be
// lost. What a buffer holds stays, and is counted as produced after the reset.
func (r *Record) Reset() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.stages {
		s.reset()
	}
	for _, b := range r.buffers {
		b.reset()
	}
}

// An Option describes a stage.
type Option func(*timer)

// Named names a stage.
func Named(name string) Option { return func(s *timer) { s.name = name } }

// Every declares how often a source delivers, for a source whose pace cannot be measured: one that its consumers hold
// back, or that is called only now and then. A declared interval overrules the measured one.
func Every(interval time.Duration) Option { return func(s *timer) { s.declared = interval } }

// stage registers a stage, or returns nil while the registry is off.
func (r *Record) stage(k Kind, options []Option) *timer {
	if r == nil || r.g.opt.Mode == Off {
		return nil
	}
	s := newTimer(r.g, k)
	for _, o := range options {
		o(s)
	}
	r.g.mu.Lock() // before r.mu, as in SetEnabled
	defer r.g.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	atomic.StoreUint32(&s.on, word(r.g.on))
	for _, other := range r.stages {
		if other.kind == k {
			s.index++
		}
	}
	r.stages = append(r.stages, s)
	return s
}
