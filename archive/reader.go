package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/parquet-go/parquet-go"
)

// ReaderOptions are the settings of a Reader. The zero value is ready to use.
type ReaderOptions struct {
	BatchRows int // most rows of one batch from Parquet files; 0: 4096
}

// Reader reads one snapshot of an archive: what was in it when it was opened, whatever a writer in
// this or another process does meanwhile. Open again to see more; that is cheap. Its methods are
// safe for concurrent use.
type Reader struct {
	dir      string
	o        ReaderOptions
	root     *os.Root
	manifest Manifest
	live     bool
	segments []*readSegment
	derived  *readSegment
	logs     []*readLog

	mu     sync.Mutex
	closed bool
	losses map[lossKey]Loss
}

type lossKey struct {
	file   string
	offset int64
	rows   int64
	reason string
}

type readSegment struct {
	info  SegmentInfo
	files map[string]*readFile // by table
}

// readFile is one Parquet file, opened at once (so that a merge cannot take it away) and parsed at
// its first use.
type readFile struct {
	name string
	info TableInfo
	f    *os.File
	size int64

	once sync.Once
	pf   *parquetFile
	err  error
}

type readLog struct {
	f *os.File
	*logFile
}

// Row is any row of any table.
type Row interface {
	Runtime | Lane | Thread | Dispatch | CommandBuffer | Wait | Await | ExtraOrigin | StackFrame | Counter |
		CounterSample | Heartbeat | Drop | ClockSample | Diagnostic | Sample | OffCPU | OriginEvent | ProfileSource | Passthrough | Link | Certificate
}

// ErrNotArchive means that a directory is no stax archive.
var ErrNotArchive = errors.New("not a stax archive: no manifest.json, log or segments in it")

// errChanged means that a writer changed the archive while it was being opened.
var errChanged = errors.New("the archive kept changing while it was opened: try again")

// Open opens the archive in dir: a finished one, one that a Writer in this or another process is
// writing, and one whose Writer was killed alike. It fails when nothing can be read at all; damage to
// single files is in Losses, and the rest is readable.
func Open(dir string, o ReaderOptions) (*Reader, error) {
	if o.BatchRows <= 0 {
		o.BatchRows = 4096
	}
	o.BatchRows = min(o.BatchRows, maxFrameRows)
	const attempts = 100 // a writer commits a change every few milliseconds at most
	for range attempts {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, fmt.Errorf("archive: opening %s: %w", dir, err)
		}
		r := &Reader{dir: dir, o: o, root: root, losses: map[lossKey]Loss{}}
		if err = r.open(); err == nil {
			return r, nil
		}
		_ = r.Close() // only read
		if !errors.Is(err, errChanged) {
			return nil, fmt.Errorf("archive: opening %s: %w", dir, err)
		}
	}
	return nil, fmt.Errorf("archive: opening %s: %w", dir, errChanged)
}

// open takes the snapshot: manifest, every file that it names, the logs after it; and if the manifest
// is still the same then, all of that was true at one instant.
func (r *Reader) open() error {
	before, err := r.readManifest()
	if err != nil {
		return err
	}
	r.live = writerAlive(r.root)
	var missing []Loss
	for i := range r.manifest.Segments {
		s := r.openSegment(r.manifest.Segments[i], &missing)
		r.segments = append(r.segments, s)
	}
	if d := r.manifest.Derived; d != nil {
		r.derived = r.openSegment(SegmentInfo{Dir: d.Dir, Tables: d.Tables}, &missing)
	}
	if err := r.openLogs(); err != nil {
		return err
	}
	if after, _ := readLimited(r.root, manifestName, maxManifest); !bytes.Equal(before, after) {
		return errChanged
	}
	for _, l := range missing {
		r.lose(l)
	}
	for _, s := range r.manifest.Segments {
		for _, l := range s.Losses {
			r.lose(l)
		}
	}
	for i, l := range r.logs {
		for _, loss := range l.losses {
			r.lose(loss)
		}
		if l.torn && (!r.live || i < len(r.logs)-1) {
			loss := l.tail
			loss.Reason += " (the writer ended here; Append had not returned for it)"
			r.lose(loss)
		}
	}
	r.addLogPrivacy()
	return nil
}

// readManifest reads manifest.json, or makes one up from the folders when it is damaged.
func (r *Reader) readManifest() ([]byte, error) {
	b, err := readLimited(r.root, manifestName, maxManifest)
	if err == nil {
		if r.manifest, err = parseManifest(b); err == nil {
			if err := checkManifest(b, &r.manifest); err != nil {
				r.lose(Loss{File: manifestName, Offset: -1, Bytes: -1, Rows: 0, Reason: err.Error()})
			}
			return b, nil
		}
	}
	if errors.Is(err, ErrNewer) {
		return nil, err
	}
	segments, serr := listNames(r.root, segmentDir)
	logs, lerr := listNames(r.root, logDir)
	if jerr := errors.Join(serr, lerr); jerr != nil {
		return nil, errors.Join(err, jerr)
	}
	if len(segments)+len(logs) == 0 {
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrNotArchive
		}
		return nil, err
	}
	r.lose(Loss{File: manifestName, Offset: -1, Bytes: -1, Rows: 0, Reason: err.Error() + "; using the folders as they are"})
	r.manifest = r.guessManifest(segments)
	return b, nil
}

// guessManifest rebuilds the list of segments from the names of the folders: a folder that covers
// logs of another folder is the younger one and supersedes it, and a segment supersedes its logs.
func (r *Reader) guessManifest(names []string) Manifest {
	m := Manifest{Schema: SchemaVersion, Segments: []SegmentInfo{}}
	var all []SegmentInfo
	for _, n := range names {
		if first, last, ok := parseSegmentName(n); ok {
			all = append(all, SegmentInfo{Dir: segmentDir + "/" + n, First: first, Last: last})
		}
	}
	slices.SortFunc(all, func(a, b SegmentInfo) int {
		if a.First != b.First {
			if a.First < b.First {
				return -1
			}
			return 1
		}
		if a.Last > b.Last {
			return -1
		}
		return 1
	})
	for _, s := range all {
		if s.First <= m.SealedLog {
			continue
		}
		files, err := listNames(r.root, s.Dir)
		if err != nil {
			r.lose(Loss{File: s.Dir, Offset: -1, Bytes: -1, Rows: -1, Reason: err.Error()})
		}
		for _, f := range files {
			if name, ok := strings.CutSuffix(f, ".parquet"); ok && tableByName[name] != nil {
				s.Tables = append(s.Tables, TableInfo{Table: name, Rows: -1, Bytes: -1})
			}
		}
		m.Segments = append(m.Segments, s)
		m.SealedLog = s.Last
	}
	return m
}

// openSegment opens the files of a segment. Tables that this version does not know are left alone.
func (r *Reader) openSegment(info SegmentInfo, missing *[]Loss) *readSegment {
	s := &readSegment{info: info, files: map[string]*readFile{}}
	for _, t := range info.Tables {
		if tableByName[t.Table] == nil {
			continue
		}
		f := &readFile{name: tableFile(info.Dir, t.Table), info: t}
		var err error
		if f.f, err = r.root.Open(f.name); err == nil {
			var st fs.FileInfo
			if st, err = f.f.Stat(); err == nil {
				f.size = st.Size()
			}
			if err == nil && !st.Mode().IsRegular() {
				err = errors.New("not a regular file")
			}
			if err != nil {
				_ = f.f.Close() // only read
			}
		}
		if err != nil {
			*missing = append(*missing, Loss{File: f.name, Offset: -1, Bytes: t.Bytes, Rows: t.Rows, Reason: err.Error()})
			continue
		}
		s.files[t.Table] = f
	}
	return s
}

func (r *Reader) openLogs() error {
	numbers, err := listLogs(r.root, r.manifest.SealedLog)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		name := logName(n)
		f, err := r.root.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return errChanged
		}
		if err != nil {
			r.lose(Loss{File: name, Offset: -1, Bytes: -1, Rows: -1, Reason: err.Error()})
			continue
		}
		st, err := f.Stat()
		var l *logFile
		if err == nil {
			l, err = indexLog(f, st.Size(), name)
		}
		if err != nil {
			_ = f.Close() // only read
			r.lose(Loss{File: name, Offset: 0, Bytes: -1, Rows: -1, Reason: err.Error()})
			continue
		}
		r.logs = append(r.logs, &readLog{f: f, logFile: l})
	}
	return nil
}

// addLogPrivacy adds the tables that only logs hold so far to the privacy manifest.
func (r *Reader) addLogPrivacy() {
	present := map[string]bool{}
	for _, s := range append(slices.Clone(r.segments), r.derived) {
		if s != nil {
			for _, t := range s.info.Tables {
				present[t.Table] = true
			}
		}
	}
	for _, l := range r.logs {
		for name, n := range l.rows {
			present[name] = present[name] || n > 0
		}
	}
	r.manifest.Privacy = privacy(&r.manifest.Recording, present)
}

func (r *Reader) lose(l Loss) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.losses[lossKey{l.File, l.Offset, l.Rows, l.Reason}] = l
}

// Manifest returns the manifest of the snapshot. Its Counts are those of the sealed segments; Rows
// has those of the whole snapshot.
func (r *Reader) Manifest() Manifest { return r.manifest.clone() }

// Live reports whether a Writer had the archive open when the snapshot was taken. An archive that is
// neither live nor finished is one whose Writer was killed.
func (r *Reader) Live() bool { return r.live }

// Rows returns the number of rows by table in the snapshot, as its files state them.
func (r *Reader) Rows() map[string]int64 {
	rows := map[string]int64{}
	for _, s := range append(slices.Clone(r.segments), r.derived) {
		if s == nil {
			continue
		}
		for name, f := range s.files {
			if n := f.info.Rows; n >= 0 {
				rows[name] += n
			} else if pf, err := f.open(); err == nil {
				rows[name] += pf.file.NumRows()
			}
		}
	}
	for _, l := range r.logs {
		for name, n := range l.rows {
			rows[name] += n
		}
	}
	return rows
}

// Losses returns what could not be read so far, by file and offset. Damage inside a Parquet file is
// found when it is read: Verify reads everything.
func (r *Reader) Losses() []Loss {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Loss, 0, len(r.losses))
	for _, l := range r.losses {
		all = append(all, l)
	}
	slices.SortFunc(all, compareLosses)
	return all
}

func compareLosses(a, b Loss) int {
	if c := strings.Compare(a.File, b.File); c != 0 {
		return c
	}
	if a.Offset != b.Offset {
		if a.Offset < b.Offset {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Reason, b.Reason)
}

// Close closes the files. Scans that are under way end with an error.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	for _, s := range append(slices.Clone(r.segments), r.derived) {
		if s != nil {
			for _, f := range s.files {
				_ = f.f.Close() // only read
			}
		}
	}
	for _, l := range r.logs {
		_ = l.f.Close() // only read
	}
	return r.root.Close()
}

func (r *Reader) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// open parses the footer at the first call.
func (f *readFile) open() (*parquetFile, error) {
	f.once.Do(func() {
		if f.info.Bytes >= 0 && f.size != f.info.Bytes {
			f.err = fmt.Errorf("archive: %s: truncated at offset %d: want %d bytes: %w", f.name, f.size, f.info.Bytes, io.ErrUnexpectedEOF)
			if f.size > f.info.Bytes {
				f.err = fmt.Errorf("archive: %s: %d bytes, the manifest says %d", f.name, f.size, f.info.Bytes)
			}
			return
		}
		crc := &f.info.FooterCRC
		if f.info.Bytes < 0 {
			crc = nil // the manifest is lost
		}
		f.pf, f.err = openParquet(tableByName[f.info.Table], f.f, f.size, f.name, crc)
		if f.err == nil && f.info.Rows >= 0 && f.pf.file.NumRows() != f.info.Rows {
			f.pf, f.err = nil, fmt.Errorf("archive: %s: %d rows, the manifest says %d", f.name, f.pf.file.NumRows(), f.info.Rows)
		}
	})
	return f.pf, f.err
}

// Scan returns the rows of T's table in write order: segments first, then logs. A batch is valid
// until the next iteration; strings in it stay valid. Rows that cannot be read are left out and
// added to Losses; the error is only that of ctx or of a closed Reader, and ends the iteration.
// Tables in which a later row replaces an earlier one (runtimes, lanes) come with both.
func Scan[T Row](ctx context.Context, r *Reader) iter.Seq2[[]T, error] {
	return ScanColumns[T](ctx, r)
}

// ScanColumns is Scan with only the named columns (the names in T's tags) filled in from Parquet
// files, which is faster by about their share; what the other fields hold is not specified. No names:
// all columns. A name that is no column of T panics: it is a mistake of the caller.
func ScanColumns[T Row](ctx context.Context, r *Reader, columns ...string) iter.Seq2[[]T, error] {
	t := tableFor[T]()
	picked := t.allColumns()
	if len(columns) > 0 {
		picked = picked[:0]
		for _, name := range columns {
			i := slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
			if i < 0 {
				panic(fmt.Sprintf("archive: table %s has no column %q", t.name, name))
			}
			picked = append(picked, i)
		}
	}
	return func(yield func([]T, error) bool) {
		var rows []T
		s := scanner{
			r: r, table: t, columns: picked,
			room: func(n int) rowsRef {
				if len(rows) < n {
					rows = make([]T, n)
				}
				return refTo(rows[:n])
			},
			emit: func(n int) bool { return yield(rows[:n], nil) },
		}
		if err := s.scan(ctx); err != nil && !errors.Is(err, errStop) {
			yield(nil, err)
		}
	}
}

// scanner walks one table of a snapshot.
type scanner struct {
	r       *Reader
	table   *table
	columns []int
	room    func(n int) rowsRef // the buffer, with at least n rows
	emit    func(n int) bool    // hands out the first n rows of the buffer; false: stop
}

var errStop = errors.New("stop")

func (s *scanner) scan(ctx context.Context) error {
	if s.table.derived {
		if s.r.derived == nil {
			return s.check(ctx)
		}
		return s.segment(ctx, s.r.derived)
	}
	for _, seg := range s.r.segments {
		if err := s.segment(ctx, seg); err != nil {
			return err
		}
	}
	for _, l := range s.r.logs {
		if err := s.log(ctx, l); err != nil {
			return err
		}
	}
	return s.check(ctx)
}

func (s *scanner) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.r.isClosed() {
		return fmt.Errorf("archive: reading %s: %w", s.r.dir, fs.ErrClosed)
	}
	return nil
}

func (s *scanner) segment(ctx context.Context, seg *readSegment) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	f := seg.files[s.table.name]
	if f == nil {
		return nil
	}
	pf, err := f.open()
	if err != nil {
		s.lose(f, f.info.Rows, err)
		return nil
	}
	var g groupReader
	defer g.close()
	size := int(min(int64(s.r.o.BatchRows), pf.file.NumRows()))
	buf := s.room(size).slice(0, size)
	for i, group := range pf.file.RowGroups() {
		if err := s.check(ctx); err != nil {
			return err
		}
		if err := g.start(pf, i, 0, s.columns); err != nil {
			s.lose(f, group.NumRows(), fmt.Errorf("row group %d: %w", i, err))
			continue
		}
		if len(g.open) < len(s.table.columns) {
			buf.clear()
		}
		for {
			if err := s.check(ctx); err != nil {
				return err
			}
			n, err := g.read(buf)
			if err != nil {
				s.lose(f, g.rows, fmt.Errorf("row group %d: %w", i, err))
				break
			}
			if n == 0 {
				break
			}
			if !s.emit(n) {
				return errStop
			}
		}
	}
	return nil
}

// lose notes damage in a Parquet file, unless it is only that the Reader was closed meanwhile.
func (s *scanner) lose(f *readFile, rows int64, err error) {
	if s.r.isClosed() {
		return
	}
	s.r.lose(Loss{File: f.name, Offset: -1, Bytes: -1, Rows: rows, Reason: err.Error()})
}

func (s *scanner) log(ctx context.Context, l *readLog) error {
	if l.rows[s.table.name] == 0 {
		return nil
	}
	var d sectionDecoder
	err := l.batches(func(off int64, sections []section, strings *stringTable) error {
		for _, sec := range sections {
			if sec.table == nil || sec.table.table != s.table || sec.rows == 0 {
				continue
			}
			if err := s.check(ctx); err != nil {
				return err
			}
			if err := d.decode(s.room(sec.rows).slice(0, sec.rows), sec, strings); err != nil {
				s.r.lose(Loss{File: l.name, Offset: off, Bytes: int64(len(sec.data)), Rows: int64(sec.rows), Reason: err.Error()})
				continue
			}
			if !s.emit(sec.rows) {
				return errStop
			}
		}
		return nil
	})
	if err == nil || errors.Is(err, errStop) {
		return err
	}
	if cerr := s.check(ctx); cerr != nil {
		return cerr
	}
	s.r.lose(Loss{File: l.name, Offset: -1, Bytes: -1, Rows: -1, Reason: err.Error()})
	return nil
}

// Dispatch returns the dispatch with the given id; ids are unique in the archive. The error is that
// of ctx or of a closed Reader; damage is in Losses.
func (r *Reader) Dispatch(ctx context.Context, id DispatchID) (Dispatch, bool, error) {
	return find(ctx, r, uint64(id), func(d *Dispatch) uint64 { return uint64(d.ID) })
}

// CommandBuffer returns the command buffer with the given id.
func (r *Reader) CommandBuffer(ctx context.Context, id CommandBufferID) (CommandBuffer, bool, error) {
	return find(ctx, r, uint64(id), func(c *CommandBuffer) uint64 { return uint64(c.ID) })
}

// Wait returns the wait with the given id.
func (r *Reader) Wait(ctx context.Context, id WaitID) (Wait, bool, error) {
	return find(ctx, r, uint64(id), func(w *Wait) uint64 { return uint64(w.ID) })
}

// Certificate returns the certificate of a dispatch.
func (r *Reader) Certificate(ctx context.Context, id DispatchID) (Certificate, bool, error) {
	return find(ctx, r, uint64(id), func(c *Certificate) uint64 { return uint64(c.Dispatch) })
}

// find returns the first row of T's table whose key column is id. Ids are random, so that no order or
// range helps: a row group's bloom filter says whether it may have the id, then its key column is
// scanned, and only then the row is read. Logs are scanned. Bloom filters have no checksum, so before
// "no such id" is the answer every key column is scanned without them; a miss costs some 5 ns a row.
func find[T Row](ctx context.Context, r *Reader, id uint64, key func(*T) uint64) (row T, ok bool, err error) {
	t := tableFor[T]()
	segments := r.segments
	if t.derived {
		segments = nil
		if r.derived != nil {
			segments = []*readSegment{r.derived}
		}
	}
	s := scanner{r: r, table: t}
	sealed := func(trustBloom bool) bool {
		for _, seg := range segments {
			f := seg.files[t.name]
			if f == nil {
				continue
			}
			pf, err := f.open()
			if err != nil {
				s.lose(f, f.info.Rows, err)
				continue
			}
			for g := range pf.file.RowGroups() {
				if s.check(ctx) != nil {
					return false
				}
				rows := []T{row}
				found, err := pf.find(g, id, refTo(rows), trustBloom)
				if err != nil {
					s.lose(f, pf.file.RowGroups()[g].NumRows(), fmt.Errorf("row group %d: %w", g, err))
					continue
				}
				if found {
					row = rows[0]
					return true
				}
			}
		}
		return false
	}
	if sealed(true) {
		return row, true, nil
	}
	var rows []T
	s.room = func(n int) rowsRef {
		if len(rows) < n {
			rows = make([]T, n)
		}
		return refTo(rows[:n])
	}
	s.emit = func(n int) bool {
		for i := range rows[:n] {
			if key(&rows[i]) == id {
				row, ok = rows[i], true
				return false
			}
		}
		return true
	}
	for _, l := range r.logs {
		if t.derived {
			break
		}
		if err := s.log(ctx, l); err != nil && !errors.Is(err, errStop) {
			return row, false, err
		}
		if ok {
			return row, true, nil
		}
	}
	if sealed(false) {
		return row, true, nil
	}
	return row, false, s.check(ctx)
}

// find looks for id in the key column of row group g and reads its row into dst.
func (f *parquetFile) find(g int, id uint64, dst rowsRef, trustBloom bool) (found bool, err error) {
	at := int64(-1)
	err = guard(func() error {
		group := f.file.RowGroups()[g]
		key := slices.IndexFunc(f.table.columns, func(c column) bool { return c.name == f.table.key })
		if f.index[key] < 0 {
			return nil
		}
		chunk := group.ColumnChunks()[f.index[key]]
		if b := chunk.BloomFilter(); b != nil && trustBloom {
			may, err := b.Check(parquet.Int64Value(int64(id)))
			if err == nil && !may {
				return nil // a filter that cannot be read filters nothing
			}
		}
		var c columnCursor
		defer c.close()
		c.open(chunk, &f.table.columns[key])
		for row := int64(0); row < group.NumRows() && at < 0; row += int64(c.left) {
			if err := c.load(); err != nil {
				return fmt.Errorf("column %s: %w", f.table.key, err)
			}
			if i := c.indexOf(id); i >= 0 {
				at = row + int64(i)
			}
		}
		return nil
	})
	if err != nil || at < 0 {
		return false, err
	}
	var r groupReader
	defer r.close()
	if err := r.start(f, g, at, f.table.allColumns()); err != nil {
		return false, err
	}
	n, err := r.read(dst)
	return n == 1, err
}

// indexOf returns the position of v in the page of a 64-bit column, -1 when it is not there.
func (c *columnCursor) indexOf(v uint64) int {
	if !c.indexed {
		return slices.Index(c.int64s[:c.left], int64(v))
	}
	entry := slices.Index(c.dictInt64s[:c.dictLen], int64(v))
	if entry < 0 {
		return -1
	}
	return slices.Index(c.index[:c.left], int32(entry))
}
