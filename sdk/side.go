package sdk

import (
	"encoding/binary"
	"math"
	"sync"
)

// The side bytes of a record are a list of items, each a type byte and fixed or length-prefixed fields, little endian.
// Callers append to a pooled buffer; the worker decodes. Only this file knows the layout.
type sideItem uint8

const (
	sideTagString  sideItem = iota // key u32, len u16, bytes
	sideTagInt                     // key u32, value u64
	sideTagFloat                   // key u32, bits u64
	sideCounters                   // set u32, point u32, count u8, count × (state u8, bits u64)
	sideStatus                     // len u16, bytes
	sideCompletion                 // origin
	sideFault                      // origin
	sideAwait                      // id u64
	sideAwaitBuf                   // id u64
	sideAwaitQueue                 // queue u32, up to u64
)

const (
	maxSideBytes = 16 << 10 // of one record
	maxTags      = 64       // of one record
	maxValues    = 384      // counter values of one record
	maxAwaits    = 1024     // of one wait
	sideOrigin   = 4*8 + 16 + 8 + 1
)

// extras collects the side bytes of one record under construction. owner tells a stale copy of the builder that its
// buffer now belongs to another record.
type extras struct {
	owner  uint64
	tags   int
	values int
	awaits int
	buf    []byte
}

var extrasPool = sync.Pool{New: func() any { return &extras{buf: make([]byte, 0, 512)} }}

func newExtras(owner uint64) *extras {
	x, _ := extrasPool.Get().(*extras)
	x.owner, x.tags, x.values, x.awaits, x.buf = owner, 0, 0, 0, x.buf[:0]
	return x
}

func (x *extras) release() {
	x.owner = 0
	extrasPool.Put(x)
}

// fits reports whether n more bytes are allowed.
func (x *extras) fits(n int) bool { return len(x.buf)+n <= maxSideBytes }

func (x *extras) head(t sideItem) { x.buf = append(x.buf, byte(t)) }
func (x *extras) u32(v uint32)    { x.buf = binary.LittleEndian.AppendUint32(x.buf, v) }
func (x *extras) u64(v uint64)    { x.buf = binary.LittleEndian.AppendUint64(x.buf, v) }

func (x *extras) str(s string) {
	x.buf = binary.LittleEndian.AppendUint16(x.buf, uint16(len(s)))
	x.buf = append(x.buf, s...)
}

// tagString reports whether the tag was taken.
func (x *extras) tagString(k uint32, v string) bool {
	if len(v) > maxString {
		diagLongString.add()
		v = v[:cut(v, maxString)]
	}
	if k == 0 || x.tags >= maxTags || !x.fits(7+len(v)) {
		return false
	}
	x.tags++
	x.head(sideTagString)
	x.u32(k)
	x.str(v)
	return true
}

func (x *extras) tagNumber(t sideItem, k uint32, bits uint64) bool {
	if k == 0 || x.tags >= maxTags || !x.fits(13) {
		return false
	}
	x.tags++
	x.head(t)
	x.u32(k)
	x.u64(bits)
	return true
}

// counters takes at most len(set.counters) values and returns how many it took.
func (x *extras) counters(set *CounterSet, point uint32, values []Value) int {
	if x.values+len(values) > maxValues || !x.fits(10+9*len(values)) {
		return 0
	}
	x.values += len(values)
	x.head(sideCounters)
	x.u32(set.index)
	x.u32(point)
	x.buf = append(x.buf, byte(len(values)))
	for i := range values {
		x.buf = append(x.buf, byte(values[i].state))
		x.u64(values[i].bits)
	}
	return len(values)
}

func (x *extras) status(msg string) bool {
	if len(msg) > maxString {
		diagLongString.add()
		msg = msg[:cut(msg, maxString)]
	}
	if !x.fits(3 + len(msg)) {
		return false
	}
	x.head(sideStatus)
	x.str(msg)
	return true
}

func (x *extras) origin(t sideItem, o *Origin) bool {
	if !x.fits(1 + sideOrigin) {
		return false
	}
	x.head(t)
	x.u64(uint64(o.thread))
	x.u64(uint64(o.goroutine))
	x.u64(uint64(o.time))
	x.u64(o.stack)
	x.buf = append(x.buf, o.cpuTrace[:]...)
	x.buf = append(x.buf, o.cpuSpan[:]...)
	locked := byte(0)
	if o.locked {
		locked = 1
	}
	x.buf = append(x.buf, locked)
	return true
}

func (x *extras) await(t sideItem, queue uint32, id uint64) bool {
	if x.awaits >= maxAwaits || !x.fits(13) {
		return false
	}
	x.awaits++
	x.head(t)
	if t == sideAwaitQueue {
		x.u32(queue)
	}
	x.u64(id)
	return true
}

// sideReader walks side bytes. They come from this process, yet a short buffer ends the walk instead of panicking.
type sideReader struct {
	b  []byte
	ok bool
}

func readSide(b []byte) sideReader { return sideReader{b: b, ok: true} }

func (r *sideReader) more() bool { return r.ok && len(r.b) > 0 }

func (r *sideReader) bytes(n int) []byte {
	if !r.ok || n > len(r.b) {
		r.ok = false
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *sideReader) u8() byte {
	if v := r.bytes(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *sideReader) u32() uint32 {
	if v := r.bytes(4); v != nil {
		return binary.LittleEndian.Uint32(v)
	}
	return 0
}

func (r *sideReader) u64() uint64 {
	if v := r.bytes(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

func (r *sideReader) str() []byte {
	v := r.bytes(2)
	if v == nil {
		return nil
	}
	return r.bytes(int(binary.LittleEndian.Uint16(v)))
}

func (r *sideReader) origin() (o Origin) {
	o.thread, o.goroutine, o.time, o.stack = int64(r.u64()), int64(r.u64()), int64(r.u64()), r.u64()
	copy(o.cpuTrace[:], r.bytes(16))
	copy(o.cpuSpan[:], r.bytes(8))
	o.locked = r.u8() != 0
	return o
}

func (r *sideReader) value() Value {
	s := valueState(r.u8())
	return Value{state: s, bits: r.u64()}
}

// skip passes over an item that the caller does not want.
func (r *sideReader) skip(t sideItem) {
	switch t {
	case sideTagString:
		r.u32()
		r.str()
	case sideTagInt, sideTagFloat, sideAwaitQueue:
		r.bytes(12)
	case sideCounters:
		r.bytes(8)
		r.bytes(9 * int(r.u8()))
	case sideStatus:
		r.str()
	case sideCompletion, sideFault:
		r.bytes(sideOrigin)
	case sideAwait, sideAwaitBuf:
		r.bytes(8)
	default:
		r.ok = false
	}
}

func floatBits(f float64) uint64 { return math.Float64bits(f) }
