package archive

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// numbered returns a batch of n dispatches with the sequence numbers from from on, and a lane each.
func numbered(from uint64, n int) *Batch {
	b := &Batch{}
	for i := range uint64(n) {
		k := from + i
		b.Dispatches = append(b.Dispatches, Dispatch{
			Runtime: "r", Lane: LaneID(fmt.Sprint("lane", k%3)), ID: DispatchID(k * 0x9E3779B97F4A7C15), Name: fmt.Sprint("name", k%50, "-", k/1000),
			StartNanos: int64(k), EndNanos: int64(k + 10), Seq: Seq{N: k},
		})
		b.Lanes = append(b.Lanes, Lane{Runtime: "r", ID: LaneID(fmt.Sprint(k))})
	}
	return b
}

// requireNumbered checks that both tables of an archive hold exactly the rows 1 … n in order, and
// returns n.
func requireNumbered(t testing.TB, r *Reader) uint64 {
	t.Helper()
	n := uint64(0)
	for rows, err := range Scan[Dispatch](t.Context(), r) {
		require.NoError(t, err)
		for _, d := range rows {
			n++
			if want := numbered(n, 1).Dispatches[0]; d != want {
				require.Equal(t, want, d)
			}
		}
	}
	lanes := uint64(0)
	for rows, err := range Scan[Lane](t.Context(), r) {
		require.NoError(t, err)
		for _, l := range rows {
			if lanes++; l.ID != LaneID(fmt.Sprint(lanes)) {
				require.Equal(t, LaneID(fmt.Sprint(lanes)), l.ID)
			}
		}
	}
	require.Equal(t, n, lanes, "rows of the two tables of each batch")
	return n
}

const crashRows = 37 // per batch

// crashChild appends batches until it is killed, and acknowledges each on its standard output.
func crashChild(dir string) {
	w, err := Create(dir, RecordingInfo{}, WriterOptions{SegmentRows: 300})
	if err != nil {
		panic(err)
	}
	for n := uint64(1); ; n += crashRows {
		if err := w.Append(numbered(n, crashRows)); err != nil {
			panic(err)
		}
		fmt.Println(n + crashRows - 1)
	}
}

func TestKilledWriterLosesNothingAcknowledged(t *testing.T) {
	for round, acks := range []int{1, 3, 9, 40, 90, 170, 260, 400} {
		t.Run(fmt.Sprint(acks), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a.stax")
			cmd := exec.CommandContext(t.Context(), os.Args[0], fmt.Sprint(round))
			cmd.Env = append(os.Environ(), "STAX_ARCHIVE_CRASH_CHILD="+dir)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(out)
			var acknowledged uint64
			for range acks {
				require.True(t, lines.Scan())
			}
			require.NoError(t, cmd.Process.Kill())
			for {
				_, err := fmt.Sscan(lines.Text(), &acknowledged)
				require.NoError(t, err)
				if !lines.Scan() {
					break
				}
			}
			require.Error(t, cmd.Wait())

			r := openDir(t, dir)
			assert.False(t, r.Live())
			n := requireNumbered(t, r)
			assert.GreaterOrEqual(t, n, acknowledged)
			assert.LessOrEqual(t, n, acknowledged+crashRows)
			for _, l := range r.Losses() {
				assert.Contains(t, l.Reason, "Append had not returned")
			}

			w, err := Resume(dir, WriterOptions{})
			require.NoError(t, err)
			require.NoError(t, w.Append(numbered(n+1, 10)))
			require.NoError(t, w.Finish(t.Context(), nil, nil))
			require.Equal(t, n+10, requireNumbered(t, openDir(t, dir)))
			entries, err := os.ReadDir(filepath.Join(dir, segmentDir))
			require.NoError(t, err)
			require.Len(t, entries, 1, "everything is merged and nothing is left over")
		})
	}
}

// faultFiles is a file system that dies at one operation: that one is done half (a write) or not at
// all, and everything after it fails.
type faultFiles struct {
	mu     sync.Mutex
	left   int // operations before the end; negative: it has come
	halves bool
	err    error
	revive bool // only one operation fails
}

var errDead = errors.New("the machine is gone")

func (f *faultFiles) step() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left--
	if f.left < 0 && (!f.revive || f.left == -1) {
		return f.err
	}
	return nil
}

type faultFile struct {
	writeFile
	fs *faultFiles
}

func (f *faultFiles) create(name string) (writeFile, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	file, err := osFiles{}.create(name)
	return faultFile{file, f}, err
}

func (f *faultFiles) rename(from, to string) error {
	if err := f.step(); err != nil {
		return err
	}
	return osFiles{}.rename(from, to)
}

func (f *faultFiles) mkdir(name string) error {
	if err := f.step(); err != nil {
		return err
	}
	return osFiles{}.mkdir(name)
}

func (f *faultFiles) removeAll(name string) error {
	if err := f.step(); err != nil {
		return err
	}
	return osFiles{}.removeAll(name)
}

func (f *faultFiles) syncDir(string) error {
	if err := f.step(); err != nil {
		return err
	}
	return nil
}

func (f faultFile) Write(p []byte) (int, error) {
	if err := f.fs.step(); err != nil {
		if f.fs.halves {
			n, _ := f.writeFile.Write(p[:len(p)/2])
			return n, err
		}
		return 0, err
	}
	return f.writeFile.Write(p)
}

func (f faultFile) Truncate(n int64) error {
	if err := f.fs.step(); err != nil {
		return err
	}
	return f.writeFile.Truncate(n)
}

func (f faultFile) Sync() error {
	if err := f.fs.step(); err != nil {
		return err
	}
	return nil // nothing here loses power
}

// TestEveryCrashPoint ends a run of appends, seals, merges, Finish and derived tables at every single
// file operation, and checks after each that exactly the acknowledged rows are there, before and
// after the archive is resumed and finished.
func TestEveryCrashPoint(t *testing.T) {
	points := 0
	for ; ; points += stride(23) {
		if crashAt(t, points) {
			break
		}
	}
	t.Logf("%d crash points", points)
	assert.Greater(t, points, 100)
}

func crashAt(t *testing.T, point int) (finished bool) {
	dir := filepath.Join(t.TempDir(), "a.stax")
	files := &faultFiles{left: 1 << 30, err: errDead, halves: point%2 == 0}
	o := manualOptions()
	o.files, o.SegmentRows = files, 11
	w, err := Create(dir, RecordingInfo{}, o)
	require.NoError(t, err)
	files.left = point
	acknowledged := uint64(0)
	err = func() error {
		for range 9 {
			if err := w.Append(numbered(acknowledged+1, 11)); err != nil {
				return err
			}
			acknowledged += 11
			if err := w.maintain(t.Context()); err != nil {
				return err
			}
		}
		if err := w.UpdateInfo(func(i *RecordingInfo) { i.Name = "x" }); err != nil {
			return err
		}
		if err := w.Finish(t.Context(), nil, nil); err != nil {
			return err
		}
		for v := range 2 {
			if err := writeDerived(t.Context(), dir, fmt.Sprint(v), func(d *DerivedWriter) error {
				return d.Links([]Link{{Owner: uint64(v)}})
			}, files); err != nil {
				return err
			}
		}
		return nil
	}()
	w.release()
	if err != nil {
		require.ErrorIs(t, err, errDead)
	}

	r := openDir(t, dir)
	require.Equal(t, acknowledged, requireNumbered(t, r), "crash point %d", point)
	if v, ok := r.HasDerived(); ok {
		require.Equal(t, v, fmt.Sprint(collect[Link](t, r)[0].Owner))
	}
	for _, l := range r.Losses() {
		require.Contains(t, l.Reason, "Append had not returned", "crash point %d", point)
	}
	w, rerr := Resume(dir, manualOptions())
	require.NoError(t, rerr)
	require.NoError(t, w.Append(numbered(acknowledged+1, 5)))
	require.NoError(t, w.Finish(t.Context(), nil, nil))
	require.Equal(t, acknowledged+5, requireNumbered(t, openDir(t, dir)), "crash point %d", point)
	return err == nil
}

// TestAnyFailedOperationIsSurvived fails one file operation only, as a full disk does, and goes on.
func TestAnyFailedOperationIsSurvived(t *testing.T) {
	for point := 0; point < 200; point += 2 * stride(11) {
		dir := filepath.Join(t.TempDir(), "a.stax")
		files := &faultFiles{left: 1 << 30, err: syscall.ENOSPC, halves: true, revive: true}
		o := manualOptions()
		o.files, o.SegmentRows, o.maxBacklog = files, 11, 1
		w, err := Create(dir, RecordingInfo{}, o)
		require.NoError(t, err)
		files.left = point
		acknowledged := uint64(0)
		failures := 0
		for range 9 {
			for _, step := range []func() error{
				func() error {
					err := w.Append(numbered(acknowledged+1, 11))
					if err == nil {
						acknowledged += 11
					}
					return err
				},
				func() error { return w.maintain(t.Context()) },
			} {
				if err := step(); err != nil {
					require.ErrorIs(t, err, syscall.ENOSPC)
					failures++
					require.Equal(t, acknowledged, requireNumbered(t, openDir(t, dir)), "point %d", point)
				}
			}
		}
		require.LessOrEqual(t, failures, 1)
		require.GreaterOrEqual(t, acknowledged, uint64(8*11))
		if err := w.Finish(t.Context(), nil, nil); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.NoError(t, w.Finish(t.Context(), nil, nil), "Finish again")
		}
		r := openDir(t, dir)
		require.Equal(t, acknowledged, requireNumbered(t, r), "point %d", point)
		require.Empty(t, r.Losses())
	}
}
