package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/timeline"
	"github.com/stax-otel/stax/sdk/timeline/ticklane"
)

func main() {
	duration := flag.Duration("duration", 5*time.Second, "how long to play")
	seed := flag.Uint64("seed", 1, "seed of the commands")
	journal := flag.String("journal", "", "write the input of the game to `file`")
	again := flag.String("replay", "", "replay the journal in `file` twice on a fake clock and compare")
	ring := flag.Bool("timeline", true, "keep the ticks in the ring; a recording gets them without")
	show := flag.Bool("show", false, "print each tick with a warning")
	flag.Parse()
	var err error
	if *again != "" {
		err = runReplay(*again, os.Stdout)
	} else {
		err = play(*duration, *seed, *journal, *ring, *show)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gameloop:", err)
		os.Exit(1)
	}
}

// play runs the game in real time.
func play(duration time.Duration, seed uint64, path string, ring, show bool) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	out := io.Discard
	if path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		w := bufio.NewWriter(f)
		defer func() { err = errors.Join(err, w.Flush(), f.Close()) }()
		out = w
	}
	journal := json.NewEncoder(out)

	lane := sdk.NewLane("simulation", sdk.LaneTick)
	g := newGame(timeline.Options{Enabled: ring, Sink: ticklane.New(lane)}, spin)
	random := rand.New(rand.NewPCG(seed, 2))
	host := time.NewTicker(16 * time.Millisecond)
	defer host.Stop()
	last, head := time.Now(), uint64(0)
	for {
		select {
		case <-ctx.Done():
			fmt.Printf("%d ticks, backlog %v\n", g.tick, g.steps.Backlog())
			end := g.result()
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return errors.Join(journal.Encode(journalLine{End: &end}), sdk.Shutdown(stopping))
		case <-host.C:
		}
		now := time.Now()
		line := journalLine{ElapsedNanos: int64(now.Sub(last)), Commands: commandsOf(random)}
		last = now
		if err := journal.Encode(line); err != nil {
			return err
		}
		g.frame(time.Duration(line.ElapsedNanos), line.Commands)
		if show {
			delta := g.rec.ReadDelta(head)
			head = delta.Head
			for _, e := range delta.Entries {
				if e.Warnings != 0 {
					fmt.Print(timeline.Format(e))
				}
			}
		}
	}
}

func commandsOf(r *rand.Rand) []command {
	var cs []command
	for range r.IntN(6) {
		cs = append(cs, command{Kind: []string{"buy", "sell", "move"}[r.IntN(3)], Amount: r.Int64N(100)})
	}
	return cs
}

// spin keeps the CPU busy.
func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		continue
	}
}

func runReplay(path string, out io.Writer) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	frames, end, err := readJournal(f)
	if err != nil {
		return err
	}
	first, came := replay(frames)
	second, _ := replay(frames)
	switch {
	case !reflect.DeepEqual(first, second):
		return errors.New("two replays differ")
	case end != nil && *end != came:
		return fmt.Errorf("the game came to %+v, its replay to %+v", *end, came)
	}
	fmt.Fprintf(out, "%d ticks, replayed twice: equal entries\n", came.Ticks)
	return nil
}
