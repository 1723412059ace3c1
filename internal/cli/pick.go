package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stax-otel/stax/archive"
)

// archiveSuffix ends the names of archives.
const archiveSuffix = ".stax"

// isArchive reports whether a directory is an archive, finished or not.
func isArchive(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "manifest.json"))
	return err == nil
}

// pick finds the archive that a command is about: the one given, by path or by its name in the recordings directory;
// else the live recording; else the newest. What was picked without being given is said on stderr.
func (a *app) pick(ctx context.Context, given string) (string, error) {
	if given != "" {
		return findArchive(given)
	}
	for _, h := range slices.Backward(heldRecordings(ctx)) {
		if live(h.Info) && isArchive(h.Path) {
			a.say("asking the live recording %s (%s)", h.Name, h.Path)
			return h.Path, nil
		}
	}
	dir, err := recordingsDir()
	if err != nil {
		return "", err
	}
	all, err := listArchives(dir)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", fmt.Errorf("no ARCHIVE given, nothing is being recorded, and there is no recording in %s; make one with: stax record -- COMMAND", dir)
	}
	newest := all[0]
	a.say("asking the newest recording %s", newest.path)
	return newest.path, nil
}

func findArchive(given string) (string, error) {
	candidates := []string{given}
	if dir, err := recordingsDir(); err == nil && !strings.ContainsRune(given, os.PathSeparator) {
		candidates = append(candidates, filepath.Join(dir, given), filepath.Join(dir, given+archiveSuffix))
	}
	for _, path := range candidates {
		if isArchive(path) {
			return path, nil
		}
	}
	switch info, err := os.Stat(given); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("no archive %s; stax list shows the recordings", given)
	case err != nil:
		return "", fmt.Errorf("open archive: %w", err)
	case !info.IsDir():
		return "", fmt.Errorf("%s is a file, and an archive is a directory with a manifest.json", given)
	}
	return "", fmt.Errorf("%s is no archive: it has no manifest.json", given)
}

// completeArchives completes the names of recordings; paths complete as files.
func completeArchives(_ *cobra.Command, given []string, begin string) ([]string, cobra.ShellCompDirective) {
	dir, err := recordingsDir()
	if err != nil || len(given) > 0 || strings.ContainsRune(begin, os.PathSeparator) {
		return nil, cobra.ShellCompDirectiveDefault
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), archiveSuffix); ok && strings.HasPrefix(name, begin) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// openArchive picks and opens an archive.
func (a *app) openArchive(ctx context.Context, given string) (*archive.Reader, string, error) {
	path, err := a.pick(ctx, given)
	if err != nil {
		return nil, "", err
	}
	r, err := archive.Open(path, archive.ReaderOptions{})
	return r, path, err
}

// listed is an archive of a directory.
type listed struct {
	path     string
	manifest archive.Manifest
	live     bool
	err      error // it cannot be opened
}

// listArchives returns the archives in a directory, newest first. A directory that does not exist has none.
func listArchives(dir string) ([]listed, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list recordings: %w", err)
	}
	var all []listed
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !strings.HasSuffix(e.Name(), archiveSuffix) || !isArchive(path) {
			continue
		}
		l := listed{path: path}
		r, err := archive.Open(path, archive.ReaderOptions{})
		if err != nil {
			l.err = err
		} else {
			l.manifest, l.live = r.Manifest(), r.Live()
			_ = r.Close() // only read
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(x, y listed) int {
		return cmp.Or(-cmp.Compare(x.manifest.Recording.StartedNanos, y.manifest.Recording.StartedNanos), cmp.Compare(x.path, y.path))
	})
	return all, nil
}
