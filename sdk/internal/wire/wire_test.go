package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// field is one decoded protobuf field, for tests only.
type field struct {
	num, typ int
	v        uint64
	b        []byte
}

func decode(t *testing.T, b []byte) (fs []field) {
	t.Helper()
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatalf("bad tag in % x", b)
		}
		b = b[n:]
		f := field{num: int(tag >> 3), typ: int(tag & 7)}
		switch f.typ {
		case typeVarint:
			f.v, n = binary.Uvarint(b)
			b = b[n:]
		case typeFixed64:
			f.v, b = binary.LittleEndian.Uint64(b), b[8:]
		case typeFixed32:
			f.v, b = uint64(binary.LittleEndian.Uint32(b)), b[4:]
		case typeBytes:
			l, n := binary.Uvarint(b)
			if n <= 0 || l > uint64(len(b)-n) {
				t.Fatalf("length %d of field %d runs past %d bytes", l, f.num, len(b)-n)
			}
			if n != SizeVarint(l) {
				t.Fatalf("length %d of field %d takes %d bytes, want minimal %d", l, f.num, n, SizeVarint(l))
			}
			f.b, b = b[n:n+int(l)], b[n+int(l):]
		default:
			t.Fatalf("wire type %d", f.typ)
		}
		fs = append(fs, f)
	}
	return fs
}

func TestSizeVarint(t *testing.T) {
	for _, v := range []uint64{0, 1, 127, 128, 16383, 16384, 1<<21 - 1, 1 << 21, 1<<63 - 1, 1 << 63, math.MaxUint64} {
		if got, want := SizeVarint(v), len(AppendVarint(nil, v)); got != want {
			t.Errorf("SizeVarint(%d) = %d, want %d", v, got, want)
		}
	}
}

// TestOpenClose nests messages of every interesting size with every guess.
func TestOpenClose(t *testing.T) {
	for _, size := range []int{0, 1, 127, 128, 129, 16383, 16384, 1 << 21, 1<<21 + 1} {
		for guess := 1; guess <= 5; guess++ {
			body := bytes.Repeat([]byte{0xab}, size)
			b := []byte("before")
			b, outer := Open(b, 3, guess)
			b, inner := Open(b, 4, guess)
			b = append(b, body...)
			b = Close(b, inner)
			b = Varint(b, 5, 7)
			b = Close(b, outer)
			b = Varint(b, 6, 8)
			fs := decode(t, bytes.TrimPrefix(b, []byte("before")))
			if len(fs) != 2 || fs[1].v != 8 {
				t.Fatalf("size %d guess %d: got %v", size, guess, fs)
			}
			in := decode(t, fs[0].b)
			if len(in) != 2 || in[0].num != 4 || !bytes.Equal(in[0].b, body) || in[1].v != 7 {
				t.Fatalf("size %d guess %d: inner message differs", size, guess)
			}
		}
	}
}

func TestAttributes(t *testing.T) {
	long := strings.Repeat("x", 300)
	b := String(nil, 9, long, long)
	b = Int(b, 9, "i", -1)
	b = Bool(b, 9, "b", true)
	b = Double(b, 9, "d", 1.5)
	b = Hex64(b, 9, "h", 0xabc)
	b = HexBytes(b, 9, "hb", []byte{0xde, 0xad})
	b = Strings(b, 9, "ss", []string{"", long, "z"})
	b = Ints(b, 9, "ii", []int64{-5, 0, 1 << 40})
	value := func(f field) field {
		kv := decode(t, f.b)
		if len(kv) != 2 {
			t.Fatalf("key-value has %d fields", len(kv))
		}
		return decode(t, kv[1].b)[0]
	}
	fs := decode(t, b)
	if len(fs) != 8 {
		t.Fatalf("got %d attributes, want 8", len(fs))
	}
	if v := value(fs[0]); string(v.b) != long {
		t.Errorf("string: got %d bytes", len(v.b))
	}
	if v := value(fs[1]); int64(v.v) != -1 {
		t.Errorf("int: got %d", int64(v.v))
	}
	if v := value(fs[2]); v.v != 1 {
		t.Errorf("bool: got %d", v.v)
	}
	if v := value(fs[3]); math.Float64frombits(v.v) != 1.5 {
		t.Errorf("double: got %x", v.v)
	}
	if v := value(fs[4]); string(v.b) != "0000000000000abc" {
		t.Errorf("hex: got %s", v.b)
	}
	if v := value(fs[5]); string(v.b) != "dead" {
		t.Errorf("hex bytes: got %s", v.b)
	}
	if e := decode(t, value(fs[6]).b); len(e) != 3 || string(decode(t, e[1].b)[0].b) != long {
		t.Errorf("strings: got %v", e)
	}
	if e := decode(t, value(fs[7]).b); len(e) != 3 || int64(decode(t, e[0].b)[0].v) != -5 {
		t.Errorf("ints: got %v", e)
	}
}

func FuzzAttribute(f *testing.F) {
	f.Add("key", "value", int64(-1))
	f.Fuzz(func(t *testing.T, k, v string, i int64) {
		fs := decode(t, Int(String(nil, 1, k, v), 2, k, i))
		if len(fs) != 2 {
			t.Fatalf("got %d fields", len(fs))
		}
		kv := decode(t, fs[0].b)
		if string(kv[0].b) != k || string(decode(t, kv[1].b)[0].b) != v {
			t.Fatalf("round trip of %q=%q failed", k, v)
		}
	})
}
