package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/stax-otel/stax/sdk/timeline"
)

// game is the simulation. What happens in it depends on its commands and the number of the tick only, never on time.
type game struct {
	queue *commandQueue
	bus   *eventBus
	steps timeline.FixedStep
	rec   *timeline.Recorder
	spend func(time.Duration) // does nothing useful for so long

	tick    int64
	systems []system
	world   int64 // all that the commands and events came to
	panics  int64
}

type system struct {
	id    string
	every int64
	run   func() error
}

// newGame makes a game. The options get the game's queue and bus.
func newGame(o timeline.Options, spend func(time.Duration)) *game {
	g := &game{queue: newCommandQueue(), bus: newEventBus(), steps: timeline.FixedStep{Step: step, MaxSteps: maxSteps}, spend: spend}
	g.systems = []system{
		{"physics", 1, g.physics},
		{"ai", 1, g.ai},
		{"economy", 1, g.economy},
		{"scripts", 1, g.scripts},
		{"autosave", saveEvery, g.autosave},
	}
	o.StepBudget, o.Queue, o.Events = step, g.queue.meter, g.bus
	for _, s := range g.systems {
		o.SystemLabels = append(o.SystemLabels, s.id)
	}
	g.rec = timeline.New(o)
	return g
}

// frame is one frame of the host: what arrived, and how much time passed since the frame before.
func (g *game) frame(elapsed time.Duration, commands []command) {
	for _, c := range commands {
		g.queue.put(c)
	}
	for range g.steps.Frame(elapsed) {
		start := g.steps.Begin()
		g.tick = start.Tick
		g.rec.BeginTick(start)
		g.step()
		g.rec.EndTick(timeline.TickEnd{LagAfter: g.steps.End()})
	}
}

func (g *game) step() {
	g.rec.CapturePhase(timeline.PhaseCommands, g.commands)
	g.rec.CapturePhase(timeline.PhaseEventsBeforeSystems, g.events)
	for i := range g.systems {
		if s := &g.systems[i]; g.tick%s.every == 0 {
			g.runSystem(s)
		}
	}
	g.rec.CapturePhase(timeline.PhaseEventsAfterSystems, g.events)
	g.rec.CapturePhase(timeline.PhasePublish, func() { g.spend(costPublish) })
}

// runSystem is where a game deals with broken systems: it goes on with the others.
func (g *game) runSystem(s *system) {
	defer func() {
		if v := recover(); v != nil {
			g.panics++
		}
	}()
	if err := g.rec.CaptureSystem(s.id, s.run); err != nil {
		g.world ^= int64(len(err.Error()))
	}
}

func (g *game) commands() {
	if within(g.tick, starveFirst, starveLast) {
		return
	}
	g.queue.drain(func(c command) {
		g.spend(costCommand)
		g.world = g.world*31 + c.Amount
		g.bus.publish(channelTrade, c.Amount)
	})
}

func (g *game) events() {
	g.bus.dispatch(func(e int64) {
		g.spend(costEvent)
		g.world = g.world*33 + e
	})
}

func (g *game) physics() error {
	g.spend(costPhysics)
	if g.tick == loadTick {
		g.spend(costLoad)
	}
	g.bus.publish(channelWorld, g.tick)
	return nil
}

func (g *game) ai() error {
	g.spend(costAI)
	if within(g.tick, rebuildFirst, rebuildLast) {
		g.spend(costRebuild)
	}
	return nil
}

func (g *game) economy() error {
	g.spend(costEconomy)
	if g.tick == burstTick {
		for i := range int64(20) {
			g.bus.publish(channelTrade, i)
		}
	}
	return nil
}

var errScript = errors.New("unknown item")

func (g *game) scripts() error {
	g.spend(costScripts)
	switch g.tick {
	case failTick:
		return fmt.Errorf("script 7: %w", errScript)
	case panicTick:
		panic("script 8 divides by zero")
	}
	return nil
}

func (g *game) autosave() error {
	g.spend(costSave)
	return nil
}
