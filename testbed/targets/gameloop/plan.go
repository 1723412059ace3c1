package main

import "time"

// The plan says what each tick costs and what goes wrong in it. Costs are spent on whatever clock the game has, so that
// a replay on a fake clock has the same times each time.
const (
	step     = 10 * time.Millisecond
	maxSteps = 4 // per host frame; the rest stays in the backlog

	costCommand = 2 * time.Microsecond
	costEvent   = time.Microsecond
	costPhysics = 80 * time.Microsecond
	costAI      = 60 * time.Microsecond
	costEconomy = 40 * time.Microsecond
	costScripts = 20 * time.Microsecond
	costPublish = 30 * time.Microsecond

	rebuildFirst, rebuildLast = 60, 64                // ai rebuilds its paths ...
	costRebuild               = 4 * time.Millisecond  // ... which takes more than a quarter of the step
	saveEvery                 = 40                    // autosave runs in these ticks only
	costSave                  = 3 * time.Millisecond  // slow each time
	loadTick                  = 100                   // physics loads a level
	costLoad                  = 55 * time.Millisecond // longer than a stall, and than the budget
	starveFirst, starveLast   = 120, 122              // commands are not drained
	burstTick                 = 140                   // economy floods the event bus
	failTick, panicTick       = 160, 170              // scripts
)

func within(tick, first, last int64) bool { return first <= tick && tick <= last }
