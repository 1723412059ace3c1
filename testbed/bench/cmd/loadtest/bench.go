package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/stax-otel/stax/testbed/bench/internal/child"
	"github.com/stax-otel/stax/testbed/bench/internal/load"
)

const connections = 4

// server is a kind of process under load.
type server string

const (
	serverStax server = "stax"
	serverPeer server = "peer" // otlpreceiver → fileexporter
	serverNop  server = "nop"  // otlpreceiver → nothing
)

type bench struct {
	options
	dir string
	log io.Writer
	run uint64 // counts runs; the seed of ids
}

// build makes the server binaries, each with nothing of the other linked in.
func (b *bench) build(ctx context.Context) error {
	if b.bin != "" {
		return nil
	}
	b.bin = b.dir
	for _, name := range []string{"peerserver", "staxserver"} {
		if !strings.Contains(b.sides, name[:4]) {
			continue
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(b.bin, name),
			"github.com/stax-otel/stax/testbed/bench/cmd/"+name)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s (run this in testbed/bench): %w\n%s", name, err, out)
		}
	}
	return nil
}

// measure runs the pairs of one row.
func (b *bench) measure(ctx context.Context, row Row) (Measured, error) {
	m := Measured{Row: row}
	streams := make([]*load.Stream, connections)
	for i := range streams {
		streams[i] = load.NewStream(row.Shape, row.Batch, i)
	}
	for rep := range b.reps {
		b.run++
		pair := []server{serverPeer, serverStax}
		if row.Calibration {
			pair = []server{serverNop}
		}
		if rep%2 == 1 && len(pair) == 2 {
			pair[0], pair[1] = pair[1], pair[0]
		}
		for _, kind := range pair {
			if kind != serverNop && !strings.Contains(b.sides, string(kind)) {
				continue
			}
			r, err := b.once(ctx, kind, row, streams, rep == 0)
			if err != nil {
				return m, fmt.Errorf("%s, run %d: %w", kind, rep+1, err)
			}
			if b.verbose {
				_, _ = fmt.Fprintf(b.log, "%s · %s: %.1f k/cpu-s, with closing %.1f, %.0f k/s wall, peak RSS %.0f MB, %.1f B/dispatch\n",
					row, kind, r.Ingest()/1e3, r.Closed()/1e3, float64(r.Records)/r.LoadWall.Seconds()/1e3, r.RSS()/1e6, r.DiskPerDispatch())
			}
			if kind == serverStax {
				m.Stax = append(m.Stax, r)
			} else {
				m.Peer = append(m.Peer, r)
			}
		}
	}
	return m, nil
}

// once starts one server, loads it, ends it and checks what it wrote.
func (b *bench) once(ctx context.Context, kind server, row Row, streams []*load.Stream, first bool) (r Run, err error) {
	dir, err := os.MkdirTemp(b.dir, string(kind))
	if err != nil {
		return r, err
	}
	if !b.keep {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	grpcAddress, err := freePort()
	if err != nil {
		return r, err
	}
	socket, out := filepath.Join(dir, "otlp.sock"), filepath.Join(dir, "out")
	binary := "peerserver"
	args := []string{"-grpc", grpcAddress, "-http", socket, "-out", out}
	switch kind {
	case serverStax:
		binary = "staxserver"
	case serverNop:
		args = args[:4]
	}
	p, err := child.Start(filepath.Join(b.bin, binary), args, []string{fmt.Sprintf("GOMAXPROCS=%d", b.procs)})
	if err != nil {
		return r, err
	}
	defer p.Kill()

	profiled := first && b.profile != ""
	if profiled {
		if err := b.startProfile(p, kind, row); err != nil {
			return r, err
		}
	}
	target := load.Target{Transport: row.Transport, Address: grpcAddress, Token: p.Ready.Token}
	if row.Transport == load.HTTP {
		target.Address = socket
	}
	for _, s := range streams {
		s.Reset(b.run)
	}
	truth, err := r.load(ctx, p, target, streams, b.spans)
	if err != nil {
		return r, err
	}
	if err := r.finish(p); err != nil {
		return r, err
	}
	if profiled {
		if err := p.Do("endprofile"); err != nil {
			return r, err
		}
	}
	if err := p.Exit(); err != nil {
		return r, err
	}
	r.Records, r.Dispatches, r.Sent = truth.Records(), truth.Dispatches, truth.Bytes
	switch kind {
	case serverStax:
		if r.Disk, err = diskUsage(p.Ready.Path); err == nil {
			err = verifyArchive(ctx, p.Ready.Path, row.Shape, truth)
		}
	case serverPeer:
		if r.Disk, err = diskUsage(out); err == nil {
			err = verifyFile(out, truth)
		}
	}
	return r, err
}

func (b *bench) startProfile(p *child.Process, kind server, row Row) error {
	if err := os.MkdirAll(b.profile, 0o755); err != nil {
		return err
	}
	path, err := filepath.Abs(filepath.Join(b.profile, fmt.Sprintf("%s-%s-%s-%d.pprof", kind, row.Shape, row.Transport, row.Batch)))
	if err != nil {
		return err
	}
	return p.Do("profile " + path)
}

// load sends the spans and takes the server's CPU time for them.
func (r *Run) load(ctx context.Context, p *child.Process, to load.Target, streams []*load.Stream, spans int) (load.Truth, error) {
	before, err := p.CPU()
	if err != nil {
		return load.Truth{}, err
	}
	start := time.Now()
	truth, err := load.Run(ctx, to, streams, spans)
	if err != nil {
		return truth, err
	}
	r.LoadWall = time.Since(start)
	after, err := p.CPU()
	r.LoadCPU = after - before
	return truth, err
}

// finish makes the server end what it received.
func (r *Run) finish(p *child.Process) error {
	before, err := p.CPU()
	if err != nil {
		return err
	}
	if r.LoadRSS, err = p.PeakRSS(); err != nil {
		return err
	}
	start := time.Now()
	if err := p.Do("stop"); err != nil {
		return err
	}
	r.CloseWall = time.Since(start)
	after, err := p.CPU()
	if err != nil {
		return err
	}
	r.CloseCPU = after - before
	r.PeakRSS, err = p.PeakRSS()
	return err
}

// freePort finds a TCP port that nobody listens on; the server may listen on it next.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// diskUsage is the sum of the lengths of all files under path.
func diskUsage(path string) (n int64, err error) {
	err = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}
