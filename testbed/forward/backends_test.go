//go:build unix

package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The backends that are tested with. Jaeger 1.76 is the last version with a module path that Go can resolve.
const (
	jaegerModule  = "github.com/jaegertracing/jaeger"
	jaegerVersion = "v1.76.0"
)

// cached returns the file in the cache directory of one backend, which produce makes in an empty directory when it is not
// there. Test processes that want it at the same time make it once.
func cached(key, file string, produce func(dir string) error) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	base = filepath.Join(base, "stax-e2e")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(base, key, file)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	lock, err := os.OpenFile(filepath.Join(base, key+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // unlocks, too
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil // somebody else made it
	}
	tmp, err := os.MkdirTemp(base, key+".new")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := produce(tmp); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(tmp, file)); err != nil {
		return "", fmt.Errorf("%s was not made: %w", file, err)
	}
	if err := os.RemoveAll(filepath.Join(base, key)); err != nil { // an unfinished one of other means
		return "", err
	}
	return path, os.Rename(tmp, filepath.Join(base, key))
}

// command runs a program to its end; its output becomes part of the error.
func command(dir string, env []string, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return out, fmt.Errorf("%s %v: %w", name, args, err)
	}
	return out, nil
}

// jaeger returns the path of a Jaeger. It has replace lines, so `go install` refuses it, and some of its checksums are only
// in its own go.sum: it is built in a copy of its module.
func jaeger(t *testing.T) string {
	t.Helper()
	path, err := cached("jaeger-"+jaegerVersion, "jaeger", func(dir string) error {
		t.Logf("building Jaeger %s, once: this takes some minutes", jaegerVersion)
		out, err := command(dir, []string{"GOWORK=off"}, "go", "mod", "download", "-json", jaegerModule+"@"+jaegerVersion)
		if err != nil {
			return err
		}
		var module struct{ Dir string }
		if err := json.Unmarshal(out, &module); err != nil {
			return err
		}
		src := filepath.Join(dir, "src")
		if err := os.CopyFS(src, os.DirFS(module.Dir)); err != nil { // the module cache is read-only
			return err
		}
		_, err = command(src, []string{"GOWORK=off", "CGO_ENABLED=0", "GOFLAGS="},
			"go", "build", "-p", "2", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "jaeger"), "./cmd/jaeger")
		return errors.Join(err, os.RemoveAll(src))
	})
	if err != nil {
		missing(t, "no Jaeger, so nothing can be forwarded to it: %v", err)
	}
	return path
}

// prometheus returns the path of a Prometheus: the one in PATH, else that of the Debian package.
func prometheus(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("prometheus"); err == nil {
		return path
	}
	path, err := cached("prometheus-debian", filepath.Join("usr", "bin", "prometheus"), func(dir string) error {
		for _, tool := range []string{"apt-get", "dpkg"} {
			if _, err := exec.LookPath(tool); err != nil {
				return fmt.Errorf("no prometheus in PATH, and no %s to get it with", tool)
			}
		}
		if _, err := command(dir, nil, "apt-get", "download", "prometheus"); err != nil {
			return err
		}
		packages, err := filepath.Glob(filepath.Join(dir, "prometheus_*.deb"))
		if err != nil || len(packages) != 1 {
			return fmt.Errorf("apt-get download left %d packages: %w", len(packages), err)
		}
		_, err = command(dir, nil, "dpkg", "-x", packages[0], ".")
		return errors.Join(err, os.Remove(packages[0]))
	})
	if err != nil {
		missing(t, "no Prometheus, so nothing can scrape: %v", err)
	}
	return path
}

// missing skips the test for want of a backend, or fails it where STAX_E2E_REQUIRE says that there must be one.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("STAX_E2E_REQUIRE") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
