package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// The payload of a log frame. Rows are stored by columns: all cells of a column are gathered into a
// vector of 64-bit words, and the vector is stored in whichever of its plain and delta forms needs
// fewer bytes per word, with a fixed width for the whole vector. That costs two passes without a
// branch per cell, about a third of a varint per cell, and turns the many columns that are constant
// within a batch (runtime, lane, queue, trace ...) into a few bytes. Strings become numbers of the
// log's string table: the frame that first uses a string defines it.

// Limits of one batch, for writers and readers alike.
const (
	maxFrameRows = 1 << 17 // rows of all tables
	maxFrameSize = 1 << 28 // bytes of a frame's payload
	maxString    = 1 << 24 // bytes of a string or payload
)

// Errors of Append about the batch itself. Nothing of the batch was stored.
var (
	ErrBatchTooLarge = errors.New("batch too large")
	ErrValueTooLarge = errors.New("value too large")
)

// Vector modes: the low nibble is the width in bytes (0: all words equal), plus this bit for deltas.
const vectorDelta = 0x10

// appendVector stores words: mode, first word as uvarint, then the other words at a fixed width.
func appendVector(dst []byte, words, deltas []uint64, orPlain, orDelta uint64) []byte {
	var mode byte
	rest := words
	plainWidth, deltaWidth := width(orPlain), width(orDelta)
	switch {
	case orDelta == 0:
		mode = 0
	case deltaWidth <= plainWidth:
		mode, rest = vectorDelta|byte(deltaWidth), deltas
	default:
		mode = byte(plainWidth)
	}
	dst = append(dst, mode)
	dst = binary.AppendUvarint(dst, words[0])
	if mode == 0 {
		return dst
	}
	w := int(mode &^ vectorDelta)
	rest = rest[1:]
	at, need := len(dst), len(rest)*w+8 // 8: each store writes a whole word
	dst = grow(dst, need)
	buf := dst[at : at+need]
	switch w {
	case 1:
		for i, v := range rest {
			buf[i] = byte(v)
		}
	case 8:
		for i, v := range rest {
			binary.LittleEndian.PutUint64(buf[i*8:], v)
		}
	default:
		for i, v := range rest {
			binary.LittleEndian.PutUint64(buf[i*w:], v)
		}
	}
	return dst[:at+len(rest)*w]
}

func grow(b []byte, n int) []byte {
	if cap(b)-len(b) < n {
		b = append(b, make([]byte, n)...)
		return b
	}
	return b[:len(b)+n]
}

func width(or uint64) int {
	n := 0
	for or != 0 {
		or >>= 8
		n++
	}
	return max(n, 1)
}

func zigzag(d uint64) uint64   { return d<<1 ^ uint64(int64(d)>>63) }
func unzigzag(z uint64) uint64 { return z>>1 ^ -(z & 1) }

// readVector fills words from src and returns the rest of src.
func readVector(src []byte, words []uint64) ([]byte, error) {
	if len(src) == 0 {
		return nil, errShort
	}
	mode := src[0]
	first, n := binary.Uvarint(src[1:])
	if n <= 0 {
		return nil, errShort
	}
	src = src[1+n:]
	words[0] = first
	w := int(mode &^ vectorDelta)
	if mode == 0 {
		for i := range words {
			words[i] = first
		}
		return src, nil
	}
	if w == 0 || w > 8 || mode&^(vectorDelta|0xf) != 0 {
		return nil, fmt.Errorf("unknown vector mode 0x%02x", mode)
	}
	rest := words[1:]
	size := len(rest) * w
	if len(src) < size {
		return nil, errShort
	}
	mask := ^uint64(0) >> (64 - 8*w)
	fast := 0 // words that a whole 8-byte load can fetch
	if len(src) >= 8 {
		fast = min(len(rest), (len(src)-8)/w+1)
	}
	for i := range fast {
		rest[i] = binary.LittleEndian.Uint64(src[i*w:]) & mask
	}
	for i := fast; i < len(rest); i++ {
		var v uint64
		for j := w - 1; j >= 0; j-- {
			v = v<<8 | uint64(src[i*w+j])
		}
		rest[i] = v
	}
	if mode&vectorDelta != 0 {
		prev := first
		for i, z := range rest {
			prev += unzigzag(z)
			rest[i] = prev
		}
	}
	return src[size:], nil
}

var errShort = errors.New("value runs past the end of its section")

// vector gathers the cells of a column with the statistics that appendVector wants.
type vector struct {
	words, deltas   []uint64
	orPlain, orDiff uint64
}

func (v *vector) resize(n int) {
	if cap(v.words) < n {
		v.words, v.deltas = make([]uint64, n), make([]uint64, n)
	}
	v.words, v.deltas = v.words[:n], v.deltas[:n]
	v.orPlain, v.orDiff = 0, 0
}

// stats fills deltas and the or-masks from words.
func (v *vector) stats() {
	prev := v.words[0]
	var orPlain, orDiff uint64
	deltas := v.deltas[:len(v.words)]
	for i, w := range v.words {
		z := zigzag(w - prev)
		prev = w
		deltas[i] = z
		orDiff |= z
		orPlain |= w
	}
	v.orPlain, v.orDiff = orPlain, orDiff
}

// batchEncoder encodes batches for one log, whose string table it keeps.
type batchEncoder struct {
	strings  map[string]uint32
	recent   [512]recentString
	fresh    []string // strings of the current frame that the log does not know yet
	vec      vector
	sections []rowsRef
	body     []byte
}

type recentString struct {
	s  string
	id uint32
}

func newBatchEncoder() *batchEncoder { return &batchEncoder{strings: map[string]uint32{}} }

// intern returns the number of s, 0 for "".
func (e *batchEncoder) intern(s string) (uint32, error) {
	if s == "" {
		return 0, nil
	}
	slot := &e.recent[recentSlot(s)]
	if slot.s == s {
		return slot.id, nil
	}
	id, ok := e.strings[s]
	if !ok {
		if n := len(validText(s)); n > maxString {
			return 0, fmt.Errorf("%w: a string of %d bytes, the limit is %d", ErrValueTooLarge, n, maxString)
		}
		s = strings.Clone(s) // the caller's string may be part of a large buffer
		id = uint32(len(e.strings) + 1)
		e.strings[s] = id
		e.fresh = append(e.fresh, s)
	}
	*slot = recentString{s, id}
	return id, nil
}

func recentSlot(s string) uint64 {
	h := uint64(len(s))
	if len(s) >= 8 {
		h ^= load64(s, 0) * 0x9E3779B97F4A7C15
		h ^= load64(s, len(s)-8) * 0xC2B2AE3D27D4EB4F
	} else {
		for i := range len(s) {
			h = h<<8 | uint64(s[i])
		}
	}
	return h * 0x9E3779B97F4A7C15 >> 55
}

func load64(s string, i int) uint64 {
	_ = s[i+7]
	return uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
		uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
}

// rollback forgets the strings of the current frame: it did not reach the log.
func (e *batchEncoder) rollback() {
	if len(e.fresh) == 0 {
		return
	}
	for _, s := range e.fresh {
		delete(e.strings, s)
	}
	clear(e.recent[:])
	e.fresh = e.fresh[:0]
}

// commit ends the frame: its strings are in the log.
func (e *batchEncoder) commit() { e.fresh = e.fresh[:0] }

// encode appends the payload of a batch frame to dst. The caller must call commit or rollback next.
func (e *batchEncoder) encode(dst []byte, b *Batch) ([]byte, error) {
	known := len(e.strings)
	e.sections = b.sections(e.sections)
	body := e.body[:0]
	body = binary.AppendUvarint(body, uint64(len(e.sections)))
	var err error
	for _, s := range e.sections {
		body = append(body, s.table.id)
		body = binary.AppendUvarint(body, uint64(s.n))
		at := len(body)
		body = append(body, 0, 0, 0, 0) // length of the section
		for i := range s.table.columns {
			if body, err = e.encodeColumn(body, s, &s.table.columns[i]); err != nil {
				return dst, fmt.Errorf("table %s, column %s: %w", s.table.name, s.table.columns[i].name, err)
			}
		}
		if len(body) > maxFrameSize {
			return dst, fmt.Errorf("%w: over %d bytes", ErrBatchTooLarge, maxFrameSize)
		}
		binary.LittleEndian.PutUint32(body[at:], uint32(len(body)-at-4))
	}
	e.body = body

	dst = binary.AppendUvarint(dst, uint64(known))
	dst = binary.AppendUvarint(dst, uint64(len(e.fresh)))
	for _, s := range e.fresh {
		s = validText(s)
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	return append(dst, body...), nil
}

func (e *batchEncoder) encodeColumn(dst []byte, r rowsRef, c *column) ([]byte, error) {
	if word, vectors, err := e.constant(r, c); err != nil {
		return dst, err
	} else if vectors > 0 {
		for i := range vectors {
			dst = append(dst, 0)
			dst = binary.AppendUvarint(dst, word[i])
		}
		return dst, nil
	}
	v := &e.vec
	v.resize(r.n)
	words := v.words
	switch c.kind {
	case kindInt64, kindUint64, kindFloat64:
		for i := range words {
			words[i] = *cell[uint64](r, c, i)
		}
	case kindUint32:
		for i := range words {
			words[i] = uint64(*cell[uint32](r, c, i))
		}
	case kindBool:
		for i := range words {
			words[i] = 0
			if *cell[bool](r, c, i) {
				words[i] = 1
			}
		}
	case kindString:
		var last string
		var id uint32
		for i := range words {
			if s := *cell[string](r, c, i); s != last {
				var err error
				if id, err = e.intern(s); err != nil {
					return dst, err
				}
				last = s
			}
			words[i] = uint64(id)
		}
	case kindTrace:
		for half := range 2 {
			for i := range words {
				t := cell[TraceID](r, c, i)
				words[i] = binary.LittleEndian.Uint64(t[half*8:])
			}
			v.stats()
			dst = appendVector(dst, words, v.deltas, v.orPlain, v.orDiff)
		}
		return dst, nil
	case kindBytes:
		for i := range words {
			n := len(*cell[[]byte](r, c, i))
			if n > maxString {
				return dst, fmt.Errorf("%w: %d bytes, the limit is %d", ErrValueTooLarge, n, maxString)
			}
			words[i] = uint64(n)
		}
		v.stats()
		dst = appendVector(dst, words, v.deltas, v.orPlain, v.orDiff)
		for i := range r.n {
			dst = append(dst, *cell[[]byte](r, c, i)...)
		}
		return dst, nil
	}
	v.stats()
	return appendVector(dst, words, v.deltas, v.orPlain, v.orDiff), nil
}

// constant looks whether all cells of a column are equal, as in half of the columns of most batches,
// and returns their words then: one, or two for a trace id.
func (e *batchEncoder) constant(r rowsRef, c *column) (words [2]uint64, vectors int, err error) {
	switch c.kind {
	case kindInt64, kindUint64, kindFloat64:
		first := *cell[uint64](r, c, 0)
		if !allEqual(r, c, first) {
			return words, 0, nil
		}
		words[0] = first
	case kindString:
		first := *cell[string](r, c, 0)
		if !allEqual(r, c, first) {
			return words, 0, nil
		}
		id, err := e.intern(first)
		if err != nil {
			return words, 0, err
		}
		words[0] = uint64(id)
	case kindTrace:
		first := *cell[TraceID](r, c, 0)
		if !allEqual(r, c, first) {
			return words, 0, nil
		}
		words[0] = binary.LittleEndian.Uint64(first[:8])
		words[1] = binary.LittleEndian.Uint64(first[8:])
		return words, 2, nil
	default:
		return words, 0, nil
	}
	return words, 1, nil
}

func allEqual[F uint64 | string | TraceID](r rowsRef, c *column, first F) bool {
	for i := 1; i < r.n; i++ {
		if *cell[F](r, c, i) != first {
			return false
		}
	}
	return true
}

// logSchema is what the schema frame of a log says: which columns each table's sections have.
type logSchema struct {
	tables [256]*logTable
}

type logTable struct {
	name    string
	columns []logColumn
	table   *table // nil: unknown to this version
	missing bool   // this version's table has columns that the log has not
}

type logColumn struct {
	name   string
	kind   kind
	column *column // nil: unknown to this version, or of another kind
}

// appendSchema encodes the schema of all tables that stand in logs.
func appendSchema(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(tables)-derivedTables))
	for _, t := range tables {
		if t.derived {
			continue
		}
		dst = append(dst, t.id)
		dst = appendShort(dst, t.name)
		dst = binary.AppendUvarint(dst, uint64(len(t.columns)))
		for _, c := range t.columns {
			dst = append(dst, byte(c.kind))
			dst = appendShort(dst, c.name)
		}
	}
	return dst
}

func appendShort(dst []byte, s string) []byte {
	return append(append(dst, byte(len(s))), s...)
}

// parseSchema decodes a schema frame. Bytes after the last table are left for later versions.
func parseSchema(src []byte) (*logSchema, error) {
	in := cursor{src}
	n, err := in.uvarint(255)
	if err != nil {
		return nil, err
	}
	s := &logSchema{}
	for range n {
		id, err := in.byte()
		if err != nil {
			return nil, err
		}
		name, err := in.short()
		if err != nil {
			return nil, err
		}
		columns, err := in.uvarint(1 << 12)
		if err != nil {
			return nil, err
		}
		lt := &logTable{name: name, table: tableByName[name]}
		if lt.table != nil && lt.table.derived {
			lt.table = nil
		}
		found := 0
		for range columns {
			k, err := in.byte()
			if err != nil {
				return nil, err
			}
			name, err := in.short()
			if err != nil {
				return nil, err
			}
			if k == 0 || kind(k) > lastKind {
				return nil, fmt.Errorf("table %s, column %s: unknown kind %d", lt.name, name, k)
			}
			lc := logColumn{name: name, kind: kind(k)}
			if lt.table != nil {
				if c := lt.table.column(name); c != nil && c.kind == lc.kind {
					lc.column = c
					found++
				}
			}
			lt.columns = append(lt.columns, lc)
		}
		lt.missing = lt.table != nil && found < len(lt.table.columns)
		if s.tables[id] != nil {
			return nil, fmt.Errorf("table id %d twice", id)
		}
		s.tables[id] = lt
	}
	return s, nil
}

// cursor reads small values from a byte slice.
type cursor struct{ b []byte }

func (c *cursor) byte() (byte, error) {
	if len(c.b) == 0 {
		return 0, errShort
	}
	v := c.b[0]
	c.b = c.b[1:]
	return v, nil
}

func (c *cursor) uvarint(limit uint64) (int, error) {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		return 0, errShort
	}
	if v > limit {
		return 0, fmt.Errorf("%d is over the limit of %d", v, limit)
	}
	c.b = c.b[n:]
	return int(v), nil
}

func (c *cursor) bytes(n int) ([]byte, error) {
	if n > len(c.b) {
		return nil, errShort
	}
	v := c.b[:n]
	c.b = c.b[n:]
	return v, nil
}

func (c *cursor) short() (string, error) {
	n, err := c.byte()
	if err != nil {
		return "", err
	}
	b, err := c.bytes(int(n))
	return string(b), err
}

// stringTable is a log's string table while it is read. A frame that could not be read leaves a
// hole: the strings that it defined are unknown, and rows that use them are unreadable.
type stringTable struct {
	strings []string // by number - 1
	holes   bool
	known   []bool // only with holes
}

func (t *stringTable) lookup(id uint64) (string, error) {
	if id == 0 {
		return "", nil
	}
	if id > uint64(len(t.strings)) {
		return "", fmt.Errorf("string %d of %d", id, len(t.strings))
	}
	if t.holes && !t.known[id-1] {
		return "", fmt.Errorf("string %d was defined by an unreadable frame", id)
	}
	return t.strings[id-1], nil
}

// section is one table's part of a batch frame.
type section struct {
	table *logTable // nil: a table id that the schema frame does not name
	rows  int
	data  []byte
}

// maxStringTable bounds the strings of one log.
const maxStringTable = 1 << 26

// parseBatch reads the strings of a batch frame into t and returns its sections. With define unset
// the strings are skipped.
func parseBatch(dst []section, src []byte, schema *logSchema, t *stringTable) ([]section, error) {
	in := cursor{src}
	known, err := in.uvarint(maxStringTable)
	if err != nil {
		return nil, err
	}
	fresh, err := in.uvarint(uint64(len(in.b)))
	if err != nil {
		return nil, err
	}
	if t != nil {
		if known < len(t.strings) {
			return nil, fmt.Errorf("string table of %d strings, the log has %d", known, len(t.strings))
		}
		if missing := known - len(t.strings); missing > 0 {
			if !t.holes {
				return nil, fmt.Errorf("string table of %d strings, the log has %d", known, len(t.strings))
			}
			if missing > maxFrameSize {
				return nil, fmt.Errorf("%d strings are missing", missing)
			}
			for len(t.known) < len(t.strings) {
				t.known = append(t.known, true)
			}
			t.strings = append(t.strings, make([]string, missing)...)
			t.known = append(t.known, make([]bool, missing)...)
		}
	}
	for range fresh {
		n, err := in.uvarint(maxString)
		if err != nil {
			return nil, err
		}
		b, err := in.bytes(n)
		if err != nil {
			return nil, err
		}
		if t != nil {
			t.strings = append(t.strings, string(b))
			if t.holes {
				t.known = append(t.known, true)
			}
		}
	}
	n, err := in.uvarint(255)
	if err != nil {
		return nil, err
	}
	dst = dst[:0]
	total := 0
	for range n {
		id, err := in.byte()
		if err != nil {
			return nil, err
		}
		rows, err := in.uvarint(maxFrameRows)
		if err != nil {
			return nil, err
		}
		if total += rows; total > maxFrameRows {
			return nil, fmt.Errorf("over %d rows in a frame", maxFrameRows)
		}
		size, err := in.bytes(4)
		if err != nil {
			return nil, err
		}
		data, err := in.bytes(int(binary.LittleEndian.Uint32(size)))
		if err != nil {
			return nil, err
		}
		dst = append(dst, section{table: schema.tables[id], rows: rows, data: data})
	}
	return dst, nil
}

// sectionDecoder decodes sections into rows.
type sectionDecoder struct{ words []uint64 }

// decode fills the rows of dst from s. The table of dst must be that of s.
func (d *sectionDecoder) decode(dst rowsRef, s section, t *stringTable) error {
	if s.rows == 0 {
		return nil
	}
	if s.table.missing {
		dst.clear()
	}
	if cap(d.words) < s.rows {
		d.words = make([]uint64, s.rows)
	}
	words := d.words[:s.rows]
	src := s.data
	var err error
	for i := range s.table.columns {
		lc := &s.table.columns[i]
		if src, err = decodeColumn(dst, lc, src, words, t); err != nil {
			return fmt.Errorf("table %s, column %s: %w", s.table.name, lc.name, err)
		}
	}
	return nil
}

func decodeColumn(dst rowsRef, lc *logColumn, src []byte, words []uint64, t *stringTable) ([]byte, error) {
	src, err := readVector(src, words)
	if err != nil {
		return nil, err
	}
	c := lc.column
	switch lc.kind {
	case kindInt64, kindUint64, kindFloat64:
		if c == nil {
			return src, nil
		}
		for i, w := range words {
			*cell[uint64](dst, c, i) = w
		}
	case kindUint32:
		if c == nil {
			return src, nil
		}
		for i, w := range words {
			if w > math.MaxUint32 {
				return nil, fmt.Errorf("%d is not a uint32", w)
			}
			*cell[uint32](dst, c, i) = uint32(w)
		}
	case kindBool:
		if c == nil {
			return src, nil
		}
		for i, w := range words {
			if w > 1 {
				return nil, fmt.Errorf("%d is not a bool", w)
			}
			*cell[bool](dst, c, i) = w == 1
		}
	case kindString:
		if c == nil {
			return src, nil
		}
		lastID, last := uint64(0), ""
		for i, w := range words {
			if w != lastID {
				if last, err = t.lookup(w); err != nil {
					return nil, err
				}
				lastID = w
			}
			*cell[string](dst, c, i) = last
		}
	case kindTrace:
		if c != nil {
			for i, w := range words {
				binary.LittleEndian.PutUint64(cell[TraceID](dst, c, i)[:8], w)
			}
		}
		if src, err = readVector(src, words); err != nil {
			return nil, err
		}
		if c != nil {
			for i, w := range words {
				binary.LittleEndian.PutUint64(cell[TraceID](dst, c, i)[8:], w)
			}
		}
	case kindBytes:
		for i, w := range words {
			if w > uint64(len(src)) {
				return nil, errShort
			}
			if c != nil {
				var b []byte
				if w > 0 {
					b = append(b, src[:w]...)
				}
				*cell[[]byte](dst, c, i) = b
			}
			src = src[w:]
		}
	}
	return src, nil
}

// validText returns s with each byte that is not UTF-8 replaced by \xNN, so that other tools can
// read the column as text and two different strings stay different.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}
