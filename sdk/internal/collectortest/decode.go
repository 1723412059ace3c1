package collectortest

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
)

// Span is a decoded OTLP span with the attributes of its scope.
type Span struct {
	Scope                   map[string]any
	ScopeName               string
	TraceID, SpanID, Parent string // hex
	Name                    string
	Kind                    int
	Start, End              int64
	Attrs                   map[string]any
	Dropped                 uint64
	Events                  []Event
	Links                   []Link
	StatusCode              int
	StatusMessage           string
}

// Event is a span event.
type Event struct {
	Time  int64
	Name  string
	Attrs map[string]any
}

// Link is a span link.
type Link struct {
	TraceID, SpanID string
	Attrs           map[string]any
}

// Record is a log record.
type Record struct {
	Event string
	Time  int64
	Attrs map[string]any
}

// Request is one decoded export request.
type Request struct {
	Resource map[string]any
	Schema   string
	Token    string
	Spans    []Span
	// Heartbeat is the attributes of the stax.heartbeat scope; nil: none.
	Heartbeat map[string]any
	Records   []Record
}

// Profile is a decoded OTLP profile without its samples: the SDK sends payloads.
type Profile struct {
	Resource       map[string]any
	Token          string
	Gzipped        bool
	ScopeName      string
	Time, Duration int64
	Period         int64
	Format         string
	Payload        []byte
	Attrs          map[string]any
}

// DecodeProfiles decodes an ExportProfilesServiceRequest.
func DecodeProfiles(b []byte) (out []Profile, err error) {
	d := &decoder{}
	m := d.parse(b)
	var table []string
	var attrs []message
	d.each(m, 2, func(dict message) {
		for _, s := range dict[5] {
			b, _ := s.([]byte)
			table = append(table, string(b))
		}
		d.each(dict, 6, func(a message) { attrs = append(attrs, a) })
		for field := 1; field <= 7; field++ {
			if len(dict[field]) == 0 {
				d.err = fmt.Errorf("dictionary table %d lacks its zero entry", field)
			}
		}
	})
	text := func(i uint64) string {
		if i >= uint64(len(table)) {
			d.err = fmt.Errorf("string %d of %d", i, len(table))
			return ""
		}
		return table[i]
	}
	if len(table) == 0 || table[0] != "" {
		return nil, fmt.Errorf("string table begins with %q", table)
	}
	d.each(m, 1, func(rp message) {
		var resource map[string]any
		d.each(rp, 1, func(res message) { resource = d.attrs(res, 1) })
		d.each(rp, 2, func(sp message) {
			name := ""
			d.each(sp, 1, func(s message) { name = s.str(1) })
			d.each(sp, 2, func(pm message) {
				p := Profile{
					Resource: resource, ScopeName: name, Time: int64(pm.num(3)), Duration: int64(pm.num(4)), Period: int64(pm.num(6)),
					Format: pm.str(9), Payload: []byte(pm.str(10)), Attrs: map[string]any{},
				}
				if len(pm.str(7)) != 16 {
					d.err = fmt.Errorf("profile id %x", pm.str(7))
				}
				for indices := []byte(pm.str(11)); len(indices) > 0; {
					i, n := binary.Uvarint(indices)
					if n <= 0 || i == 0 || i >= uint64(len(attrs)) {
						d.err = fmt.Errorf("attribute %d of %d", i, len(attrs))
						return
					}
					indices = indices[n:]
					d.each(attrs[i], 2, func(v message) { p.Attrs[text(attrs[i].num(1))] = d.value(v) })
				}
				out = append(out, p)
			})
		})
	})
	return out, d.err
}

type message map[int][]any // uint64 or []byte by field

func parse(b []byte) (message, error) {
	m := message{}
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, fmt.Errorf("bad tag % x", b[:min(len(b), 8)])
		}
		b = b[n:]
		num := int(tag >> 3)
		switch tag & 7 {
		case 0:
			v, n := binary.Uvarint(b)
			if n <= 0 {
				return nil, fmt.Errorf("bad varint in field %d", num)
			}
			m[num] = append(m[num], v)
			b = b[n:]
		case 1:
			if len(b) < 8 {
				return nil, fmt.Errorf("short fixed64 in field %d", num)
			}
			m[num] = append(m[num], binary.LittleEndian.Uint64(b))
			b = b[8:]
		case 2:
			l, n := binary.Uvarint(b)
			if n <= 0 || l > uint64(len(b)-n) {
				return nil, fmt.Errorf("bad length of field %d", num)
			}
			m[num] = append(m[num], b[n:n+int(l)])
			b = b[n+int(l):]
		default:
			return nil, fmt.Errorf("wire type %d of field %d", tag&7, num)
		}
	}
	return m, nil
}

// decoder stops at its first error.
type decoder struct{ err error }

func (d *decoder) parse(b []byte) message {
	m, err := parse(b)
	if err != nil && d.err == nil {
		d.err = err
	}
	return m
}

func (m message) str(f int) string {
	if v := m[f]; len(v) > 0 {
		if b, ok := v[0].([]byte); ok {
			return string(b)
		}
	}
	return ""
}

func (m message) num(f int) uint64 {
	if v := m[f]; len(v) > 0 {
		if n, ok := v[0].(uint64); ok {
			return n
		}
	}
	return 0
}

func (d *decoder) each(m message, f int, do func(message)) {
	for _, v := range m[f] {
		b, ok := v.([]byte)
		if !ok {
			d.err = fmt.Errorf("field %d is no message", f)
			return
		}
		do(d.parse(b))
	}
}

func (d *decoder) attrs(m message, f int) map[string]any {
	out := map[string]any{}
	d.each(m, f, func(kv message) {
		k := kv.str(1)
		if _, twice := out[k]; twice {
			d.err = fmt.Errorf("attribute %s stands twice", k)
		}
		d.each(kv, 2, func(v message) { out[k] = d.value(v) })
	})
	return out
}

func (d *decoder) value(v message) any {
	switch {
	case v[1] != nil:
		return v.str(1)
	case v[2] != nil:
		return v.num(2) != 0
	case v[3] != nil:
		return int64(v.num(3))
	case v[4] != nil:
		return math.Float64frombits(v.num(4))
	case v[5] != nil:
		var ints []int64
		var strs []string
		d.each(v, 5, func(a message) {
			d.each(a, 1, func(e message) {
				switch x := d.value(e).(type) {
				case int64:
					ints = append(ints, x)
				case string:
					strs = append(strs, x)
				}
			})
		})
		if ints != nil {
			return ints
		}
		return strs
	}
	return nil
}

func hexOf(m message, f int) string { return hex.EncodeToString([]byte(m.str(f))) }

// DecodeTraces decodes an ExportTraceServiceRequest of one resource.
func DecodeTraces(b []byte) (Request, error) {
	var r Request
	d := &decoder{}
	d.each(d.parse(b), 1, func(rs message) {
		r.Schema = rs.str(3)
		d.each(rs, 1, func(res message) { r.Resource = d.attrs(res, 1) })
		d.each(rs, 2, func(ss message) {
			var scope map[string]any
			var name string
			d.each(ss, 1, func(s message) { name, scope = s.str(1), d.attrs(s, 3) })
			if name == "stax.heartbeat" {
				r.Heartbeat = scope
			}
			d.each(ss, 2, func(sp message) { r.Spans = append(r.Spans, d.span(sp, name, scope)) })
		})
	})
	return r, d.err
}

func (d *decoder) span(m message, scopeName string, scope map[string]any) Span {
	s := Span{
		Scope: scope, ScopeName: scopeName,
		TraceID: hexOf(m, 1), SpanID: hexOf(m, 2), Parent: hexOf(m, 4), Name: m.str(5), Kind: int(m.num(6)),
		Start: int64(m.num(7)), End: int64(m.num(8)), Attrs: d.attrs(m, 9), Dropped: m.num(10),
	}
	d.each(m, 11, func(e message) {
		s.Events = append(s.Events, Event{Time: int64(e.num(1)), Name: e.str(2), Attrs: d.attrs(e, 3)})
	})
	d.each(m, 13, func(l message) {
		s.Links = append(s.Links, Link{TraceID: hexOf(l, 1), SpanID: hexOf(l, 2), Attrs: d.attrs(l, 4)})
	})
	d.each(m, 15, func(st message) { s.StatusMessage, s.StatusCode = st.str(2), int(st.num(3)) })
	return s
}

// DecodeLogs decodes an ExportLogsServiceRequest of one resource.
func DecodeLogs(b []byte) (Request, error) {
	var r Request
	d := &decoder{}
	d.each(d.parse(b), 1, func(rl message) {
		r.Schema = rl.str(3)
		d.each(rl, 1, func(res message) { r.Resource = d.attrs(res, 1) })
		d.each(rl, 2, func(sl message) {
			d.each(sl, 2, func(l message) {
				r.Records = append(r.Records, Record{Event: l.str(12), Time: int64(l.num(1)), Attrs: d.attrs(l, 6)})
			})
		})
	})
	return r, d.err
}
