package archive

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("STAX_ARCHIVE_CRASH_CHILD"); dir != "" {
		crashChild(dir)
		return
	}
	// Some tests open and write thousands of small files; memory is the place for them. Benchmarks
	// measure the disk.
	flag.Parse()
	const memory = "/dev/shm"
	if st, err := os.Stat(memory); err == nil && st.IsDir() && flag.Lookup("test.bench").Value.String() == "" {
		if err := os.Setenv("TMPDIR", memory); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// stride is the step through an exhaustive test: 1, or n where a sample has to do (-short, -race).
func stride(n int) int {
	if testing.Short() || raceEnabled {
		return n
	}
	return 1
}

// fixedNow is a clock that advances a second at each reading.
func fixedNow() func() time.Time {
	t := time.Unix(1_790_000_000, 0)
	return func() time.Time {
		t = t.Add(time.Second)
		return t
	}
}

// quickFiles is the file system without waiting for the disk: no test loses power.
type quickFiles struct{ osFiles }

type quickFile struct{ writeFile }

func (quickFile) Sync() error { return nil }

func (q quickFiles) create(name string) (writeFile, error) {
	f, err := q.osFiles.create(name)
	return quickFile{f}, err
}

func (quickFiles) syncDir(string) error { return nil }

// manualOptions are those of a Writer without background work.
func manualOptions() WriterOptions {
	return WriterOptions{Now: fixedNow(), SegmentAge: time.Hour, manual: true, files: quickFiles{}}
}

// fill sets every field of the row at p from a counter, so that no two cells are alike.
func fill(v reflect.Value, n *int64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
		return
	case reflect.Bool:
		v.SetBool(*n%2 == 0)
	case reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint64, reflect.Uint32:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) / 3)
	case reflect.String:
		v.SetString(strings.Repeat("s", int(*n%7)) + time.Duration(*n).String())
	case reflect.Slice:
		v.SetBytes([]byte(time.Duration(*n).String()))
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(*n>>i) & 0xff)
		}
	}
	*n++
}

// extreme sets every field to one of the values that break encodings.
func extreme(v reflect.Value, i int) {
	switch v.Kind() {
	case reflect.Struct:
		for j := range v.NumField() {
			extreme(v.Field(j), i+j)
		}
	case reflect.Bool:
		v.SetBool(i%2 == 0)
	case reflect.Int64:
		v.SetInt([]int64{0, -1, math.MinInt64, math.MaxInt64, 1}[i%5])
	case reflect.Uint64:
		v.SetUint([]uint64{0, math.MaxUint64, 1 << 63, 1, math.MaxInt64}[i%5])
	case reflect.Uint32:
		v.SetUint([]uint64{0, math.MaxUint32, 1, 1 << 31}[i%4])
	case reflect.Float64:
		v.SetFloat([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64}[i%7])
	case reflect.String:
		v.SetString([]string{"", "a\x00b", "\"quoted\"\n\t= x", strings.Repeat("ü", 1<<19)[:1<<20], "\u2028"}[i%5])
	case reflect.Slice:
		v.SetBytes([][]byte{nil, {0}, make([]byte, 1<<20), []byte("\xff\xfe")}[i%4])
	case reflect.Array:
		for j := range v.Len() {
			v.Index(j).SetUint([]uint64{0, 255, 128}[i%3])
		}
	}
}

// contents is a Batch plus derived tables: everything an archive can hold.
type contents struct {
	Batch
	Links        []Link
	Certificates []Certificate
}

// eachTable calls f with each table's slice, addressable.
func (c *contents) eachTable(f func(rows reflect.Value)) {
	b := reflect.ValueOf(&c.Batch).Elem()
	for i := range b.NumField() {
		f(b.Field(i))
	}
	f(reflect.ValueOf(&c.Links).Elem())
	f(reflect.ValueOf(&c.Certificates).Elem())
}

func (c *contents) grow(rows int, set func(row reflect.Value, i int)) {
	c.eachTable(func(v reflect.Value) {
		for i := range rows {
			row := reflect.New(v.Type().Elem()).Elem()
			set(row, i)
			v.Set(reflect.Append(v, row))
		}
	})
}

func collect[T Row](t testing.TB, r *Reader) []T {
	t.Helper()
	var all []T
	for rows, err := range Scan[T](t.Context(), r) {
		require.NoError(t, err)
		all = append(all, rows...)
	}
	return all
}

func readAll(t testing.TB, r *Reader) *contents {
	t.Helper()
	return &contents{
		Batch: Batch{
			collect[Runtime](t, r), collect[Lane](t, r), collect[Thread](t, r), collect[Dispatch](t, r),
			collect[CommandBuffer](t, r), collect[Wait](t, r), collect[Await](t, r), collect[ExtraOrigin](t, r),
			collect[StackFrame](t, r), collect[Counter](t, r), collect[CounterSample](t, r), collect[Heartbeat](t, r),
			collect[Drop](t, r), collect[ClockSample](t, r), collect[Diagnostic](t, r), collect[Sample](t, r),
			collect[OffCPU](t, r), collect[OriginEvent](t, r), collect[ProfileSource](t, r), collect[Passthrough](t, r),
		},
		Links:        collect[Link](t, r),
		Certificates: collect[Certificate](t, r),
	}
}

func openDir(t testing.TB, dir string) *Reader {
	t.Helper()
	r, err := Open(dir, ReaderOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// requireSame compares every cell bit by bit (NaN equals NaN, -0 is not 0). It does not use the
// package's table descriptions.
func requireSame(t testing.TB, want, got *contents, what string) {
	t.Helper()
	var tables []reflect.Value
	got.eachTable(func(v reflect.Value) { tables = append(tables, v) })
	i := 0
	want.eachTable(func(w reflect.Value) {
		g := tables[i]
		i++
		require.Equal(t, w.Len(), g.Len(), "%s: rows of %s", what, w.Type())
		for j := range w.Len() {
			if field := differs(w.Index(j), g.Index(j)); field != "" {
				require.Failf(t, "rows differ", "%s: row %d of %s: field %s", what, j, w.Type(), field)
			}
		}
	})
}

func differs(a, b reflect.Value) string {
	same := true
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if d := differs(a.Field(i), b.Field(i)); d != "" {
				return a.Type().Field(i).Name + " " + d
			}
		}
	case reflect.Float64:
		same = math.Float64bits(a.Float()) == math.Float64bits(b.Float())
	case reflect.Slice:
		same = bytes.Equal(a.Bytes(), b.Bytes())
	default:
		same = a.Equal(b)
	}
	if same {
		return ""
	}
	return clip(fmt.Sprintf("want %v, got %v", a, b))
}

func clip(s string) string { return s[:min(len(s), 300)] }

func TestRoundTrip(t *testing.T) {
	want := &contents{}
	n := int64(1)
	want.grow(300, func(row reflect.Value, _ int) { fill(row, &n) })
	want.grow(12, extreme)

	dir := filepath.Join(t.TempDir(), "a.stax")
	w, err := Create(dir, RecordingInfo{ID: "r1", Name: "round trip"}, manualOptions())
	require.NoError(t, err)
	require.NoError(t, w.Append(&want.Batch))
	onlyBatch := &contents{Batch: want.Batch}

	r := openDir(t, dir)
	assert.True(t, r.Live())
	requireSame(t, onlyBatch, readAll(t, r), "from the log")

	require.NoError(t, w.Finish(t.Context(), func(i *RecordingInfo) { i.StopReason = "done" }, nil))
	require.NoError(t, WriteDerived(t.Context(), dir, "v7", func(d *DerivedWriter) error {
		require.NoError(t, d.Links(want.Links))
		return d.Certificates(want.Certificates)
	}))
	requireSame(t, onlyBatch, readAll(t, r), "the snapshot taken before sealing")

	r = openDir(t, dir)
	requireSame(t, want, readAll(t, r), "from Parquet")
	assert.Empty(t, r.Losses())
	assert.False(t, r.Live())
	m := r.Manifest()
	assert.Equal(t, StateFinished, m.Recording.State)
	assert.Equal(t, "done", m.Recording.StopReason)
	version, ok := r.HasDerived()
	assert.True(t, ok)
	assert.Equal(t, "v7", version)
}

func TestCreateErrors(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a.stax")
	w, err := Create(dir, RecordingInfo{}, WriterOptions{})
	require.NoError(t, err)
	_, err = Create(dir, RecordingInfo{}, WriterOptions{})
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = Resume(dir, WriterOptions{})
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorIs(t, WriteDerived(t.Context(), dir, "1", func(*DerivedWriter) error { return nil }), ErrBusy)
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Append(&Batch{Lanes: []Lane{{}}}), ErrClosed)
	require.ErrorIs(t, w.UpdateInfo(func(*RecordingInfo) {}), ErrClosed)
	require.ErrorIs(t, w.Finish(t.Context(), nil, nil), ErrClosed)
	_, err = Create(filepath.Join(dir, "missing", "b.stax"), RecordingInfo{}, WriterOptions{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Open(t.TempDir(), ReaderOptions{})
	require.ErrorIs(t, err, ErrNotArchive)
	_, err = Open(filepath.Join(dir, "missing"), ReaderOptions{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	var errno syscall.Errno
	require.ErrorAs(t, err, &errno)
}

func TestLookupByID(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a.stax")
	o := manualOptions()
	o.SegmentRows = 1000
	w, err := Create(dir, RecordingInfo{}, o)
	require.NoError(t, err)
	g := newGenerator(3)
	var all []Dispatch
	for range 25 {
		b := Batch{Dispatches: make([]Dispatch, 250)}
		g.dispatches(b.Dispatches)
		all = append(all, b.Dispatches...)
		require.NoError(t, w.Append(&b))
		require.NoError(t, w.maintain(t.Context()))
	}
	check := func() {
		r := openDir(t, dir)
		for i := 0; i < len(all); i += 97 {
			d, ok, err := r.Dispatch(t.Context(), all[i].ID)
			require.NoError(t, err)
			require.True(t, ok, "row %d", i)
			require.Equal(t, all[i], d)
		}
		_, ok, err := r.Dispatch(t.Context(), 12345)
		require.NoError(t, err)
		assert.False(t, ok)
		assert.Empty(t, r.Losses())
	}
	check()
	require.NoError(t, w.Finish(t.Context(), nil, nil))
	check()
}

func TestScanStopsAndCancels(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a.stax")
	w, err := Create(dir, RecordingInfo{}, manualOptions())
	require.NoError(t, err)
	g := newGenerator(3)
	b := Batch{Dispatches: make([]Dispatch, 5000)}
	g.dispatches(b.Dispatches)
	require.NoError(t, w.Append(&b))
	require.NoError(t, w.Finish(t.Context(), nil, nil))
	r, err := Open(dir, ReaderOptions{BatchRows: 100})
	require.NoError(t, err)
	n := 0
	for rows, err := range Scan[Dispatch](t.Context(), r) {
		require.NoError(t, err)
		if n += len(rows); n >= 300 {
			break
		}
	}
	assert.Equal(t, 300, n)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n = 0
	for rows, err := range Scan[Dispatch](ctx, r) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			break
		}
		n += len(rows)
		cancel()
	}
	assert.Equal(t, 100, n)

	names := map[string]int{}
	for rows, err := range ScanColumns[Dispatch](t.Context(), r, "name", "start_ns") {
		require.NoError(t, err)
		for _, d := range rows {
			names[d.Name]++
			assert.Zero(t, d.ID)
		}
	}
	assert.Greater(t, len(names), 10)
	require.NoError(t, r.Close())
	for _, err := range Scan[Dispatch](t.Context(), r) {
		require.ErrorIs(t, err, fs.ErrClosed)
	}
	assert.Empty(t, r.Losses())
}
