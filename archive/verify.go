package archive

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// Report is the result of Verify.
type Report struct {
	Manifest Manifest
	Live     bool             // a Writer had the archive open
	Rows     map[string]int64 // rows that could be read, by table
	Files    int              // Parquet files and logs that were read
	Bytes    int64            // of those
	Losses   []Loss           // everything that could not be read or whose checksum is wrong
}

// Intact reports whether nothing is lost.
func (r *Report) Intact() bool { return len(r.Losses) == 0 }

// Verify reads every byte of the archive in dir: checksums of files, pages and frames, every row of
// every table, counts against the manifest. An archive that is readable with losses is no error: they
// are in the report. The error says that nothing can be read, or is that of ctx.
func Verify(ctx context.Context, dir string) (Report, error) {
	r, err := Open(dir, ReaderOptions{})
	if err != nil {
		return Report{}, err
	}
	defer r.Close()
	report := Report{Manifest: r.Manifest(), Live: r.Live(), Rows: map[string]int64{}}
	for _, s := range append(slices.Clone(r.segments), r.derived) {
		if s == nil {
			continue
		}
		for _, t := range s.info.Tables {
			f := s.files[t.Table]
			if f == nil {
				continue
			}
			if err := ctx.Err(); err != nil {
				return Report{}, err
			}
			report.Files++
			report.Bytes += f.size
			if err := f.checksum(ctx); err != nil {
				if ctx.Err() != nil {
					return Report{}, ctx.Err()
				}
				r.lose(Loss{File: f.name, Offset: -1, Bytes: -1, Rows: 0, Reason: err.Error()})
			}
		}
	}
	for _, l := range r.logs {
		report.Files++
		report.Bytes += l.size
	}
	for _, t := range tables {
		n, err := countRows(ctx, r, t)
		if err != nil {
			return Report{}, err
		}
		if n > 0 {
			report.Rows[t.name] = n
		}
	}
	report.Losses = r.Losses()
	return report, nil
}

// checksum compares the whole file with the manifest.
func (f *readFile) checksum(ctx context.Context) error {
	if f.info.Bytes < 0 {
		return nil // the manifest is lost, there is nothing to compare with
	}
	crc := uint32(0)
	buf := make([]byte, 1<<20)
	for off := int64(0); off < f.size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.f.ReadAt(buf[:min(int64(len(buf)), f.size-off)], off)
		crc = crc32.Update(crc, castagnoli, buf[:n])
		off += int64(n)
		if err != nil && (err != io.EOF || off < f.size) {
			return fmt.Errorf("reading at offset %d: %w", off, err)
		}
	}
	if crc != f.info.CRC || f.size != f.info.Bytes {
		return fmt.Errorf("checksum of %d bytes is %08x, the manifest says %08x of %d", f.size, crc, f.info.CRC, f.info.Bytes)
	}
	return nil
}

// countRows reads every row of a table.
func countRows(ctx context.Context, r *Reader, t *table) (int64, error) {
	var buf rowsRef
	total := int64(0)
	s := scanner{r: r, table: t, columns: t.allColumns()}
	s.room = func(n int) rowsRef {
		if buf.n < n {
			buf = t.newRows(n)
		}
		return buf
	}
	s.emit = func(n int) bool {
		total += int64(n)
		return true
	}
	return total, s.scan(ctx)
}
