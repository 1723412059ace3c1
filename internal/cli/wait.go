package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/internal/query"
)

// waitOptions are the flags of wait.
type waitOptions struct {
	samples int64
	seconds float64
	symbol  string
	lane    string
	timeout time.Duration
	json    bool
}

func newWaitCmd(a *app) *cobra.Command {
	o := &waitOptions{}
	cmd := &cobra.Command{
		Use:   "wait [ID|ARCHIVE]",
		Short: "Wait until a live recording holds so many samples, seconds, a symbol or a lane",
		Long: `Wait until a live recording holds what is asked for: with several conditions, all of them. Without ID the
recording that runs; when none runs yet, the next one.

Exit code 0: reached. 3: the time was up, or the recording ended before; what is there is printed.`,
		Example: `  stax wait --for-samples 1000
  stax wait --until-lane "GPU tq1s" --timeout 30s
  stax wait --until-symbol main.render --for-seconds 5 demo`,
		Args: args(cobra.MaximumNArgs(1)),
	}
	f := cmd.Flags()
	f.Int64Var(&o.samples, "for-samples", 0, "wait for this many CPU samples")
	f.Float64Var(&o.seconds, "for-seconds", 0, "wait until the recording has lasted this many seconds")
	f.StringVar(&o.symbol, "until-symbol", "", "wait for a function or the name of a dispatch: a part, a pattern with * and ?, or exactly =TEXT")
	f.StringVar(&o.lane, "until-lane", "", "wait for a dispatch on a lane: its name, id or thread id, a part of its name, or a pattern")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "give up after this time; 0: never")
	f.BoolVar(&o.json, "json", false, "print one JSON object: schema, rows, coverage, hints")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		switch {
		case o.samples < 0 || o.seconds < 0 || o.timeout < 0:
			return usageError("numbers and times must not be negative; see %s --help", cmd.CommandPath())
		case o.samples == 0 && o.seconds == 0 && o.symbol == "" && o.lane == "":
			return usageError("nothing to wait for: give --for-samples, --for-seconds, --until-symbol or --until-lane; see %s --help", cmd.CommandPath())
		}
		return a.wait(cmd.Context(), o, first(given))
	}
	return cmd
}

// pollEvery is how often a live recording is looked at; a look that takes long makes it rarer.
const pollEvery = 100 * time.Millisecond

func (a *app) wait(ctx context.Context, o *waitOptions, want string) error {
	var timeUp <-chan time.Time
	if o.timeout > 0 {
		t := time.NewTimer(o.timeout)
		defer t.Stop()
		timeUp = t.C
	}
	signals := catchSignals()
	defer signals.stop()
	var last *query.Answer[query.ArrivedRow]
	var path string
	for {
		began := time.Now()
		var err error
		if path == "" {
			if path, err = a.pickToWait(ctx, want); err != nil {
				return err
			}
		}
		if path != "" {
			answer, _, err := ask[query.Answer[query.ArrivedRow]](ctx, a, path, "arrived", url.Values{"symbol": {o.symbol}, "lane": {o.lane}})
			if err != nil {
				return err
			}
			last = &answer
			missing := o.missing(&answer.Rows[0])
			if missing == "" {
				return a.arrived(o, last, "reached", nil)
			}
			if answer.Rows[0].State != query.StateLive {
				return a.arrived(o, last, "the recording has ended without "+missing, &exitError{code: ExitCheck})
			}
		}
		pause := time.NewTimer(max(pollEvery, 2*time.Since(began)))
		select {
		case <-pause.C:
			continue
		case <-timeUp:
		case <-signals.c:
			pause.Stop()
			return &exitError{code: ExitFailure, err: errors.New("interrupted")}
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
		pause.Stop()
		if last == nil {
			return &exitError{code: ExitCheck, err: fmt.Errorf("nothing was recorded within %s", o.timeout)}
		}
		return a.arrived(o, last, fmt.Sprintf("not within %s: %s", o.timeout, o.missing(&last.Rows[0])), &exitError{code: ExitCheck})
	}
}

// missing says what is not there yet; "" when everything is.
func (o *waitOptions) missing(r *query.ArrivedRow) string {
	var parts []string
	if r.Samples < o.samples {
		parts = append(parts, plural(o.samples, "sample", "samples"))
	}
	end := r.StoppedNanos
	if r.State == query.StateLive {
		end = time.Now().UnixNano()
	}
	if o.seconds > 0 && float64(end-r.StartedNanos)/1e9 < o.seconds {
		parts = append(parts, fmt.Sprintf("%g s", o.seconds))
	}
	if o.symbol != "" && r.Symbol == "" {
		parts = append(parts, "symbol "+o.symbol)
	}
	if o.lane != "" && r.Lane == "" {
		parts = append(parts, "lane "+o.lane)
	}
	return strings.Join(parts, ", ")
}

// arrived prints how far the recording is.
func (a *app) arrived(o *waitOptions, answer *query.Answer[query.ArrivedRow], how string, result error) error {
	if o.json {
		if err := writeJSON(a.stdout, answer); err != nil {
			return err
		}
		return result
	}
	r := &answer.Rows[0]
	end := r.StoppedNanos
	if r.State == query.StateLive || end == 0 {
		end = time.Now().UnixNano()
	}
	line := fmt.Sprintf("%s after %s: %s, %s on %s", how, formatDuration((end-r.StartedNanos)/1e6*1e6), plural(r.Samples, "sample", "samples"),
		plural(r.Dispatches, "dispatch", "dispatches"), plural(r.Lanes, "lane", "lanes"))
	if result != nil {
		line = fmt.Sprintf("%s. So far %s, %s on %s", how, plural(r.Samples, "sample", "samples"),
			plural(r.Dispatches, "dispatch", "dispatches"), plural(r.Lanes, "lane", "lanes"))
	}
	if r.Symbol != "" {
		line += ", symbol " + r.Symbol
	}
	if r.Lane != "" {
		line += ", lane " + r.Lane
	}
	writeNote(a.stdout, a.width, "", strings.ToUpper(line[:1])+line[1:]+".")
	return result
}

// pickToWait finds the recording to wait for; "" when there is none yet.
func (a *app) pickToWait(ctx context.Context, want string) (string, error) {
	all := heldRecordings(ctx)
	var running []held
	for _, h := range all {
		if live(h.Info) {
			running = append(running, h)
		}
	}
	if want == "" {
		if len(running) == 0 {
			return "", nil
		}
		h := running[len(running)-1]
		if !isArchive(h.Path) {
			return "", nil // just being made
		}
		a.say("waiting for the live recording %s (%s)", h.Name, h.Path)
		return h.Path, nil
	}
	if h, err := chooseLive(running, want); err == nil {
		return h.Path, nil
	}
	path, err := findArchive(want)
	if err != nil {
		return "", err
	}
	return filepath.Clean(path), nil
}
