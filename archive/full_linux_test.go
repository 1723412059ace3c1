package archive

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDiskFullForReal fills a small file system until nothing fits, makes room, and goes on.
func TestDiskFullForReal(t *testing.T) {
	mount := t.TempDir()
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(mount, 0)) })
	dir := filepath.Join(mount, "a.stax")
	w, err := Create(dir, RecordingInfo{}, WriterOptions{SegmentRows: 2000})
	require.NoError(t, err)
	acknowledged := uint64(0)
	fill := func() {
		for {
			if err := w.Append(numbered(acknowledged+1, 100)); err != nil {
				require.ErrorIs(t, err, syscall.ENOSPC)
				return
			}
			acknowledged += 100
		}
	}
	fill()
	r, err := Open(dir, ReaderOptions{})
	require.NoError(t, err)
	assert.Equal(t, acknowledged, requireNumbered(t, r))
	require.NoError(t, r.Close())

	require.NoError(t, syscall.Mount("tmpfs", mount, "tmpfs", syscall.MS_REMOUNT, "size=3m"))
	before := acknowledged
	require.NoError(t, w.Append(numbered(acknowledged+1, 100)))
	acknowledged += 100
	fill()
	assert.Greater(t, acknowledged, before)
	require.NoError(t, syscall.Mount("tmpfs", mount, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
	require.NoError(t, w.Finish(t.Context(), nil, nil))
	r, err = Open(dir, ReaderOptions{})
	require.NoError(t, err)
	assert.Equal(t, acknowledged, requireNumbered(t, r))
	assert.Empty(t, r.Losses())
	require.NoError(t, r.Close())
}
