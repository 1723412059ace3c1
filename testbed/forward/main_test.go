//go:build unix

package forward

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// bin is the directory of the built programs; empty with -short.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	var dir string
	if !testing.Short() {
		var err error
		if dir, err = os.MkdirTemp("", "stax-forward"); err == nil {
			bin = dir
			err = build()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "forward: build the programs:", err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir != "" {
			_ = os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

// root is the root of the repository.
func root() string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
}

// collector is the path of otelcol-stax.
func collector() string { return filepath.Join(root(), "build", "otelcol-stax", "otelcol-stax") }

// build makes the targets, and otelcol-stax with ocb as `make collector` does.
func build() error {
	run := func(args ...string) error {
		cmd := exec.Command("go", args...)
		cmd.Dir = root()
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
		return nil
	}
	if err := run("build", "-o", bin+string(os.PathSeparator), "./testbed/targets/corpus", "./testbed/targets/goroutines", "./testbed/forward/traced"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root(), "build"), 0o755); err != nil {
		return err
	}
	return run("tool", "-modfile=tools/go.mod", "builder", "--config", "builder-config.yaml")
}
