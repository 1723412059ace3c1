package archive

import (
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// Dictionary columns, the quick way. parquet-go turns every cell into a 24-byte Value and hashes it
// to find its dictionary index; for the strings of a dispatch that was a third of the time of a seal.
// But cells repeat, and equal strings of one log are the very same bytes in memory (the log's string
// table made them), so a small cache from the string's address, or from the number, to its index
// answers nearly always, and the library's dictionary is asked only about the rest.
//
// To have its own column buffers filled, the library is given types that wrap its own: type →
// dictionary → indexed type → column buffer, each passing everything on but the step to the next. The
// pages that come out are the library's own indexed pages. TestDictionaryColumns compares the result
// with what the library writes alone.

// dictType is a leaf type whose dictionary columns are dictBuffers.
type dictType struct {
	parquet.Type
	buffer **dictBuffer // where the buffer of the one writer goes
}

func (t dictType) NewDictionary(columnIndex, numValues int, data encoding.Values) parquet.Dictionary {
	return &dictionary{Dictionary: t.Type.NewDictionary(columnIndex, numValues, data), buffer: t.buffer}
}

// dictionary is the library's dictionary with another column buffer.
type dictionary struct {
	parquet.Dictionary
	buffer **dictBuffer
}

func (d *dictionary) Type() parquet.Type {
	return dictIndexType{Type: d.Dictionary.Type(), dict: d}
}

// Reset begins a new row group: the indexes start over.
func (d *dictionary) Reset() {
	d.Dictionary.Reset()
	if b := *d.buffer; b != nil {
		b.forget()
	}
}

type dictIndexType struct {
	parquet.Type
	dict *dictionary
}

func (t dictIndexType) NewColumnBuffer(columnIndex, numValues int) parquet.ColumnBuffer {
	b := &dictBuffer{
		ColumnBuffer: t.Type.NewColumnBuffer(columnIndex, 0),
		typ:          t.Type, dict: t.dict.Dictionary, column: columnIndex,
		index: make([]int32, 0, numValues),
	}
	*t.dict.buffer = b
	return b
}

const dictCache = 1024

// dictBuffer holds the dictionary indexes of the cells of a page.
type dictBuffer struct {
	parquet.ColumnBuffer // the library's own, always empty
	typ                  parquet.Type
	dict                 parquet.Dictionary
	column               int
	index                []int32
	added                int64            // bytes of the dictionary
	value                [1]parquet.Value // scratch of insert, as is at
	at                   [1]int32

	texts   []dictText   // dictCache of them, or of numbers
	numbers []dictNumber // by the kind of the column
	trace   TraceID
	traceAt int32 // index of trace plus one; 0: none
}

type dictText struct {
	data *byte
	size int
	at   int32 // plus one
}

type dictNumber struct {
	value uint64
	at    int32 // plus one
}

func (b *dictBuffer) forget() {
	clear(b.texts)
	clear(b.numbers)
	b.traceAt, b.added = 0, 0
}

// insert asks the dictionary.
func (b *dictBuffer) insert(v parquet.Value) int32 {
	b.value[0] = v
	b.dict.Insert(b.at[:], b.value[:])
	return b.at[0]
}

func (b *dictBuffer) writeStrings(r rowsRef, c *column) {
	var last string
	at := int32(-1)
	for i := range r.n {
		s := *cell[string](r, c, i)
		data := unsafe.StringData(s)
		if at >= 0 && data == unsafe.StringData(last) && len(s) == len(last) {
			b.index = append(b.index, at)
			continue
		}
		last = s
		if len(s) == 0 {
			data = nil // the pointer of an empty string says nothing
		}
		slot := &b.texts[(uintptr(unsafe.Pointer(data))>>3^uintptr(len(s)))%dictCache]
		if slot.at == 0 || slot.data != data || slot.size != len(s) {
			n := b.dict.Len()
			*slot = dictText{data, len(s), b.insert(parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(s), len(s)))) + 1}
			if b.dict.Len() > n {
				b.added += int64(len(s))
			}
		}
		at = slot.at - 1
		b.index = append(b.index, at)
	}
}

func (b *dictBuffer) writeNumber(v uint64, boxed func(uint64) parquet.Value) {
	slot := &b.numbers[v*0x9E3779B97F4A7C15>>54%dictCache]
	if slot.at == 0 || slot.value != v {
		*slot = dictNumber{v, b.insert(boxed(v)) + 1}
	}
	b.index = append(b.index, slot.at-1)
}

func int64Value(v uint64) parquet.Value { return parquet.Int64Value(int64(v)) }
func int32Value(v uint64) parquet.Value { return parquet.Int32Value(int32(v)) }

func (b *dictBuffer) writeTraces(r rowsRef, c *column) {
	for i := range r.n {
		t := cell[TraceID](r, c, i)
		if b.traceAt == 0 || *t != b.trace {
			b.trace, b.traceAt = *t, b.insert(parquet.FixedLenByteArrayValue(t[:]))+1
		}
		b.index = append(b.index, b.traceAt-1)
	}
}

// write adds the cells of a column.
func (b *dictBuffer) write(r rowsRef, c *column) {
	switch c.kind {
	case kindString:
		if b.texts == nil {
			b.texts = make([]dictText, dictCache)
		}
		b.writeStrings(r, c)
		return
	case kindTrace:
		b.writeTraces(r, c)
		return
	}
	if b.numbers == nil {
		b.numbers = make([]dictNumber, dictCache)
	}
	switch c.kind {
	case kindUint32:
		for i := range r.n {
			b.writeNumber(uint64(*cell[uint32](r, c, i)), int32Value)
		}
	default:
		for i := range r.n {
			b.writeNumber(*cell[uint64](r, c, i), int64Value)
		}
	}
}

// WriteValues is how the library adds cells itself, when it copies row groups.
func (b *dictBuffer) WriteValues(values []parquet.Value) (int, error) {
	n := len(b.index)
	b.index = append(b.index, make([]int32, len(values))...)
	b.dict.Insert(b.index[n:], values)
	return len(values), nil
}

func (b *dictBuffer) Type() parquet.Type { return b.typ }

func (b *dictBuffer) Page() parquet.Page {
	return b.typ.NewPage(b.column, len(b.index), encoding.Int32Values(b.index))
}

func (b *dictBuffer) Reset()      { b.index = b.index[:0] }
func (b *dictBuffer) Cap() int    { return cap(b.index) }
func (b *dictBuffer) Len() int    { return len(b.index) }
func (b *dictBuffer) Size() int64 { return 4 * int64(len(b.index)) }

// plainType is a leaf type that remembers the column buffer of its one writer, so that numbers are
// added without being boxed.
type plainType struct {
	parquet.Type
	buffer *parquet.ColumnBuffer
}

func (t plainType) NewColumnBuffer(columnIndex, numValues int) parquet.ColumnBuffer {
	*t.buffer = t.Type.NewColumnBuffer(columnIndex, numValues)
	return *t.buffer
}

// uint64Writer is what the library's buffers of unsigned columns have beside its named interfaces.
type uint64Writer interface {
	WriteUint64s(values []uint64) (int, error)
}

// writePlain adds 64-bit cells to one of the library's buffers; done is false when that buffer takes
// no plain numbers.
func writePlain(buffer parquet.ColumnBuffer, r rowsRef, c *column, scratch *[]uint64) (done bool, err error) {
	if c.kind != kindInt64 && c.kind != kindUint64 || r.n == 0 {
		return false, nil
	}
	words := (*scratch)[:0]
	for i := range r.n {
		words = append(words, *cell[uint64](r, c, i))
	}
	*scratch = words
	switch w := buffer.(type) {
	case uint64Writer:
		_, err = w.WriteUint64s(words)
	case parquet.Int64Writer:
		_, err = w.WriteInt64s(unsafe.Slice((*int64)(unsafe.Pointer(&words[0])), len(words)))
	default:
		return false, nil
	}
	return true, err
}
