package unixsocket

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "a.sock")
	l, err := Listen(t.Context(), path)
	require.NoError(t, err)
	fi, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), fi.Mode().Perm())
	dir, err := os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), dir.Mode().Perm())

	_, err = Listen(t.Context(), path)
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, path)

	require.NoError(t, l.Close())
	_, err = os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestListenReplacesStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false) // as a killed process leaves it
	require.NoError(t, l.Close())
	require.FileExists(t, path)

	l, err = Listen(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

func TestListenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("keep"), 0o600))

	for name, tt := range map[string]struct{ path, want string }{
		"empty":     {"", "empty"},
		"too long":  {filepath.Join(dir, strings.Repeat("x", MaxPath)), "use a shorter directory"},
		"a file":    {file, "not a socket"},
		"not a dir": {filepath.Join(file, "a.sock"), "make its directory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Listen(t.Context(), tt.path)
			require.ErrorContains(t, err, tt.want)
		})
	}
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "keep", string(b))
}
