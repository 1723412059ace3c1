package archive

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unfinished makes an archive of three frames in one log and returns its folder, the log's path and
// the offsets at which the log's frames end.
func unfinished(t *testing.T) (dir, log string, ends []int64) {
	dir = filepath.Join(t.TempDir(), "a.stax")
	w, err := Create(dir, RecordingInfo{}, manualOptions())
	require.NoError(t, err)
	ends = append(ends, w.log.size)
	for i := range 3 {
		require.NoError(t, w.Append(numbered(uint64(1+5*i), 5)))
		ends = append(ends, w.log.size)
	}
	require.NoError(t, w.Close())
	return dir, filepath.Join(dir, logName(1)), ends
}

func TestLogTornAtEveryOffset(t *testing.T) {
	dir, log, ends := unfinished(t)
	whole, err := os.ReadFile(log)
	require.NoError(t, err)
	for cut := 0; cut < len(whole); cut += stride(7) {
		require.NoError(t, os.WriteFile(log, whole[:cut], 0o644))
		want := uint64(0)
		clean := false
		for i, end := range ends {
			if int64(cut) >= end {
				want = uint64(5 * i)
			}
			clean = clean || int64(cut) == end
		}
		r, err := Open(dir, ReaderOptions{})
		require.NoError(t, err)
		require.Equal(t, want, requireNumbered(t, r), "cut at %d", cut)
		if !clean && cut != logHeaderSize { // a log that ends with its header is an empty one
			require.Len(t, r.Losses(), 1, "cut at %d", cut)
			require.Equal(t, logName(1), r.Losses()[0].File)
		}
		require.NoError(t, r.Close())
	}
}

// TestFlippedBits flips one bit in every byte of every file: the rows are as written, or the damage
// is named.
func TestFlippedBits(t *testing.T) {
	dir, _, _ := unfinished(t)
	sealed := filepath.Join(t.TempDir(), "b.stax")
	w, err := Create(sealed, RecordingInfo{}, manualOptions())
	require.NoError(t, err)
	require.NoError(t, w.Append(numbered(1, 15)))
	require.NoError(t, w.Finish(t.Context(), nil, nil))
	for _, path := range []string{
		filepath.Join(dir, logName(1)), filepath.Join(dir, manifestName), filepath.Join(sealed, manifestName),
		filepath.Join(sealed, tableFile(segmentName(1, 1), "dispatches")),
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			archive := dir
			if bytes.HasPrefix([]byte(path), []byte(sealed)) {
				archive = sealed
			}
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			defer func() { require.NoError(t, os.WriteFile(path, whole, 0o644)) }()
			want := numbered(1, 15).Dispatches
			damaged := bytes.Clone(whole)
			silent := 0
			for i := 0; i < len(whole); i += stride(17) {
				damaged[i] ^= 1 << (i % 8)
				require.NoError(t, os.WriteFile(path, damaged, 0o644))
				damaged[i] = whole[i]
				r, err := Open(archive, ReaderOptions{})
				if err != nil {
					continue // a newer schema version, say
				}
				got := collect[Dispatch](t, r)
				if len(r.Losses()) == 0 {
					silent++
					require.Equal(t, want, got, "byte %d", i)
				}
				next := 0
				for _, d := range got {
					for next < len(want) && want[next] != d {
						next++
					}
					require.Less(t, next, len(want), "byte %d: a row that nobody wrote: %+v", i, d)
					next++
				}
				require.NoError(t, r.Close())
			}
			t.Logf("%d bytes, %d flips without an effect", len(whole), silent)
		})
	}
}

func TestDamageInTheMiddleOfALog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a.stax")
	w, err := Create(dir, RecordingInfo{}, manualOptions())
	require.NoError(t, err)
	var ends []int64
	for _, from := range []uint64{1, 6, 11, 6, 16} { // the fourth batch uses strings that the second defines
		require.NoError(t, w.Append(numbered(from, 5)))
		ends = append(ends, w.log.size)
	}
	require.NoError(t, w.Close())
	log := filepath.Join(dir, logName(1))
	b, err := os.ReadFile(log)
	require.NoError(t, err)
	for _, at := range []int64{0, 5, 9, 13, frameHeader + 3} { // marker, kind, length, checksum, payload
		damaged := bytes.Clone(b)
		damaged[ends[0]+at] ^= 0xff
		require.NoError(t, os.WriteFile(log, damaged, 0o644))
		r := openDir(t, dir)
		var got []uint64
		for _, d := range collect[Dispatch](t, r) {
			got = append(got, d.Seq.N)
		}
		assert.Equal(t, []uint64{1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, got)
		losses := r.Losses()
		require.Len(t, losses, 2)
		assert.Equal(t, Loss{File: logName(1), Offset: ends[0], Bytes: ends[1] - ends[0], Rows: -1, Reason: losses[0].Reason}, losses[0])
		assert.EqualValues(t, 5, losses[1].Rows)
		assert.Equal(t, ends[2], losses[1].Offset)
		assert.Contains(t, losses[1].Reason, "defined by an unreadable frame")
	}

	// Sealing keeps what is readable and the losses.
	w, err = Resume(dir, manualOptions())
	require.NoError(t, err)
	require.NoError(t, w.Finish(t.Context(), nil, nil))
	r := openDir(t, dir)
	assert.Len(t, collect[Dispatch](t, r), 15)
	assert.Len(t, r.Losses(), 3, "two tables of the fourth batch, and the second batch")
}

func TestVerify(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a.stax")
	o := manualOptions()
	o.SegmentRows = 100
	w, err := Create(dir, RecordingInfo{}, o)
	require.NoError(t, err)
	for i := range 4 {
		require.NoError(t, w.Append(numbered(uint64(1+i*60), 60)))
		require.NoError(t, w.maintain(t.Context()))
	}
	report, err := Verify(t.Context(), dir)
	require.NoError(t, err)
	assert.True(t, report.Live)
	assert.True(t, report.Intact(), "%v", report.Losses)
	assert.Equal(t, map[string]int64{"dispatches": 240, "lanes": 240}, report.Rows)
	require.NoError(t, w.Close())

	victim := filepath.Join(dir, tableFile(segmentName(2, 2), "dispatches"))
	b, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(victim, b[:len(b)-20], 0o644))
	require.NoError(t, os.Remove(filepath.Join(dir, tableFile(segmentName(3, 3), "lanes"))))
	report, err = Verify(t.Context(), dir)
	require.NoError(t, err)
	assert.False(t, report.Intact())
	assert.Equal(t, map[string]int64{"dispatches": 180, "lanes": 180}, report.Rows)
	assert.Contains(t, report.Losses[0].Reason, "truncated at offset")
	assert.EqualValues(t, 60, report.Losses[0].Rows)
	assert.Contains(t, report.Losses[len(report.Losses)-1].Reason, "no such file")

	// Without the manifest the folders say enough.
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifestName), []byte("{"), 0o644))
	report, err = Verify(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, map[string]int64{"dispatches": 180, "lanes": 180}, report.Rows)
	require.NoError(t, os.Remove(filepath.Join(dir, manifestName)))
	report, err = Verify(t.Context(), dir)
	require.NoError(t, err)
	assert.Equal(t, map[string]int64{"dispatches": 180, "lanes": 180}, report.Rows)
}
