package cli

import (
	"bufio"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/query"
)

func newArchiveCmd(a *app) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "archive",
		Short: "Look into archives: describe, verify, print as text, make from text",
		Example: `  stax archive info demo.stax
  stax archive verify demo.stax
  stax archive dump demo.stax | grep '^dispatch'`,
	})
	cmd.AddCommand(newArchiveInfoCmd(a), newArchiveVerifyCmd(a), newArchiveDumpCmd(a), newArchiveAssembleCmd(a))
	return cmd
}

func newArchiveInfoCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "info",
		Short:   "Describe a recording: command, processes, what it holds, privacy",
		Example: "  stax archive info\n  stax archive info demo.stax --json",
	}
	return question[query.Answer[query.InfoRow]]{name: "info", cmd: cmd, render: renderInfo}.build(a)
}

func newArchiveVerifyCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [ARCHIVE]",
		Short: "Read every file of an archive and check it",
		Long: `Read every file of an archive and check it.

Exit code 0 when the archive is readable, with every loss stated; 1 when it cannot be opened.
Whether records are missing that should be there is the question of stax audit.`,
		Example: "  stax archive verify demo.stax",
		Args:    args(cobra.MaximumNArgs(1)),
	}
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object: schema, rows, losses")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		path, err := a.pick(cmd.Context(), first(given))
		if err != nil {
			return err
		}
		report, err := archive.Verify(cmd.Context(), path)
		if err != nil {
			return err
		}
		if *asJSON {
			losses := report.Losses
			if losses == nil {
				losses = []archive.Loss{}
			}
			return writeJSON(a.stdout, struct {
				Schema string           `json:"schema"`
				Files  int              `json:"files"`
				Tables map[string]int64 `json:"table_rows"`
				Losses []archive.Loss   `json:"losses"`
			}{"stax.verify/1", report.Files, report.Rows, losses})
		}
		rows := int64(0)
		for _, n := range report.Rows {
			rows += n
		}
		t := &table{columns: []column{text("TABLE", 0), num("ROWS")}}
		for _, name := range sortedKeys(report.Rows) {
			t.add(name, formatCount(report.Rows[name]))
		}
		if err := t.write(a.stdout, a.width); err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "%s read, %s.\n", plural(report.Files, "file", "files"), plural(rows, "row", "rows"))
		if len(report.Losses) == 0 {
			fmt.Fprintln(a.stdout, "Everything is readable.")
		}
		for _, l := range report.Losses {
			fmt.Fprintf(a.stdout, "Lost: %s\n", clean(lossText(l)))
		}
		return nil
	}
	return cmd
}

func lossText(l archive.Loss) string {
	s := l.File
	if l.Offset >= 0 {
		s += fmt.Sprintf(" from byte %d", l.Offset)
	}
	if l.Rows >= 0 {
		s += ", " + plural(l.Rows, "row", "rows")
	} else if l.Bytes >= 0 {
		s += ", " + formatBytes(l.Bytes)
	}
	return s + ": " + l.Reason
}

func newArchiveDumpCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dump [ARCHIVE]",
		Short:   "Print an archive as text, one line for each row; assemble is the way back",
		Example: "  stax archive dump demo.stax > demo.txt",
		Args:    args(cobra.MaximumNArgs(1)),
	}
	cmd.RunE = func(cmd *cobra.Command, given []string) (err error) {
		r, _, err := a.openArchive(cmd.Context(), first(given))
		if err != nil {
			return err
		}
		defer func() {
			if e := r.Close(); err == nil {
				err = e
			}
		}()
		w := bufio.NewWriter(a.stdout)
		if err := archive.Dump(w, r); err != nil {
			return err
		}
		return w.Flush()
	}
	return cmd
}

func newArchiveAssembleCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "assemble TEXT ARCHIVE",
		Short:   "Make an archive from the text that stax archive dump prints; TEXT - reads stdin",
		Example: "  stax archive assemble demo.txt copy.stax",
		Args:    args(cobra.ExactArgs(2)),
	}
	cmd.RunE = func(_ *cobra.Command, given []string) error {
		in := a.stdin
		if given[0] != "-" {
			f, err := os.Open(given[0])
			if err != nil {
				return err
			}
			defer f.Close()
			in = f
		}
		return archive.Assemble(bufio.NewReader(in), given[1])
	}
	return cmd
}

func first(given []string) string {
	if len(given) == 0 {
		return ""
	}
	return given[0]
}
