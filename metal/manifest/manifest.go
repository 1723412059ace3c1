package manifest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Schema is the version this package writes and reads.
const Schema = "stax.metal-manifest/1"

// Manifest is the source manifest of one library.
type Manifest struct {
	Schema    string     `json:"schema"`
	Library   Library    `json:"library"`
	Sources   []Source   `json:"sources"`
	Functions []Function `json:"functions"`
}

// Library identifies a shader library and how it was made.
type Library struct {
	ID        string   `json:"id"`              // sha256:<hex>
	Flavor    string   `json:"flavor"`          // e.g. "release", "debug"; the program's own word
	Flags     []string `json:"flags,omitempty"` // compiler flags, in order
	Toolchain string   `json:"toolchain,omitempty"`
}

// Source is one source file.
type Source struct {
	ID       string `json:"id"` // sha256:<hex> of the text
	Path     string `json:"path"`
	Language string `json:"language"` // "msl"
	Bytes    int    `json:"bytes"`
	Lines    int    `json:"lines"`
}

// Function is a function with a stage. Lines count from 1 and include the whole declaration and body.
type Function struct {
	Name      string `json:"name"`
	Stage     string `json:"stage"` // kernel, vertex, fragment, object, mesh, visible, intersection or stitchable
	SourceID  string `json:"source_id"`
	StartLine int    `json:"start_line"`
	EndLine   int    `json:"end_line"`
	HostName  string `json:"host_name,omitempty"` // what the program asks the library for, when it is not Name
}

// File is a source file to describe.
type File struct {
	Path string
	Text []byte
}

// Options describe the library.
type Options struct {
	Flavor, Toolchain string
	Flags             []string
	// Library is the content of the .metallib; nil when the library is compiled from the sources at run time.
	Library []byte
}

// Limits of what is read; they are far beyond real shader libraries.
const (
	MaxFileBytes = 16 << 20
	MaxFiles     = 4096
)

// Build describes a library's sources. Files may come in any order: the same input gives the same bytes.
func Build(o Options, files []File) (*Manifest, error) {
	if len(files) > MaxFiles {
		return nil, fmt.Errorf("build manifest: %d files, at most %d", len(files), MaxFiles)
	}
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Or(cmp.Compare(a.Path, b.Path), bytes.Compare(a.Text, b.Text)) })
	m := &Manifest{
		Schema:  Schema,
		Library: Library{Flavor: o.Flavor, Flags: slices.Clone(o.Flags), Toolchain: o.Toolchain},
		Sources: []Source{}, Functions: []Function{},
	}
	sum := newSum("library")
	sum.add(o.Flags...)
	for i, f := range files {
		if f.Path == "" || i > 0 && f.Path == files[i-1].Path {
			return nil, fmt.Errorf("build manifest: path %q is empty or given twice", f.Path)
		}
		if len(f.Text) > MaxFileBytes {
			return nil, fmt.Errorf("build manifest: %s has %d bytes, at most %d", f.Path, len(f.Text), MaxFileBytes)
		}
		id := contentID(f.Text)
		sum.add(f.Path, id)
		m.Sources = append(m.Sources, Source{ID: id, Path: f.Path, Language: "msl", Bytes: len(f.Text), Lines: countLines(f.Text)})
		for _, fn := range Scan(f.Text) {
			fn.SourceID = id
			m.Functions = append(m.Functions, fn)
		}
	}
	m.Library.ID = sum.id()
	if o.Library != nil {
		m.Library.ID = contentID(o.Library)
	}
	return m, nil
}

// Write writes the manifest as indented JSON.
func (m *Manifest) Write(w io.Writer) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return nil
}

// Parse reads a manifest and checks that it holds together: ids, references and line ranges.
func Parse(b []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	if m.Schema != Schema {
		return nil, fmt.Errorf("read manifest: schema %q is not %s", m.Schema, Schema)
	}
	if !validID(m.Library.ID) {
		return nil, fmt.Errorf("read manifest: library id %q", m.Library.ID)
	}
	lines := map[string]int{}
	for _, s := range m.Sources {
		if !validID(s.ID) || s.Path == "" || s.Lines < 0 || s.Bytes < 0 {
			return nil, fmt.Errorf("read manifest: source %q with id %q", s.Path, s.ID)
		}
		lines[s.ID] = s.Lines
	}
	for _, f := range m.Functions {
		n, ok := lines[f.SourceID]
		if !ok {
			return nil, fmt.Errorf("read manifest: function %s is of the unknown source %q", f.Name, f.SourceID)
		}
		if f.Name == "" || f.StartLine < 1 || f.EndLine < f.StartLine || f.EndLine > n {
			return nil, fmt.Errorf("read manifest: function %q has lines %d to %d of %d", f.Name, f.StartLine, f.EndLine, n)
		}
	}
	return m, nil
}

// Find returns the function that a program asks a library for by this name: by host name first, then by name when it
// has no other host name. A name that several functions have is ambiguous, an error; an unknown one is [ErrUnknown].
func (m *Manifest) Find(name string) (Function, Source, error) {
	var found []Function
	for _, f := range m.Functions {
		if cmp.Or(f.HostName, f.Name) == name {
			found = append(found, f)
		}
	}
	switch len(found) {
	case 0:
		return Function{}, Source{}, fmt.Errorf("function %s: %w", name, ErrUnknown)
	case 1:
		for _, s := range m.Sources {
			if s.ID == found[0].SourceID {
				return found[0], s, nil
			}
		}
	}
	return Function{}, Source{}, fmt.Errorf("function %s is defined %d times", name, len(found))
}

// ErrUnknown says that the manifest does not know a function.
var ErrUnknown = errors.New("not in the manifest")

// PipelineID identifies a compute pipeline: the library's id, the function's name and its constants as the program
// encodes them (nil for none).
func PipelineID(libraryID, function string, constants []byte) string {
	s := newSum("pipeline")
	s.add(libraryID, function, string(constants))
	return s.id()
}

// Recoverer reads sources that a compiler recorded in an .air or .metallib file. It is opportunistic: no way to do that
// is publicly documented, and no implementation comes with this package.
type Recoverer interface {
	// Recover returns the recorded sources, or an error wrapping errors.ErrUnsupported.
	Recover(library []byte) ([]File, error)
}

func contentID(b []byte) string {
	s := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(s[:])
}

func validID(id string) bool {
	h, ok := strings.CutPrefix(id, "sha256:")
	b, err := hex.DecodeString(h)
	return ok && err == nil && len(b) == sha256.Size && h == strings.ToLower(h)
}

// sum hashes a list of strings, each with its length, so that no two lists give the same bytes.
type sum struct{ b []byte }

func newSum(kind string) *sum {
	s := &sum{}
	s.add("stax.metal", kind)
	return s
}

func (s *sum) add(parts ...string) {
	s.b = binary.AppendUvarint(s.b, uint64(len(parts)))
	for _, p := range parts {
		s.b = binary.AppendUvarint(s.b, uint64(len(p)))
		s.b = append(s.b, p...)
	}
}

func (s *sum) id() string { return contentID(s.b) }

// countLines counts lines as editors do: a last line without a newline counts.
func countLines(b []byte) int {
	n := bytes.Count(b, []byte{'\n'})
	if len(b) > 0 && b[len(b)-1] != '\n' {
		n++
	}
	return n
}
