package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/stax-otel/stax/sdk/timeline"
)

// A journal is the input of a game: JSON lines, one per host frame, and one at the end with what it came to.
type journalLine struct {
	ElapsedNanos int64     `json:"elapsed_ns,omitempty"`
	Commands     []command `json:"commands,omitempty"`
	End          *result   `json:"end,omitempty"`
}

// result is what a game and its replays must agree on.
type result struct {
	Ticks  int64 `json:"ticks"`
	World  int64 `json:"world"`
	Panics int64 `json:"panics"`
}

func (g *game) result() result { return result{Ticks: g.tick, World: g.world, Panics: g.panics} }

// readJournal reads a journal. end is nil for one that was cut off.
func readJournal(r io.Reader) (frames []journalLine, end *result, err error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		var l journalLine
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			return nil, nil, fmt.Errorf("journal line %d: %w", n, err)
		}
		if l.End != nil {
			return frames, l.End, nil
		}
		frames = append(frames, l)
	}
	return frames, nil, s.Err()
}

// replay plays frames on a fake clock and returns every entry.
func replay(frames []journalLine) ([]timeline.Entry, result) {
	var now time.Duration
	g := newGame(
		timeline.Options{Enabled: true, Clock: func() time.Duration { return now }},
		func(d time.Duration) { now += d },
	)
	var entries []timeline.Entry
	head := uint64(0)
	frameAt := now
	for _, f := range frames {
		frameAt += time.Duration(f.ElapsedNanos)
		now = max(now, frameAt) // the host waits for the next frame, unless the game is late
		g.frame(time.Duration(f.ElapsedNanos), f.Commands)
		delta := g.rec.ReadDelta(head)
		head = delta.Head
		entries = append(entries, delta.Entries...)
	}
	return entries, g.result()
}
