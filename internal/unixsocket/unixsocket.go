// Package unixsocket listens on unix sockets that belong to one user.
package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Listen listens on a unix socket that only this user can connect to. Its directory is made if it is missing. A socket that
// nobody listens on any more is replaced; one that is in use, and anything that is no socket, is not. Closing the listener
// removes the socket.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if path == "" {
		return nil, errors.New("unix socket: the path is empty")
	}
	if len(path) > MaxPath {
		return nil, fmt.Errorf("unix socket %s: the path has %d bytes and may have %d: use a shorter directory", path, len(path), MaxPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("unix socket %s: make its directory: %w", path, err)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, fmt.Errorf("unix socket %s: %w", path, err)
	}
	lc := net.ListenConfig{Control: private}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("unix socket %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("unix socket %s: make it private: %w", path, err), l.Close())
	}
	return l, nil
}

func removeStale(ctx context.Context, path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.Mode().Type() != fs.ModeSocket {
		return errors.New("the path exists and is not a socket; remove it or choose another path")
	}
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = c.Close()
		return fmt.Errorf("%w: another process listens on it; stop that one or choose another path", syscall.EADDRINUSE)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("find out whether it is in use: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the stale socket: %w", err)
	}
	return nil
}
