package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/stax-otel/stax/sdk/stage"
)

type frame struct {
	number int
	taken  time.Time
}

// options are the command line.
type options struct {
	frames  int
	every   time.Duration
	takes   time.Duration
	workers int
}

func main() {
	duration := flag.Duration("duration", 10*time.Second, "how long to film")
	fps := flag.Float64("fps", 30, "frames per second")
	takes := flag.Duration("tap", 40*time.Millisecond, "how long the tap takes per frame")
	workers := flag.Int("workers", 1, "how many goroutines run the tap")
	mode := flag.String("stages", "on", "time the stages: on, off, or switch (on after a second)")
	asJSON := flag.Bool("json", false, "print the snapshot as JSON")
	flag.Parse()
	modes := map[string]stage.Mode{"on": stage.On, "off": stage.Off, "switch": stage.Switchable}
	m, ok := modes[*mode]
	if !ok || *fps <= 0 || *workers < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "camera: -stages on, off or switch, a positive -fps, at least one worker, and no arguments, please")
		os.Exit(2)
	}
	every := time.Duration(float64(time.Second) / *fps)
	stages := stage.NewRegistry(stage.Options{Mode: m, Buffers: true})
	time.AfterFunc(time.Second, func() { stages.SetEnabled(true) })
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	film(ctx, stages.Record("camera.Frame"), options{int(*duration / every), every, *takes, *workers})
	for _, s := range stages.Snapshot() {
		if *asJSON {
			_ = json.NewEncoder(os.Stdout).Encode(s)
		} else {
			fmt.Print(stage.Format(s))
		}
	}
}

// film runs the pipeline until it has taken its frames or ctx ends.
func film(ctx context.Context, record *stage.Record, o options) {
	lens := time.NewTicker(o.every)
	defer lens.Stop()
	taken := 0
	capture := stage.SourceCtx(record, func(ctx context.Context) (frame, error) {
		select {
		case at := <-lens.C:
			taken++
			return frame{taken, at}, nil
		case <-ctx.Done():
			return frame{}, ctx.Err()
		}
	}, stage.Named("camera_capture"))
	process := stage.Tap(record, func(frame) { time.Sleep(o.takes) }, stage.Named("frame_processor"))
	send := stage.LinkErr(record, func(frame) error { return nil }, stage.Named("mqtt_publisher"))

	buffer := stage.NewBuffer[frame](record, "frames", 2)
	var wg sync.WaitGroup
	for range o.workers {
		wg.Go(func() {
			for f := range buffer.All() {
				process(f)
				if f.number%10 == 0 {
					_ = send(f) // always works here
				}
			}
		})
	}
	for taken < o.frames {
		f, err := capture(ctx)
		if err != nil {
			break
		}
		buffer.Offer(f)
	}
	buffer.Close()
	wg.Wait()
}
