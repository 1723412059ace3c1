package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// The framing of a log file; doc.go draws it.

const (
	logMagic       = "STAXLOG\n"
	logVersion     = 1
	logHeaderSize  = 40
	frameHeader    = 16
	frameMarker    = 0x46585453 // "STXF", little endian
	frameSchema    = 1
	frameBatch     = 2
	maxHeaderBytes = 1 << 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendLogHeader starts a log file.
func appendLogHeader(dst []byte, number uint64, createdNanos int64) []byte {
	at := len(dst)
	dst = append(dst, logMagic...)
	dst = binary.LittleEndian.AppendUint16(dst, logVersion)
	dst = binary.LittleEndian.AppendUint16(dst, logHeaderSize)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, number)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(createdNanos))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
	return binary.LittleEndian.AppendUint32(dst, 0)
}

// beginFrame appends room for a frame header; endFrame fills it in once the payload follows it.
func beginFrame(dst []byte) []byte { return append(dst, make([]byte, frameHeader)...) }

func endFrame(frame []byte, kind byte) {
	binary.LittleEndian.PutUint32(frame, frameMarker)
	frame[4], frame[5], frame[6], frame[7] = kind, 0, 0, 0
	binary.LittleEndian.PutUint32(frame[8:], uint32(len(frame)-frameHeader))
	crc := crc32.Checksum(frame[4:12], castagnoli)
	crc = crc32.Update(crc, castagnoli, frame[frameHeader:])
	binary.LittleEndian.PutUint32(frame[12:], crc)
}

// extent is a run of intact frames.
type extent struct{ begin, end int64 }

// logFile is a log as one reader sees it: the frames that were complete when it was opened.
type logFile struct {
	number  uint64
	name    string // relative to the archive
	r       io.ReaderAt
	size    int64
	schema  *logSchema
	extents []extent
	holes   bool // some frame in between is unreadable
	rows    map[string]int64
	losses  []Loss
	unknown int // frames of unknown kinds
	tail    Loss
	torn    bool // tail says what follows the last intact frame
}

// errFrame says that no intact frame stands at an offset. torn: the file ends within it.
type errFrame struct {
	reason string
	torn   bool
}

func (e *errFrame) Error() string { return e.reason }

// indexLog checks every frame of a log file. An error means that nothing in it is readable; damage
// further inside is in losses, and an unfinished frame at the end is in tail.
func indexLog(r io.ReaderAt, size int64, name string) (*logFile, error) {
	l := &logFile{name: name, r: r, size: size, rows: map[string]int64{}}
	head := make([]byte, logHeaderSize)
	if size < logHeaderSize {
		return nil, fmt.Errorf("archive: %s: truncated in the header at offset %d: want %d bytes: %w", name, size, logHeaderSize, io.ErrUnexpectedEOF)
	}
	if _, err := r.ReadAt(head, 0); err != nil {
		return nil, fmt.Errorf("archive: %s: reading the header: %w", name, err)
	}
	if string(head[:8]) != logMagic {
		return nil, fmt.Errorf("archive: %s: bad magic %q at offset 0: not a stax log", name, head[:8])
	}
	if got, want := crc32.Checksum(head[:32], castagnoli), binary.LittleEndian.Uint32(head[32:]); got != want {
		return nil, fmt.Errorf("archive: %s: header checksum is %08x, stored %08x, at offset 32", name, got, want)
	}
	if v := binary.LittleEndian.Uint16(head[8:]); v != logVersion {
		return nil, fmt.Errorf("archive: %s: log version %d is not known to this stax (it knows %d): use a newer one", name, v, logVersion)
	}
	begin := int64(binary.LittleEndian.Uint16(head[10:]))
	if begin < logHeaderSize || begin > maxHeaderBytes {
		return nil, fmt.Errorf("archive: %s: header of %d bytes at offset 10: want %d to %d", name, begin, logHeaderSize, maxHeaderBytes)
	}
	l.number = binary.LittleEndian.Uint64(head[16:])
	if err := l.index(begin); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *logFile) index(begin int64) error {
	var f frameReader
	f.reset(l.r, begin, l.size)
	run := extent{begin, begin}
	var sections []section
	budget := 4 * l.size // bytes that the search after damage may check
	lose := func(from, to int64, reason string) {
		l.holes = true
		l.losses = append(l.losses, Loss{File: l.name, Offset: from, Bytes: to - from, Rows: -1, Reason: reason})
	}
	for f.off < l.size {
		at := f.off
		kind, payload, err := f.next()
		var bad *errFrame
		switch {
		case err == nil:
			reason := l.check(kind, payload, &sections)
			if reason == nil {
				run.end = f.off
				continue
			}
			if l.schema == nil {
				return fmt.Errorf("archive: %s: frame at offset %d: %w", l.name, at, reason)
			}
			if run.end > run.begin {
				l.extents = append(l.extents, run)
			}
			lose(at, f.off, reason.Error())
			run = extent{f.off, f.off}
			continue
		case !errors.As(err, &bad):
			return fmt.Errorf("archive: %s: reading at offset %d: %w", l.name, at, err)
		}
		if run.end > run.begin {
			l.extents = append(l.extents, run)
		}
		next, err := l.resync(at+1, &budget)
		if err != nil {
			return err
		}
		if next < 0 {
			l.tail = Loss{File: l.name, Offset: at, Bytes: l.size - at, Rows: -1, Reason: bad.reason}
			l.torn = true
			return nil
		}
		lose(at, next, bad.reason)
		f.reset(l.r, next, l.size)
		run = extent{next, next}
	}
	if run.end > run.begin {
		l.extents = append(l.extents, run)
	}
	return nil
}

// check looks into an intact frame and counts its rows.
func (l *logFile) check(kind byte, payload []byte, sections *[]section) error {
	switch kind {
	case frameSchema:
		s, err := parseSchema(payload)
		if err != nil {
			return fmt.Errorf("schema: %w", err)
		}
		l.schema = s
	case frameBatch:
		if l.schema == nil {
			return errors.New("a batch before the schema")
		}
		var err error
		if *sections, err = parseBatch(*sections, payload, l.schema, nil); err != nil {
			return fmt.Errorf("batch: %w", err)
		}
		for _, s := range *sections {
			if s.table != nil {
				l.rows[s.table.name] += int64(s.rows)
			}
		}
	default:
		l.unknown++
	}
	return nil
}

// resync returns the offset of the next intact frame at or after from, -1 when there is none.
func (l *logFile) resync(from int64, budget *int64) (int64, error) {
	var marker [4]byte
	binary.LittleEndian.PutUint32(marker[:], frameMarker)
	buf := make([]byte, 1<<16)
	for from < l.size {
		n, err := l.r.ReadAt(buf[:min(int64(len(buf)), l.size-from)], from)
		if err != nil && err != io.EOF {
			return 0, fmt.Errorf("archive: %s: reading at offset %d: %w", l.name, from, err)
		}
		if *budget -= int64(n); n < len(marker) || *budget < 0 {
			return -1, nil
		}
		i := bytes.Index(buf[:n], marker[:])
		if i < 0 {
			from += int64(n - len(marker) + 1)
			continue
		}
		at := from + int64(i)
		var f frameReader
		f.reset(l.r, at, l.size)
		if _, payload, err := f.next(); err == nil {
			return at, nil
		} else if *budget -= int64(len(payload)); *budget < 0 {
			return -1, nil
		}
		from = at + 1
	}
	return -1, nil
}

// frameReader reads frames in sequence.
type frameReader struct {
	r    io.ReaderAt
	off  int64 // of the next frame
	end  int64
	buf  []byte // bytes of the file from base
	base int64
}

const frameReadAhead = 1 << 18

func (f *frameReader) reset(r io.ReaderAt, off, end int64) {
	f.r, f.off, f.end, f.base = r, off, end, off
	f.buf = f.buf[:0]
}

// bytes returns n bytes of the file at off, which the caller knows to be before end.
func (f *frameReader) bytes(off int64, n int) ([]byte, error) {
	if off < f.base || off+int64(n) > f.base+int64(len(f.buf)) {
		want := int(min(f.end-off, int64(max(n, frameReadAhead))))
		if cap(f.buf) < want {
			f.buf = make([]byte, want)
		}
		f.buf, f.base = f.buf[:want], off
		if m, err := f.r.ReadAt(f.buf, off); m < n {
			f.buf = f.buf[:0]
			if err == nil || err == io.EOF {
				return nil, &errFrame{reason: "the file became shorter while it was read", torn: true}
			}
			return nil, err
		} else {
			f.buf = f.buf[:m]
		}
	}
	i := int(off - f.base)
	return f.buf[i : i+n], nil
}

// next returns the frame at f.off and moves past it. The payload is valid until the next call. When
// the frame is not intact the error is an *errFrame and payload is what its checksum was taken of.
func (f *frameReader) next() (kind byte, payload []byte, err error) {
	left := f.end - f.off
	if left < frameHeader {
		return 0, nil, &errFrame{fmt.Sprintf("truncated frame header: want %d bytes, have %d", frameHeader, left), true}
	}
	h, err := f.bytes(f.off, frameHeader)
	if err != nil {
		return 0, nil, err
	}
	if m := binary.LittleEndian.Uint32(h); m != frameMarker {
		return 0, nil, &errFrame{reason: fmt.Sprintf("no frame marker: %08x", m)}
	}
	length := int64(binary.LittleEndian.Uint32(h[8:]))
	if length > maxFrameSize || length > math.MaxInt-frameHeader {
		return 0, nil, &errFrame{reason: fmt.Sprintf("frame of %d bytes, the limit is %d", length, maxFrameSize)}
	}
	if length > left-frameHeader {
		return 0, nil, &errFrame{fmt.Sprintf("truncated frame: want %d bytes, have %d", length, left-frameHeader), true}
	}
	b, err := f.bytes(f.off, frameHeader+int(length))
	if err != nil {
		return 0, nil, err
	}
	want := binary.LittleEndian.Uint32(b[12:])
	crc := crc32.Checksum(b[4:12], castagnoli)
	payload = b[frameHeader:]
	if crc = crc32.Update(crc, castagnoli, payload); crc != want {
		return 0, payload, &errFrame{reason: fmt.Sprintf("frame checksum is %08x, stored %08x", crc, want)}
	}
	f.off += frameHeader + length
	return b[4], payload, nil
}

// batches calls visit with the sections of each batch frame in order. Sections that cannot be decoded
// are for visit to report. The sections are valid during the call.
func (l *logFile) batches(visit func(off int64, sections []section, strings *stringTable) error) error {
	st := &stringTable{holes: l.holes}
	var sections []section
	var f frameReader
	for _, e := range l.extents {
		f.reset(l.r, e.begin, e.end)
		for f.off < e.end {
			at := f.off
			kind, payload, err := f.next()
			if err != nil {
				return fmt.Errorf("archive: %s: frame at offset %d: %w", l.name, at, err)
			}
			if kind != frameBatch {
				continue
			}
			if sections, err = parseBatch(sections, payload, l.schema, st); err != nil {
				return fmt.Errorf("archive: %s: frame at offset %d: %w", l.name, at, err)
			}
			if err := visit(at, sections, st); err != nil {
				return err
			}
		}
	}
	return nil
}
