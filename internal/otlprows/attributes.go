package otlprows

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// parseHex64 reads exactly 16 hex digits.
func parseHex64(s string) (n uint64, ok bool) {
	if len(s) != 16 {
		return 0, false
	}
	for i := range len(s) {
		d, ok := hexDigit(s[i])
		if !ok {
			return 0, false
		}
		n = n<<4 | uint64(d)
	}
	return n, true
}

// parseHex128 reads exactly 32 hex digits.
func parseHex128(s string) (id [16]byte, ok bool) {
	if len(s) != 32 {
		return id, false
	}
	for i := range id {
		hi, ok1 := hexDigit(s[2*i])
		lo, ok2 := hexDigit(s[2*i+1])
		if !ok1 || !ok2 {
			return [16]byte{}, false
		}
		id[i] = hi<<4 | lo
	}
	return id, true
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// strOf, intOf and boolOf read an attribute of the expected type; they report false for any other type.
func strOf(v pcommon.Value) (string, bool) {
	if v.Type() != pcommon.ValueTypeStr {
		return "", false
	}
	return v.Str(), true
}

func intOf(v pcommon.Value) (int64, bool) {
	if v.Type() != pcommon.ValueTypeInt {
		return 0, false
	}
	return v.Int(), true
}

func boolOf(v pcommon.Value) (value, ok bool) {
	if v.Type() != pcommon.ValueTypeBool {
		return false, false
	}
	return v.Bool(), true
}

// Str returns a string attribute, "" when there is none of that type.
func Str(m pcommon.Map, key string) string {
	if v, ok := m.Get(key); ok && v.Type() == pcommon.ValueTypeStr {
		return v.Str()
	}
	return ""
}

// Int returns an integer attribute; false when there is none of that type.
func Int(m pcommon.Map, key string) (int64, bool) {
	if v, ok := m.Get(key); ok {
		return intOf(v)
	}
	return 0, false
}

// strs and ints read an array of one element type. A missing key is a missing array, which is not ok.
func strs(m pcommon.Map, key string) ([]string, bool) {
	v, ok := m.Get(key)
	if !ok || v.Type() != pcommon.ValueTypeSlice {
		return nil, false
	}
	sl := v.Slice()
	out := make([]string, sl.Len())
	for i := range out {
		if out[i], ok = strOf(sl.At(i)); !ok {
			return nil, false
		}
	}
	return out, true
}

func ints(m pcommon.Map, key string) ([]int64, bool) {
	v, ok := m.Get(key)
	if !ok || v.Type() != pcommon.ValueTypeSlice {
		return nil, false
	}
	sl := v.Slice()
	out := make([]int64, sl.Len())
	for i := range out {
		if out[i], ok = intOf(sl.At(i)); !ok {
			return nil, false
		}
	}
	return out, true
}

// tag is one free attribute.
type tag struct {
	key   string
	value pcommon.Value
}

// appendTags appends the canonical JSON object of the tags: sorted by key, no white space; of equal keys the last wins, as
// in any JSON reader. The tags are reordered.
func appendTags(dst []byte, tags []tag, depth int) []byte {
	slices.SortStableFunc(tags, func(a, b tag) int { return strings.Compare(a.key, b.key) })
	dst = append(dst, '{')
	first := true
	for i, t := range tags {
		if i+1 < len(tags) && tags[i+1].key == t.key {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendString(dst, t.key)
		dst = append(dst, ':')
		dst = appendValue(dst, t.value, depth)
	}
	return append(dst, '}')
}

// maxDepth bounds the nesting of a tag's value; deeper parts become null.
const maxDepth = 16

func appendValue(dst []byte, v pcommon.Value, depth int) []byte {
	if depth > maxDepth {
		return append(dst, "null"...)
	}
	switch v.Type() {
	case pcommon.ValueTypeStr:
		return appendString(dst, v.Str())
	case pcommon.ValueTypeInt:
		return strconv.AppendInt(dst, v.Int(), 10)
	case pcommon.ValueTypeBool:
		return strconv.AppendBool(dst, v.Bool())
	case pcommon.ValueTypeDouble:
		return appendFloat(dst, v.Double())
	case pcommon.ValueTypeBytes:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, v.Bytes().AsRaw())
		return append(dst, '"')
	case pcommon.ValueTypeSlice:
		dst = append(dst, '[')
		for i := range v.Slice().Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, v.Slice().At(i), depth+1)
		}
		return append(dst, ']')
	case pcommon.ValueTypeMap:
		var tags []tag
		for k, e := range v.Map().All() {
			tags = append(tags, tag{k, e})
		}
		return appendTags(dst, tags, depth+1)
	default:
		return append(dst, "null"...)
	}
}

// appendFloat writes a JSON number that reads back as the same float64 and is told from an integer; what JSON has no
// number for becomes a string.
func appendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	begin := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', -1, 64)
	if !slices.ContainsFunc(dst[begin:], func(c byte) bool { return c == '.' || c == 'e' }) {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendString writes a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
			i++
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			i++
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return append(dst, '"')
}
