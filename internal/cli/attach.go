package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/stax-otel/stax/internal/collector"
	"github.com/stax-otel/stax/internal/recording"
)

// attach records processes that run already: in the daemon if there is one, else in this process.
func (a *app) attach(ctx context.Context, o *recordOptions) error {
	for _, pid := range o.pids {
		if !processExists(pid) {
			return fmt.Errorf("there is no process %d", pid)
		}
	}
	if o.out != "" {
		abs, err := filepath.Abs(o.out)
		if err != nil {
			return err
		}
		o.out = abs
	}
	for _, c := range findCollectors() {
		if c.daemon() {
			if o.http != "" || o.grpc != "" {
				return usageError("--http and --grpc have no meaning here: the running stax serve (pid %d) receives the data", c.pid)
			}
			return a.attachThrough(ctx, c, o)
		}
	}
	return a.attachHere(ctx, o)
}

func (a *app) attachHere(ctx context.Context, o *recordOptions) (err error) {
	signals := catchSignals()
	defer signals.stop()
	st, err := startStation(ctx, true, collector.Options{HTTPEndpoint: o.http, GRPCEndpoint: o.grpc})
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := st.stop(context.WithoutCancel(ctx)); err == nil {
			err = stopErr
		}
	}()
	start := o.startOptions()
	start.Mode = recording.ModeAttach
	rec, err := st.manager.Start(ctx, start)
	if err != nil {
		return err
	}
	a.say("recording %s to %s; Ctrl-C stops", pidsText(o.pids), rec.Path())
	run := &recordRun{
		app: a, rec: rec, manager: st.manager, collector: st.collector, signals: signals,
		gone: func() bool { return !slices.ContainsFunc(o.pids, processExists) },
	}
	return run.run(ctx)
}

// attachThrough asks the daemon to record, and waits until the recording has ended.
func (a *app) attachThrough(ctx context.Context, c *collectorClient, o *recordOptions) error {
	signals := catchSignals()
	defer signals.stop()
	start := o.startOptions()
	start.Mode = recording.ModeAttach
	info, err := c.start(ctx, start)
	if err != nil {
		return err
	}
	a.say("recording %s to %s by stax serve (pid %d); Ctrl-C stops", pidsText(o.pids), info.Path, c.pid)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-signals.c:
		case <-tick.C:
			now, err := c.get(ctx, info.ID)
			if err != nil {
				return fmt.Errorf("the recording's collector is gone: %w; what was written is readable: stax audit %s", err, quoteArg(info.Path))
			}
			if live(now) && slices.ContainsFunc(o.pids, processExists) {
				continue
			}
		}
		break
	}
	stopped := make(chan error, 1)
	go func() {
		_, err := c.stop(ctx, info.ID)
		stopped <- err
	}()
	select {
	case err := <-stopped:
		if err != nil {
			return err
		}
	case <-signals.c:
		return &exitError{code: ExitFailure, err: errors.New("not waiting for the archive to be sealed; stax serve goes on sealing it")}
	}
	return a.summaryTo(ctx, a.stderr, info.Path)
}

func pidsText(pids []int) string {
	if len(pids) == 1 {
		return fmt.Sprintf("process %d", pids[0])
	}
	return fmt.Sprintf("%d processes", len(pids))
}
