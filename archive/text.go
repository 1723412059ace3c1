package archive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// The text twin of an archive: what Dump writes and Assemble reads, for eyes, diffs and tests.
//
//	stax-archive 1
//	recording {"id":"r1","name":"demo", ...}
//	lanes runtime="r" lane="gpu0" name="GPU 0" kind="metal"
//	dispatches runtime="r" lane="gpu0" dispatch=7 name="matmul" start_ns=1000 end_ns=2000
//	derived "origin/1"
//	links runtime="r" owner_kind="dispatch" owner=7 status="linked"
//
// One line is one row: the table, then column=value for every column that is not zero. Strings and
// payloads are Go string literals, trace ids 32 hex digits, floats shortest decimal. Lines that are
// empty or begin with # are skipped. Tables come in a fixed order and rows in write order.

const textHeader = "stax-archive 1"

// maxTextLine bounds a line of text: a payload of maxString bytes, quoted.
const maxTextLine = 5*maxString + 1<<16

// Dump writes the archive as text. Rows that cannot be read are left out and are in r.Losses.
func Dump(w io.Writer, r *Reader) error {
	out := bufio.NewWriterSize(w, 1<<16)
	info, err := json.Marshal(r.manifest.Recording)
	if err != nil {
		return fmt.Errorf("archive: dumping %s: %w", r.dir, err)
	}
	fmt.Fprintf(out, "%s\nrecording %s\n", textHeader, info)
	for _, t := range tables {
		if t.id == firstDerived && r.manifest.Derived != nil {
			fmt.Fprintf(out, "derived %q\n", r.manifest.Derived.Version)
		}
		if err := dumpTable(out, r, t); err != nil {
			return fmt.Errorf("archive: dumping %s: %w", r.dir, err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("archive: dumping %s: %w", r.dir, err)
	}
	return nil
}

func dumpTable(out *bufio.Writer, r *Reader, t *table) error {
	var line []byte
	var werr error
	var buf rowsRef
	s := scanner{r: r, table: t, columns: t.allColumns()}
	s.room = func(n int) rowsRef {
		if buf.n < n {
			buf = t.newRows(n)
		}
		return buf
	}
	s.emit = func(n int) bool {
		for i := range n {
			line = appendRow(line[:0], buf, i)
			if _, werr = out.Write(line); werr != nil {
				return false
			}
		}
		return true
	}
	if err := s.scan(context.Background()); err != nil && !errors.Is(err, errStop) {
		return err
	}
	return werr
}

func appendRow(dst []byte, r rowsRef, i int) []byte {
	dst = append(dst, r.table.name...)
	for j := range r.table.columns {
		c := &r.table.columns[j]
		at := len(dst)
		dst = append(dst, ' ')
		dst = append(dst, c.name...)
		dst = append(dst, '=')
		var zero bool
		if dst, zero = appendCell(dst, r, c, i); zero {
			dst = dst[:at]
		}
	}
	return append(dst, '\n')
}

func appendCell(dst []byte, r rowsRef, c *column, i int) (text []byte, zero bool) {
	switch c.kind {
	case kindBool:
		v := *cell[bool](r, c, i)
		return strconv.AppendBool(dst, v), !v
	case kindInt64:
		v := *cell[int64](r, c, i)
		return strconv.AppendInt(dst, v, 10), v == 0
	case kindUint64:
		v := *cell[uint64](r, c, i)
		return strconv.AppendUint(dst, v, 10), v == 0
	case kindUint32:
		v := *cell[uint32](r, c, i)
		return strconv.AppendUint(dst, uint64(v), 10), v == 0
	case kindFloat64:
		v := *cell[float64](r, c, i)
		bits := math.Float64bits(v)
		if v != v && bits != math.Float64bits(math.NaN()) {
			return fmt.Appendf(dst, "bits:%016x", bits), false // another NaN than Go's
		}
		return strconv.AppendFloat(dst, v, 'g', -1, 64), bits == 0
	case kindString:
		v := *cell[string](r, c, i)
		return strconv.AppendQuote(dst, v), v == ""
	case kindBytes:
		v := *cell[[]byte](r, c, i)
		return strconv.AppendQuote(dst, string(v)), len(v) == 0
	default:
		v := cell[TraceID](r, c, i)
		return hex.AppendEncode(dst, v[:]), *v == TraceID{}
	}
}

// parseCell is the inverse of appendCell. It returns what follows the value in text.
func parseCell(text string, r rowsRef, c *column, i int) (rest string, err error) {
	if c.kind == kindString || c.kind == kindBytes {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return text, errors.New("want a quoted string")
		}
		v, err := strconv.Unquote(quoted)
		if err != nil {
			return text, err
		}
		if c.kind == kindString {
			*cell[string](r, c, i) = v
		} else if v != "" {
			*cell[[]byte](r, c, i) = []byte(v)
		}
		return text[len(quoted):], nil
	}
	value, rest := text, ""
	if j := strings.IndexByte(text, ' '); j >= 0 {
		value, rest = text[:j], text[j:]
	}
	switch c.kind {
	case kindBool:
		*cell[bool](r, c, i), err = strconv.ParseBool(value)
	case kindInt64:
		*cell[int64](r, c, i), err = strconv.ParseInt(value, 10, 64)
	case kindUint64:
		*cell[uint64](r, c, i), err = strconv.ParseUint(value, 10, 64)
	case kindUint32:
		var v uint64
		v, err = strconv.ParseUint(value, 10, 32)
		*cell[uint32](r, c, i) = uint32(v)
	case kindFloat64:
		if bits, ok := strings.CutPrefix(value, "bits:"); ok {
			var v uint64
			v, err = strconv.ParseUint(bits, 16, 64)
			*cell[float64](r, c, i) = math.Float64frombits(v)
			break
		}
		*cell[float64](r, c, i), err = strconv.ParseFloat(value, 64)
	default:
		var n int
		if len(value) != 32 {
			return text, errors.New("want 32 hex digits")
		}
		n, err = hex.Decode(cell[TraceID](r, c, i)[:], []byte(value))
		_ = n // 16, or err is set
	}
	return rest, err
}

// Assemble makes an archive in the directory dir, which must not exist, from the text that Dump
// writes. An archive that was finished is finished again; one that was not is left as a Writer leaves
// it when it is closed. The same text gives the same bytes. On an error dir is removed.
func Assemble(r io.Reader, dir string) error {
	a := assembler{lines: bufio.NewScanner(r), dir: dir}
	a.lines.Buffer(nil, maxTextLine)
	err := a.run()
	if err == nil {
		return nil
	}
	if a.w != nil {
		_ = a.w.Close() // the error above is the one to report
	}
	if a.created {
		_ = os.RemoveAll(dir) // and so here
	}
	return fmt.Errorf("archive: assembling %s: line %d: %w", dir, a.line, err)
}

type assembler struct {
	lines   *bufio.Scanner
	line    int
	dir     string
	info    RecordingInfo
	w       *Writer
	created bool
	batch   Batch
	rows    map[*table]reflect.Value // slices of the batch, by table
	count   int
	bytes   int
	derived bool
	version string
	links   []Link
	certs   []Certificate
}

func (a *assembler) next() (string, bool) {
	for a.lines.Scan() {
		a.line++
		line := strings.TrimRight(a.lines.Text(), "\r")
		if line != "" && line[0] != '#' {
			return line, true
		}
	}
	return "", false
}

func (a *assembler) run() error {
	if line, _ := a.next(); line != textHeader {
		return fmt.Errorf("want %q, got %q", textHeader, line[:min(len(line), 80)])
	}
	line, _ := a.next()
	text, ok := strings.CutPrefix(line, "recording ")
	if !ok {
		return fmt.Errorf("want the recording, got %q", line[:min(len(line), 80)])
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&a.info); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	now := time.Unix(0, max(a.info.StoppedNanos, a.info.StartedNanos))
	var err error
	a.w, err = Create(a.dir, a.info, WriterOptions{Now: func() time.Time { return now }, manual: true})
	if err != nil {
		return err
	}
	a.created = true
	a.rows = map[*table]reflect.Value{}
	batch := reflect.ValueOf(&a.batch).Elem()
	for i := range batch.NumField() {
		a.rows[tableByType[batch.Field(i).Type().Elem()]] = batch.Field(i)
	}
	a.rows[tableFor[Link]()] = reflect.ValueOf(&a.links).Elem()
	a.rows[tableFor[Certificate]()] = reflect.ValueOf(&a.certs).Elem()
	for {
		line, ok := a.next()
		if !ok {
			break
		}
		if err := a.row(line); err != nil {
			return err
		}
	}
	if err := a.lines.Err(); err != nil {
		return err
	}
	return a.finish()
}

func (a *assembler) row(line string) error {
	if version, ok := strings.CutPrefix(line, "derived "); ok {
		v, err := strconv.Unquote(version)
		if err != nil {
			return fmt.Errorf("derived: %w", err)
		}
		a.derived, a.version = true, v
		return nil
	}
	name, rest, _ := strings.Cut(line, " ")
	t := tableByName[name]
	if t == nil {
		return fmt.Errorf("no table %q", name[:min(len(name), 80)])
	}
	if t.derived && !a.derived {
		return fmt.Errorf("table %s before the line derived", name)
	}
	slice := a.rows[t]
	slice.Set(reflect.Append(slice, reflect.Zero(t.row)))
	ref := rowsRef{table: t, base: slice.Index(0).Addr().UnsafePointer(), n: slice.Len()}
	rest = strings.TrimLeft(rest, " ")
	for rest != "" {
		key, value, ok := strings.Cut(rest, "=")
		if !ok {
			return fmt.Errorf("table %s: want column=value, got %q", name, rest[:min(len(rest), 80)])
		}
		c := t.column(key)
		if c == nil {
			return fmt.Errorf("table %s has no column %q", name, key[:min(len(key), 80)])
		}
		tail, err := parseCell(value, ref, c, ref.n-1)
		if err != nil {
			return fmt.Errorf("table %s, column %s: %w", name, key, err)
		}
		if tail != "" && tail[0] != ' ' {
			return fmt.Errorf("table %s, column %s: want a space after the value, got %q", name, key, tail[:min(len(tail), 80)])
		}
		rest = strings.TrimLeft(tail, " ")
	}
	if t.derived {
		return nil
	}
	a.count++
	a.bytes += len(line)
	if a.count >= 4096 || a.bytes >= 16<<20 {
		return a.flush()
	}
	return nil
}

func (a *assembler) flush() error {
	if err := a.w.Append(&a.batch); err != nil {
		return err
	}
	a.batch.Reset()
	a.count, a.bytes = 0, 0
	return a.w.maintain(context.Background())
}

func (a *assembler) finish() error {
	if err := a.flush(); err != nil {
		return err
	}
	var err error
	if a.info.State == StateFinished {
		err = a.w.Finish(context.Background(), nil, nil)
	} else {
		err = a.w.Close()
	}
	if err != nil || !a.derived {
		return err
	}
	return WriteDerived(context.Background(), a.dir, a.version, func(d *DerivedWriter) error {
		if err := d.Links(a.links); err != nil {
			return err
		}
		return d.Certificates(a.certs)
	})
}
