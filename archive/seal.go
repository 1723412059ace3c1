package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// seal turns one full log into a segment and commits it.
func (w *Writer) seal(ctx context.Context, l *openLog) error {
	name := logName(l.number)
	f, err := os.Open(filepath.Join(w.dir, filepath.FromSlash(name)))
	if err != nil {
		return fmt.Errorf("archive: sealing: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("archive: sealing: %w", err)
	}
	info := SegmentInfo{Dir: segmentName(l.number, l.number), First: l.number, Last: l.number, Tables: []TableInfo{}}
	log, err := indexLog(f, st.Size(), name)
	switch {
	case err != nil && st.Size() > 0 && !isReadError(err):
		// A log without a readable header: nothing can be taken from it, ever.
		info.Losses = []Loss{{File: name, Offset: 0, Bytes: st.Size(), Rows: -1, Reason: err.Error()}}
	case err != nil:
		return fmt.Errorf("archive: sealing: %w", err)
	default:
		info.Losses = log.losses
		if log.torn {
			info.Losses = append(info.Losses, log.tail)
		}
		s := newSegmentWriter(w, info.Dir)
		err = s.begin()
		if err == nil {
			err = s.copyLog(ctx, log, &info)
		}
		if err == nil {
			info.Tables, err = s.end()
		}
		if err != nil {
			s.abandon()
			return fmt.Errorf("archive: sealing %s: %w", name, err)
		}
	}
	return w.saveManifest(func(m *Manifest) {
		m.SealedLog = l.number
		if len(info.Tables) > 0 || len(info.Losses) > 0 {
			m.Segments = append(m.Segments, info)
		}
	})
}

func isReadError(err error) bool {
	var p *os.PathError
	return errors.As(err, &p)
}

// segmentWriter writes the Parquet files of one segment into a temporary folder and renames it.
type segmentWriter struct {
	w      *Writer
	dir    string // of the segment, relative
	temp   string // absolute
	tables [256]*tableOutput
	rows   [256]rowsRef // scratch
	decode sectionDecoder
}

type tableOutput struct {
	f writeFile
	w *tableWriter
}

func newSegmentWriter(w *Writer, dir string) *segmentWriter {
	parent, base := filepath.Split(filepath.Join(w.dir, filepath.FromSlash(dir)))
	return &segmentWriter{w: w, dir: dir, temp: filepath.Join(parent, tempPrefix+base)}
}

func (s *segmentWriter) begin() error {
	if err := s.w.files.removeAll(s.temp); err != nil {
		return err
	}
	return s.w.files.mkdir(s.temp)
}

// abandon removes what was written; the log or the old segments still hold the rows.
func (s *segmentWriter) abandon() {
	for _, t := range s.tables {
		if t != nil {
			_ = t.f.Close() // the caller has an error already
		}
	}
	_ = s.w.files.removeAll(s.temp) // the next attempt begins with removing it
}

// output returns the writer of a table; rows is how many are expected.
func (s *segmentWriter) output(t *table, rows int64) (*tableOutput, error) {
	if out := s.tables[t.id]; out != nil {
		return out, nil
	}
	f, err := s.w.files.create(filepath.Join(s.temp, t.name+".parquet"))
	if err != nil {
		return nil, err
	}
	out := &tableOutput{f: f, w: newTableWriter(t, f, rows)}
	s.tables[t.id] = out
	return out, nil
}

func (s *segmentWriter) copyLog(ctx context.Context, log *logFile, info *SegmentInfo) error {
	return log.batches(func(off int64, sections []section, strings *stringTable) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, sec := range sections {
			if sec.table == nil || sec.table.table == nil || sec.rows == 0 {
				continue
			}
			t := sec.table.table
			if s.rows[t.id].n < sec.rows {
				s.rows[t.id] = t.newRows(sec.rows)
			}
			rows := s.rows[t.id].slice(0, sec.rows)
			if err := s.decode.decode(rows, sec, strings); err != nil {
				info.Losses = append(info.Losses, Loss{
					File: log.name, Offset: off, Bytes: int64(len(sec.data)), Rows: int64(sec.rows), Reason: err.Error(),
				})
				continue
			}
			out, err := s.output(t, log.rows[t.name])
			if err != nil {
				return err
			}
			if err := out.w.write(rows); err != nil {
				return err
			}
		}
		return nil
	})
}

// end completes the files, makes them durable and gives the folder its name.
func (s *segmentWriter) end() ([]TableInfo, error) {
	infos := []TableInfo{}
	if s.tables == ([256]*tableOutput{}) {
		return infos, s.w.files.removeAll(s.temp)
	}
	for i, out := range s.tables {
		if out == nil {
			continue
		}
		info, err := out.w.close()
		if err == nil {
			err = out.f.Sync()
		}
		if err = errors.Join(err, out.f.Close()); err != nil {
			s.tables[i] = nil
			return nil, err
		}
		s.tables[i] = nil
		infos = append(infos, info)
	}
	if err := s.w.files.syncDir(s.temp); err != nil {
		return nil, err
	}
	final := filepath.Join(s.w.dir, filepath.FromSlash(s.dir))
	if err := s.w.files.removeAll(final); err != nil { // left over from a crash before its commit
		return nil, err
	}
	if err := s.w.files.rename(s.temp, final); err != nil {
		return nil, err
	}
	return infos, s.w.files.syncDir(filepath.Dir(final))
}

// Merging: segments of about the same size are merged eight at a time, so that a row is rewritten
// once per factor of eight and an archive has a few dozen segments at most, however it was sealed.

const (
	mergeFanIn   = 8
	copyRowGroup = 1 << 13 // a row group of this many rows is moved as it is, compressed; a segment has more of its frequent tables
)

func (s *SegmentInfo) rowCount() (n int64) {
	for _, t := range s.Tables {
		n += t.Rows
	}
	return n
}

// tier is the size class of a segment: one per factor of eight.
func (s *SegmentInfo) tier() int {
	tier := 0
	for n := s.rowCount(); n >= mergeFanIn; n /= mergeFanIn {
		tier++
	}
	return tier
}

// mergeCandidate returns how many of the last segments should become one, 0 for none.
func mergeCandidate(segments []SegmentInfo) int {
	for tier := 0; tier < 24; tier++ {
		n := 0
		for i := len(segments) - 1; i >= 0 && segments[i].tier() <= tier; i-- {
			n++
		}
		if n >= mergeFanIn {
			return n
		}
	}
	return 0
}

func (w *Writer) segments() []SegmentInfo {
	w.manifestMu.Lock()
	defer w.manifestMu.Unlock()
	return slices.Clone(w.manifest.Segments)
}

func (w *Writer) mergeDue(ctx context.Context) error {
	for {
		segments := w.segments()
		n := mergeCandidate(segments)
		if n == 0 || w.noMerge {
			return nil
		}
		if err := w.merge(ctx, segments[len(segments)-n:], nil); err != nil {
			var damaged *damagedError
			w.noMerge = errors.As(err, &damaged)
			return err
		}
	}
}

func (w *Writer) mergeAll(ctx context.Context, p *progressCounter) error {
	segments := w.segments()
	if len(segments) < 2 {
		return nil
	}
	err := w.merge(ctx, segments, p)
	var damaged *damagedError
	if errors.As(err, &damaged) {
		return nil // the segments stay as they are; readers report the damage
	}
	return err
}

// damagedError means that a segment cannot be merged because it cannot be read.
type damagedError struct{ err error }

func (e *damagedError) Error() string { return e.err.Error() }
func (e *damagedError) Unwrap() error { return e.err }

// merge makes one segment of consecutive ones.
func (w *Writer) merge(ctx context.Context, parts []SegmentInfo, p *progressCounter) error {
	first, last := parts[0], parts[len(parts)-1]
	info := SegmentInfo{Dir: segmentName(first.First, last.Last), First: first.First, Last: last.Last}
	for _, part := range parts {
		info.Losses = append(info.Losses, part.Losses...)
	}
	s := newSegmentWriter(w, info.Dir)
	err := s.begin()
	if err == nil {
		err = s.copySegments(ctx, parts, p)
	}
	if err == nil {
		info.Tables, err = s.end()
	}
	if err != nil {
		s.abandon()
		return fmt.Errorf("archive: merging %s to %s: %w", first.Dir, last.Dir, err)
	}
	err = w.saveManifest(func(m *Manifest) {
		i := slices.IndexFunc(m.Segments, func(s SegmentInfo) bool { return s.First == first.First })
		m.Segments = slices.Replace(m.Segments, i, i+len(parts), info)
	})
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := w.remove(part.Dir); err != nil {
			return err
		}
	}
	return nil
}

func (s *segmentWriter) copySegments(ctx context.Context, parts []SegmentInfo, p *progressCounter) error {
	for _, t := range tables {
		total := int64(0)
		for _, part := range parts {
			total += part.table(t.name).Rows
		}
		if total == 0 {
			continue
		}
		out, err := s.output(t, total)
		if err != nil {
			return err
		}
		for _, part := range parts {
			if err := ctx.Err(); err != nil {
				return err
			}
			info := part.table(t.name)
			if info.Rows == 0 {
				continue
			}
			if err := s.copyTable(ctx, out, tableFile(part.Dir, t.name), info); err != nil {
				return err
			}
			p.add(int(info.Rows))
		}
		if err := out.w.endGroup(); err != nil {
			return err
		}
	}
	return nil
}

// table returns the entry of a table, zero when the segment has no rows of it.
func (s *SegmentInfo) table(name string) TableInfo {
	for _, t := range s.Tables {
		if t.Table == name {
			return t
		}
	}
	return TableInfo{}
}

// copyTable adds the rows of one Parquet file.
func (s *segmentWriter) copyTable(ctx context.Context, out *tableOutput, name string, info TableInfo) error {
	f, err := os.Open(filepath.Join(s.w.dir, filepath.FromSlash(name)))
	if err != nil {
		return &damagedError{err}
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	pf, err := openParquet(out.w.table, f, st.Size(), name, &info.FooterCRC)
	if err != nil {
		return &damagedError{err}
	}
	if n := pf.file.NumRows(); n != info.Rows {
		return &damagedError{fmt.Errorf("archive: %s: %d rows, the manifest says %d", name, n, info.Rows)}
	}
	t := out.w.table
	all := t.allColumns()
	size := int(min(4096, info.Rows))
	if s.rows[t.id].n < size {
		s.rows[t.id] = t.newRows(size)
	}
	var r groupReader
	defer r.close()
	for g, group := range pf.file.RowGroups() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if group.NumRows() >= copyRowGroup {
			if err := out.w.copyGroup(group); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		if err := r.start(pf, g, 0, all); err != nil {
			return &damagedError{fmt.Errorf("archive: %s: %w", name, err)}
		}
		if len(r.open) < len(all) {
			s.rows[t.id].clear()
		}
		for {
			n, err := r.read(s.rows[t.id].slice(0, size))
			if err != nil {
				return &damagedError{fmt.Errorf("archive: %s: row group %d: %w", name, g, err)}
			}
			if n == 0 {
				break
			}
			if err := out.w.write(s.rows[t.id].slice(0, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyGroup moves a whole row group, without decoding it where the library can.
func (w *tableWriter) copyGroup(group parquet.RowGroup) error {
	if err := w.endGroup(); err != nil {
		return err
	}
	n := int64(0)
	err := guard(func() (err error) {
		n, err = w.pw.WriteRowGroup(group)
		return err
	})
	if err != nil {
		return err
	}
	if n != group.NumRows() {
		return io.ErrShortWrite
	}
	w.rows += n
	return nil
}

func (t *table) allColumns() []int {
	all := make([]int, len(t.columns))
	for i := range all {
		all[i] = i
	}
	return all
}
