package timeline

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// loop is a tick loop of the shape that the overhead is measured with: at most 0.35 ms of work per tick in many
// systems, and a command queue with many commands per tick.
type loop struct {
	rec     *Recorder
	meter   *QueueMeter
	queue   []uint32
	systems []*busySystem
	steps   FixedStep
	drain   func()
	sum     uint64
}

type busySystem struct {
	id    string
	state uint64
	n     int
	run   func() error
}

const (
	loopSystems  = 24
	loopCommands = 256
	loopTicks    = 320
)

// newLoop makes a loop. A nil recorder is a loop that was never instrumented.
func newLoop(o *Options) *loop {
	l := &loop{steps: FixedStep{Step: ms}}
	for i := range loopSystems {
		s := &busySystem{id: fmt.Sprint("system ", i), state: uint64(i), n: 10000}
		s.run = func() error {
			x := s.state
			for range s.n {
				x = x*6364136223846793005 + 1442695040888963407
			}
			s.state = x
			return nil
		}
		l.systems = append(l.systems, s)
	}
	if o != nil {
		l.meter = NewQueueMeter(func() int64 { return int64(len(l.queue)) })
		o.Queue = l.meter
		l.rec = New(*o)
	}
	l.drain = func() {
		for _, c := range l.queue {
			l.sum += uint64(c)
		}
		l.meter.Drained(int64(len(l.queue)))
		l.queue = l.queue[:0]
	}
	return l
}

// plain is a tick without any instrumentation.
func (l *loop) plain() {
	for c := range uint32(loopCommands) {
		l.queue = append(l.queue, c)
	}
	for _, c := range l.queue {
		l.sum += uint64(c)
	}
	l.queue = l.queue[:0]
	for _, s := range l.systems {
		_ = s.run()
	}
}

func (l *loop) tick() {
	for c := range uint32(loopCommands) {
		l.queue = append(l.queue, c)
		if c%16 == 0 { // commands come in batches
			l.meter.Accepted(16)
		}
	}
	l.steps.Frame(ms)
	l.rec.BeginTick(l.steps.Begin())
	l.rec.CapturePhase(PhaseCommands, l.drain)
	for _, s := range l.systems {
		_ = l.rec.CaptureSystem(s.id, s.run)
	}
	l.rec.EndTick(TickEnd{LagAfter: l.steps.End()})
}

// TestNoAllocations pins what a tick allocates after the first lap of the ring: nothing.
func TestNoAllocations(t *testing.T) {
	bus := &fakeBus{channels: []ChannelPressure{{Channel: "a", Capacity: 10, InUse: 9}}}
	for name, o := range map[string]*Options{
		"enabled":  {Enabled: true, Capacity: 16},
		"disabled": {},
		"everything": {
			Enabled: true, Capacity: 16, Events: bus, SlowSystemThreshold: 1, SlowTickBudget: 1, Stall: 1, Telemetry: noTelemetry{},
			Sink: noSink{}, SystemLabels: []string{"system 1"},
		},
	} {
		l := newLoop(o)
		run := func() {
			bus.channels[0].Published++
			l.rec.AddPhase("flush", 1)
			l.tick()
		}
		for range 40 {
			run()
		}
		if n := testing.AllocsPerRun(200, run); n != 0 {
			t.Errorf("%s: %v allocations per tick, want 0", name, n)
		}
	}
}

type noTelemetry struct{}

func (noTelemetry) TickOverBudget(TickOverBudget) {}
func (noTelemetry) SystemSlow(SystemSlowWarning)  {}

type noSink struct{}

func (noSink) BeginTick() bool           { return true }
func (noSink) EndTick(*Entry, time.Time) {}

// BenchmarkSeedShape runs 320 ticks each of four loops, one of each in turn, and reports what recording adds per tick,
// and the ratios of the times to those of a loop without instrumentation: of the means, and of the 10th percentiles,
// which are what the program itself needs where others share the cores. One iteration is one such round.
func BenchmarkSeedShape(b *testing.B) {
	loops := []*loop{newLoop(nil), newLoop(nil), newLoop(&Options{}), newLoop(&Options{Enabled: true})}
	var took [4][]float64 // ns per tick
	round := func() {
		for range loopTicks {
			for i, l := range loops {
				f := l.tick
				if i == 0 {
					f = l.plain
				}
				start := time.Now()
				f()
				took[i] = append(took[i], float64(time.Since(start).Nanoseconds()))
			}
		}
	}
	for range 3 {
		round()
	}
	took = [4][]float64{}
	for b.Loop() {
		round()
	}
	var low, means [4]float64
	for i, s := range took {
		slices.Sort(s)
		low[i] = s[len(s)/10]
		for _, v := range s {
			means[i] += v / float64(len(s))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(low[0]/1000, "plain-µs")
	for i, name := range []string{"", "nil", "disabled", "enabled"} {
		if i > 0 {
			b.ReportMetric(low[i]-low[0], name+"-ns")
			b.ReportMetric(low[i]/low[0], name+"-p10")
			b.ReportMetric(means[i]/means[0], name+"-mean")
		}
	}
}

// BenchmarkTick is the recorder alone: a commands phase and 24 systems that do nothing.
func BenchmarkTick(b *testing.B) {
	for _, tc := range []struct {
		name string
		o    *Options
	}{{"nil", nil}, {"disabled", &Options{}}, {"enabled", &Options{Enabled: true}}} {
		b.Run(tc.name, func(b *testing.B) {
			l := newLoop(tc.o)
			nothing := func() error { return nil }
			b.ReportAllocs()
			for b.Loop() {
				l.rec.BeginTick(TickStart{})
				l.rec.CapturePhase(PhaseCommands, l.drain)
				for _, s := range l.systems {
					_ = l.rec.CaptureSystem(s.id, nothing)
				}
				l.rec.EndTick(TickEnd{})
			}
		})
	}
}

func BenchmarkReadDelta(b *testing.B) {
	l := newLoop(&Options{Enabled: true})
	for range 600 {
		l.tick()
	}
	b.ReportAllocs()
	for b.Loop() {
		l.rec.ReadDelta(0)
	}
}
