package recording

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSystemProcesses(t *testing.T) {
	procs := SystemProcesses()
	self, ok := procs.Lookup(os.Getpid())
	require.True(t, ok)
	assert.Equal(t, os.Getppid(), self.Parent)
	assert.Positive(t, self.Start)
	assert.Positive(t, procs.Namespace())

	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	require.NoError(t, cmd.Start())
	child, ok := procs.Lookup(cmd.Process.Pid)
	require.True(t, ok)
	assert.Equal(t, os.Getpid(), child.Parent)
	assert.True(t, descends(procs, child.PID, os.Getpid()))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	_, ok = procs.Lookup(cmd.Process.Pid)
	assert.False(t, ok)
	_, ok = procs.Lookup(0)
	assert.False(t, ok)
}

func TestParseStat(t *testing.T) {
	const tail = " 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0\n"
	for stat, want := range map[string]Process{
		"7 (a) S 3 7 7 0 -1 4\n":           {},
		"7 (sh) S 3 7 7 0 -1 4" + tail:     {PID: 7, Parent: 3, Start: 4242},
		"7 (a b) c) S 3 7 7 0 -1 4" + tail: {PID: 7, Parent: 3, Start: 4242},
		"7 (sh) Z 3 7 7 0 -1 4" + tail:     {},
		"7 (sh) S x 7 7 0 -1 4" + tail:     {},
		"":                                 {},
		"7 (sh":                            {},
		") 7 (":                            {},
	} {
		got, ok := parseStat([]byte(stat))
		assert.Equal(t, want, got, stat)
		assert.Equal(t, want.PID != 0, ok, stat)
	}
}

func TestParseNSpid(t *testing.T) {
	assert.Equal(t, []int{4, 1}, parseNSpid([]byte("Name:\tx\nNSpid:\t300\t4\t1\nNSpgid:\t300\n")))
	assert.Empty(t, parseNSpid([]byte("Name:\tx\nNSpid:\t300\n")))
	assert.Empty(t, parseNSpid([]byte("Name:\tx\n")))
}
