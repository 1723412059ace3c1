package archive

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
)

// HasDerived returns the version of the derived tables, if the archive has them.
func (r *Reader) HasDerived() (version string, ok bool) {
	if r.manifest.Derived == nil {
		return "", false
	}
	return r.manifest.Derived.Version, true
}

// DerivedWriter takes the rows of the derived tables. It is not safe for concurrent use.
type DerivedWriter struct {
	ctx context.Context
	s   *segmentWriter
}

// Links adds rows to the table links.
func (d *DerivedWriter) Links(rows []Link) error { return addDerived(d, rows) }

// Certificates adds rows to the table certificates.
func (d *DerivedWriter) Certificates(rows []Certificate) error { return addDerived(d, rows) }

func addDerived[T Row](d *DerivedWriter, rows []T) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	out, err := d.s.output(tableFor[T](), rowGroupRows)
	if err == nil {
		err = out.w.write(refTo(rows))
	}
	if err != nil {
		return fmt.Errorf("archive: %s: %w", d.s.dir, err)
	}
	return nil
}

// WriteDerived replaces the derived tables of the archive in dir with what fill writes. version says
// which rules made them. Readers see the old tables, or all of the new ones. The archive must not
// have a Writer (the error is then ErrBusy); it need not be finished.
func WriteDerived(ctx context.Context, dir, version string, fill func(*DerivedWriter) error) error {
	return writeDerived(ctx, dir, version, fill, osFiles{})
}

func writeDerived(ctx context.Context, dir, version string, fill func(*DerivedWriter) error, files fileSystem) error {
	w := newWriter(dir, WriterOptions{files: files})
	defer w.release()
	if err := w.derive(ctx, version, fill); err != nil {
		return fmt.Errorf("archive: derived tables of %s: %w", dir, err)
	}
	return nil
}

func (w *Writer) derive(ctx context.Context, version string, fill func(*DerivedWriter) error) error {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	b, err := readLimited(root, manifestName, maxManifest)
	if err != nil {
		return err
	}
	if w.lock, err = lockWriter(filepath.Join(w.dir, lockName)); err != nil {
		return err
	}
	if w.manifest, err = parseManifest(b); err != nil {
		return err
	}
	old := w.manifest.Derived
	number := uint64(1)
	if old != nil {
		if n, err := strconv.ParseUint(path.Base(old.Dir), 10, 64); err == nil {
			number = n + 1
		}
	}
	if names, err := listNames(root, derivedDir); err != nil {
		return err
	} else if names == nil {
		if _, err := root.Stat(derivedDir); err != nil {
			if err := w.files.mkdir(filepath.Join(w.dir, derivedDir)); err != nil {
				return err
			}
		}
	}
	s := newSegmentWriter(w, fmt.Sprintf("%s/%06d", derivedDir, number))
	if err := s.begin(); err != nil {
		return err
	}
	info := DerivedInfo{Version: version, Dir: s.dir}
	err = fill(&DerivedWriter{ctx: ctx, s: s})
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		info.Tables, err = s.end()
	}
	if err != nil {
		s.abandon()
		return err
	}
	if err := w.saveManifest(func(m *Manifest) { m.Derived = &info }); err != nil {
		return err
	}
	if old != nil {
		return w.remove(old.Dir)
	}
	return nil
}
