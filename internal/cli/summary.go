package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/stax-otel/stax/internal/query"
)

// summary prints what a recording holds and what to ask next.
func (a *app) summary(ctx context.Context, path string) error {
	answer, _, err := ask[query.Answer[query.InfoRow]](ctx, a, path, "info", url.Values{})
	if err != nil {
		return err
	}
	field := func(name, format string, args ...any) {
		fmt.Fprintf(a.stdout, "%-12s %s\n", name, clean(fmt.Sprintf(format, args...)))
	}
	field("Archive", "%s", path)
	for i := range answer.Rows {
		renderTotals(field, &answer.Rows[i], answer.Coverage)
	}
	for _, h := range answer.Hints {
		fmt.Fprintf(a.stdout, "%s\n", clean(h.Text))
		if h.Next != "" {
			fmt.Fprintf(a.stdout, "  -> %s\n", clean(h.Next))
		}
	}
	name := quoteArg(path)
	if len(answer.Rows) > 0 && answer.Rows[0].Dispatches > 0 {
		field("Next", "stax target top %s", name)
		field("", "stax target origins %s", name)
		field("", "stax diagnose %s", name)
	} else {
		field("Next", "stax diagnose %s", name)
	}
	return nil
}

// quoteArg quotes an argument for a shell where it needs it.
func quoteArg(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r == '/' || r == '.' || r == '-' || r == '_' || r == ':' || r == '+' || r == '=' || r == '@' ||
			r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
