package cli

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/archive"
)

// listRow is one recording in the answer of list.
type listRow struct {
	ID           string   `json:"recording_id"`
	Name         string   `json:"name"`
	Path         string   `json:"path"`
	State        string   `json:"state"` // recording, draining, sealing, finished, crashed, unreadable
	StartedNanos int64    `json:"started_ns"`
	StoppedNanos int64    `json:"stopped_ns"`
	Command      []string `json:"command"`
	CollectorPID int      `json:"collector_pid,omitempty"`
	Problem      string   `json:"problem,omitempty"`
}

func newListCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the recordings: live ones, and those in the recordings directory, newest first",
		Example: "  stax list\n  stax list --limit 0 --json",
		Args:    args(cobra.NoArgs),
	}
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object")
	limit := cmd.Flags().Int("limit", 20, "show at most this many recordings; 0: all. Live ones are always shown")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *limit < 0 {
			return usageError("--limit %d: want a number of rows, 0 for all", *limit)
		}
		dir, err := recordingsDir()
		if err != nil {
			return err
		}
		rows, err := listRows(cmd, dir)
		if err != nil {
			return err
		}
		matched := len(rows)
		if *limit > 0 {
			kept := rows[:0]
			for i, r := range rows {
				if i < *limit || r.CollectorPID != 0 {
					kept = append(kept, r)
				}
			}
			rows = kept
		}
		if *asJSON {
			return writeJSON(a.stdout, struct {
				Schema    string    `json:"schema"`
				Directory string    `json:"directory"`
				Rows      []listRow `json:"rows"`
				Matched   int       `json:"matched"`
			}{"stax.list/1", dir, rows, matched})
		}
		if len(rows) == 0 {
			fmt.Fprintf(a.stdout, "No recordings in %s.\n  -> make one with: stax record -- COMMAND\n", dir)
			return nil
		}
		t := &table{columns: []column{text("NAME", 20), text("STATE", 0), text("STARTED", 0), num("LASTED"), text("COMMAND", 16)}}
		for _, r := range rows {
			lasted := "-"
			if r.StoppedNanos != 0 {
				lasted = formatDuration(r.StoppedNanos - r.StartedNanos)
			}
			name := r.Path
			if filepath.Dir(r.Path) == dir {
				name = strings.TrimSuffix(filepath.Base(r.Path), archiveSuffix)
			}
			t.add(name, r.State, formatClock(r.StartedNanos), lasted, cmp.Or(r.Problem, strings.Join(r.Command, " ")))
		}
		if err := t.write(a.stdout, a.width); err != nil {
			return err
		}
		if len(rows) < matched {
			fmt.Fprintf(a.stdout, "%d of %d recordings shown; --limit 0 shows all.\n", len(rows), matched)
		}
		return nil
	}
	return cmd
}

func listRows(cmd *cobra.Command, dir string) ([]listRow, error) {
	rows := []listRow{}
	seen := map[string]bool{}
	held := heldRecordings(cmd.Context())
	for i := range held {
		h := held[len(held)-1-i]
		if !live(h.Info) {
			continue
		}
		seen[h.Path] = true
		rows = append(rows, listRow{
			ID: string(h.ID), Name: h.Name, Path: h.Path, State: string(h.State), StartedNanos: h.StartedUnixNano,
			StoppedNanos: h.StoppedUnixNano, Command: orEmpty(h.Command), CollectorPID: h.collector.pid, Problem: h.Problem,
		})
	}
	archives, err := listArchives(dir)
	if err != nil {
		return nil, err
	}
	for _, l := range archives {
		if seen[l.path] {
			continue
		}
		info := l.manifest.Recording
		row := listRow{
			ID: info.ID, Name: info.Name, Path: l.path, State: info.State, StartedNanos: info.StartedNanos,
			StoppedNanos: info.StoppedNanos, Command: orEmpty(info.Command),
		}
		switch {
		case l.err != nil:
			row.State, row.Problem = "unreadable", l.err.Error()
		case info.State != archive.StateFinished && !l.live:
			row.State = "crashed"
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
