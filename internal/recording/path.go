package recording

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Suffix ends the directory name of an archive.
const Suffix = ".stax"

const maxName = 100

// CheckName returns an error unless name can be the begin of a file name on every system, so that joining it to a
// directory cannot leave the directory.
func CheckName(name string) error {
	bad := func(why string) error {
		if len(name) > maxName {
			name = name[:maxName] + "…"
		}
		return invalidf("name %q %s; use letters, digits, dot, dash and underscore", name, why)
	}
	switch {
	case name == "":
		return bad("is empty")
	case len(name) > maxName:
		return bad(fmt.Sprintf("is longer than %d bytes", maxName))
	case name[0] == '.' || name[0] == '-':
		return bad("begins with a dot or dash")
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		default:
			return bad(fmt.Sprintf("contains %q", rune(c)))
		}
	}
	return nil
}

// archivePath chooses where the archive goes and makes Dir. m.mu is held, so that two recordings cannot choose the same.
func (m *Manager) archivePath(o StartOptions, now time.Time) (string, error) {
	taken := func(path string) (bool, error) {
		for _, r := range m.order {
			if r.path == path {
				return true, nil
			}
		}
		_, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	if o.Out != "" {
		path, err := filepath.Abs(o.Out)
		if err != nil {
			return "", fmt.Errorf("recording: out %s: %w", o.Out, err)
		}
		if fi, err := os.Stat(filepath.Dir(path)); err != nil {
			return "", fmt.Errorf("recording: out %s: %w; make the directory first", path, err)
		} else if !fi.IsDir() {
			return "", fmt.Errorf("recording: out %s: %s is not a directory", path, filepath.Dir(path))
		}
		used, err := taken(path)
		if err != nil {
			return "", fmt.Errorf("recording: out %s: %w", path, err)
		}
		if used {
			return "", fmt.Errorf("recording: out %s: %w; choose another name or remove it", path, fs.ErrExist)
		}
		return path, nil
	}
	if m.opts.Dir == "" {
		return "", errors.New("recording: no recordings directory is set; give the archive's path")
	}
	dir, err := filepath.Abs(m.opts.Dir)
	if err != nil {
		return "", fmt.Errorf("recording: directory %s: %w", m.opts.Dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("recording: make the recordings directory: %w", err)
	}
	stem := filepath.Join(dir, o.Name+"-"+now.UTC().Format("20060102T150405Z"))
	for i := 1; i < 1000; i++ {
		path := stem + Suffix
		if i > 1 {
			path = fmt.Sprintf("%s-%d%s", stem, i, Suffix)
		}
		used, err := taken(path)
		if err != nil {
			return "", fmt.Errorf("recording: directory %s: %w", dir, err)
		}
		if !used {
			return path, nil
		}
	}
	return "", fmt.Errorf("recording: %s%s and its 998 successors exist; choose another name", stem, Suffix)
}
