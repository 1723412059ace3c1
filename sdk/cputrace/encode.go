package cputrace

import (
	"crypto/rand"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/internal/wire"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Fields of the OTLP profiles messages (v1development) that stax writes.
const (
	requestResourceProfiles = 1
	requestDictionary       = 2

	resourceResource = 1
	resourceScope    = 2
	resourceSchema   = 3

	scopeScope    = 1
	scopeProfiles = 2

	scopeName    = 1
	scopeVersion = 2

	profileTime       = 3
	profileDuration   = 4
	profilePeriodType = 5
	profilePeriod     = 6
	profileID         = 7
	profileFormat     = 9
	profilePayload    = 10
	profileAttributes = 11

	valueTypeType = 1
	valueTypeUnit = 2

	dictionaryMapping   = 1
	dictionaryLocation  = 2
	dictionaryFunction  = 3
	dictionaryLink      = 4
	dictionaryString    = 5
	dictionaryAttribute = 6
	dictionaryStack     = 7

	attributeKey   = 1
	attributeValue = 2

	anyString = 1
	anyInt    = 3
)

const formatPprof = "pprof"

// entry is one OTLP profile: a payload, or a note without.
type entry struct {
	begin, end  sdk.Time
	source      string
	state       string
	reason      string
	format      string
	payload     []byte
	hz          int // of sampling; 0: unknown
	costNanos   int64
	processCPU  int64
	lostBytes   int64
	generations int64 // lost
}

// encoder builds requests. Its buffers are reused.
type encoder struct {
	resource []byte // content of an OTLP Resource
	strings  []string
	index    map[string]uint64
	attrs    []byte // attribute table
	attrN    uint64
	indices  []byte
	body     []byte
}

func newEncoder(resource []byte) *encoder {
	return &encoder{resource: resource, index: map[string]uint64{}}
}

// str is the index of s in the string table of the request.
func (e *encoder) str(s string) uint64 {
	i, ok := e.index[s]
	if !ok {
		i = uint64(len(e.strings))
		e.strings = append(e.strings, s)
		e.index[s] = i
	}
	return i
}

// attribute adds an attribute to the table and to the profile being written. value is the content of an AnyValue.
func (e *encoder) attribute(key string, value []byte) {
	b, m := wire.Open(e.attrs, dictionaryAttribute, 1)
	b = wire.Varint(b, attributeKey, e.str(key))
	b = wire.Bytes(b, attributeValue, value)
	e.attrs = wire.Close(b, m)
	e.indices = wire.AppendVarint(e.indices, e.attrN)
	e.attrN++
}

func (e *encoder) text(key, v string) {
	if v != "" {
		e.attribute(key, wire.Text(nil, anyString, v))
	}
}

func (e *encoder) number(key string, v int64) {
	if v > 0 {
		e.attribute(key, wire.Varint(nil, anyInt, uint64(v)))
	}
}

// request builds an ExportProfilesServiceRequest. The bytes are valid until the next request.
func (e *encoder) request(entries []*entry) []byte {
	e.strings, e.attrs = append(e.strings[:0], ""), e.attrs[:0]
	clear(e.index)
	e.index[""] = 0
	e.attrs = wire.Header(e.attrs, dictionaryAttribute, 0) // entry 0 of each table is the zero value
	e.attrN = 1
	size := len(e.resource)
	for _, p := range entries {
		size += len(p.payload) + 256
	}
	guess := wire.SizeVarint(uint64(size))
	b, resource := wire.Open(e.body[:0], requestResourceProfiles, guess)
	b = wire.Bytes(b, resourceResource, e.resource)
	b, scopeOf := wire.Open(b, resourceScope, guess)
	b, scope := wire.Open(b, scopeScope, 1)
	b = wire.Text(b, scopeName, semconv.ScopeCPUTrace)
	b = wire.Text(b, scopeVersion, sdk.Version)
	b = wire.Close(b, scope)
	for _, p := range entries {
		b = e.profile(b, p)
	}
	b = wire.Close(b, scopeOf)
	b = wire.Text(b, resourceSchema, semconv.SchemaURL)
	b = wire.Close(b, resource)
	b, dictionary := wire.Open(b, requestDictionary, 2)
	for _, table := range []int{dictionaryMapping, dictionaryLocation, dictionaryFunction, dictionaryLink, dictionaryStack} {
		b = wire.Header(b, table, 0)
	}
	for _, s := range e.strings {
		b = wire.Text(b, dictionaryString, s)
	}
	b = append(b, e.attrs...)
	e.body = wire.Close(b, dictionary)
	return e.body
}

func (e *encoder) profile(b []byte, p *entry) []byte {
	e.indices = e.indices[:0]
	e.text(semconv.ProfileSourceKey, p.source)
	e.text(semconv.ProfileStateKey, p.state)
	e.text(semconv.ProfileReasonKey, p.reason)
	e.number(semconv.ProfileCostNanosKey, p.costNanos)
	e.number(semconv.ProfileProcessCPUNanosKey, p.processCPU)
	e.number(semconv.ProfileLostBytesKey, p.lostBytes)
	e.number(semconv.ProfileLostGenerationsKey, p.generations)
	b, m := wire.Open(b, scopeProfiles, wire.SizeVarint(uint64(len(p.payload)+128)))
	b = wire.Fixed64(b, profileTime, uint64(p.begin))
	b = wire.Varint(b, profileDuration, uint64(max(p.end-p.begin, 0)))
	if p.hz > 0 {
		var period wire.Mark
		b, period = wire.Open(b, profilePeriodType, 1)
		b = wire.Varint(b, valueTypeType, e.str("cpu"))
		b = wire.Varint(b, valueTypeUnit, e.str("nanoseconds"))
		b = wire.Close(b, period)
		b = wire.Varint(b, profilePeriod, uint64(1_000_000_000/p.hz))
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	b = wire.Bytes(b, profileID, id[:])
	if p.payload != nil {
		b = wire.Text(b, profileFormat, p.format)
		b = wire.Bytes(b, profilePayload, p.payload)
	}
	b = wire.Bytes(b, profileAttributes, e.indices)
	return wire.Close(b, m)
}
