package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/stax-otel/stax/internal/query"
)

// summary prints what a recording holds and what to ask next.
func (a *app) summary(ctx context.Context, path string) error {
	return a.summaryTo(ctx, a.stdout, path)
}

func (a *app) summaryTo(ctx context.Context, w io.Writer, path string) error {
	answer, _, err := ask[query.Answer[query.InfoRow]](ctx, a, path, "info", url.Values{})
	if err != nil {
		return err
	}
	field := func(name, format string, args ...any) {
		writeNote(w, a.width, pad(name, 13), fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(w, "%s%s\n", pad("Archive", 13), clean(path)) // whole, to be copied
	for i := range answer.Rows {
		renderTotals(field, &answer.Rows[i], answer.Coverage)
	}
	writeHints(w, a.width, answer.Hints)
	name := quoteArg(path)
	if len(answer.Rows) > 0 && answer.Rows[0].Dispatches > 0 {
		fmt.Fprintf(w, "%sstax target top %s\n", pad("Next", 13), name)
		fmt.Fprintf(w, "%sstax target origins %s\n", pad("", 13), name)
		if answer.Rows[0].Samples > 0 {
			fmt.Fprintf(w, "%sstax top %s\n", pad("", 13), name)
		}
		fmt.Fprintf(w, "%sstax diagnose %s\n", pad("", 13), name)
	} else if len(answer.Rows) > 0 && answer.Rows[0].Samples > 0 {
		fmt.Fprintf(w, "%sstax top %s\n", pad("Next", 13), name)
		fmt.Fprintf(w, "%sstax threads %s\n", pad("", 13), name)
		fmt.Fprintf(w, "%sstax diagnose %s\n", pad("", 13), name)
	} else {
		fmt.Fprintf(w, "%sstax diagnose %s\n", pad("Next", 13), name)
	}
	return nil
}

// quoteArg quotes an argument for a shell where it needs it.
func quoteArg(s string) string {
	plain := func(r rune) bool {
		return strings.ContainsRune("/.-_:+=@", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
