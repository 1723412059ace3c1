package query

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/origin"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata")

// TestGolden asks the questions in testdata/*.txtar. The file "archive" of each is the text twin of an archive; every
// other file is named like the end of a URL, "top?by=count", and holds the answer as JSON, or "error: ...".
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			require.NoError(t, err)
			require.Equal(t, "archive", ar.Files[0].Name)
			dir := filepath.Join(t.TempDir(), "a.stax")
			require.NoError(t, archive.Assemble(bytes.NewReader(ar.Files[0].Data), dir))
			plain := answers(t, dir, ar.Files[1:])
			if r := open(t, dir); r.Manifest().Recording.State == archive.StateFinished {
				// Stored links and certificates must not change an answer, but for those that speak of them.
				require.NoError(t, origin.DeriveInto(t.Context(), dir))
				for i, derived := range answers(t, dir, ar.Files[1:]) {
					if name, _, _ := strings.Cut(ar.Files[i+1].Name, "?"); name != "audit" && name != "info" {
						assert.Empty(t, cmp.Diff(string(plain[i]), string(derived)), "%s with derived tables", ar.Files[i+1].Name)
					}
				}
			}
			for i := range plain {
				f := &ar.Files[i+1]
				if *update {
					f.Data = plain[i]
					continue
				}
				assert.Empty(t, cmp.Diff(string(f.Data), string(plain[i])), "%s (-want +got)", f.Name)
			}
			if *update {
				require.NoError(t, os.WriteFile(file, txtar.Format(ar), 0o644))
			}
		})
	}
}

func open(t *testing.T, dir string) *archive.Reader {
	t.Helper()
	r, err := archive.Open(dir, archive.ReaderOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	return r
}

func answers(t *testing.T, dir string, files []txtar.File) [][]byte {
	t.Helper()
	r := open(t, dir)
	out := make([][]byte, len(files))
	for i, f := range files {
		name, params, _ := strings.Cut(f.Name, "?")
		v, err := url.ParseQuery(params)
		require.NoError(t, err)
		answer, err := Run(t.Context(), r, name, v)
		if err != nil {
			out[i] = []byte("error: " + err.Error() + "\n")
			continue
		}
		out[i], err = json.MarshalIndent(answer, "", "  ")
		require.NoError(t, err)
		out[i] = append(out[i], '\n')
		envelope(t, f.Name, out[i])
	}
	return out
}

// envelope checks what every answer promises.
func envelope(t *testing.T, name string, answer []byte) {
	t.Helper()
	var e struct {
		Schema   string                     `json:"schema"`
		Rows     []json.RawMessage          `json:"rows"`
		Coverage map[string]json.RawMessage `json:"coverage"`
		Hints    []Hint                     `json:"hints"`
	}
	require.NoError(t, json.Unmarshal(answer, &e), name)
	assert.Regexp(t, `^stax\.[a-z_]+/1$`, e.Schema, name)
	assert.NotNil(t, e.Rows, "%s: rows", name)
	assert.NotNil(t, e.Hints, "%s: hints", name)
	assert.Contains(t, e.Coverage, "state", name)
	if len(e.Rows) == 0 && !strings.HasPrefix(name, "audit") {
		assert.NotEmpty(t, e.Hints, "%s: an empty answer says why", name)
		for _, h := range e.Hints {
			assert.NotEmpty(t, h.Next, "%s: and what to do", name)
		}
	}
}

func TestRunErrors(t *testing.T) {
	r := makeArchive(t, true, &archive.Batch{Runtimes: []archive.Runtime{{ID: "a"}}})
	_, err := Run(t.Context(), r, "nosuch", nil)
	require.ErrorIs(t, err, ErrUnknownQuery)
	for _, tc := range []struct {
		query, params, name string
	}{
		{"top", "by=weight", "by"},
		{"top", "limit=-1", "limit"},
		{"top", "lmit=1", "lmit"},
		{"lanes", "limit=1", "limit"},
		{"dispatches", "class=none", "class"},
		{"dispatches", "sort=up", "sort"},
		{"dispatch", "", "id"},
		{"dispatch", "id=0", "id"},
		{"dispatch", "id=xyz", "id"},
		{"flame", "tid=-3", "tid"},
		{"info", "x=1", "x"},
		{"cpu_top", "by=weight", "by"},
		{"flame", "mode=up", "mode"},
		{"gaps", "", "lane"},
		{"wall", "pid=-1", "pid"},
		{"why", "", "dispatch"},
		{"why", "dispatch=1&wait=2", "dispatch"},
	} {
		v, err := url.ParseQuery(tc.params)
		require.NoError(t, err)
		_, err = Run(t.Context(), r, tc.query, v)
		var param *ParamError
		if assert.ErrorAs(t, err, &param, "%s?%s", tc.query, tc.params) {
			assert.Equal(t, tc.name, param.Name, "%s?%s", tc.query, tc.params)
		}
	}
	for _, name := range Names() {
		err := Check(name, url.Values{"nosuch": {"1"}})
		var param *ParamError
		require.ErrorAs(t, err, &param, name)
	}
	require.NoError(t, Check("top", url.Values{"by": {"count"}}))
	require.ErrorIs(t, Check("nosuch", nil), ErrUnknownQuery)
	_, err = Run(t.Context(), r, "dispatch", url.Values{"id": {"12"}})
	require.ErrorIs(t, err, ErrNotFound)
}
