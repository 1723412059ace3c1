package abi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

//go:embed metal_abi.json
var raw []byte

// Facts is the whole table, indexed. It is read-only and safe for concurrent use.
type Facts struct {
	Schema    string            `json:"schema"`
	SDK       string            `json:"sdk"`
	Libraries map[string]string `json:"libraries"` // dlopen paths on macOS
	Records   []Record          `json:"records"`

	methods map[string]*Record
	named   map[string]*Record
}

// Record is one entry of the table. Which fields are set depends on Kind: method, protocol, class, enum, struct,
// extern, cfunc, macro or block.
type Record struct {
	Kind         string                 `json:"kind"`
	Name         string                 `json:"name,omitempty"`
	Owner        string                 `json:"owner,omitempty"`
	OwnerKind    string                 `json:"owner_kind,omitempty"` // protocol or class
	Selector     string                 `json:"selector,omitempty"`
	ClassMethod  bool                   `json:"class_method,omitempty"`
	Required     bool                   `json:"required,omitempty"` // of a protocol
	Encoding     string                 `json:"encoding_stripped,omitempty"`
	EncodingAMD  string                 `json:"encoding_stripped_amd64,omitempty"`
	Ownership    string                 `json:"ownership,omitempty"`        // "+1", "autoreleased" or empty
	Introduced   string                 `json:"introduced_macos,omitempty"` // a hint: respondsToSelector decides
	Enc          string                 `json:"enc,omitempty"`
	Size         uint64                 `json:"size,omitempty"` // bytes
	Values       map[string]json.Number `json:"values,omitempty"`
	Value        string                 `json:"value,omitempty"`
	Signature    string                 `json:"signature,omitempty"`
	Library      string                 `json:"library,omitempty"`
	Note         string                 `json:"note,omitempty"`
	Sources      []string               `json:"sources,omitempty"`
	Framework    string                 `json:"framework,omitempty"`
	UnverifiedAs string                 `json:"string_value_unverified,omitempty"`
}

// Load returns the embedded table. The result is shared: do not change it.
var Load = sync.OnceValues(func() (*Facts, error) { return Parse(raw) })

// Parse reads a table of schema stax.metal-abi/1.
func Parse(b []byte) (*Facts, error) {
	f := &Facts{methods: map[string]*Record{}, named: map[string]*Record{}}
	if err := json.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("read Metal ABI table: %w", err)
	}
	if f.Schema != "stax.metal-abi/1" {
		return nil, fmt.Errorf("read Metal ABI table: schema %q is not stax.metal-abi/1", f.Schema)
	}
	for i := range f.Records {
		r := &f.Records[i]
		if r.Kind == "method" {
			f.methods[r.Key()] = r
		} else {
			f.named[r.Kind+" "+r.Name] = r
		}
	}
	return f, nil
}

// Key names a method as the binding tables do: "-MTLDevice newCommandQueue", with + for class methods.
func (r *Record) Key() string {
	sign := "-"
	if r.ClassMethod {
		sign = "+"
	}
	return sign + r.Owner + " " + r.Selector
}

// Method returns the record of a method by its [Record.Key], or nil.
func (f *Facts) Method(key string) *Record { return f.methods[key] }

// Named returns the record of any other kind by kind and name, or nil.
func (f *Facts) Named(kind, name string) *Record { return f.named[kind+" "+name] }

// Normalize brings an encoding into the form that is compared: no frame offsets, no qualifiers, no quoted class names.
// Struct names are left alone: an "r" or a digit in one is part of the name.
func Normalize(enc string) string {
	var b strings.Builder
	depth := 0      // of nested structs
	inName := false // between { and =
	for i := 0; i < len(enc); i++ {
		c := enc[i]
		switch {
		case c == '{' || c == '(':
			depth++
			inName = true
		case c == '}' || c == ')':
			depth--
			inName = false
		case c == '=' && inName:
			inName = false
		case inName:
		case c == '"':
			j := strings.IndexByte(enc[i+1:], '"')
			if j < 0 {
				return b.String() + enc[i:]
			}
			i += j + 1
			continue
		case c >= '0' && c <= '9' && depth == 0, strings.IndexByte("rnNoORV", c) >= 0:
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// Ownership tells by Cocoa's naming rule what a method gives its caller: "+1" for the new, alloc, copy and mutableCopy
// families, "autoreleased" otherwise. It only means something for methods that return an object.
func Ownership(selector string) string {
	for _, family := range []string{"alloc", "new", "copy", "mutableCopy"} {
		rest, ok := strings.CutPrefix(strings.TrimLeft(selector, "_"), family)
		if ok && (rest == "" || rest[0] < 'a' || rest[0] > 'z') {
			return "+1"
		}
	}
	return "autoreleased"
}
