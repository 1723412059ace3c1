package archive

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sampleLog returns the bytes of a log with a few rows of every table.
func sampleLog(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/dump.txt")
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "a.stax")
	unfinished := strings.Replace(string(text), `"state":"finished"`, `"state":"recording"`, 1)
	if i := strings.Index(unfinished, "\nderived "); i >= 0 {
		unfinished = unfinished[:i+1]
	}
	require.NoError(t, Assemble(strings.NewReader(unfinished), dir))
	b, err := os.ReadFile(filepath.Join(dir, logName(1)))
	require.NoError(t, err)
	return b
}

// FuzzLog: any bytes give an error or rows within the limits.
func FuzzLog(f *testing.F) {
	whole := sampleLog(f)
	f.Add(whole)
	f.Add(whole[:len(whole)-5])
	f.Add(whole[:logHeaderSize])
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := indexLog(bytes.NewReader(b), int64(len(b)), "fuzz.log")
		if err != nil {
			require.Contains(t, err.Error(), "fuzz.log")
			return
		}
		var d sectionDecoder
		err = l.batches(func(_ int64, sections []section, strings *stringTable) error {
			for _, s := range sections {
				if s.table == nil || s.table.table == nil || s.rows == 0 {
					continue
				}
				rows := s.table.table.newRows(s.rows)
				if d.decode(rows, s, strings) == nil {
					appendRow(nil, rows, s.rows-1)
				}
			}
			return nil
		})
		if err != nil {
			require.Contains(t, err.Error(), "fuzz.log")
		}
	})
}

// FuzzFrame is FuzzLog behind the checksums: the payload of a batch frame.
func FuzzFrame(f *testing.F) {
	schema, err := parseSchema(appendSchema(nil))
	require.NoError(f, err)
	for _, b := range []*Batch{numbered(1, 3), {Passthrough: []Passthrough{{Payload: []byte("x")}}}} {
		p, err := newBatchEncoder().encode(nil, b)
		require.NoError(f, err)
		f.Add(p)
	}
	f.Fuzz(func(_ *testing.T, p []byte) {
		var st stringTable
		sections, err := parseBatch(nil, p, schema, &st)
		if err != nil {
			return
		}
		var d sectionDecoder
		for _, s := range sections {
			if s.table == nil || s.rows == 0 {
				continue
			}
			rows := s.table.table.newRows(s.rows)
			if d.decode(rows, s, &st) == nil {
				appendRow(nil, rows, s.rows-1)
			}
		}
	})
}

// FuzzManifest: any bytes give an error, or a manifest that survives being written again.
func FuzzManifest(f *testing.F) {
	for _, path := range []string{"testdata/v1/finished.stax/manifest.json", "testdata/v1/killed.stax/manifest.json"} {
		b, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseManifest(b)
		if err != nil {
			require.Contains(t, err.Error(), manifestName)
			return
		}
		out, err := encodeManifest(&m)
		require.NoError(t, err)
		again, err := parseManifest(out)
		require.NoError(t, err)
		require.NoError(t, checkManifest(out, &again))
		twice, err := encodeManifest(&again)
		require.NoError(t, err)
		require.Equal(t, string(out), string(twice))
	})
}

// FuzzParquet: any bytes give an error or rows, whatever the library does.
func FuzzParquet(f *testing.F) {
	for _, table := range []string{"dispatches", "passthrough", "counter_samples"} {
		b, err := os.ReadFile("testdata/v1/finished.stax/" + tableFile(segmentName(1, 1), table))
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, table := range []*table{tableFor[Dispatch](), tableFor[Passthrough](), tableFor[CounterSample]()} {
			pf, err := openParquet(table, bytes.NewReader(b), int64(len(b)), "fuzz.parquet", nil)
			if err != nil {
				require.Contains(t, err.Error(), "fuzz.parquet")
				continue
			}
			rows := table.newRows(16)
			var g groupReader
			for i := range pf.file.RowGroups() {
				if g.start(pf, i, 0, table.allColumns()) != nil {
					continue
				}
				for range 1000 {
					n, err := g.read(rows)
					if n == 0 || err != nil {
						break
					}
					appendRow(nil, rows, n-1)
				}
			}
			g.close()
		}
	})
}

// FuzzAssemble: any text gives an error, or an archive whose text gives the same archive.
func FuzzAssemble(f *testing.F) {
	text, err := os.ReadFile("testdata/dump.txt")
	require.NoError(f, err)
	f.Add(string(text))
	head, _, _ := strings.Cut(string(text), "runtimes")
	f.Add(head)
	f.Add(head + "lanes name=\"\\xff\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		dir := filepath.Join(t.TempDir(), "a.stax")
		if err := Assemble(strings.NewReader(text), dir); err != nil {
			require.NoDirExists(t, dir)
			return
		}
		once := dump(t, dir)
		again := filepath.Join(t.TempDir(), "b.stax")
		require.NoError(t, Assemble(io.NopCloser(strings.NewReader(once)), again))
		require.Equal(t, once, dump(t, again))
	})
}
