package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// A Writer appends frames to the open log under a mutex: encode, one write(2), done. Everything
// dear happens in two background goroutines, one that syncs the open log and one that turns full
// logs into Parquet segments and merges small segments. The manifest is the only thing that says
// which segments count; each of its rewrites moves rows from one place to another in one rename, so
// at every instant a reader finds each row exactly once:
//
//	rotate   log N is full, log N+1 appears             rows: log N
//	seal     segments/N appears, complete and synced     rows: log N (the manifest does not list N yet)
//	commit   manifest: segments += N, sealed_log = N      rows: segments/N
//	clean    log N is removed
//
// Merging is the same with several segments in the place of the log. What a crash leaves behind
// between commit and clean, or before commit, is not referred to and is removed by Resume.

// Errors that callers branch on.
var (
	ErrClosed = errors.New("the writer is closed")
	ErrBusy   = errors.New("another writer has the archive open")
)

// WriterOptions are the settings of a Writer. The zero value is ready to use.
type WriterOptions struct {
	// Sync is the longest time that accepted rows stay unsynced, so the most that a power loss can
	// take; a crash of the process takes nothing. 0: 1 s. Negative: every Append syncs.
	Sync time.Duration
	// SegmentRows is the number of rows that makes a log full. 0: 65536.
	SegmentRows int
	// SegmentAge is the age at which a log with at least one row is full. 0: 30 s.
	SegmentAge time.Duration
	// Now is the collector's clock. nil: time.Now.
	Now func() time.Time

	files      fileSystem // nil: the operating system's
	maxBacklog int        // full logs that may wait for the sealer before logs grow instead; 0: 4
	manual     bool       // no background work: tests call maintain themselves
}

const (
	defaultSegmentRows = 1 << 16
	maxLogBytes        = 64 << 20 // that make a log full
	logHardFactor      = 64       // a log may outgrow SegmentRows by this when sealing fails or lags
	keepBuffer         = 8 << 20  // a larger frame buffer is not kept
)

// Writer writes one archive. Its methods are safe for concurrent use.
type Writer struct {
	dir   string
	o     WriterOptions
	files fileSystem
	lock  *os.File

	mu      sync.Mutex // guards the following; held during Append
	log     *openLog
	backlog []*openLog // full, oldest first
	encoder *batchEncoder
	buf     []byte
	closed  bool

	syncMu     sync.Mutex // held while a log's file is synced or closed; taken before mu
	maintainMu sync.Mutex // one seal or merge at a time; taken before everything else
	noMerge    bool       // guarded by maintainMu: a segment is damaged, so leave the files as they are

	manifestMu sync.Mutex // guards manifest and its file
	manifest   Manifest

	wake    chan struct{}
	stop    context.CancelFunc
	stopped sync.WaitGroup

	errMu   sync.Mutex
	lastErr error // of the background work; nil once it succeeded again
}

// openLog is a log that this Writer writes or wrote.
type openLog struct {
	number  uint64
	f       writeFile // nil: written by a writer before this one
	size    int64
	rows    int
	dirty   bool
	broken  bool // ends within a frame: nothing may follow
	created time.Time
}

// Create makes a new archive in the directory dir, which must not exist (the error is then
// fs.ErrExist), and returns its Writer. The parent directory must exist. info.State is set to
// StateRecording, a zero StartedNanos to now.
func Create(dir string, info RecordingInfo, o WriterOptions) (*Writer, error) {
	w := newWriter(dir, o)
	if info.StartedNanos == 0 {
		info.StartedNanos = w.o.Now().UnixNano()
	}
	info.State = StateRecording
	w.manifest = Manifest{
		Schema:    SchemaVersion,
		Recording: info,
		Clock:     ClockInfo{Target: "unix_ns", Collector: "unix_ns"},
		Segments:  []SegmentInfo{},
	}
	if err := w.files.mkdir(dir); err != nil {
		return nil, fmt.Errorf("archive: creating %s: %w", dir, err)
	}
	if err := w.create(); err != nil {
		w.release()
		_ = w.files.removeAll(dir) // the error below is the one to report
		return nil, fmt.Errorf("archive: creating %s: %w", dir, err)
	}
	w.start()
	return w, nil
}

func (w *Writer) create() error {
	var err error
	if w.lock, err = lockWriter(filepath.Join(w.dir, lockName)); err != nil {
		return err
	}
	for _, d := range []string{logDir, segmentDir} {
		if err := w.files.mkdir(filepath.Join(w.dir, d)); err != nil {
			return err
		}
	}
	if w.log, err = w.newLog(1); err != nil {
		return err
	}
	if err := w.saveManifest(func(*Manifest) {}); err != nil {
		return err
	}
	return w.files.syncDir(filepath.Dir(w.dir))
}

// Resume opens an archive whose Writer ended without Finish (a crash, or Close) to go on with it:
// append more, or Finish it. The error is ErrBusy while another Writer has it open.
func Resume(dir string, o WriterOptions) (*Writer, error) {
	w := newWriter(dir, o)
	if err := w.resume(); err != nil {
		w.release()
		return nil, fmt.Errorf("archive: resuming %s: %w", dir, err)
	}
	w.start()
	return w, nil
}

func (w *Writer) resume() error {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if w.lock, err = lockWriter(filepath.Join(w.dir, lockName)); err != nil {
		return err
	}
	b, err := readLimited(root, manifestName, maxManifest)
	if err != nil {
		return err
	}
	if w.manifest, err = parseManifest(b); err != nil {
		return err
	}
	if err := w.removeLeftovers(root); err != nil {
		return err
	}
	numbers, err := listLogs(root, w.manifest.SealedLog)
	if err != nil {
		return err
	}
	next := w.manifest.SealedLog + 1
	for _, n := range numbers {
		w.backlog = append(w.backlog, &openLog{number: n})
		next = n + 1
	}
	w.manifest.Recording.State = StateRecording
	w.log, err = w.newLog(next)
	return err
}

// removeLeftovers removes what the manifest does not refer to.
func (w *Writer) removeLeftovers(root *os.Root) error {
	keep := map[string]bool{}
	for _, s := range w.manifest.Segments {
		keep[s.Dir] = true
	}
	if w.manifest.Derived != nil {
		keep[w.manifest.Derived.Dir] = true
	}
	for _, d := range []string{segmentDir, derivedDir, logDir} {
		names, err := listNames(root, d)
		if err != nil {
			return err
		}
		for _, n := range names {
			name := d + "/" + n
			number, isLog := parseLogName(n)
			if keep[name] || d == logDir && isLog && number > w.manifest.SealedLog {
				continue
			}
			if err := w.files.removeAll(filepath.Join(w.dir, filepath.FromSlash(name))); err != nil {
				return err
			}
		}
	}
	return nil
}

// listLogs returns the numbers of the logs after sealed, in order.
func listLogs(root *os.Root, sealed uint64) ([]uint64, error) {
	names, err := listNames(root, logDir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, name := range names {
		if n, ok := parseLogName(name); ok && n > sealed {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func newWriter(dir string, o WriterOptions) *Writer {
	o.Sync = cmp.Or(o.Sync, time.Second)
	o.SegmentAge = cmp.Or(o.SegmentAge, 30*time.Second)
	o.SegmentRows = cmp.Or(max(o.SegmentRows, 0), defaultSegmentRows)
	o.maxBacklog = cmp.Or(o.maxBacklog, 4)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.files == nil {
		o.files = osFiles{}
	}
	return &Writer{dir: dir, o: o, files: o.files, encoder: newBatchEncoder(), wake: make(chan struct{}, 1), stop: func() {}}
}

func (w *Writer) start() {
	if w.o.manual {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	w.stopped.Go(func() { w.syncLoop(ctx) })
	w.stopped.Go(func() { w.maintainLoop(ctx) })
}

func (w *Writer) syncLoop(ctx context.Context) {
	if w.o.Sync < 0 {
		return
	}
	t := time.NewTicker(w.o.Sync)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			w.noteError(w.Sync())
		}
	}
}

func (w *Writer) maintainLoop(ctx context.Context) {
	t := time.NewTicker(min(time.Second, w.o.SegmentAge))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-w.wake:
		}
		w.noteError(w.maintain(ctx))
	}
}

// noteError keeps the last error of the background work, for Err.
func (w *Writer) noteError(err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) {
		return
	}
	w.errMu.Lock()
	defer w.errMu.Unlock()
	w.lastErr = err
}

// Err returns the error of the last background sync, seal or merge, nil when it succeeded. Such an
// error loses nothing that Append accepted: the rows stay in their logs and sealing is tried again.
func (w *Writer) Err() error {
	w.errMu.Lock()
	defer w.errMu.Unlock()
	return w.lastErr
}

// newLog makes the log with the given number. It appears under its name with its header complete.
func (w *Writer) newLog(number uint64) (*openLog, error) {
	now := w.o.Now()
	name := filepath.Join(w.dir, filepath.FromSlash(logName(number)))
	temp := filepath.Join(filepath.Dir(name), tempPrefix+filepath.Base(name))
	if err := w.files.removeAll(temp); err != nil {
		return nil, err
	}
	f, err := w.files.create(temp)
	if err != nil {
		return nil, err
	}
	b := appendLogHeader(nil, number, now.UnixNano())
	at := len(b)
	b = appendSchema(beginFrame(b))
	endFrame(b[at:], frameSchema)
	if _, err = f.Write(b); err == nil {
		err = w.files.rename(temp, name)
	}
	if err != nil {
		_ = f.Close()               // the error above is the one to report
		_ = w.files.removeAll(temp) // and so here
		return nil, err
	}
	return &openLog{number: number, f: f, size: int64(len(b)), dirty: true, created: now}, nil
}

// Append stores the rows of b: all of them or none. It returns when the operating system has them,
// so they survive the end of the process; WriterOptions.Sync bounds when they are on the disk. On an
// error nothing is stored, the archive stays readable, and a later Append may succeed (a full disk is
// syscall.ENOSPC). Batches over 131072 rows or 256 MiB are ErrBatchTooLarge, strings and payloads
// over 16 MiB ErrValueTooLarge. Bytes of strings that are not UTF-8 are stored as \xNN. b may be
// changed and reused after the return.
func (w *Writer) Append(b *Batch) error {
	n := b.Len()
	if n == 0 {
		return nil
	}
	if n > maxFrameRows {
		return fmt.Errorf("archive: appending %d rows: %w: the limit is %d rows, split the batch", n, ErrBatchTooLarge, maxFrameRows)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return fmt.Errorf("archive: appending to %s: %w", w.dir, ErrClosed)
	}
	if w.log.broken || w.log.rows >= w.o.SegmentRows*logHardFactor {
		if err := w.rotate(); err != nil {
			return fmt.Errorf("archive: %s: no new log: %w", w.dir, err)
		}
	}
	frame, err := w.encoder.encode(beginFrame(w.buf[:0]), b)
	if err != nil {
		w.encoder.rollback()
		return fmt.Errorf("archive: appending %d rows: %w", n, err)
	}
	if cap(frame) <= keepBuffer {
		w.buf = frame
	}
	if len(frame)-frameHeader > maxFrameSize {
		w.encoder.rollback()
		return fmt.Errorf("archive: appending %d rows: %w: %d bytes, the limit is %d", n, ErrBatchTooLarge, len(frame), maxFrameSize)
	}
	endFrame(frame, frameBatch)
	if err := w.write(frame); err != nil {
		w.encoder.rollback()
		return fmt.Errorf("archive: %s: appending %d rows at offset %d: %w", filepath.Join(w.dir, logName(w.log.number)), n, w.log.size, err)
	}
	w.encoder.commit()
	w.log.size += int64(len(frame))
	w.log.rows += n
	w.log.dirty = w.o.Sync >= 0
	if w.log.rows >= w.o.SegmentRows || w.log.size >= maxLogBytes {
		w.rotateIfRoom()
	}
	return nil
}

// write appends a frame to the open log, whole or not at all.
func (w *Writer) write(frame []byte) error {
	_, err := w.log.f.Write(frame)
	if err == nil && w.o.Sync < 0 {
		err = w.log.f.Sync()
	}
	if err == nil {
		return nil
	}
	if terr := w.log.f.Truncate(w.log.size); terr != nil {
		w.log.broken = true // readers drop the torn frame; the next Append starts a new log
		err = errors.Join(err, fmt.Errorf("removing the torn frame: %w", terr))
	}
	return err
}

// rotateIfRoom rotates unless the sealer is too far behind or no log can be made: then the open log
// grows, and the next Append or the maintainer tries again.
func (w *Writer) rotateIfRoom() {
	if len(w.backlog) >= w.o.maxBacklog {
		return
	}
	if err := w.rotate(); err != nil {
		w.noteError(fmt.Errorf("archive: %s: no new log: %w", w.dir, err))
	}
}

func (w *Writer) rotate() error {
	next, err := w.newLog(w.log.number + 1)
	if err != nil {
		return err
	}
	w.backlog = append(w.backlog, w.log)
	w.log, w.encoder = next, newBatchEncoder()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

// Sync makes everything that Append accepted durable.
func (w *Writer) Sync() error {
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	w.mu.Lock()
	var dirty []*openLog
	for _, l := range append(slices.Clone(w.backlog), w.log) {
		if l != nil && l.dirty && l.f != nil {
			dirty = append(dirty, l)
			l.dirty = false
		}
	}
	closed := w.closed
	w.mu.Unlock()
	if closed && len(dirty) == 0 {
		return nil
	}
	for _, l := range dirty {
		if err := l.f.Sync(); err != nil {
			w.mu.Lock()
			l.dirty = true
			w.mu.Unlock()
			return fmt.Errorf("archive: %s: syncing: %w", filepath.Join(w.dir, logName(l.number)), err)
		}
	}
	if len(dirty) == 0 {
		return nil
	}
	if err := w.files.syncDir(filepath.Join(w.dir, logDir)); err != nil {
		return fmt.Errorf("archive: %s: syncing: %w", filepath.Join(w.dir, logDir), err)
	}
	return nil
}

// UpdateInfo changes the recording's description and rewrites the manifest. State is kept.
func (w *Writer) UpdateInfo(change func(*RecordingInfo)) error {
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return fmt.Errorf("archive: updating %s: %w", w.dir, ErrClosed)
	}
	return w.saveManifest(func(m *Manifest) {
		state := m.Recording.State
		change(&m.Recording)
		m.Recording.State = state
	})
}

// saveManifest changes the manifest and commits it with a rename. On an error the old one stays.
func (w *Writer) saveManifest(change func(*Manifest)) error {
	w.manifestMu.Lock()
	defer w.manifestMu.Unlock()
	m := w.manifest.clone()
	change(&m)
	m.Generation++
	m.summarize()
	b, err := encodeManifest(&m)
	if err == nil {
		err = writeAtomically(w.files, w.dir, manifestName, b)
	}
	if err != nil {
		return fmt.Errorf("archive: %s: writing: %w", filepath.Join(w.dir, manifestName), err)
	}
	w.manifest = m
	return nil
}

// Finish seals and merges everything, applies change to the recording's description, marks the
// recording finished and closes the Writer. progress, when not nil, is called with the rows that are
// done and all rows that have to be sealed or merged. After an error (a full disk, ctx) the archive
// is readable and unfinished; no more rows are accepted, and Finish may be called again, or Close.
func (w *Writer) Finish(ctx context.Context, change func(*RecordingInfo), progress func(done, total int)) error {
	w.mu.Lock()
	if w.lock == nil {
		w.mu.Unlock()
		return fmt.Errorf("archive: finishing %s: %w", w.dir, ErrClosed)
	}
	w.closed = true
	w.mu.Unlock()
	w.stop()
	w.stopped.Wait()

	w.maintainMu.Lock()
	defer w.maintainMu.Unlock()
	if err := w.finish(ctx, progress); err != nil {
		return fmt.Errorf("archive: finishing %s: %w", w.dir, err)
	}
	err := w.saveManifest(func(m *Manifest) {
		if change != nil {
			change(&m.Recording)
		}
		m.Recording.State = StateFinished
		if m.Recording.StoppedNanos == 0 {
			m.Recording.StoppedNanos = w.o.Now().UnixNano()
		}
	})
	if err != nil {
		return err
	}
	w.release()
	return nil
}

func (w *Writer) finish(ctx context.Context, progress func(done, total int)) error {
	w.mu.Lock()
	logs := slices.Clone(w.backlog)
	if w.log != nil {
		logs = append(logs, w.log)
		w.backlog, w.log = logs, nil
	}
	w.mu.Unlock()
	p := &progressCounter{report: progress}
	for _, l := range logs {
		p.total += l.rows
	}
	w.manifestMu.Lock()
	for _, n := range w.manifest.Counts {
		p.total += int(n)
	}
	w.manifestMu.Unlock()
	p.total += p.total // each row is sealed and merged at most once more
	if err := w.sealBacklog(ctx, p); err != nil {
		return err
	}
	if err := w.mergeAll(ctx, p); err != nil {
		return err
	}
	p.finish()
	return nil
}

// progressCounter reports work in rows.
type progressCounter struct {
	report      func(done, total int)
	done, total int
}

func (p *progressCounter) add(rows int) {
	if p == nil || p.report == nil {
		return
	}
	p.done = min(p.done+rows, p.total)
	p.report(p.done, p.total)
}

func (p *progressCounter) finish() {
	if p.report != nil {
		p.report(p.total, p.total)
	}
}

// Close ends the Writer without finishing the recording: the archive stays as it is, readable, and
// Resume may go on with it. Close after Finish does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	open := w.lock != nil
	w.mu.Unlock()
	if !open {
		return nil
	}
	w.stop()
	w.stopped.Wait()
	w.maintainMu.Lock()
	defer w.maintainMu.Unlock()
	err := w.Sync()
	w.release()
	return err
}

// release closes all files.
func (w *Writer) release() {
	w.syncMu.Lock()
	defer w.syncMu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range append(w.backlog, w.log) {
		if l != nil && l.f != nil {
			_ = l.f.Close() // synced, or the caller has an error already
			l.f = nil
		}
	}
	if w.lock != nil {
		_ = w.lock.Close() // nothing was written
		w.lock = nil
	}
}

// rotateIfOld ends the open log when it is old enough, or broken, or too large.
func (w *Writer) rotateIfOld() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.log == nil || w.log.rows == 0 {
		return
	}
	old := w.o.Now().Sub(w.log.created) >= w.o.SegmentAge
	if old || w.log.rows >= w.o.SegmentRows || w.log.size >= maxLogBytes {
		w.rotateIfRoom()
	}
}

// maintain does the work that is due: rotate, seal, merge.
func (w *Writer) maintain(ctx context.Context) error {
	w.maintainMu.Lock()
	defer w.maintainMu.Unlock()
	w.rotateIfOld()
	if err := w.sealBacklog(ctx, nil); err != nil {
		return err
	}
	return w.mergeDue(ctx)
}

// sealBacklog seals the full logs, oldest first.
func (w *Writer) sealBacklog(ctx context.Context, p *progressCounter) error {
	for {
		w.mu.Lock()
		if len(w.backlog) == 0 {
			w.mu.Unlock()
			return nil
		}
		l := w.backlog[0]
		w.mu.Unlock()
		if l.f == nil || l.rows > 0 {
			if err := w.seal(ctx, l); err != nil {
				return err
			}
		}
		w.syncMu.Lock()
		w.mu.Lock()
		w.backlog = w.backlog[1:]
		if l.f != nil {
			_ = l.f.Close() // its rows are in a synced segment
			l.f = nil
		}
		w.mu.Unlock()
		w.syncMu.Unlock()
		if err := w.remove(logName(l.number)); err != nil {
			return err
		}
		p.add(l.rows)
	}
}

func (w *Writer) remove(name string) error {
	if err := w.files.removeAll(filepath.Join(w.dir, filepath.FromSlash(name))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("archive: removing %s: %w", filepath.Join(w.dir, name), err)
	}
	return nil
}
