//go:build unix

package archive

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// These benchmarks are the measurements behind docs/adr/0003-archive-layout.md. They time nothing
// against a limit. STAX_BENCH_ROWS sets the size of the large archive (default 1000000).

func benchBatches(n int) []Batch {
	g := newGenerator(1)
	batches := make([]Batch, n)
	for i := range batches {
		batches[i].Dispatches = make([]Dispatch, 256)
		g.dispatches(batches[i].Dispatches)
	}
	return batches
}

func perRow(b *testing.B, rows int64) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
}

// cpuTime returns the processor time that this process has used: on a shared machine it says more
// than the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAppend is the caller's side: encode and write(2), without sealing.
func BenchmarkAppend(b *testing.B) {
	for _, withWrite := range []bool{false, true} {
		b.Run(fmt.Sprintf("write=%t", withWrite), func(b *testing.B) {
			batches := benchBatches(16)
			o := WriterOptions{manual: true, maxBacklog: 1 << 30}
			if !withWrite {
				o.files = discardFiles{}
			}
			w, err := Create(filepath.Join(b.TempDir(), "a.stax"), RecordingInfo{}, o)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			start, size := int64(0), int64(0)
			cpu := cpuTime()
			for i := 0; b.Loop(); i++ {
				if err := w.Append(&batches[i%len(batches)]); err != nil {
					b.Fatal(err)
				}
				start += 256
				size += int64(len(w.buf))
			}
			perRow(b, start)
			b.ReportMetric(float64(cpuTime()-cpu)/float64(start), "cpu-ns/row")
			b.ReportMetric(float64(size)/float64(start), "B/row")
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// discardFiles makes logs that keep nothing.
type discardFiles struct{ osFiles }

type discardFile struct{ writeFile }

func (discardFile) Write(p []byte) (int, error) { return len(p), nil }

func (d discardFiles) create(name string) (writeFile, error) {
	f, err := d.osFiles.create(name)
	if filepath.Base(filepath.Dir(name)) == logDir {
		f = discardFile{f}
	}
	return f, err
}

// BenchmarkSeal is one full log into a synced segment.
func BenchmarkSeal(b *testing.B) {
	batches := benchBatches(256)
	dir := b.TempDir()
	rows, size := int64(0), int64(0)
	var cpu time.Duration
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		w, err := Create(filepath.Join(dir, fmt.Sprint(i)), RecordingInfo{}, WriterOptions{manual: true})
		if err != nil {
			b.Fatal(err)
		}
		for j := range batches {
			if err := w.Append(&batches[j]); err != nil {
				b.Fatal(err)
			}
		}
		cpu -= cpuTime()
		b.StartTimer()
		if err := w.maintain(context.Background()); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		cpu += cpuTime()
		for _, s := range w.manifest.Segments {
			rows += s.rowCount()
			size += s.Tables[0].Bytes
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		if err := os.RemoveAll(w.dir); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	perRow(b, rows)
	b.ReportMetric(float64(cpu)/float64(rows), "cpu-ns/row")
	b.ReportMetric(float64(size)/float64(rows), "B/row")
}

func benchRows() int {
	n := 1_000_000
	if s := os.Getenv("STAX_BENCH_ROWS"); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil {
			panic(err)
		}
	}
	return n
}

// benchArchive writes a large archive through the real Writer and returns some of its ids.
func benchArchive(b *testing.B, finish bool) (dir string, ids []DispatchID) {
	b.Helper()
	dir = filepath.Join(b.TempDir(), "large.stax")
	w, err := Create(dir, RecordingInfo{}, WriterOptions{})
	if err != nil {
		b.Fatal(err)
	}
	g := newGenerator(2)
	batch := Batch{Dispatches: make([]Dispatch, 256)}
	for n := 0; n < benchRows(); n += 256 {
		g.dispatches(batch.Dispatches)
		if n%(64*256) == 0 {
			ids = append(ids, batch.Dispatches[n/256%256].ID)
		}
		if err := w.Append(&batch); err != nil {
			b.Fatal(err)
		}
	}
	if !finish {
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		return dir, ids
	}
	start := time.Now()
	if err := w.Finish(context.Background(), nil, nil); err != nil {
		b.Fatal(err)
	}
	b.Logf("finishing %d rows: %v", benchRows(), time.Since(start))
	return dir, ids
}

// BenchmarkRead opens, scans and looks up in one large archive.
func BenchmarkRead(b *testing.B) {
	dir, ids := benchArchive(b, true)
	b.Run("Open", func(b *testing.B) {
		for b.Loop() {
			r, err := Open(dir, ReaderOptions{})
			if err != nil {
				b.Fatal(err)
			}
			if err := r.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	r, err := Open(dir, ReaderOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	scan := func(b *testing.B, columns ...string) {
		rows := int64(0)
		for b.Loop() {
			for batch, err := range ScanColumns[Dispatch](context.Background(), r, columns...) {
				if err != nil {
					b.Fatal(err)
				}
				rows += int64(len(batch))
			}
		}
		perRow(b, rows)
	}
	b.Run("Scan", func(b *testing.B) { scan(b) })
	b.Run("ScanColumns", func(b *testing.B) { scan(b, "name", "start_ns", "end_ns") })
	b.Run("ByID", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, ok, err := r.Dispatch(context.Background(), ids[i%len(ids)]); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
}

// BenchmarkSmallSeals is an hour of one seal a second, 20 rows each, with background merging: the
// time of a seal with its share of the merges, then opening the result.
func BenchmarkSmallSeals(b *testing.B) {
	g := newGenerator(4)
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), "a.stax")
		o := WriterOptions{manual: true, SegmentRows: 20}
		w, err := Create(dir, RecordingInfo{}, o)
		if err != nil {
			b.Fatal(err)
		}
		batch := Batch{Dispatches: make([]Dispatch, 20)}
		const hour = 3600
		most := 0
		var slowest time.Duration
		start := time.Now()
		for range hour {
			g.dispatches(batch.Dispatches)
			if err := w.Append(&batch); err != nil {
				b.Fatal(err)
			}
			at := time.Now()
			if err := w.maintain(context.Background()); err != nil {
				b.Fatal(err)
			}
			slowest = max(slowest, time.Since(at))
			most = max(most, len(w.manifest.Segments))
		}
		b.ReportMetric(float64(time.Since(start).Microseconds())/hour, "µs/seal")
		b.ReportMetric(float64(slowest.Microseconds())/1000, "ms/slowest")
		b.ReportMetric(float64(most), "segments")
		start = time.Now()
		r, err := Open(dir, ReaderOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/open")
		start = time.Now()
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
		if err := w.Finish(context.Background(), nil, nil); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/finish")
	}
}

// BenchmarkOpenUnmerged opens 3600 segments that were never merged: what merging saves.
func BenchmarkOpenUnmerged(b *testing.B) {
	g := newGenerator(4)
	dir := filepath.Join(b.TempDir(), "a.stax")
	w, err := Create(dir, RecordingInfo{}, WriterOptions{manual: true, SegmentRows: 20})
	if err != nil {
		b.Fatal(err)
	}
	w.noMerge = true
	batch := Batch{Dispatches: make([]Dispatch, 20)}
	for range 3600 {
		g.dispatches(batch.Dispatches)
		if err := w.Append(&batch); err != nil {
			b.Fatal(err)
		}
		if err := w.maintain(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for b.Loop() {
		r, err := Open(dir, ReaderOptions{})
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for rows, err := range Scan[Dispatch](context.Background(), r) {
			if err != nil {
				b.Fatal(err)
			}
			n += len(rows)
		}
		if n != 3600*20 {
			b.Fatal(n)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := w.Finish(context.Background(), nil, nil); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOpenLogs opens an archive whose writer was killed with full logs: the recovery.
func BenchmarkOpenLogs(b *testing.B) {
	batches := benchBatches(256)
	dir := filepath.Join(b.TempDir(), "a.stax")
	w, err := Create(dir, RecordingInfo{}, WriterOptions{manual: true, maxBacklog: 100})
	if err != nil {
		b.Fatal(err)
	}
	for range 4 {
		for j := range batches {
			if err := w.Append(&batches[j]); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		r, err := Open(dir, ReaderOptions{})
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		if n := r.Rows()["dispatches"]; n != 4*1<<16 {
			b.Fatal(n)
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/(4*1<<16), "ns/row")
}
