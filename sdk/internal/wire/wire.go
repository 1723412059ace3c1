// Package wire appends protobuf and OTLP messages to byte slices, without reflection and without allocating beyond the
// slice itself. Lengths are minimal varints, so every decoder accepts the bytes.
//
// Leaf messages compute their sizes first. Messages whose size is only known at the end are opened with [Open], which
// reserves a guess for the length, and closed with [Close], which moves the body when the guess was wrong: correct for
// any size, and free for the common one.
package wire

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Field numbers and their wire types, as tag bytes. All OTLP fields that stax writes have numbers below 16.
const (
	typeVarint  = 0
	typeFixed64 = 1
	typeBytes   = 2
	typeFixed32 = 5
)

// SizeVarint is the encoded size of v, 1 to 10.
func SizeVarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// SizeBytes is the encoded size of a length-delimited field with n bytes of content and a field number below 16.
func SizeBytes(n int) int { return 1 + SizeVarint(uint64(n)) + n }

// AppendVarint appends v.
func AppendVarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// Varint appends a varint field.
func Varint(b []byte, field int, v uint64) []byte {
	return AppendVarint(append(b, byte(field<<3|typeVarint)), v)
}

// Fixed64 appends a fixed64 field.
func Fixed64(b []byte, field int, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, byte(field<<3|typeFixed64)), v)
}

// Fixed32 appends a fixed32 field.
func Fixed32(b []byte, field int, v uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(b, byte(field<<3|typeFixed32)), v)
}

// Header appends the tag and length of a length-delimited field whose n bytes of content follow.
func Header(b []byte, field, n int) []byte {
	if n < 128 {
		return append(b, byte(field<<3|typeBytes), byte(n))
	}
	return AppendVarint(append(b, byte(field<<3|typeBytes)), uint64(n))
}

// Bytes appends a length-delimited field.
func Bytes(b []byte, field int, v []byte) []byte { return append(Header(b, field, len(v)), v...) }

// Text appends a string field.
func Text(b []byte, field int, s string) []byte { return append(Header(b, field, len(s)), s...) }

// ID appends a 64-bit id as eight big-endian bytes: an OTLP span id.
func ID(b []byte, field int, id uint64) []byte {
	return binary.BigEndian.AppendUint64(Header(b, field, 8), id)
}

// Mark remembers an open message.
type Mark struct{ body, guess int }

// Open begins a length-delimited field and reserves guess bytes for its length: 1 for bodies under 128 bytes, 2 under
// 16 KiB.
func Open(b []byte, field, guess int) ([]byte, Mark) {
	if guess == 2 {
		b = append(b, byte(field<<3|typeBytes), 0, 0)
		return b, Mark{body: len(b), guess: guess}
	}
	b = append(b, byte(field<<3|typeBytes))
	for range guess {
		b = append(b, 0)
	}
	return b, Mark{body: len(b), guess: guess}
}

// Close ends the field that m remembers.
func Close(b []byte, m Mark) []byte {
	n := len(b) - m.body
	size := SizeVarint(uint64(n))
	switch {
	case size > m.guess:
		var pad [binary.MaxVarintLen64]byte
		b = append(b, pad[:size-m.guess]...)
		copy(b[m.body+size-m.guess:], b[m.body:m.body+n])
	case size < m.guess:
		copy(b[m.body+size-m.guess:], b[m.body:])
		b = b[:len(b)-(m.guess-size)]
	}
	if size == 2 {
		b[m.body-m.guess], b[m.body-m.guess+1] = byte(n)|0x80, byte(n>>7)
		return b
	}
	binary.PutUvarint(b[m.body-m.guess:m.body-m.guess+size], uint64(n))
	return b
}

// Fields of the OTLP common messages.
const (
	keyValueKey   = 1
	keyValueValue = 2

	anyString = 1
	anyBool   = 2
	anyInt    = 3
	anyDouble = 4
	anyArray  = 5

	arrayValues = 1
)

// small is the largest key and value whose attribute has one-byte lengths throughout: 2+key+2+2+value < 128.
const small = 121

// keyValue appends the head of a KeyValue whose AnyValue has n bytes: they follow.
func keyValue(b []byte, field int, key string, n int) []byte {
	if len(key)+n < small {
		b = append(b, byte(field<<3|typeBytes), byte(4+len(key)+n), keyValueKey<<3|typeBytes, byte(len(key)))
		b = append(b, key...)
		return append(b, keyValueValue<<3|typeBytes, byte(n))
	}
	b = Header(b, field, SizeBytes(len(key))+SizeBytes(n))
	b = Text(b, keyValueKey, key)
	return Header(b, keyValueValue, n)
}

// String appends a KeyValue attribute with a string value.
func String(b []byte, field int, key, v string) []byte {
	return Text(keyValue(b, field, key, SizeBytes(len(v))), anyString, v)
}

// StringBytes appends a KeyValue attribute with a string value.
func StringBytes(b []byte, field int, key string, v []byte) []byte {
	return Bytes(keyValue(b, field, key, SizeBytes(len(v))), anyString, v)
}

// Int appends a KeyValue attribute with an integer value.
func Int(b []byte, field int, key string, v int64) []byte {
	return Varint(keyValue(b, field, key, 1+SizeVarint(uint64(v))), anyInt, uint64(v))
}

// Bool appends a KeyValue attribute with a boolean value.
func Bool(b []byte, field int, key string, v bool) []byte {
	n := uint64(0)
	if v {
		n = 1
	}
	return Varint(keyValue(b, field, key, 2), anyBool, n)
}

// Double appends a KeyValue attribute with a floating-point value.
func Double(b []byte, field int, key string, v float64) []byte {
	return Fixed64(keyValue(b, field, key, 9), anyDouble, math.Float64bits(v))
}

const hexDigits = "0123456789abcdef"

// Hex64 appends a KeyValue attribute whose string value is id as 16 hex digits.
func Hex64(b []byte, field int, key string, id uint64) []byte {
	b = Header(keyValue(b, field, key, SizeBytes(16)), anyString, 16)
	return AppendHex64(b, id)
}

// HexBytes appends a KeyValue attribute whose string value is v in hex digits.
func HexBytes(b []byte, field int, key string, v []byte) []byte {
	b = Header(keyValue(b, field, key, SizeBytes(2*len(v))), anyString, 2*len(v))
	for _, c := range v {
		b = append(b, hexDigits[c>>4], hexDigits[c&15])
	}
	return b
}

// AppendHex64 appends id as 16 hex digits.
func AppendHex64(b []byte, id uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[id>>shift&15])
	}
	return b
}

// Array is an array-valued KeyValue attribute under construction.
type Array struct{ attr, value, array Mark }

// OpenArray begins a KeyValue attribute with an array value. Add elements with [ElementString], [ElementInt] or
// [OpenElement], then [CloseArray].
func OpenArray(b []byte, field int, key string) ([]byte, Array) {
	var a Array
	b, a.attr = Open(b, field, 1)
	b = Text(b, keyValueKey, key)
	b, a.value = Open(b, keyValueValue, 1)
	b, a.array = Open(b, anyArray, 1)
	return b, a
}

// ElementString appends a string element.
func ElementString(b []byte, s string) []byte {
	return Text(Header(b, arrayValues, SizeBytes(len(s))), anyString, s)
}

// ElementBytes appends a string element.
func ElementBytes(b, s []byte) []byte {
	return Bytes(Header(b, arrayValues, SizeBytes(len(s))), anyString, s)
}

// ElementInt appends an integer element.
func ElementInt(b []byte, v int64) []byte {
	return Varint(Header(b, arrayValues, 1+SizeVarint(uint64(v))), anyInt, uint64(v))
}

// CloseArray ends the attribute.
func CloseArray(b []byte, a Array) []byte {
	return Close(Close(Close(b, a.array), a.value), a.attr)
}

// Strings appends an attribute with an array of strings.
func Strings(b []byte, field int, key string, list []string) []byte {
	b, a := OpenArray(b, field, key)
	for _, s := range list {
		b = ElementString(b, s)
	}
	return CloseArray(b, a)
}

// Ints appends an attribute with an array of integers.
func Ints(b []byte, field int, key string, list []int64) []byte {
	b, a := OpenArray(b, field, key)
	for _, v := range list {
		b = ElementInt(b, v)
	}
	return CloseArray(b, a)
}
