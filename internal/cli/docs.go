package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newDocsCmd prints the reference that docs/cli.md holds; a test compares them.
func newDocsCmd(a *app, root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "docs",
		Short:  "Print the reference of all commands as Markdown",
		Hidden: true,
		Args:   args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return writeDocs(a.stdout, root)
		},
	}
}

func writeDocs(w io.Writer, root *cobra.Command) error {
	var b strings.Builder
	b.WriteString("# stax command reference\n\n")
	b.WriteString("Made by `go generate ./internal/cli`; edit the commands, not this file.\n\n")
	b.WriteString(root.Long + "\n\n")
	b.WriteString(`Exit codes: 0 done, 1 failure, 2 wrong usage, 3 a check said no. Data goes to stdout, everything else to stderr.

Recordings live in ` + "`$STAX_DIR/recordings`" + `, else ` + "`$XDG_DATA_HOME/stax/recordings`" + `, else ` + "`~/.local/share/stax/recordings`" + `. Without
ARCHIVE a command asks the live recording, else the newest, and says on stderr which. Every query prints one object with
` + "`--json`" + `: ` + "`{\"schema\", \"rows\", \"matched\", \"coverage\", \"hints\"}`" + `, ids as 16 hex digits, units in the names.

`)
	docCommand(&b, root)
	_, err := io.WriteString(w, b.String())
	return err
}

func docCommand(b *strings.Builder, cmd *cobra.Command) {
	if cmd.HasParent() {
		fmt.Fprintf(b, "## %s\n\n", cmd.CommandPath())
		if cmd.Long != "" && cmd.Long != cmd.Short {
			fmt.Fprintf(b, "%s\n\n", cmd.Long)
		} else {
			fmt.Fprintf(b, "%s.\n\n", cmd.Short)
		}
		if cmd.Runnable() && !cmd.HasSubCommands() {
			fmt.Fprintf(b, "```\n%s\n```\n\n", cmd.UseLine())
		}
		flags := false
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			if !flags {
				b.WriteString("| flag | default | |\n|---|---|---|\n")
				flags = true
			}
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + ", " + name
			}
			def := ""
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
				def = "`" + f.DefValue + "`"
			}
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, def, strings.ReplaceAll(f.Usage, "|", `\|`))
		})
		if flags {
			b.WriteString("\n")
		}
		if cmd.Example != "" {
			fmt.Fprintf(b, "```sh\n%s\n```\n\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
		}
	}
	for _, sub := range cmd.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		docCommand(b, sub)
	}
}
