package main

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stax-otel/stax/sdk"
	_ "github.com/stax-otel/stax/sdk/cputrace/auto" // what is measured
	"github.com/stax-otel/stax/testbed/internal/target"
)

// child does the work and prints what it cost.
func child(work string, units int) error {
	lane := sdk.NewLane(work, sdk.LaneExecutor)
	c := cost{}
	if sdk.ReportingActive() {
		c.Traced = target.Traced(context.Background(), settle)
	}
	began := time.Now()
	switch work {
	case "cpu":
		compute(lane, units)
	case "channels":
		pipeline(lane, units)
	default:
		return fmt.Errorf("no work is named %q", work)
	}
	c.WallNanos = int64(time.Since(began))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := sdk.Shutdown(ctx); err != nil {
		return err
	}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return fmt.Errorf("rusage: %w", err)
	}
	c.CPUNanos = self.Utime.Nano() + self.Stime.Nano()
	return json.NewEncoder(os.Stdout).Encode(c)
}

var nameUnit = sdk.NewName("unit")

// compute does units of CPU work on two goroutines: sorting, hashing, compressing, and enough garbage to keep the
// collector at it. Every unit is a dispatch with its exact origin.
func compute(lane *sdk.Lane, units int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			var packed bytes.Buffer
			packer, _ := flate.NewWriter(&packed, flate.BestSpeed)
			for i := next.Add(1); i <= int64(units); i = next.Add(1) {
				s := lane.Begin(context.Background(), nameUnit)
				unit(uint64(i), &packed, packer)
				s.End()
			}
		})
	}
	wg.Wait()
}

func unit(seed uint64, packed *bytes.Buffer, packer *flate.Writer) {
	rng := rand.New(rand.NewPCG(seed, 1))
	type row struct {
		ID   uint64   `json:"id"`
		Tags []string `json:"tags"`
	}
	rows := make([]row, 200)
	for i := range rows {
		rows[i] = row{rng.Uint64(), []string{fmt.Sprintf("%x", rng.Uint32()), "constant"}}
	}
	slices.SortFunc(rows, func(a, b row) int { return bytes.Compare([]byte(a.Tags[0]), []byte(b.Tags[0])) })
	text, _ := json.Marshal(rows)
	for range 4 {
		sum := sha256.Sum256(text)
		text[0] = sum[0]
	}
	packed.Reset()
	packer.Reset(packed)
	_, _ = packer.Write(text)
	_ = packer.Close()
}

// pipeline hands units*1000 numbers through eight goroutines over unbuffered channels.
func pipeline(lane *sdk.Lane, units int) {
	in := make(chan int)
	out := in
	for range 8 {
		from, to := out, make(chan int)
		go func() {
			defer close(to)
			for n := range from {
				to <- n + 1
			}
		}()
		out = to
	}
	go func() {
		defer close(in)
		for n := range units * 1000 {
			in <- n
		}
	}()
	start := sdk.Now()
	n := 0
	for range out {
		if n++; n%1000 == 0 {
			end := sdk.Now()
			lane.Report(nameUnit, start, end)
			start = end
		}
	}
}
