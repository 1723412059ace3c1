package archive

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// Parquet settings, measured in docs/adr/0003-archive-layout.md.
const (
	rowGroupRows    = 1 << 17
	pageBufferSize  = 256 << 10
	bloomBitsPerRow = 10
)

// schemaRoot is a Parquet group whose fields keep their order; parquet.Group sorts them by name.
type schemaRoot struct {
	parquet.Group
	fields []parquet.Field
}

func (s *schemaRoot) Fields() []parquet.Field { return s.fields }

type schemaField struct {
	parquet.Node
	name string
}

func (f *schemaField) Name() string { return f.name }

// Value is needed by the interface only: rows are written by columns.
func (f *schemaField) Value(base reflect.Value) reflect.Value { return base.FieldByName(f.name) }

// parquetSchema returns the Parquet schema of t: flat, every column required. With buffers, the types
// put the column buffers of the writer there (see dictwrite.go).
func parquetSchema(t *table, buffers []columnBuffer) *parquet.Schema {
	root := &schemaRoot{Group: parquet.Group{}}
	for i, c := range t.columns {
		var n parquet.Node
		switch c.kind {
		case kindBool:
			n = parquet.Leaf(parquet.BooleanType)
		case kindInt64:
			n = parquet.Int(64)
		case kindUint64:
			n = parquet.Uint(64)
		case kindUint32:
			n = parquet.Uint(32)
		case kindFloat64:
			n = parquet.Leaf(parquet.DoubleType)
		case kindString:
			n = parquet.String()
		case kindBytes:
			n = parquet.Leaf(parquet.ByteArrayType)
		case kindTrace:
			n = parquet.Leaf(parquet.FixedLenByteArrayType(16))
		}
		if buffers != nil {
			typ := parquet.Type(plainType{n.Type(), &buffers[i].plain})
			if c.encoding == encodingDict {
				typ = dictType{n.Type(), &buffers[i].dict}
			}
			n = parquet.Leaf(typ)
		}
		switch c.encoding {
		case encodingDict:
			n = parquet.Encoded(n, &parquet.RLEDictionary)
		case encodingDelta:
			n = parquet.Encoded(n, &parquet.DeltaBinaryPacked)
		default:
			n = parquet.Encoded(n, &parquet.Plain)
		}
		root.Group[c.name] = n
		root.fields = append(root.fields, &schemaField{n, c.name})
	}
	return parquet.NewSchema(t.name, root)
}

var zstdFastest = &zstd.Codec{Level: zstd.SpeedFastest, Concurrency: 1}

// tableWriter writes one Parquet file.
type tableWriter struct {
	table   *table
	out     *countingWriter
	pw      *parquet.GenericWriter[any]
	columns []*parquet.ColumnWriter
	buffers []columnBuffer
	values  []parquet.Value
	words   []uint64
	rows    int64 // written in all
	group   int64 // written in the current row group
	weight  int64 // bytes of payloads and new strings in the current row group
}

// columnBuffer is the buffer that a column's cells go to: one of the two.
type columnBuffer struct {
	plain parquet.ColumnBuffer
	dict  *dictBuffer
}

// maxGroupBytes bounds the payloads and strings of a row group: the library keeps its pages in memory
// until it ends, and a dictionary must fit one page.
const maxGroupBytes = 64 << 20

// countingWriter buffers, counts and checksums what a file gets.
type countingWriter struct {
	w    *bufio.Writer
	n    int64
	crc  hash.Hash32
	keep bool // from here on in tail
	tail []byte
}

func (c *countingWriter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	c.crc.Write(p)
	if c.keep {
		c.tail = append(c.tail, p...)
	}
	return c.w.Write(p)
}

// newTableWriter begins a file. rows is how many are expected; it sizes the buffers.
func newTableWriter(t *table, w io.Writer, rows int64) *tableWriter {
	pageSize := int(min(pageBufferSize, max(1<<10, rows*16)))
	out := &countingWriter{w: bufio.NewWriterSize(w, pageSize), crc: crc32.New(castagnoli)}
	buffers := make([]columnBuffer, len(t.columns))
	options := []parquet.WriterOption{
		parquetSchema(t, buffers),
		parquet.Compression(zstdFastest),
		parquet.PageBufferSize(pageSize),
		parquet.WriteBufferSize(0), // out buffers
		parquet.CreatedBy("stax", "1", ""),
		parquet.MaxRowsPerRowGroup(1 << 40),
		parquet.KeyValueMetadata("stax.table", t.name),
		parquet.KeyValueMetadata("stax.schema", fmt.Sprint(SchemaVersion)),
	}
	for _, c := range t.columns {
		// Bounds prune nothing in a column of names or random ids, and cost up to a fourth of the time.
		if c.encoding != encodingDelta {
			options = append(options, parquet.SkipPageBounds(c.name), parquet.SkipPageStatistics(c.name))
		}
	}
	if t.key != "" {
		options = append(options, parquet.BloomFilters(parquet.SplitBlockFilter(bloomBitsPerRow, t.key)))
	}
	pw := parquet.NewGenericWriter[any](out, options...)
	return &tableWriter{table: t, out: out, pw: pw, columns: pw.ColumnWriters(), buffers: buffers}
}

// write adds rows. It may end a row group in between.
func (w *tableWriter) write(rows rowsRef) error {
	const chunk = 512 // rows that fit the cache while one column after the other is taken from them
	for at := 0; at < rows.n; {
		n := min(chunk, rows.n-at, int(rowGroupRows-w.group))
		part := rows.slice(at, at+n)
		for i := range w.table.columns {
			if err := w.writeColumn(part, i); err != nil {
				return fmt.Errorf("table %s, column %s: %w", w.table.name, w.table.columns[i].name, err)
			}
		}
		at += n
		w.rows += int64(n)
		if w.group += int64(n); w.group == rowGroupRows || w.weight >= maxGroupBytes {
			if err := w.endGroup(); err != nil {
				return err
			}
		}
	}
	return nil
}

// endGroup ends the current row group, if it has rows.
func (w *tableWriter) endGroup() error {
	if w.group == 0 {
		return nil
	}
	w.group, w.weight = 0, 0
	if err := w.pw.Flush(); err != nil {
		return fmt.Errorf("table %s: %w", w.table.name, err)
	}
	return nil
}

// noValues is empty but has memory behind it: the library computes an address in it.
var noValues = make([]parquet.Value, 1)[:0]

func (w *tableWriter) writeColumn(r rowsRef, i int) error {
	c, out, buffer := &w.table.columns[i], w.columns[i], &w.buffers[i]
	if buffer.dict == nil && buffer.plain == nil {
		if _, err := out.WriteRowValues(noValues); err != nil { // makes the buffer
			return err
		}
	}
	if d := buffer.dict; d != nil {
		before := d.added
		d.write(r, c)
		w.weight += d.added - before
		_, err := out.WriteRowValues(noValues) // ends the page when it is full
		return err
	}
	if done, err := writePlain(buffer.plain, r, c, &w.words); done || err != nil {
		if err == nil {
			_, err = out.WriteRowValues(noValues)
		}
		return err
	}
	v := w.values[:0]
	switch c.kind {
	case kindUint32:
		for i := range r.n {
			v = append(v, parquet.Int32Value(int32(*cell[uint32](r, c, i))))
		}
	case kindBool:
		for i := range r.n {
			v = append(v, parquet.BooleanValue(*cell[bool](r, c, i)))
		}
	case kindFloat64:
		for i := range r.n {
			v = append(v, parquet.DoubleValue(*cell[float64](r, c, i)))
		}
	case kindBytes:
		for i := range r.n {
			b := *cell[[]byte](r, c, i)
			w.weight += int64(len(b))
			v = append(v, parquet.ByteArrayValue(b))
		}
	default:
		return fmt.Errorf("no plain encoding for %s", c.kind)
	}
	w.values = v
	for len(v) > 0 {
		n, err := out.WriteRowValues(v)
		if err != nil {
			return err
		}
		v = v[n:]
	}
	return nil
}

// close ends the file's content; the caller syncs and closes the file.
func (w *tableWriter) close() (TableInfo, error) {
	if err := w.endGroup(); err != nil {
		return TableInfo{}, err
	}
	w.out.keep = true // the footer is the end of what follows
	if err := w.pw.Close(); err != nil {
		return TableInfo{}, fmt.Errorf("table %s: %w", w.table.name, err)
	}
	if err := w.out.w.Flush(); err != nil {
		return TableInfo{}, fmt.Errorf("table %s: %w", w.table.name, err)
	}
	n := len(w.out.tail) - footerTail
	n -= int(binary.LittleEndian.Uint32(w.out.tail[n:]))
	return TableInfo{
		Table: w.table.name, Rows: w.rows, Bytes: w.out.n,
		CRC: w.out.crc.Sum32(), FooterCRC: crc32.Checksum(w.out.tail[n:], castagnoli),
	}, nil
}
