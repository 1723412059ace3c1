package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/stax-otel/stax/internal/unixsocket"
)

// recordingsDir is where archives go that are not given a place: $STAX_DIR/recordings, else below the user's data
// directory.
func recordingsDir() (string, error) {
	base := os.Getenv("STAX_DIR")
	if base == "" {
		if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
			base = filepath.Join(data, "stax")
		} else {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", fmt.Errorf("find the recordings directory: %w; set STAX_DIR", err)
			}
			base = filepath.Join(home, ".local", "share", "stax")
		}
	}
	return filepath.Abs(filepath.Join(base, "recordings"))
}

// runtimeDir is where sockets live: $XDG_RUNTIME_DIR/stax, else stax-UID below the system's temporary directory.
func runtimeDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "stax")
	}
	return filepath.Join(os.TempDir(), "stax-"+strconv.Itoa(os.Getuid()))
}

// sockets are the two sockets of a collector.
type sockets struct {
	dir     string // of this collector, removed with it; "" for the shared directory
	target  string
	control string
}

// newSockets makes a private directory for the sockets of this process. With attach, the target socket is the one that
// programs look for when nobody told them an endpoint.
func newSockets(attach bool) (sockets, error) {
	base := runtimeDir()
	if err := privateDir(base); err != nil {
		return sockets{}, err
	}
	s := sockets{dir: filepath.Join(base, strconv.Itoa(os.Getpid()))}
	s.control = filepath.Join(s.dir, controlSocket)
	s.target = filepath.Join(s.dir, targetSocket)
	if attach {
		s.target = filepath.Join(base, targetSocket)
	}
	for _, path := range []string{s.control, s.target} {
		if len(path) > unixsocket.MaxPath {
			return sockets{}, fmt.Errorf("socket path %s has %d bytes, and the system allows %d; set XDG_RUNTIME_DIR or TMPDIR to a shorter directory",
				path, len(path), unixsocket.MaxPath)
		}
	}
	// Left behind by an earlier process with our number.
	if err := os.RemoveAll(s.dir); err != nil {
		return sockets{}, err
	}
	return s, privateDir(s.dir)
}

// remove takes the private directory away. The collector removes its sockets itself.
func (s sockets) remove() {
	if s.dir != "" {
		_ = os.RemoveAll(s.dir) // what stays is removed by the next look for collectors
	}
}

const (
	controlSocket = "control.sock"
	targetSocket  = "target.sock"
)

// privateDir makes a directory that only we can enter, or checks that it is one.
func privateDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("make the socket directory: %w; set XDG_RUNTIME_DIR to a writable directory", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return fmt.Errorf("make the socket directory: %w; set XDG_RUNTIME_DIR to a writable directory", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || !ownedByUs(info) || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a private directory of this user (it must be a directory, ours, mode 0700); remove it or set XDG_RUNTIME_DIR", dir)
	}
	return nil
}
