// Command staxserver is stax's side of the load test: the distribution's collector in one process (receiver, archive
// exporter, query extension) with one recording, as `stax serve` runs it.
//
// The load test starts it and talks to it over stdin and stdout, see package child.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stax-otel/stax/internal/collector"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/testbed/bench/internal/child"
)

func main() {
	grpcEndpoint := flag.String("grpc", "", "TCP endpoint of OTLP/gRPC")
	httpSocket := flag.String("http", "", "unix socket of OTLP/HTTP")
	out := flag.String("out", "", "archive to write, without its suffix")
	flag.Parse()
	if err := run(context.Background(), *grpcEndpoint, *httpSocket, *out+recording.Suffix); err != nil {
		fmt.Fprintln(os.Stderr, "staxserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, grpcEndpoint, httpSocket, out string) (err error) {
	m, err := recording.NewManager(recording.Options{Dir: filepath.Dir(out)})
	if err != nil {
		return err
	}
	c, err := collector.Start(ctx, collector.Options{
		Manager:       m,
		GRPCEndpoint:  grpcEndpoint,
		TargetSocket:  httpSocket,
		ControlSocket: httpSocket + ".control",
	})
	if err != nil {
		return fmt.Errorf("starting the collector: %w", err)
	}
	defer func() { err = errors.Join(err, c.Shutdown(ctx)) }()
	rec, err := m.Start(ctx, recording.StartOptions{Name: "load", Mode: recording.ModeAttach, Out: out})
	if err != nil {
		return fmt.Errorf("starting the recording: %w", err)
	}
	return child.Serve(child.Ready{Token: rec.Token(), Path: rec.Path()}, func() error {
		info, err := m.Stop(ctx, rec.ID(), "the load has ended")
		if err == nil && len(info.Drops) > 0 {
			err = fmt.Errorf("the collector dropped data: %+v", info.Drops)
		}
		return err
	})
}
