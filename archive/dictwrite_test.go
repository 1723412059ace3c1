package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

// TestDictionaryColumns reads what tableWriter writes with the library's own row reader: every cell,
// over several row groups, with strings that share memory, strings that are equal in different
// memory, and more different values than the caches hold.
func TestDictionaryColumns(t *testing.T) {
	g := newGenerator(9)
	rows := make([]Dispatch, rowGroupRows+5000)
	g.dispatches(rows)
	for i := range rows {
		d := &rows[i]
		d.Tags = fmt.Sprintf(`{"i":%d}`, i%5000)
		d.StatusMessage = []string{"", "a", "", "b"}[i%4]
		d.Shader = ShaderID(fmt.Sprint(i)[:1])
		d.Queue = QueueID([]string{"q", rows[0].Name[:1]}[i%2])
		d.Origin.CPUSpan = uint64(i / 3)
		d.Origin.CPUTrace[15] = byte(i / 7)
		d.Seq.Shard = uint32(i % 3000)
		d.Faulted = i%3 == 0
	}
	var file bytes.Buffer
	w := newTableWriter(tableFor[Dispatch](), &file, int64(len(rows)))
	require.NoError(t, w.write(refTo(rows)))
	info, err := w.close()
	require.NoError(t, err)
	require.EqualValues(t, len(rows), info.Rows)
	require.EqualValues(t, file.Len(), info.Bytes)

	f, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	require.NoError(t, err)
	require.Len(t, f.RowGroups(), 2)
	for i, c := range w.table.columns {
		require.Equal(t, []string{c.name}, f.Schema().Columns()[i], "columns are in the order of the struct")
	}
	n := 0
	ref := refTo(rows)
	buf := make([]parquet.Row, 100)
	for _, group := range f.RowGroups() {
		in := group.Rows()
		for {
			m, err := in.ReadRows(buf)
			for _, row := range buf[:m] {
				for j := range w.table.columns {
					c := &w.table.columns[j]
					requireCell(t, row[j], ref, c, n)
				}
				n++
			}
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
		}
		require.NoError(t, in.Close())
	}
	require.Equal(t, len(rows), n)
}

func requireCell(t *testing.T, v parquet.Value, r rowsRef, c *column, i int) {
	ok := false
	switch c.kind {
	case kindBool:
		ok = v.Boolean() == *cell[bool](r, c, i)
	case kindInt64, kindUint64:
		ok = v.Int64() == *cell[int64](r, c, i)
	case kindUint32:
		ok = v.Uint32() == *cell[uint32](r, c, i)
	case kindString:
		ok = string(v.ByteArray()) == *cell[string](r, c, i)
	case kindTrace:
		ok = TraceID(v.ByteArray()) == *cell[TraceID](r, c, i)
	}
	if !ok {
		require.Failf(t, "cell differs", "row %d, column %s: %v", i, c.name, v)
	}
}

// TestRowGroupsAreBounded: payloads and strings end a row group long before the library's limits.
func TestRowGroupsAreBounded(t *testing.T) {
	payload := make([]byte, 1<<20)
	rows := make([]Passthrough, 100)
	for i := range rows {
		rows[i].Payload = payload
	}
	var file bytes.Buffer
	w := newTableWriter(tableFor[Passthrough](), &file, 100)
	for i := range rows {
		require.NoError(t, w.write(refTo(rows[i:i+1])))
	}
	_, err := w.close()
	require.NoError(t, err)
	f, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	require.NoError(t, err)
	require.Len(t, f.RowGroups(), 2)
}
