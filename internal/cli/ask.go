package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/query"
)

// asked is what a renderer of an answer may need beside it.
type asked struct {
	app  *app
	w    io.Writer
	path string
	info archive.RecordingInfo
}

// table prints a table as wide as the terminal.
func (k *asked) table(t *table) error { return t.write(k.w, k.app.width) }

func (k *asked) printf(format string, args ...any) { fmt.Fprintf(k.w, format, args...) }

// question is a command that asks one query and renders its answer as text or JSON. The flags of the command are the
// parameters of the query.
type question[A any] struct {
	name   string // of the query
	cmd    *cobra.Command
	params func(v url.Values) // adds what flags do not carry by themselves; may be nil
	render func(k *asked, answer A) error
	// verdict turns an answer into the command's result, after it has been rendered; may be nil.
	verdict func(answer A) error
}

// notParams are flags of the command that are not parameters of the query.
var notParams = map[string]bool{"json": true, "help": true}

// build finishes the command: arguments, --json and its body.
func (q question[A]) build(a *app) *cobra.Command {
	cmd := q.cmd
	cmd.Use += " [ARCHIVE]"
	cmd.Args = args(cobra.MaximumNArgs(1))
	cmd.ValidArgsFunction = completeArchives
	asJSON := cmd.Flags().Bool("json", false, "print one JSON object: schema, rows, coverage, hints")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		v := url.Values{}
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if !notParams[f.Name] {
				v.Set(f.Name, f.Value.String())
			}
		})
		if q.params != nil {
			q.params(v)
		}
		return q.run(cmd.Context(), a, v, first(given), *asJSON)
	}
	return cmd
}

// run asks and renders.
func (q question[A]) run(ctx context.Context, a *app, v url.Values, path string, asJSON bool) error {
	answer, k, err := ask[A](ctx, a, path, q.name, v)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(a.stdout)
	k.w = w
	if asJSON {
		err = writeJSON(w, answer)
	} else {
		err = q.render(k, answer)
	}
	if flushErr := w.Flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("write the answer: %w", flushErr)
	}
	if err == nil && q.verdict != nil {
		err = q.verdict(answer)
	}
	return err
}

func ask[A any](ctx context.Context, a *app, path, name string, v url.Values) (answer A, k *asked, err error) {
	// A mistake in how a command was called comes before the search for an archive.
	if err := query.Check(name, v); err != nil {
		return answer, nil, paramError(err)
	}
	r, path, err := a.openArchive(ctx, path)
	if err != nil {
		return answer, nil, err
	}
	defer func() {
		if e := r.Close(); err == nil {
			err = e
		}
	}()
	out, err := query.Run(ctx, r, name, v)
	if err != nil {
		return answer, nil, paramError(err)
	}
	answer, ok := out.(A)
	if !ok {
		return answer, nil, fmt.Errorf("query %s answered with %T", name, out)
	}
	return answer, &asked{app: a, path: path, info: r.Manifest().Recording}, nil
}

// paramError turns a parameter that cannot be used into a mistake of the command line.
func paramError(err error) error {
	var param *query.ParamError
	if errors.As(err, &param) {
		return usageError("--%s %q: want %s", param.Name, param.Value, param.Want)
	}
	return err
}

// writeJSON prints one object.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// limitFlag adds --limit.
func limitFlag(cmd *cobra.Command, def int, what string) {
	help := "show at most this many " + what + "; 0: all"
	cmd.Flags().String("limit", strconv.Itoa(def), help)
}

func filterFlag(cmd *cobra.Command, name, what string) {
	cmd.Flags().String(name, "", what)
}

const (
	laneFilterHelp = "only this lane: its name, id or thread id, a part of its name, or a pattern with * and ?"
	nameFilterHelp = "only names with this text, matching a pattern with * and ?, or exactly =TEXT"
)

// footer prints an explanation of the columns, hints, and what is missing.
func (k *asked) footer(c query.Coverage, hints []query.Hint, legend ...string) {
	for _, line := range legend {
		k.note("%s", line)
	}
	writeHints(k.w, k.app.width, hints)
	k.coverage(c)
}

// note prints a sentence, broken where it is too long for a line.
func (k *asked) note(format string, args ...any) {
	writeNote(k.w, k.app.width, "", fmt.Sprintf(format, args...))
}

// writeNote prints text in lines of at most width; the first begins with head, the others are indented as far.
func writeNote(w io.Writer, width int, head, s string) {
	indent := utf8.RuneCountInString(head)
	for _, line := range wrapText(clean(s), max(width-indent, 30)) {
		fmt.Fprintf(w, "%s\n", strings.TrimRight(head+line, " "))
		head = strings.Repeat(" ", indent)
	}
}

func writeHints(w io.Writer, width int, hints []query.Hint) {
	for _, h := range hints {
		writeNote(w, width, "", h.Text)
		if h.Next != "" {
			writeNote(w, width, "  -> ", h.Next)
		}
	}
}

// coverage says what the answer does not rest on, if anything.
func (k *asked) coverage(c query.Coverage) {
	switch c.State {
	case query.StateLive:
		k.note("The recording is still running: this is a snapshot.")
	case query.StateCrashed:
		k.note("The recorder died before it sealed this archive; stax audit says what is missing.")
	}
	if c.Dropped > 0 {
		k.note("%s archived, %s dropped; stax audit says where.", plural(c.Archived, "record", "records"), formatCount(c.Dropped))
	}
	if c.UnsequencedRuntimes > 0 {
		k.note("%s records without numbers, so losses would not show.",
			plural(c.UnsequencedRuntimes, "process sent", "processes sent"))
	}
	if c.UnreadableParts > 0 {
		k.note("%s of the archive cannot be read; stax archive verify says which.", plural(c.UnreadableParts, "part", "parts"))
	}
}

// cutNote says that a limit hid rows.
func (k *asked) cutNote(shown, matched int, what string) {
	if shown < matched {
		k.printf("%s of %s %s shown; --limit 0 shows all.\n", formatCount(shown), formatCount(matched), what)
	}
}
