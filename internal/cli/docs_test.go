package cli

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const docsFile = "../../docs/cli.md"

func TestDocsAreCurrent(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, ExitOK, Main([]string{"docs"}, nil, &out, os.Stderr))
	if *update {
		require.NoError(t, os.WriteFile(docsFile, out.Bytes(), 0o644))
	}
	want, err := os.ReadFile(docsFile)
	require.NoError(t, err)
	assert.Equal(t, string(want), out.String(), "run: go test ./internal/cli -update")
}

// TestHelp holds every command to what help promises.
func TestHelp(t *testing.T) {
	a := newApp(nil, &bytes.Buffer{}, &bytes.Buffer{})
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		name := cmd.CommandPath()
		if cmd.Name() == "completion" || cmd.Name() == "help" {
			return
		}
		assert.NotEmpty(t, cmd.Short, name)
		assert.LessOrEqual(t, len(cmd.Short), 88, "%s: the short help has one line", name)
		assert.False(t, strings.HasSuffix(cmd.Short, "."), "%s: no full stop", name)
		if cmd.HasParent() && !cmd.Hidden {
			assert.NotEmpty(t, cmd.Example, "%s: an example", name)
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			assert.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), 110, "%s: %s", name, line)
		}
		for _, word := range []string{"CPU time of", "cpu time"} {
			assert.NotContains(t, cmd.Short, word, "%s: target time is never CPU time", name)
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRootCmd(a))
}
