package archive

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var newVersion = flag.String("new-version", "", "make testdata/<version>, which must not exist, with the current writer")

// TestOldVersions reads the archives that earlier versions wrote. They are never made anew: a change
// that this test stops would leave people's archives unreadable.
func TestOldVersions(t *testing.T) {
	if *newVersion != "" {
		writeVersion(t, filepath.Join("testdata", *newVersion))
	}
	versions, err := filepath.Glob("testdata/v*")
	require.NoError(t, err)
	require.NotEmpty(t, versions)
	for _, v := range versions {
		t.Run(filepath.Base(v), func(t *testing.T) {
			golden(t, filepath.Join(v, "finished.txt"), dump(t, filepath.Join(v, "finished.stax")))

			r := openDir(t, filepath.Join(v, "killed.stax"))
			assert.Equal(t, uint64(70), requireNumbered(t, r))
			losses := r.Losses()
			require.Len(t, losses, 1)
			assert.Contains(t, losses[0].Reason, "truncated frame")
			assert.Equal(t, StateRecording, r.Manifest().Recording.State)

			report, err := Verify(t.Context(), filepath.Join(v, "finished.stax"))
			require.NoError(t, err)
			assert.True(t, report.Intact())
		})
	}
}

// writeVersion makes the two archives of a new version: one finished with every table, and one whose
// writer was killed with a sealed segment, a full log and a torn frame.
func writeVersion(t *testing.T, dir string) {
	require.NoError(t, os.Mkdir(dir, 0o755))
	c := &contents{}
	n := int64(1)
	c.grow(3, func(row reflect.Value, _ int) { fill(row, &n) })
	finished := filepath.Join(dir, "finished.stax")
	w, err := Create(finished, RecordingInfo{ID: "v", Name: "every table"}, manualOptions())
	require.NoError(t, err)
	require.NoError(t, w.Append(&c.Batch))
	require.NoError(t, w.Finish(t.Context(), nil, nil))
	require.NoError(t, WriteDerived(t.Context(), finished, "origin/1", func(d *DerivedWriter) error {
		require.NoError(t, d.Links(c.Links))
		return d.Certificates(c.Certificates)
	}))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "finished.txt"), []byte(dump(t, finished)), 0o644))

	killed := filepath.Join(dir, "killed.stax")
	o := manualOptions()
	o.SegmentRows = 50
	w, err = Create(killed, RecordingInfo{ID: "k", Name: "killed"}, o)
	require.NoError(t, err)
	require.NoError(t, w.Append(numbered(1, 30)))
	require.NoError(t, w.maintain(t.Context()))
	require.NoError(t, w.Append(numbered(31, 30)))
	require.NoError(t, w.Append(numbered(61, 10)))
	require.NoError(t, w.Append(numbered(71, 5)))
	torn := filepath.Join(killed, logName(w.log.number))
	require.NoError(t, w.Close())
	st, err := os.Stat(torn)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(torn, st.Size()-7))
}
