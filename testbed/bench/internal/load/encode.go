package load

import (
	"encoding/binary"
	"encoding/hex"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// encoder writes protobuf and notes where values stand that change from batch to batch: a request is encoded once, and
// each further one costs the generator a few stores for each span.
type encoder struct {
	b []byte
	p []patch
}

type patchKind uint8

const (
	patchID        patchKind = iota // record: 8 bytes
	patchIDHex                      // record: 16 digits
	patchStart                      // record: fixed64
	patchEnd                        // record: fixed64
	patchOriginNow                  // record: 9-byte varint, Unix ns
	patchSeq                        // record: varint of seqWidth bytes
	patchTrace                      // lane: 16 bytes
	patchSegment                    // lane: 8 bytes
	patchSegHex                     // lane: 16 digits
	patchSegBegin                   // lane: fixed64
	patchNow                        // -: 9-byte varint, Unix ns
	patchEmitted                    // shard: varint padded to 5 bytes
)

type patch struct {
	off  int32
	arg  int32
	kind patchKind
}

func (e *encoder) mark(k patchKind, arg int) {
	e.p = append(e.p, patch{off: int32(len(e.b)), arg: int32(arg), kind: k})
}

// message writes field n as a message with the content that body writes.
func (e *encoder) message(n protowire.Number, body func(*encoder)) {
	var in encoder
	body(&in)
	e.b = protowire.AppendTag(e.b, n, protowire.BytesType)
	e.b = protowire.AppendVarint(e.b, uint64(len(in.b)))
	for _, p := range in.p {
		p.off += int32(len(e.b))
		e.p = append(e.p, p)
	}
	e.b = append(e.b, in.b...)
}

func (e *encoder) str(n protowire.Number, s string) {
	e.b = protowire.AppendString(protowire.AppendTag(e.b, n, protowire.BytesType), s)
}

func (e *encoder) varint(n protowire.Number, v uint64) {
	e.b = protowire.AppendVarint(protowire.AppendTag(e.b, n, protowire.VarintType), v)
}

// hole writes field n as size bytes to be patched.
func (e *encoder) hole(n protowire.Number, size int, k patchKind, arg int) {
	e.b = protowire.AppendTag(e.b, n, protowire.BytesType)
	e.b = protowire.AppendVarint(e.b, uint64(size))
	e.mark(k, arg)
	e.b = append(e.b, make([]byte, size)...)
}

func (e *encoder) fixed64(n protowire.Number, k patchKind, arg int) {
	e.b = protowire.AppendTag(e.b, n, protowire.Fixed64Type)
	e.mark(k, arg)
	e.b = append(e.b, make([]byte, 8)...)
}

// varintHole writes field n as a varint of width bytes to be patched.
func (e *encoder) varintHole(n protowire.Number, width int, k patchKind, arg int) {
	e.b = protowire.AppendTag(e.b, n, protowire.VarintType)
	e.mark(k, arg)
	e.b = append(e.b, make([]byte, width)...)
}

// attr writes a KeyValue as field n; value writes the AnyValue.
func (e *encoder) attr(n protowire.Number, key string, value func(*encoder)) {
	e.message(n, func(e *encoder) {
		e.str(1, key)
		e.message(2, value)
	})
}

func (e *encoder) attrString(n protowire.Number, key, v string) {
	e.attr(n, key, func(e *encoder) { e.str(1, v) })
}

func (e *encoder) attrInt(n protowire.Number, key string, v int64) {
	e.attr(n, key, func(e *encoder) { e.varint(3, uint64(v)) })
}

func (e *encoder) attrDouble(n protowire.Number, key string, v float64) {
	e.attr(n, key, func(e *encoder) {
		e.b = protowire.AppendFixed64(protowire.AppendTag(e.b, 4, protowire.Fixed64Type), math.Float64bits(v))
	})
}

func (e *encoder) attrInts(n protowire.Number, key string, vs []int64) {
	e.attr(n, key, func(e *encoder) {
		e.message(5, func(e *encoder) {
			for _, v := range vs {
				e.message(1, func(e *encoder) { e.varint(3, uint64(v)) })
			}
		})
	})
}

// put functions fill holes.

func putHex(b []byte, v uint64) {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], v)
	hex.Encode(b, raw[:])
}

// putVarint fills exactly width bytes, with a longer form than needed if v is small: decoders accept it.
func putVarint(b []byte, width int, v uint64) {
	for i := range width - 1 {
		b[i] = byte(v) | 0x80
		v >>= 7
	}
	b[width-1] = byte(v)
}
