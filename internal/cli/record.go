package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/collector"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/gate"
	"github.com/stax-otel/stax/sdk/semconv"
)

// recordOptions are the flags of record.
type recordOptions struct {
	duration   time.Duration
	out        string
	name       string
	pids       []int
	origins    string
	sampleHz   int
	cpuBudget  string
	http, grpc string
	command    []string
}

func newRecordCmd(a *app) *cobra.Command {
	o := &recordOptions{}
	cmd := &cobra.Command{
		Use:   "record [flags] -- COMMAND [ARG...]",
		Short: "Run a command and record what its lanes do, or record running processes",
		Long: `Run a command and record what it and its children report on their lanes, until it ends, --duration
has passed, or Ctrl-C. With --pid record processes that run already.

The command finds the recorder by STAX_ENDPOINT and STAX_RECORDING in its environment. With --http it
also gets the standard OTLP variables, so that any OpenTelemetry SDK can be the target. A program that
is recorded by --pid must use the stax SDK, which looks for a recorder about once a second.

Ctrl-C once: stop the recording, pass the signal on, seal the archive. Twice: leave the archive
unsealed, but readable. When the time is up or Ctrl-C was pressed, the command gets 5 s to end.

Exit code 0: the archive is sealed, and the command succeeded or was stopped by us. 1: the command
failed (its code is in the archive, which is sealed), or the recording did.`,
		Example: `  stax record -- ./app --flag
  stax record --duration 10s --out demo.stax -- ./server
  stax record --pid 4242 --duration 30s
  stax record --http 127.0.0.1:4318 -- python app.py`,
		Args: func(cmd *cobra.Command, given []string) error {
			switch {
			case len(given) > 0 && len(o.pids) > 0:
				return usageError("give a command or --pid, not both; see %s --help", cmd.CommandPath())
			case len(given) == 0 && len(o.pids) == 0:
				return usageError("nothing to record: give a command after --, or --pid; see %s --help", cmd.CommandPath())
			}
			o.command = given
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if len(o.pids) > 0 {
				return a.attach(cmd.Context(), o)
			}
			return a.launch(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the command's own flags are its own
	f.DurationVar(&o.duration, "duration", 0, "stop after this time; 0: when the command ends")
	f.StringVarP(&o.out, "out", "o", "", "the archive to write; must not exist (default: NAME-TIME.stax in the recordings directory)")
	f.StringVar(&o.name, "name", "", "name of the recording (default: the command's)")
	f.IntSliceVar(&o.pids, "pid", nil, "record this running process and its children; may be repeated")
	f.StringVar(&o.origins, "origins", "", "what targets note about the CPU code that queues work: stack, thread or off (default: each lane decides, mostly stack)")
	f.IntVar(&o.sampleHz, "sample-hz", defaultSampleHz, "CPU samples a second and thread of Go programs that import sdk/cputrace; 0: none")
	f.StringVar(&o.cpuBudget, "cpu-budget", "5%", "most of its own CPU time that a program may spend on being sampled; past it a cheaper source takes over")
	f.StringVar(&o.http, "http", "", "also receive OTLP over HTTP at this host:port")
	f.StringVar(&o.grpc, "grpc", "", "also receive OTLP over gRPC at this host:port")
	return cmd
}

func (o *recordOptions) check() error {
	if o.duration < 0 {
		return usageError("--duration %s: want a time such as 10s; 0: no limit", o.duration)
	}
	if modes := []string{"", gate.OriginStack, gate.OriginThread, gate.OriginOff}; !slices.Contains(modes, o.origins) {
		return usageError("--origins %s: want stack, thread or off", o.origins)
	}
	if o.sampleHz < 0 || o.sampleHz > maxSampleHz {
		return usageError("--sample-hz %d: want 0 to %d", o.sampleHz, maxSampleHz)
	}
	if _, err := parseBudget(o.cpuBudget); err != nil {
		return usageError("--cpu-budget %w", err)
	}
	if o.name != "" {
		if err := recording.CheckName(o.name); err != nil {
			return usageError("--name: %w", err)
		}
	}
	for _, pid := range o.pids {
		if pid <= 0 {
			return usageError("--pid %d: want the number of a process", pid)
		}
	}
	return nil
}

// startOptions is what the manager is asked for.
func (o *recordOptions) startOptions() recording.StartOptions {
	name := o.name
	if name == "" && len(o.command) > 0 {
		name = safeName(filepath.Base(o.command[0]))
	}
	if name == "" && len(o.pids) > 0 {
		name = fmt.Sprintf("pid-%d", o.pids[0])
	}
	budget, _ := parseBudget(o.cpuBudget) // checked
	return recording.StartOptions{
		Name: name, Out: o.out, PIDs: o.pids, Command: o.command, Duration: o.duration, OriginMode: o.origins,
		SampleHz: o.sampleHz, SampleBudgetPermille: budget,
	}
}

// Rates of CPU samples. Timers of threads tick with the kernel, which rarely does it more than 1000 times a second.
const (
	defaultSampleHz = 250
	maxSampleHz     = 1000
)

// parseBudget reads a share of CPU time, such as 5% or 2.5%, as thousandths.
func parseBudget(s string) (permille int, err error) {
	percent, ok := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(percent, 64)
	if !ok || err != nil || !(v >= 0.1 && v <= 100) {
		return 0, fmt.Errorf("%s: want 0.1%% to 100%%; --sample-hz 0 switches sampling off", s)
	}
	return int(math.Round(v * 10)), nil
}

// safeName makes a name that can begin a file name, "" when nothing is left of it.
func safeName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, s)
	s = strings.TrimLeft(s, ".-")
	return s[:min(len(s), 60)]
}

// station is a collector in this process with the sockets it listens on.
type station struct {
	manager   *recording.Manager
	collector *collector.Collector
	sockets   sockets
}

// startStation starts a collector. With shared, it also serves programs that were not told where to send.
func startStation(ctx context.Context, shared bool, o collector.Options) (*station, error) {
	dir, err := recordingsDir()
	if err != nil {
		return nil, err
	}
	s, err := newSockets(shared)
	if err != nil {
		return nil, err
	}
	st := &station{sockets: s}
	st.manager, err = recording.NewManager(recording.Options{Dir: dir, Logger: o.Logger})
	if err != nil {
		s.remove()
		return nil, err
	}
	o.Manager, o.Directory = st.manager, dir
	o.TargetSocket, o.ControlSocket, o.Version = s.target, s.control, Version()
	if st.collector, err = collector.Start(ctx, o); err != nil {
		s.remove()
		return nil, err
	}
	return st, nil
}

// stopTimeout bounds how long a collector may take to end once its recordings are sealed.
const stopTimeout = 10 * time.Second

// stop ends the collector. Recordings that are still open are sealed first, until ctx ends.
func (st *station) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	err := st.collector.Shutdown(ctx)
	st.sockets.remove()
	return err
}

// launch records a command.
func (a *app) launch(ctx context.Context, o *recordOptions) (err error) {
	// Before anything is made: a mistyped command leaves nothing behind.
	path, err := exec.LookPath(o.command[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return commandError(o.command[0], err)
	}
	signals := catchSignals()
	defer signals.stop()
	st, err := startStation(ctx, false, collector.Options{HTTPEndpoint: o.http, GRPCEndpoint: o.grpc})
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := st.stop(context.WithoutCancel(ctx)); err == nil {
			err = stopErr
		}
	}()
	start := o.startOptions()
	start.Mode, start.Duration = recording.ModeLaunch, 0 // the clock starts with the command
	rec, err := st.manager.Start(ctx, start)
	if err != nil {
		return err
	}
	child := newChild(path, o.command, o.environment(st, rec))
	child.stdin, child.stdout, child.stderr = a.stdin, a.stdout, a.stderr
	if err := child.start(); err != nil {
		// Nothing ran, so there is nothing to keep.
		_, stopErr := st.manager.Stop(ctx, rec.ID(), "command did not start")
		return errors.Join(commandError(o.command[0], err), stopErr, os.RemoveAll(rec.Path()))
	}
	rec.AddPID(child.pid())
	a.say("recording %s (pid %d) to %s", o.command[0], child.pid(), rec.Path())
	run := &recordRun{app: a, rec: rec, manager: st.manager, collector: st.collector, child: child, signals: signals, duration: o.duration}
	return run.run(ctx)
}

// commandError says in one line why a command cannot be run.
func commandError(name string, err error) error {
	var inner *exec.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("command %s not found; nothing was recorded", name)
	}
	return fmt.Errorf("run %s: %w; nothing was recorded", name, err)
}

// environment is what the command needs to find the recorder.
func (o *recordOptions) environment(st *station, rec *recording.Recording) []string {
	env := append(os.Environ(),
		semconv.EnvEndpoint+"=unix://"+st.sockets.target,
		semconv.EnvToken+"="+rec.Token())
	if o.http != "" {
		env = append(env,
			"OTEL_EXPORTER_OTLP_ENDPOINT=http://"+o.http,
			"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
			"OTEL_EXPORTER_OTLP_HEADERS="+semconv.HeaderToken+"="+rec.Token())
	} else if o.grpc != "" {
		env = append(env,
			"OTEL_EXPORTER_OTLP_ENDPOINT=http://"+o.grpc,
			"OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
			"OTEL_EXPORTER_OTLP_HEADERS="+strings.ToLower(semconv.HeaderToken)+"="+rec.Token())
	}
	return env
}

// killAfter is how long a command that we stop may take to end.
const killAfter = 5 * time.Second

// recordRun is a recording in this process, from its start to its end.
type recordRun struct {
	app       *app
	rec       *recording.Recording
	manager   *recording.Manager
	collector *collector.Collector
	child     *child // nil: processes that run already
	signals   *signals
	duration  time.Duration
	gone      func() bool // with child nil: all processes have ended
}

// run waits for the first reason to stop, and stops.
func (r *recordRun) run(ctx context.Context) error {
	p := newProgress(r.app, r.rec, r.child != nil && r.child.sharesTerminal())
	var timeUp <-chan time.Time
	if r.duration > 0 {
		t := time.NewTimer(r.duration)
		defer t.Stop()
		timeUp = t.C
	}
	var exited <-chan struct{}
	if r.child != nil {
		exited = r.child.done
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-exited:
			r.rec.SetExit(r.child.exit())
			return r.end(ctx, p, "command exited", nil, nil)
		case <-timeUp:
			return r.end(ctx, p, "duration", termSignal, nil)
		case s := <-r.signals.c:
			return r.end(ctx, p, "interrupted", s, nil)
		case <-r.collector.Done():
			failed := cmp.Or(r.collector.Err(), errors.New("the collector ended by itself"))
			return r.end(ctx, p, "collector ended", termSignal, failed)
		case <-r.rec.Done(): // by stax stop
			return r.end(ctx, p, "stopped", termSignal, nil)
		case <-ctx.Done():
			return r.end(context.WithoutCancel(ctx), p, "cancelled", termSignal, ctx.Err())
		case <-tick.C:
			p.update()
			if r.gone != nil && r.gone() {
				return r.end(ctx, p, "process exited", nil, nil)
			}
		}
	}
}

// end stops the recording, then the command with the given signal (nil: it has ended), and prints the summary.
func (r *recordRun) end(ctx context.Context, p *progress, reason string, sig os.Signal, failed error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		info recording.Info
		err  error
	}
	sealed := make(chan result, 1)
	go func() {
		info, err := r.manager.Stop(ctx, r.rec.ID(), reason)
		sealed <- result{info, err}
	}()
	// The gate is off now. The command is told to end once its last data is in, so that nothing is lost by ending it.
	var exited <-chan struct{}
	ended := make(chan struct{})
	if r.child != nil && sig != nil {
		exited = ended
		go func() {
			defer close(ended)
			r.drained()
			r.child.end(sig, killAfter)
		}()
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for done := (*result)(nil); ; {
		select {
		case res := <-sealed:
			done = &res
			sealed = nil
		case <-exited:
			exited = nil
		case <-r.signals.c:
			p.clear()
			if r.child != nil {
				r.child.kill()
			}
			return &exitError{code: ExitFailure, err: fmt.Errorf("given up before the archive was sealed: %s is readable as it is", r.rec.Path())}
		case <-tick.C:
			p.update()
			continue
		}
		if done != nil && exited == nil {
			p.clear()
			return r.report(ctx, done.info, errors.Join(failed, done.err), sig != nil)
		}
	}
}

// drained returns when the recording takes no more data.
func (r *recordRun) drained() {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		switch r.rec.Info().State {
		case recording.StateSealing, recording.StateFinished:
			return
		}
		select {
		case <-tick.C:
		case <-r.rec.Done():
			return
		}
	}
}

// report prints the summary, and returns what the command's result means for ours.
func (r *recordRun) report(ctx context.Context, info recording.Info, failed error, stoppedByUs bool) error {
	if failed != nil {
		return fmt.Errorf("%w; what was written is readable: stax audit %s", failed, quoteArg(info.Path))
	}
	if err := r.app.summaryTo(ctx, r.app.stderr, info.Path); err != nil {
		return err
	}
	if r.child == nil || stoppedByUs {
		return nil
	}
	switch code, signal := r.child.exit(); {
	case signal != "":
		return fmt.Errorf("the command was ended by signal %s; the archive is sealed", signal)
	case code != nil && *code != 0:
		return fmt.Errorf("the command exited with code %d; the archive is sealed", *code)
	}
	return nil
}
