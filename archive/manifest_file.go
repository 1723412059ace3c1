package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxManifest = 64 << 20
	maxSegments = 1 << 20
)

const noCheck = "00000000"

// encodeManifest returns the content of manifest.json: indented, the same for the same manifest, with
// its checksum filled in.
func encodeManifest(m *Manifest) ([]byte, error) {
	m.Check = noCheck
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	m.Check = fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli))
	copy(b[bytes.LastIndex(b, []byte(noCheck)):], m.Check)
	return b, nil
}

// checkManifest says whether the checksum in the content of manifest.json is right.
func checkManifest(b []byte, m *Manifest) error {
	i := bytes.LastIndex(b, []byte(m.Check))
	if len(m.Check) != len(noCheck) || i < 0 {
		return fmt.Errorf("no checksum, or one of %d digits", len(m.Check))
	}
	c := bytes.Clone(b)
	copy(c[i:], noCheck)
	if got := fmt.Sprintf("%08x", crc32.Checksum(c, castagnoli)); got != m.Check {
		return fmt.Errorf("checksum is %s, stored %s: damaged, or changed by hand", got, m.Check)
	}
	return nil
}

// parseManifest decodes and checks manifest.json. Fields that this version does not know are ignored.
func parseManifest(b []byte) (Manifest, error) {
	var m Manifest
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&m); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return m, fmt.Errorf("archive: %s: not valid JSON at offset %d: %w", manifestName, d.InputOffset(), err)
	}
	if err := m.check(); err != nil {
		return m, fmt.Errorf("archive: %s: %w", manifestName, err)
	}
	return m, nil
}

// ErrNewer means that an archive was written by a newer stax whose format this one does not know.
var ErrNewer = errors.New("written by a newer stax")

func (m *Manifest) check() error {
	switch {
	case m.Schema > SchemaVersion:
		return fmt.Errorf("schema version %d, this stax knows up to %d: %w", m.Schema, SchemaVersion, ErrNewer)
	case m.Schema < 1:
		return fmt.Errorf("schema version %d is not one", m.Schema)
	case len(m.Segments) > maxSegments:
		return fmt.Errorf("%d segments, the limit is %d", len(m.Segments), maxSegments)
	}
	last := uint64(0)
	for i, s := range m.Segments {
		if s.First <= last || s.Last < s.First || s.Last > m.SealedLog {
			return fmt.Errorf("segment %d: logs %d to %d do not follow log %d", i, s.First, s.Last, last)
		}
		last = s.Last
		if err := checkDir(s.Dir, segmentDir); err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
		if err := checkTables(s.Tables); err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
	}
	if m.Derived != nil {
		if err := checkDir(m.Derived.Dir, derivedDir); err != nil {
			return fmt.Errorf("derived: %w", err)
		}
		if err := checkTables(m.Derived.Tables); err != nil {
			return fmt.Errorf("derived: %w", err)
		}
	}
	return nil
}

// checkDir says whether dir is a folder directly in parent, so that a manifest cannot lead elsewhere.
func checkDir(dir, parent string) error {
	if path.Dir(dir) != parent || path.Clean(dir) != dir || !filepath.IsLocal(filepath.FromSlash(dir)) || strings.ContainsRune(dir, '\\') {
		return fmt.Errorf("folder %q is not in %s", dir, parent)
	}
	return nil
}

func checkTables(tables []TableInfo) error {
	seen := map[string]bool{}
	for _, t := range tables {
		if t.Rows < 0 || t.Bytes < 0 || t.Table == "" || seen[t.Table] {
			return fmt.Errorf("table %q: %d rows in %d bytes", t.Table, t.Rows, t.Bytes)
		}
		seen[t.Table] = true
	}
	return nil
}

// clone returns a copy that shares nothing that either side changes.
func (m *Manifest) clone() Manifest {
	c := *m
	c.Segments = slices.Clone(m.Segments)
	c.Counts = map[string]int64{}
	for k, v := range m.Counts {
		c.Counts[k] = v
	}
	c.Privacy = slices.Clone(m.Privacy)
	c.Recording.Command = slices.Clone(m.Recording.Command)
	c.Recording.PIDs = slices.Clone(m.Recording.PIDs)
	c.Recording.Privacy = slices.Clone(m.Recording.Privacy)
	if m.Derived != nil {
		d := *m.Derived
		c.Derived = &d
	}
	return c
}

// summarize recomputes what follows from the segments and the recording's description.
func (m *Manifest) summarize() {
	m.Counts = map[string]int64{}
	for _, s := range m.Segments {
		for _, t := range s.Tables {
			m.Counts[t.Table] += t.Rows
		}
	}
	present := map[string]bool{}
	for name := range m.Counts {
		present[name] = true
	}
	if m.Derived != nil {
		for _, t := range m.Derived.Tables {
			present[t.Table] = true
		}
	}
	m.Privacy = privacy(&m.Recording, present)
}

// privacy lists every class of data that the archive holds.
func privacy(info *RecordingInfo, present map[string]bool) []DataClass {
	list := []DataClass{{Class: "recording", Detail: "Name, times, process ids and outcome of the recording; name and kind of the host."}}
	if len(info.Command) > 0 {
		list = append(list, DataClass{Class: "command_line", Detail: "The recorded command with all its arguments."})
	}
	for _, t := range tables {
		if !present[t.name] {
			continue
		}
		i := slices.IndexFunc(list, func(c DataClass) bool { return c.Class == t.class.Class })
		if i < 0 {
			i = len(list)
			list = append(list, DataClass{Class: t.class.Class, Detail: t.class.Detail})
		}
		list[i].Tables = append(list[i].Tables, t.name)
	}
	return append(list, info.Privacy...)
}
