package origin

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the results into testdata")

// TestCases runs testdata/CASE/N.test: a txtar of a scenario (in) and every verdict on it (out). A
// folder is a class, a flag, a status, or a property of waits. See testdata/README.md.
func TestCases(t *testing.T) {
	paths, err := filepath.Glob("testdata/*/*.test")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		t.Run(filepath.ToSlash(path[len("testdata/"):]), func(t *testing.T) {
			file, err := txtar.ParseFile(path)
			require.NoError(t, err)
			require.Len(t, file.Files, 2, "want the files in and out")
			s, err := parseScenario(string(file.Files[0].Data))
			require.NoError(t, err, path)
			got := s.run()
			if *update {
				file.Files[1].Data = []byte(got)
				require.NoError(t, os.WriteFile(path, txtar.Format(file), 0o644))
				return
			}
			if diff := cmp.Diff(string(file.Files[1].Data), got); diff != "" {
				t.Errorf("%s\n%s\n(-want +got)\n%s", path, file.Files[0].Data, diff)
			}
		})
	}
}
