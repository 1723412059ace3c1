package archive

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func dump(t testing.TB, dir string) string {
	t.Helper()
	r, err := Open(dir, ReaderOptions{})
	require.NoError(t, err)
	defer r.Close()
	var b bytes.Buffer
	require.NoError(t, Dump(&b, r))
	require.Empty(t, r.Losses())
	return b.String()
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "%s differs; go test ./archive -update rewrites it", path)
}

// TestDump pins the text of every table and of the values that are hard to write.
func TestDump(t *testing.T) {
	c := &contents{}
	n := int64(1)
	c.grow(2, func(row reflect.Value, _ int) { fill(row, &n) })
	c.CounterSamples = append(c.CounterSamples,
		CounterSample{Float: math.NaN()}, CounterSample{Float: math.Float64frombits(0x7ff8dead00000000)},
		CounterSample{Float: math.Copysign(0, -1)}, CounterSample{Float: math.Inf(-1)}, CounterSample{Int: math.MinInt64})
	c.Dispatches = append(c.Dispatches, Dispatch{}, Dispatch{Name: "line\nbreak \"quoted\" = \\ ü \x00", StartNanos: -1})
	dir := filepath.Join(t.TempDir(), "a.stax")
	w, err := Create(dir, RecordingInfo{ID: "r1", Name: "all tables", Command: []string{"./app", "-x"}, StartedNanos: 5}, manualOptions())
	require.NoError(t, err)
	require.NoError(t, w.Append(&c.Batch))
	require.NoError(t, w.Finish(t.Context(), func(i *RecordingInfo) { i.StoppedNanos = 9 }, nil))
	require.NoError(t, WriteDerived(t.Context(), dir, "origin/1", func(d *DerivedWriter) error {
		require.NoError(t, d.Links(c.Links))
		return d.Certificates(c.Certificates)
	}))
	text := dump(t, dir)
	golden(t, "testdata/dump.txt", text)

	again := filepath.Join(t.TempDir(), "b.stax")
	require.NoError(t, Assemble(strings.NewReader(text), again))
	assert.Equal(t, text, dump(t, again))
	requireSame(t, readAll(t, openDir(t, dir)), readAll(t, openDir(t, again)), "assembled")
}

// TestAssembleIsDeterministic: the same text gives the same bytes, file by file.
func TestAssembleIsDeterministic(t *testing.T) {
	text, err := os.ReadFile("testdata/dump.txt")
	require.NoError(t, err)
	files := func() map[string]string {
		dir := filepath.Join(t.TempDir(), "a.stax")
		require.NoError(t, Assemble(bytes.NewReader(text), dir))
		all := map[string]string{}
		require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			rel, _ := filepath.Rel(dir, path)
			all[rel] = string(b)
			return err
		}))
		return all
	}
	first := files()
	assert.Len(t, first, 2+len(tables))
	assert.Equal(t, first, files())
}

func TestAssembleErrors(t *testing.T) {
	const head = "stax-archive 1\nrecording {\"id\":\"\",\"name\":\"\",\"state\":\"finished\",\"started_ns\":1,\"host\":{}}\n"
	for _, test := range []struct{ text, want string }{
		{"", `line 0: want "stax-archive 1", got ""`},
		{"stax-archive 2\n", `line 1: want "stax-archive 1"`},
		{"stax-archive 1\n", "want the recording"},
		{"stax-archive 1\nrecording {\"no\":1}\n", `line 2: recording: json: unknown field "no"`},
		{head + "# comment\n\nlains\n", `line 5: no table "lains"`},
		{head + "lanes color=1\n", `table lanes has no column "color"`},
		{head + "lanes lane=gpu\n", "table lanes, column lane: want a quoted string"},
		{head + "lanes lane=\"a\"name=\"b\"\n", "want a space after the value"},
		{head + "lanes pseudo_tid=4294967296\n", "value out of range"},
		{head + "dispatches trace=00\n", "want 32 hex digits"},
		{head + "dispatches name\n", "want column=value"},
		{head + "links owner=1\n", "before the line derived"},
	} {
		dir := filepath.Join(t.TempDir(), "a.stax")
		err := Assemble(strings.NewReader(test.text), dir)
		require.ErrorContains(t, err, test.want, "%q", test.text)
		require.NoDirExists(t, dir)
	}
}
