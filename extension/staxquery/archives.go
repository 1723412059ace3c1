package staxquery

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/recording"
)

const (
	manifestName = "manifest.json"
	maxManifest  = 16 << 20
	maxOpened    = 1000
	maxListed    = 10_000
)

// archives finds saved recordings: those in the recordings directory, and those that were opened by path.
type archives struct {
	dir string

	mu     sync.Mutex
	opened []string // absolute paths, oldest first
}

// open registers the archive at path.
func (a *archives) open(path string) (recording.Info, error) {
	if !filepath.IsAbs(path) {
		return recording.Info{}, fmt.Errorf("path %q is not absolute", path)
	}
	path = filepath.Clean(path)
	r, err := archive.Open(path, archive.ReaderOptions{})
	if err != nil {
		return recording.Info{}, err
	}
	in := describe(path, r.Manifest())
	if err := r.Close(); err != nil {
		return recording.Info{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opened = slices.DeleteFunc(a.opened, func(p string) bool { return p == path })
	a.opened = append(a.opened, path)
	if len(a.opened) > maxOpened {
		a.opened = a.opened[1:]
	}
	return in, nil
}

// list describes all saved recordings but those at the known paths, newest first. What is no archive is left out.
func (a *archives) list(known map[string]bool) ([]recording.Info, error) {
	a.mu.Lock()
	paths := slices.Clone(a.opened)
	a.mu.Unlock()
	entries, err := os.ReadDir(a.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the recordings directory: %w", err)
	}
	abs, err := filepath.Abs(a.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasSuffix(e.Name(), recording.Suffix) && len(paths) < maxListed {
			paths = append(paths, filepath.Join(abs, e.Name()))
		}
	}
	infos := []recording.Info{}
	seen := map[string]bool{}
	for _, path := range paths {
		if known[path] || seen[path] {
			continue
		}
		seen[path] = true
		if m, err := readManifest(path); err == nil {
			infos = append(infos, describe(path, m))
		}
	}
	slices.SortStableFunc(infos, func(x, y recording.Info) int { return cmp.Compare(y.StartedUnixNano, x.StartedUnixNano) })
	return infos, nil
}

// find returns the saved recording with the id. Of copies with the same id the one opened last counts.
func (a *archives) find(id recording.ID) (recording.Info, error) {
	a.mu.Lock()
	opened := slices.Clone(a.opened)
	a.mu.Unlock()
	for _, path := range slices.Backward(opened) {
		if m, err := readManifest(path); err == nil && m.Recording.ID == string(id) {
			return describe(path, m), nil
		}
	}
	infos, err := a.list(nil)
	if err != nil {
		return recording.Info{}, err
	}
	for _, in := range infos {
		if in.ID == id {
			return in, nil
		}
	}
	return recording.Info{}, fmt.Errorf("recording %q: %w", id, recording.ErrUnknownRecording)
}

// readManifest reads the manifest alone, which is enough for a list and cheap.
func readManifest(path string) (archive.Manifest, error) {
	f, err := os.Open(filepath.Join(path, manifestName))
	if err != nil {
		return archive.Manifest{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return archive.Manifest{}, err
	}
	var m archive.Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return archive.Manifest{}, err
	}
	if m.Recording.ID == "" {
		return archive.Manifest{}, fmt.Errorf("%s has no recording id", path)
	}
	return m, nil
}

// describe turns a manifest into the description of a finished recording.
func describe(path string, m archive.Manifest) recording.Info {
	rec := m.Recording
	in := recording.Info{
		ID: recording.ID(rec.ID), Name: rec.Name, Mode: rec.Mode, State: recording.StateFinished, Path: path, Command: rec.Command,
		StartedUnixNano: rec.StartedNanos, StoppedUnixNano: rec.StoppedNanos, StopReason: rec.StopReason,
		ExitCode: rec.ExitCode, ExitSignal: rec.ExitSignal,
	}
	for _, pid := range rec.PIDs {
		in.PIDs = append(in.PIDs, int(pid))
	}
	if rec.State != archive.StateFinished {
		in.Problem = "the archive was not sealed: its recorder still runs, or ended early; what it wrote is readable"
	}
	return in
}
