package archive

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFindBooleans looks up rows, one by one, whose booleans differ from their neighbours'.
func TestFindBooleans(t *testing.T) {
	path := filepath.Join(t.TempDir(), "find.stax")
	w, err := Create(path, RecordingInfo{ID: "find"}, WriterOptions{})
	require.NoError(t, err)
	b := Batch{Runtimes: []Runtime{{ID: "rt"}}}
	for i := range 100 {
		b.Dispatches = append(b.Dispatches, Dispatch{
			Runtime: "rt", ID: DispatchID(i + 1), Faulted: i%3 == 0, Origin: Origin{ThreadID: 7, ThreadLocked: i%5 == 0},
		})
	}
	require.NoError(t, w.Append(&b))
	require.NoError(t, w.Finish(t.Context(), func(*RecordingInfo) {}, nil))
	r, err := Open(path, ReaderOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for i := range 100 {
		d, ok, err := r.Dispatch(t.Context(), DispatchID(i+1))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, []bool{i%3 == 0, i%5 == 0}, []bool{d.Faulted, d.Origin.ThreadLocked}, "dispatch %d", i+1)
	}
}
