package archive

import (
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReadersBesideAWriter opens an archive again and again while several goroutines append and the
// sealer and the merger work: each snapshot is a prefix of what was written, and holds at least what
// was acknowledged before it was taken.
func TestReadersBesideAWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a.stax")
	w, err := Create(dir, RecordingInfo{}, WriterOptions{SegmentRows: 200, Sync: time.Millisecond, files: quickFiles{}})
	require.NoError(t, err)
	const batches, rows = 300, 21
	var acknowledged atomic.Uint64
	var order sync.Mutex
	var writers, readers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for {
				order.Lock() // the numbers are in the order of Append
				from := acknowledged.Load() + 1
				if from > batches*rows {
					order.Unlock()
					return
				}
				if err := w.Append(numbered(from, rows)); err != nil {
					t.Error(err)
					order.Unlock()
					return
				}
				acknowledged.Store(from + rows - 1)
				order.Unlock()
				runtime.Gosched()
			}
		})
	}
	writers.Go(func() {
		for acknowledged.Load() < batches*rows {
			if err := w.UpdateInfo(func(i *RecordingInfo) { i.PIDs = append(i.PIDs[:0], 1) }); err != nil {
				t.Error(err)
				return
			}
		}
	})
	snapshots := 0
	readers.Go(func() {
		for done := false; !done; snapshots++ {
			before := acknowledged.Load()
			done = before == batches*rows
			r, err := Open(dir, ReaderOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			n := requireNumbered(t, r)
			assert.GreaterOrEqual(t, n, before)
			assert.Zero(t, n%rows, "a batch is there whole or not at all")
			assert.Empty(t, r.Losses())
			assert.True(t, r.Live())
			assert.NoError(t, r.Close())
		}
	})
	writers.Wait()
	readers.Wait()
	require.NoError(t, w.Err())
	var done, total int
	require.NoError(t, w.Finish(t.Context(), nil, func(d, all int) {
		assert.GreaterOrEqual(t, d, done)
		done, total = d, all
	}))
	assert.Equal(t, total, done)
	assert.EqualValues(t, batches*rows, requireNumbered(t, openDir(t, dir)))
	t.Logf("%d snapshots", snapshots)
}

// TestAgeSealsAQuietLog: rows do not stay in a log for ever when nothing follows them.
func TestAgeSealsAQuietLog(t *testing.T) {
	now := time.Unix(100, 0)
	o := manualOptions()
	o.Now = func() time.Time { return now }
	o.SegmentAge = 30 * time.Second
	dir := filepath.Join(t.TempDir(), "a.stax")
	w, err := Create(dir, RecordingInfo{}, o)
	require.NoError(t, err)
	require.NoError(t, w.Append(numbered(1, 5)))
	now = now.Add(29 * time.Second)
	require.NoError(t, w.maintain(t.Context()))
	assert.Empty(t, w.segments())
	now = now.Add(time.Second)
	require.NoError(t, w.maintain(t.Context()))
	assert.Len(t, w.segments(), 1)
	now = now.Add(time.Hour)
	require.NoError(t, w.maintain(t.Context()))
	assert.Len(t, w.segments(), 1, "an empty log is left alone")
	require.NoError(t, w.Close())
	assert.EqualValues(t, 5, requireNumbered(t, openDir(t, dir)))
}

// TestSealerTooSlow: with the backlog full the open log grows, and nothing is refused or lost.
func TestSealerTooSlow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a.stax")
	o := manualOptions()
	o.SegmentRows, o.maxBacklog = 10, 2
	w, err := Create(dir, RecordingInfo{}, o)
	require.NoError(t, err)
	for i := range uint64(20) {
		require.NoError(t, w.Append(numbered(1+i*10, 10)))
	}
	assert.Len(t, w.backlog, 2)
	assert.EqualValues(t, 200, requireNumbered(t, openDir(t, dir)))
	require.NoError(t, w.Finish(t.Context(), nil, nil))
	assert.EqualValues(t, 200, requireNumbered(t, openDir(t, dir)))
}

// fullFiles is a disk that is full for the next appends to logs.
type fullFiles struct {
	quickFiles
	full atomic.Bool
}

type fullFile struct {
	writeFile
	disk *fullFiles
}

func (f *fullFiles) create(name string) (writeFile, error) {
	if f.full.Load() {
		return nil, syscall.ENOSPC
	}
	w, err := f.quickFiles.create(name)
	return fullFile{w, f}, err
}

func (f fullFile) Write(p []byte) (int, error) {
	if !f.disk.full.Load() {
		return f.writeFile.Write(p)
	}
	n, err := f.writeFile.Write(p[:len(p)*2/3])
	if err == nil {
		err = syscall.ENOSPC
	}
	return n, err
}

func TestDiskFull(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a.stax")
	disk := &fullFiles{}
	o := manualOptions()
	o.files, o.SegmentRows = disk, 30
	w, err := Create(dir, RecordingInfo{}, o)
	require.NoError(t, err)
	require.NoError(t, w.Append(numbered(1, 40)))
	require.NoError(t, w.maintain(t.Context()))
	require.NoError(t, w.Append(numbered(41, 20)))
	disk.full.Store(true)
	for range 3 {
		err = w.Append(numbered(61, 20))
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, logName(3))
		require.ErrorIs(t, w.UpdateInfo(func(*RecordingInfo) {}), syscall.ENOSPC)
	}
	r := openDir(t, dir)
	assert.EqualValues(t, 60, requireNumbered(t, r))
	disk.full.Store(false)
	require.NoError(t, w.Append(numbered(61, 20)))
	disk.full.Store(true)
	require.ErrorIs(t, w.maintain(t.Context()), syscall.ENOSPC)
	require.ErrorIs(t, w.Finish(t.Context(), nil, nil), syscall.ENOSPC)
	assert.EqualValues(t, 80, requireNumbered(t, openDir(t, dir)))
	disk.full.Store(false)
	require.NoError(t, w.Finish(t.Context(), nil, nil))
	r = openDir(t, dir)
	assert.EqualValues(t, 80, requireNumbered(t, r))
	assert.Empty(t, r.Losses())
}

func TestLimits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a.stax")
	w, err := Create(dir, RecordingInfo{}, manualOptions())
	require.NoError(t, err)
	require.ErrorIs(t, w.Append(&Batch{Lanes: make([]Lane, maxFrameRows+1)}), ErrBatchTooLarge)
	huge := make([]byte, maxString+1)
	err = w.Append(&Batch{Lanes: []Lane{{ID: "new"}}, Diagnostics: []Diagnostic{{Text: string(huge)}}})
	require.ErrorIs(t, err, ErrValueTooLarge)
	require.ErrorContains(t, err, "table diagnostics, column text")
	require.ErrorIs(t, w.Append(&Batch{Passthrough: []Passthrough{{Payload: huge}}}), ErrValueTooLarge)
	many := make([]Passthrough, maxFrameSize/maxString+1)
	for i := range many {
		many[i].Payload = huge[:maxString]
	}
	require.ErrorIs(t, w.Append(&Batch{Passthrough: many}), ErrBatchTooLarge)

	// After all these refusals the string table is still right.
	require.NoError(t, w.Append(&Batch{Lanes: []Lane{{ID: "new", Name: "not \xff\xfeUTF-8"}}}))
	r := openDir(t, dir)
	assert.Equal(t, []Lane{{ID: "new", Name: `not \xff\xfeUTF-8`}}, collect[Lane](t, r))
	require.NoError(t, w.Close())
}
