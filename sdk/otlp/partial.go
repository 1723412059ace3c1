package otlp

import "encoding/binary"

// parsePartialSuccess reads an ExportTraceServiceResponse (or its logs and metrics twins, which have the same shape):
// field 1 is a message of field 1, the count of refused items, and field 2, the reason. Anything malformed reads as
// success, as the status said.
func parsePartialSuccess(b []byte) (r Result) {
	fields(b, func(num int, _ uint64, msg []byte) {
		if num != 1 {
			return
		}
		fields(msg, func(num int, v uint64, text []byte) {
			switch num {
			case 1:
				r.Rejected = max(int64(v), 0)
			case 2:
				r.Message = printable(text)
			}
		})
	})
	return r
}

// fields calls f for each field of a protobuf message until the first malformed one.
func fields(b []byte, f func(num int, v uint64, bytes []byte)) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
			return
		}
		b = b[n:]
		var v uint64
		var body []byte
		switch tag & 7 {
		case 0:
			if v, n = binary.Uvarint(b); n <= 0 {
				return
			}
		case 1:
			n = 8
		case 2:
			l, k := binary.Uvarint(b)
			if k <= 0 || l > uint64(len(b)-k) {
				return
			}
			body, n = b[k:k+int(l)], k+int(l)
		case 5:
			n = 4
		default:
			return
		}
		if n > len(b) {
			return
		}
		b = b[n:]
		f(int(tag>>3), v, body)
	}
}
