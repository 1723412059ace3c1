package staxtargetreceiver

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

	"go.opentelemetry.io/collector/config/confignet"
)

// listenUnix listens on a unix socket that only this user can connect to. A socket that nobody listens on any more is
// replaced; one that is in use, and anything that is no socket, is not.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("%q has %d bytes; the path of a unix socket can have %d: use a shorter directory", path, len(path), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make its directory: %w", err)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: privateSocket}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("make it private: %w", err), l.Close())
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
		return fmt.Errorf("%s exists and is not a socket: remove it, or choose another endpoint", path)
	}
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = c.Close()
		return fmt.Errorf("%s: another process listens on it: stop that one, or choose another endpoint: %w", path, syscall.EADDRINUSE)
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: cannot tell whether it is in use: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the stale socket: %w", err)
	}
	return nil
}

// listenError is the one line that says why a server cannot start.
func listenError(protocol string, a confignet.AddrConfig, err error) error {
	hint := ""
	if errors.Is(err, syscall.EADDRINUSE) && a.Transport != confignet.TransportTypeUnix {
		hint = "; another program has this port: stop it, or change the endpoint"
	}
	return fmt.Errorf("staxtarget: protocols::%s: listen on %s: %w%s", protocol, a.Endpoint, err, hint)
}
