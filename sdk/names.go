package sdk

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/stax-otel/stax/sdk/semconv"
)

// Limits on what a target can make the SDK keep. Their victims are counted in diagnostics.
const (
	maxString        = 4 << 10 // bytes of one name or tag value
	maxID            = 256     // bytes of one queue or shader id, or tag key
	maxFrameString   = 1 << 10 // bytes of one function or file name of a stack
	maxInterned      = 1 << 17 // distinct strings of a process
	maxInternedBytes = 8 << 20 // and their sum
)

// Name is the handle of a dispatch, command-buffer or wait name. Make it once, outside hot paths: [NewName] takes a
// lock. The zero Name is the empty name.
type Name struct{ id uint32 }

// NewName interns s.
func NewName(s string) Name { return Name{intern(s)} }

// String returns the name.
func (n Name) String() string { return interned(n.id) }

// Key is the handle of a tag key. The zero Key is ignored wherever it is used.
type Key struct{ id uint32 }

// NewKey interns a tag key. Keys that begin with "stax." and the thread keys belong to stax: the answer to those is the
// zero Key, and a diagnostic says so.
func NewKey(s string) Key {
	if strings.HasPrefix(s, "stax.") || s == semconv.ThreadIDKey || s == semconv.ThreadNameKey {
		diagReservedKey.add()
		return Key{}
	}
	return Key{intern(clipTo(s, maxID))}
}

// String returns the key.
func (k Key) String() string { return interned(k.id) }

// Shader is the handle of the stable identity of code that a dispatch runs: a kernel, function, query plan, operator.
type Shader struct{ id uint32 }

// NewShader interns a shader id.
func NewShader(id string) Shader { return Shader{intern(clipTo(id, maxID))} }

// String returns the shader id.
func (s Shader) String() string { return interned(s.id) }

// Queue is the handle of a concrete queue that work is submitted to.
type Queue struct{ id uint32 }

// NewQueue interns a queue id, unique in the process. An @ in it becomes an underscore: on the wire @ separates the
// submission number.
func NewQueue(id string) Queue {
	return Queue{intern(clipTo(strings.ReplaceAll(id, "@", "_"), maxID))}
}

// String returns the queue id.
func (q Queue) String() string { return interned(q.id) }

// internTable maps strings to small numbers for good. Handles outlive recordings, so nothing is ever removed; the
// limits bound it. Number 0 is the empty string.
type internTable struct {
	mu    sync.RWMutex
	ids   map[string]uint32
	list  []string
	bytes int
}

var names = internTable{ids: map[string]uint32{"": 0}, list: []string{""}}

// overflowName stands for every string past the table's limits.
const overflowName = "(too many names)"

func intern(s string) uint32 {
	s = clip(s)
	t := &names
	t.mu.RLock()
	id, ok := t.ids[s]
	t.mu.RUnlock()
	if ok {
		return id
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, ok := t.ids[s]; ok {
		return id
	}
	if len(t.list) >= maxInterned || t.bytes+len(s) > maxInternedBytes {
		diagTooManyNames.add()
		s = overflowName
		if id, ok := t.ids[s]; ok {
			return id
		}
	}
	s = strings.Clone(s) // do not keep a larger string of the caller's alive
	id = uint32(len(t.list))
	t.ids[s] = id
	t.list = append(t.list, s)
	t.bytes += len(s)
	return id
}

func interned(id uint32) string {
	list := names.snapshot()
	if int(id) >= len(list) {
		return ""
	}
	return list[id]
}

// snapshot returns the strings by id. The slice is never written again below its length.
func (t *internTable) snapshot() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.list
}

// clip makes s legal on the wire: valid UTF-8 of at most maxString bytes.
func clip(s string) string { return clipTo(s, maxString) }

// clipTo is clip with a limit of its own.
func clipTo(s string, limit int) string {
	if len(s) > limit {
		diagLongString.add()
		s = s[:cut(s, limit)]
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?")
	}
	return s
}

// cut returns the largest length <= n that does not split a rune of s. n < len(s).
func cut(s string, n int) int {
	for i := n; i > n-utf8.UTFMax && i > 0; i-- {
		if utf8.RuneStart(s[i]) {
			return i
		}
	}
	return n
}
