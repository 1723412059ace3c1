// Command loadtest loads stax's pipeline and its peer, a stock collector's otlpreceiver and fileexporter (protobuf, zstd), in
// interleaved runs with the same bytes, and prints one table: spans per second of server CPU, memory, bytes on disk.
//
//	go run ./cmd/loadtest [-quick] [-reps 5] [-spans 1000000] [-batches 100,256,2048] [-json FILE]
//
// Each run starts a fresh server process, sends over four connections with one request in flight on each, waits until
// the server has ended what it received (stax: recording closed, archive sealed and derived tables written; peer: file
// flushed and closed), and reads back what is on disk: every record has to be there. CPU time is the server process's own;
// the generator is another process on the same cores.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/stax-otel/stax/testbed/bench/internal/load"
)

// options are the command line.
type options struct {
	reps     int
	spans    int
	batches  []int
	only     string
	quick    bool
	json     string
	dir      string
	keep     bool
	profile  string
	procs    int
	verbose  bool
	noExtras bool
	bin      string
	sides    string
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "loadtest:", err)
		os.Exit(1)
	}
}

func run() error {
	var o options
	var batches string
	flag.IntVar(&o.reps, "reps", 5, "pairs of runs for each row")
	flag.IntVar(&o.spans, "spans", 1_000_000, "spans in a run")
	flag.StringVar(&batches, "batches", "100,256,2048", "spans in an export request, comma-separated")
	flag.StringVar(&o.only, "only", "", "run only rows whose \"shape transport batch\" contains this")
	flag.BoolVar(&o.quick, "quick", false, "3 pairs of 100,000 spans, main rows only")
	flag.StringVar(&o.json, "json", "", "write all runs to this file; - for stdout, instead of the table")
	flag.StringVar(&o.dir, "dir", "", "scratch directory (default: a new one in the system's)")
	flag.BoolVar(&o.keep, "keep", false, "leave the last run's files in the scratch directory")
	flag.StringVar(&o.profile, "profile", "", "write CPU profiles of the servers' first runs into this directory")
	flag.IntVar(&o.procs, "procs", 2, "GOMAXPROCS of a server")
	flag.BoolVar(&o.verbose, "v", false, "print each run")
	flag.BoolVar(&o.noExtras, "main", false, "only the main rows: stax's shape over gRPC")
	flag.StringVar(&o.bin, "bin", "", "directory of built servers (default: build them)")
	flag.StringVar(&o.sides, "sides", "peer,stax", "servers to run")
	flag.Parse()
	if o.quick {
		o.reps, o.spans, o.noExtras = 3, 100_000, true
	}
	for s := range strings.SplitSeq(batches, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 20 || n > 10_000 {
			return fmt.Errorf("-batches: %q is not a number from 20 to 10000", s)
		}
		o.batches = append(o.batches, n)
	}
	if flag.NArg() > 0 || o.reps < 1 || o.spans < 1000 {
		return fmt.Errorf("want at least 1 pair of 1000 spans and no arguments; see -help")
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := scratch(o)
	if err != nil {
		return err
	}
	if !o.keep {
		defer func() { _ = os.RemoveAll(dir) }()
	}
	b := bench{options: o, dir: dir, log: os.Stderr}
	if err := b.build(ctx); err != nil {
		return err
	}
	result := Result{Machine: machine(), Date: time.Now().UTC().Format(time.DateOnly), Options: b.describe()}
	for _, row := range b.rows() {
		if !strings.Contains(row.String(), o.only) {
			continue
		}
		measured, err := b.measure(ctx, row)
		if err != nil {
			return fmt.Errorf("%s: %w", row, err)
		}
		result.Rows = append(result.Rows, measured)
	}
	return write(result, o.json)
}

func scratch(o options) (string, error) {
	if o.dir == "" {
		return os.MkdirTemp("", "stax-load-")
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return "", err
	}
	return os.MkdirTemp(o.dir, "run-")
}

func write(r Result, to string) error {
	if to != "-" {
		if err := r.Print(os.Stdout); err != nil {
			return err
		}
	}
	if to == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if to == "-" {
		_, err = os.Stdout.Write(b)
		return err
	}
	return os.WriteFile(filepath.Clean(to), b, 0o644)
}

// rows lists what is measured.
func (b *bench) rows() []Row {
	var rows []Row
	for _, batch := range b.batches {
		rows = append(rows, Row{Shape: load.ShapeStax, Transport: load.GRPC, Batch: batch})
	}
	if b.noExtras {
		return rows
	}
	middle := b.batches[len(b.batches)/2]
	return append(rows,
		Row{Shape: load.ShapeStax, Transport: load.HTTP, Batch: middle},
		Row{Shape: load.ShapePlain, Transport: load.GRPC, Batch: middle},
		Row{Shape: load.ShapeStax, Transport: load.GRPC, Batch: middle, Calibration: true},
	)
}

func (b *bench) describe() string {
	return fmt.Sprintf("%d spans a run, %d interleaved pairs, median [min–max]; servers: GOMAXPROCS=%d, GC defaults",
		b.spans, b.reps, b.procs)
}

func machine() string {
	model := "unknown CPU"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s, %s/%s", model, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
