package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Names inside an archive.
const (
	manifestName = "manifest.json"
	lockName     = "writer.lock"
	logDir       = "log"
	segmentDir   = "segments"
	derivedDir   = "derived"
	tempPrefix   = ".tmp-" // everything with it is left over from a crash or about to be renamed
)

func logName(n uint64) string { return fmt.Sprintf("%s/%06d.log", logDir, n) }

func segmentName(first, last uint64) string {
	if first == last {
		return fmt.Sprintf("%s/%06d", segmentDir, first)
	}
	return fmt.Sprintf("%s/%06d-%06d", segmentDir, first, last)
}

// parseSegmentName is the inverse of segmentName, without the folder.
func parseSegmentName(name string) (first, last uint64, ok bool) {
	a, b, isRange := strings.Cut(name, "-")
	first, err := strconv.ParseUint(a, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	if last = first; isRange {
		if last, err = strconv.ParseUint(b, 10, 64); err != nil {
			return 0, 0, false
		}
	}
	return first, last, first > 0 && first <= last && segmentDir+"/"+name == segmentName(first, last)
}

// parseLogName is the inverse of logName, without the folder.
func parseLogName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, ".log")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0
}

func tableFile(dir, table string) string { return dir + "/" + table + ".parquet" }

// writeFile is a file that a Writer writes.
type writeFile interface {
	io.Writer
	Truncate(size int64) error
	Sync() error
	Close() error
}

// fileSystem is everything that changes files. Tests replace it to fail at any step.
type fileSystem interface {
	create(name string) (writeFile, error) // for appending; must not exist
	rename(from, to string) error          // replaces files, not directories
	mkdir(name string) error
	removeAll(name string) error
	syncDir(name string) error
}

// osFiles is the real fileSystem.
type osFiles struct{}

func (osFiles) create(name string) (writeFile, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err // not f: a nil *os.File would be a non-nil writeFile
	}
	return f, nil
}

func (osFiles) rename(from, to string) error { return os.Rename(from, to) }
func (osFiles) mkdir(name string) error      { return os.Mkdir(name, 0o755) }
func (osFiles) removeAll(name string) error  { return os.RemoveAll(name) }

func (osFiles) syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeAtomically replaces the file dir/name: a reader sees the old or the new content, whole.
func writeAtomically(files fileSystem, dir, name string, content []byte) error {
	temp := filepath.Join(dir, tempPrefix+name)
	if err := files.removeAll(temp); err != nil {
		return err
	}
	f, err := files.create(temp)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = files.rename(temp, filepath.Join(dir, name))
	}
	if err != nil {
		_ = files.removeAll(temp) // the error above is the one to report
		return err
	}
	return files.syncDir(dir)
}

// readLimited reads a whole file of at most limit bytes.
func readLimited(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("over %d bytes", limit)
	}
	return b, err
}

// listNumbers returns the entries of a folder of the archive; a folder that does not exist is empty.
func listNames(root *os.Root, dir string) ([]string, error) {
	d, err := root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}
