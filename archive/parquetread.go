package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
)

// Reading Parquet by columns: each column's pages are decoded by parquet-go into typed slices, and
// the cells are copied into rows from there. A dictionary's strings are made once per column chunk,
// so a row costs no allocation. parquet-go trusts its input in places; guard turns its panics on
// damaged files into errors.

// parquetFile is an open Parquet file of one table.
type parquetFile struct {
	table *table
	name  string // relative to the archive
	file  *parquet.File
	index []int // leaf column in the file by column of the table; -1: the file has none
}

// guard runs f and returns its panic as an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged Parquet data: %v", p)
		}
	}()
	return f()
}

// openParquet reads the footer of a file and maps its columns by name. Columns that the table does
// not have are ignored, columns that the file does not have read as zero.
//
// crc is the checksum of the footer, nil when it is not known: parquet-go checks the pages, and this
// is what keeps a flipped bit in the footer from renaming a column.
func openParquet(t *table, r io.ReaderAt, size int64, name string, crc *uint32) (*parquetFile, error) {
	f := &parquetFile{table: t, name: name}
	err := guard(func() error {
		if err := checkFooter(r, size, crc); err != nil {
			return err
		}
		file, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true),
			parquet.FileReadMode(parquet.ReadModeSync), parquet.ReadBufferSize(64<<10))
		if err != nil {
			return err
		}
		f.file = file
		return f.mapColumns()
	})
	if err != nil {
		return nil, fmt.Errorf("archive: %s: %w", name, err)
	}
	return f, nil
}

const (
	maxFooter  = 64 << 20
	footerTail = 8 // length and magic
)

// checkFooter bounds the footer before parquet-go allocates it, and compares its checksum.
func checkFooter(r io.ReaderAt, size int64, want *uint32) error {
	if size < 12 {
		return fmt.Errorf("truncated at offset %d: a Parquet file has at least 12 bytes: %w", size, io.ErrUnexpectedEOF)
	}
	var tail [8]byte
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return fmt.Errorf("reading the footer: %w", err)
	}
	if string(tail[4:]) != "PAR1" {
		return fmt.Errorf("no Parquet footer at offset %d: %q", size-4, tail[4:])
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > size-12 || n > maxFooter {
		return fmt.Errorf("footer of %d bytes at offset %d does not fit the file", n, size-8)
	}
	if want == nil {
		return nil
	}
	footer := make([]byte, n+footerTail)
	if _, err := r.ReadAt(footer, size-int64(len(footer))); err != nil {
		return fmt.Errorf("reading the footer: %w", err)
	}
	if got := crc32.Checksum(footer, castagnoli); got != *want {
		return fmt.Errorf("footer checksum at offset %d is %08x, the manifest says %08x", size-int64(len(footer)), got, *want)
	}
	return nil
}

func (f *parquetFile) mapColumns() error {
	byName := map[string]int{}
	for i, path := range f.file.Schema().Columns() {
		if len(path) == 1 {
			byName[path[0]] = i
		}
	}
	for _, c := range f.table.columns {
		i, ok := byName[c.name]
		if !ok {
			f.index = append(f.index, -1)
			continue
		}
		leaf, ok := f.file.Schema().Lookup(c.name)
		if !ok {
			return fmt.Errorf("column %s: not a leaf", c.name)
		}
		if !leaf.Node.Required() || leaf.Node.Repeated() {
			return fmt.Errorf("column %s: not a required column", c.name)
		}
		if got, want := leaf.Node.Type().Kind(), parquetKind(c.kind); got != want {
			return fmt.Errorf("column %s: type %s, want %s", c.name, got, want)
		}
		if c.kind == kindTrace && leaf.Node.Type().Length() != 16 {
			return fmt.Errorf("column %s: %d bytes wide, want 16", c.name, leaf.Node.Type().Length())
		}
		f.index = append(f.index, i)
	}
	return nil
}

func parquetKind(k kind) parquet.Kind {
	switch k {
	case kindBool:
		return parquet.Boolean
	case kindUint32:
		return parquet.Int32
	case kindFloat64:
		return parquet.Double
	case kindString, kindBytes:
		return parquet.ByteArray
	case kindTrace:
		return parquet.FixedLenByteArray
	default:
		return parquet.Int64
	}
}

// columnCursor walks one column of one row group.
type columnCursor struct {
	column *column
	pages  parquet.Pages
	page   parquet.Page
	left   int // cells of the page not yet read
	at     int
	sought bool // the next page may be the rest of one

	// The cells of the page, by the kind of the column; with a dictionary only index is set.
	indexed bool
	index   []int32
	bits    []byte
	int32s  []int32
	int64s  []int64
	floats  []float64
	data    []byte
	offsets []uint32

	// The dictionary of the row group.
	dict        bool
	dictInt32s  []int32
	dictInt64s  []int64
	dictFloats  []float64
	dictStrings []string
	dictData    []byte
	dictOffsets []uint32
	dictLen     int
}

func (c *columnCursor) open(chunk parquet.ColumnChunk, col *column) {
	c.close()
	*c = columnCursor{column: col, pages: chunk.Pages(), dictStrings: c.dictStrings[:0]}
}

func (c *columnCursor) close() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
	if c.pages != nil {
		_ = c.pages.Close() // nothing was written
		c.pages = nil
	}
}

// load reads the next page.
func (c *columnCursor) load() error {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
	p, err := c.pages.ReadPage()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	c.page = p
	n := p.NumValues()
	if p.NumNulls() != 0 || n > math.MaxInt32 {
		return errors.New("nulls in a required column")
	}
	c.left, c.at = int(n), 0
	c.index, c.bits, c.int32s, c.int64s, c.floats, c.data, c.offsets = nil, nil, nil, nil, nil, nil, nil
	if d := p.Dictionary(); d != nil {
		if !c.dict {
			if err := c.loadDictionary(d); err != nil {
				return fmt.Errorf("dictionary: %w", err)
			}
			c.dict = true
		}
		v := p.Data()
		c.index = v.Int32()
		c.indexed = true
		if len(c.index) < c.left {
			return fmt.Errorf("page of %d values has %d", c.left, len(c.index))
		}
		for _, i := range c.index[:c.left] {
			if uint(i) >= uint(c.dictLen) {
				return fmt.Errorf("dictionary index %d of %d", i, c.dictLen)
			}
		}
		return nil
	}
	c.indexed = false
	v := p.Data()
	have := 0
	switch c.column.kind {
	case kindBool:
		if c.bits = v.Boolean(); c.sought { // the rest of a page does not say at which bit it begins
			var err error
			if c.bits, err = packBits(p); err != nil {
				return err
			}
		}
		have = 8 * len(c.bits)
	case kindInt64, kindUint64:
		c.int64s = v.Int64()
		have = len(c.int64s)
	case kindUint32:
		c.int32s = v.Int32()
		have = len(c.int32s)
	case kindFloat64:
		c.floats = v.Double()
		have = len(c.floats)
	case kindString, kindBytes:
		c.data, c.offsets = v.ByteArray()
		have = len(c.offsets) - 1
		if err := checkOffsets(c.data, c.offsets); err != nil {
			return err
		}
	case kindTrace:
		c.data, _ = v.FixedLenByteArray()
		have = len(c.data) / 16
	}
	c.sought = false
	if have < c.left {
		return fmt.Errorf("page of %d values has %d", c.left, have)
	}
	return nil
}

// packBits reads the booleans of a page one by one.
func packBits(p parquet.Page) ([]byte, error) {
	values := make([]parquet.Value, p.NumValues())
	if n, err := p.Values().ReadValues(values); n < len(values) {
		return nil, fmt.Errorf("page of %d values has %d: %w", len(values), n, err)
	}
	bits := make([]byte, (len(values)+7)/8)
	for i, v := range values {
		if v.Boolean() {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return bits, nil
}

func checkOffsets(data []byte, offsets []uint32) error {
	last := uint32(0)
	for _, o := range offsets {
		if o < last || int64(o) > int64(len(data)) {
			return fmt.Errorf("value at %d in %d bytes", o, len(data))
		}
		last = o
	}
	return nil
}

func (c *columnCursor) loadDictionary(d parquet.Dictionary) error {
	p := d.Page()
	v := p.Data()
	c.dictLen = d.Len()
	have := 0
	switch c.column.kind {
	case kindBool:
		return errors.New("dictionary of a bool column")
	case kindInt64, kindUint64:
		c.dictInt64s = v.Int64()
		have = len(c.dictInt64s)
	case kindUint32:
		c.dictInt32s = v.Int32()
		have = len(c.dictInt32s)
	case kindFloat64:
		c.dictFloats = v.Double()
		have = len(c.dictFloats)
	case kindString, kindBytes:
		data, offsets := v.ByteArray()
		if err := checkOffsets(data, offsets); err != nil {
			return err
		}
		have = len(offsets) - 1
		if c.column.kind == kindBytes {
			c.dictData, c.dictOffsets = data, offsets
			break
		}
		all := string(data)
		for i := range max(have, 0) {
			c.dictStrings = append(c.dictStrings, all[offsets[i]:offsets[i+1]])
		}
	case kindTrace:
		c.dictData, _ = v.FixedLenByteArray()
		have = len(c.dictData) / 16
	}
	if have < c.dictLen {
		return fmt.Errorf("%d values, have %d", c.dictLen, have)
	}
	return nil
}

// read fills the column of the rows. The rows must all exist in the row group.
func (c *columnCursor) read(dst rowsRef) error {
	for done := 0; done < dst.n; {
		if c.left == 0 {
			if err := c.load(); err != nil {
				return err
			}
			continue
		}
		n := min(c.left, dst.n-done)
		c.copyTo(dst.slice(done, done+n))
		c.left -= n
		c.at += n
		done += n
	}
	return nil
}

// copyTo copies the next dst.n cells of the page.
func (c *columnCursor) copyTo(dst rowsRef) {
	col, at := c.column, c.at
	if c.indexed {
		index := c.index[at : at+dst.n]
		switch col.kind {
		case kindInt64, kindUint64:
			for i, x := range index {
				*cell[int64](dst, col, i) = c.dictInt64s[x]
			}
		case kindUint32:
			for i, x := range index {
				*cell[uint32](dst, col, i) = uint32(c.dictInt32s[x])
			}
		case kindFloat64:
			for i, x := range index {
				*cell[float64](dst, col, i) = c.dictFloats[x]
			}
		case kindString:
			for i, x := range index {
				*cell[string](dst, col, i) = c.dictStrings[x]
			}
		case kindBytes:
			for i, x := range index {
				*cell[[]byte](dst, col, i) = cloneBytes(c.dictData[c.dictOffsets[x]:c.dictOffsets[x+1]])
			}
		case kindTrace:
			for i, x := range index {
				*cell[TraceID](dst, col, i) = TraceID(c.dictData[int(x)*16:])
			}
		}
		return
	}
	switch col.kind {
	case kindBool:
		for i := range dst.n {
			j := at + i
			*cell[bool](dst, col, i) = c.bits[j/8]>>(j%8)&1 == 1
		}
	case kindInt64, kindUint64:
		for i, v := range c.int64s[at : at+dst.n] {
			*cell[int64](dst, col, i) = v
		}
	case kindUint32:
		for i, v := range c.int32s[at : at+dst.n] {
			*cell[uint32](dst, col, i) = uint32(v)
		}
	case kindFloat64:
		for i, v := range c.floats[at : at+dst.n] {
			*cell[float64](dst, col, i) = v
		}
	case kindString:
		for i := range dst.n {
			*cell[string](dst, col, i) = string(c.data[c.offsets[at+i]:c.offsets[at+i+1]])
		}
	case kindBytes:
		for i := range dst.n {
			*cell[[]byte](dst, col, i) = cloneBytes(c.data[c.offsets[at+i]:c.offsets[at+i+1]])
		}
	case kindTrace:
		for i := range dst.n {
			*cell[TraceID](dst, col, i) = TraceID(c.data[(at+i)*16:])
		}
	}
}

func cloneBytes(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}

// groupReader reads the rows of one row group from the start or from some row.
type groupReader struct {
	file    *parquetFile
	rows    int64 // left
	columns []columnCursor
	open    []int // columns of the table to fill
}

// start begins row group g at row from. columns are indexes into the table's columns.
func (r *groupReader) start(f *parquetFile, g int, from int64, columns []int) error {
	r.close()
	r.file, r.open = f, r.open[:0]
	if len(r.columns) < len(f.table.columns) {
		r.columns = make([]columnCursor, len(f.table.columns))
	}
	return guard(func() error {
		group := f.file.RowGroups()[g]
		r.rows = group.NumRows() - from
		if r.rows < 0 {
			return fmt.Errorf("row %d of %d", from, group.NumRows())
		}
		chunks := group.ColumnChunks()
		for _, i := range columns {
			if f.index[i] < 0 {
				continue
			}
			chunk := chunks[f.index[i]]
			if n := chunk.NumValues(); n != group.NumRows() {
				return fmt.Errorf("column %s: %d values for %d rows", f.table.columns[i].name, n, group.NumRows())
			}
			r.columns[i].open(chunk, &f.table.columns[i])
			r.open = append(r.open, i)
			if from > 0 {
				r.columns[i].sought = true
				if err := r.columns[i].pages.SeekToRow(from); err != nil {
					return fmt.Errorf("column %s: row %d: %w", f.table.columns[i].name, from, err)
				}
			}
		}
		return nil
	})
}

// read fills dst, which must be zero where the file has no column, and returns the number of rows; 0
// at the end of the row group.
func (r *groupReader) read(dst rowsRef) (int, error) {
	n := int(min(int64(dst.n), r.rows))
	if n == 0 {
		return 0, nil
	}
	part := dst.slice(0, n)
	for _, i := range r.open {
		if err := guard(func() error { return r.columns[i].read(part) }); err != nil {
			return 0, fmt.Errorf("column %s: %w", r.file.table.columns[i].name, err)
		}
	}
	r.rows -= int64(n)
	return n, nil
}

func (r *groupReader) close() {
	for _, i := range r.open {
		_ = guard(func() error { r.columns[i].close(); return nil }) // closing after damage may panic
	}
	r.open = r.open[:0]
}
