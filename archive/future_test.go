package archive

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFutureLog reads a log of a later version: a table, a column and a frame kind that this version
// does not know, a column that it knows and the log has not, and bytes after the end of a schema.
func TestFutureLog(t *testing.T) {
	schema := binary.AppendUvarint(nil, 2)
	schema = appendShort(append(schema, 200), "futures")
	schema = append(binary.AppendUvarint(schema, 1), byte(kindInt64))
	schema = appendShort(schema, "when")
	schema = appendShort(append(schema, 7), "lanes") // another id than today's
	schema = binary.AppendUvarint(schema, 3)
	for _, c := range []struct {
		kind kind
		name string
	}{{kindBytes, "blob"}, {kindString, "lane"}, {kindTrace, "name"}} { // name has changed its type
		schema = appendShort(append(schema, byte(c.kind)), c.name)
	}
	schema = append(schema, "more"...)

	section := func(id byte, rows int, data []byte) []byte {
		b := binary.AppendUvarint([]byte{id}, uint64(rows))
		return append(binary.LittleEndian.AppendUint32(b, uint32(len(data))), data...)
	}
	lanes := []byte{1, 2, 3}                   // lengths 2, 3
	lanes = append(lanes, "aabbb"...)          // blob
	lanes = append(lanes, vectorDelta|1, 1, 2) // lane: 1, then +1
	lanes = append(lanes, 0, 9, 0, 9)          // name as 16 bytes
	batch := []byte{0, 2, 1, 'x', 1, 'y', 2}
	batch = append(batch, section(200, 1, []byte{0, 5})...)
	batch = append(batch, section(7, 2, lanes)...)
	batch = append(batch, "more"...)

	dir := filepath.Join(t.TempDir(), "a.stax")
	w, err := Create(dir, RecordingInfo{}, manualOptions())
	require.NoError(t, err)
	require.NoError(t, w.Close())
	log := appendLogHeader(nil, 1, 5)
	for _, f := range []struct {
		kind    byte
		payload []byte
	}{{frameSchema, schema}, {99, []byte("what is this")}, {frameBatch, batch}} {
		at := len(log)
		log = append(beginFrame(log), f.payload...)
		endFrame(log[at:], f.kind)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, logName(1)), log, 0o644))

	r := openDir(t, dir)
	want := []Lane{{ID: "x"}, {ID: "y"}}
	assert.Equal(t, want, collect[Lane](t, r))
	assert.Empty(t, r.Losses())
	assert.Equal(t, map[string]int64{"lanes": 2, "futures": 1}, r.Rows())

	w, err = Resume(dir, manualOptions())
	require.NoError(t, err)
	require.NoError(t, w.Finish(t.Context(), nil, nil))
	assert.Equal(t, want, collect[Lane](t, openDir(t, dir)))
}

// TestFutureParquet reads a Parquet file with other columns than this version's, in another order and
// with other encodings.
func TestFutureParquet(t *testing.T) {
	type futureLane struct {
		Color string  `parquet:"color"`
		Name  string  `parquet:"name"` // plain instead of dictionary
		Error int64   `parquet:"clock_error_ns,dict"`
		Extra float32 `parquet:"extra"`
	}
	name := filepath.Join(t.TempDir(), "lanes.parquet")
	require.NoError(t, parquet.WriteFile(name, []futureLane{{"red", "a", 7, 1}, {"blue", "b", -1, 2}}))
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	st, err := f.Stat()
	require.NoError(t, err)
	pf, err := openParquet(tableFor[Lane](), f, st.Size(), "lanes.parquet", nil)
	require.NoError(t, err)
	var g groupReader
	defer g.close()
	require.NoError(t, g.start(pf, 0, 0, pf.table.allColumns()))
	rows := make([]Lane, 10)
	n, err := g.read(refTo(rows))
	require.NoError(t, err)
	assert.Equal(t, []Lane{{Name: "a", ClockErrorNanos: 7}, {Name: "b", ClockErrorNanos: -1}}, rows[:n])

	type wrongLane struct {
		Name *string `parquet:"name,optional"`
	}
	require.NoError(t, parquet.WriteFile(name, []wrongLane{{}}))
	f2, err := os.Open(name)
	require.NoError(t, err)
	defer f2.Close()
	st, err = f2.Stat()
	require.NoError(t, err)
	_, err = openParquet(tableFor[Lane](), f2, st.Size(), "lanes.parquet", nil)
	require.EqualError(t, err, "archive: lanes.parquet: column name: not a required column")
}
