//go:generate go test . -run TestDocsAreCurrent -update

// Package cli is the stax command line: one file per subcommand, rendering what package query answers.
//
// Data goes to stdout, everything else to stderr, errors as one line "stax: …". Exit codes: 0 done, 1 failure, 2 wrong
// usage, 3 a check said no. When stdout is not a terminal the text is stable: no colour, 100 columns.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
	ExitCheck   = 3 // a check said no
)

// Main runs the command line and returns the exit code. args are without the program's name.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := newApp(stdin, stdout, stderr)
	root := newRootCmd(a)
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	var exit *exitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		if exit.err != nil {
			a.say("%s", oneLine(exit.err))
		}
		return exit.code
	}
	a.say("%s", oneLine(err))
	if !a.running {
		return ExitUsage // cobra did not get as far as a command
	}
	return ExitFailure
}

// exitError ends the program with a code, and prints err if there is one.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError is a mistake in how a command was called.
func usageError(format string, args ...any) error {
	return &exitError{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// oneLine keeps an error on one line, without a prefix that the program's name repeats.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(clean(strings.ReplaceAll(err.Error(), "\n", "; ")), func(r rune) bool { return r == '\r' }), " ")
}

// app is what every command shares: the streams and how to write to them.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	width          int  // of tables
	progress       bool // stderr is a terminal: progress may redraw its line
	running        bool // a command's own code has begun: what fails now is no usage error
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, width: defaultWidth}
	if f, ok := stdout.(*os.File); ok {
		if columns, ok := terminalWidth(f); ok {
			a.width = min(max(columns, 60), 200)
		}
	}
	if f, ok := stderr.(*os.File); ok {
		_, a.progress = terminalWidth(f)
	}
	return a
}

// defaultWidth is the width of tables when stdout is not a terminal.
const defaultWidth = 100

// say writes one line to stderr.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.stderr, "stax: "+format+"\n", args...)
}

func newRootCmd(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "stax",
		Short: "Record what a program's lanes do, and ask which code caused it and whether anyone waited",
		Long: `stax records the work of lanes (GPU queues, executors, thread pools, tick loops) that a
program reports over OpenTelemetry, together with the CPU code that caused it and the
waits for it, and answers questions about the recording.

Start with:  stax record -- COMMAND    then:  stax target lanes`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.running = true
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddGroup(
		&cobra.Group{ID: groupRecord, Title: "Record:"},
		&cobra.Group{ID: groupAsk, Title: "Ask (without ARCHIVE: the live recording, else the newest):"},
		&cobra.Group{ID: groupFiles, Title: "Archives:"},
	)
	for _, g := range []struct {
		id   string
		cmds []*cobra.Command
	}{
		{groupRecord, []*cobra.Command{newRecordCmd(a), newServeCmd(a), newStatusCmd(a), newListCmd(a), newWaitCmd(a), newStopCmd(a)}},
		{groupAsk, []*cobra.Command{newTargetCmd(a), newCPUTopCmd(a), newFlameCmd(a), newThreadsCmd(a), newWhyCmd(a), newDiagnoseCmd(a), newAuditCmd(a)}},
		{groupFiles, []*cobra.Command{newOpenCmd(a), newSaveCmd(a), newArchiveCmd(a)}},
	} {
		for _, cmd := range g.cmds {
			cmd.GroupID = g.id
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newVersionCmd(a), newDocsCmd(a, root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

const (
	groupRecord = "record"
	groupAsk    = "ask"
	groupFiles  = "files"
)

// args wraps an argument check so that its error says where the help is.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := check(cmd, given); err != nil {
			return usageError("%w; see %s --help", err, cmd.CommandPath())
		}
		return nil
	}
}

// group makes a command that only holds others: without one of them it prints its help.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, given []string) error {
		if len(given) > 0 {
			return usageError("unknown command %q for %q; see %s --help", given[0], cmd.CommandPath(), cmd.CommandPath())
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}
