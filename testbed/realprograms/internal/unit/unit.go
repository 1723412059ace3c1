// Package unit is what the thin mains share: they report their units of work as dispatches, count them, and can keep an
// account of the run of their own, to compare a recording with: a CPU profile (package ownprofile), or the execution trace,
// which the runtime then writes for a flight recorder beside the one that sdk/cputrace streams. No code of stax touches
// either.
package unit

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stax-otel/stax/sdk"
	_ "github.com/stax-otel/stax/sdk/cputrace/auto" // this is all that a program does for CPU samples

	"github.com/stax-otel/stax/testbed/realprograms/internal/ownprofile"
)

// Report is what a program says about itself at its end, as one line of JSON.
type Report struct {
	Program    string `json:"program"`
	PID        int    `json:"pid"`
	Lane       string `json:"lane"`
	Dispatches int64  `json:"dispatches"`
	WallNanos  int64  `json:"wall_ns"`
	CPUNanos   int64  `json:"cpu_ns"` // of the whole process, user and system
	Result     string `json:"result"` // what the work came to
}

// Lane does units of work. It is safe for concurrent use.
type Lane struct {
	lane  *sdk.Lane
	count atomic.Int64
}

// Do does one unit of work on the calling goroutine and reports it.
func (l *Lane) Do(name sdk.Name, f func() error) error {
	s := l.lane.Begin(context.Background(), name)
	err := f()
	s.End()
	l.count.Add(1)
	return err
}

// Each does n units with a few goroutines and returns the first error.
func (l *Lane) Each(name sdk.Name, goroutines, n int, f func(i int) error) error {
	var next atomic.Int64
	var first error
	var once sync.Once
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := l.Do(name, func() error { return f(int(i)) }); err != nil {
					once.Do(func() { first = err })
					return
				}
			}
		})
	}
	wg.Wait()
	return first
}

// Main runs a program that consists of work on one lane.
func Main(program string, kind sdk.LaneKind, work func(*Lane) (result string, err error)) {
	side := flag.String("trace", "", "keep the program's own execution trace in `file`")
	flag.Parse()
	if err := run(program, kind, *side, work); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}

// keep is more than any of the programs writes: the flight recorder forgets nothing.
const keep = 1 << 30

func run(program string, kind sdk.LaneKind, side string, work func(*Lane) (string, error)) error {
	var recorder *trace.FlightRecorder
	if side != "" {
		recorder = trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: time.Hour, MaxBytes: keep})
		if err := recorder.Start(); err != nil {
			return err
		}
	}
	l := &Lane{lane: sdk.NewLane(program, kind)}
	began := time.Now()
	result, err := work(l)
	if err != nil {
		return err
	}
	wall := time.Since(began)
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return fmt.Errorf("rusage: %w", err)
	}
	if err := ownprofile.Stop(); err != nil {
		return err
	}
	if recorder != nil {
		if err := save(recorder, side); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := sdk.Shutdown(ctx); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(Report{
		Program: program, PID: os.Getpid(), Lane: program, Dispatches: l.count.Load(), WallNanos: int64(wall),
		CPUNanos: self.Utime.Nano() + self.Stime.Nano(), Result: result,
	})
}

func save(r *trace.FlightRecorder, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = r.WriteTo(f)
	r.Stop()
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
