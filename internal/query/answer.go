package query

import (
	"errors"
	"fmt"
	"strconv"
)

// Answer is the envelope of every answer.
type Answer[R any] struct {
	// Schema names the row type and its version, "stax.<query>/1".
	Schema string `json:"schema"`
	// Rows is never null.
	Rows []R `json:"rows"`
	// Matched counts the rows that matched before the limit cut them.
	Matched int `json:"matched"`
	// Coverage says how much of the truth the rows rest on.
	Coverage Coverage `json:"coverage"`
	// Hints say why an answer is empty or poor, and what to do next. Never null.
	Hints []Hint `json:"hints"`
}

// Hint is one piece of advice.
type Hint struct {
	Code string `json:"code"` // stable snake_case
	Text string `json:"text"`
	Next string `json:"next,omitempty"` // what to run or change
}

func newAnswer[R any](name string) Answer[R] {
	return Answer[R]{Schema: "stax." + name + "/1", Rows: []R{}, Hints: []Hint{}}
}

// cut applies a limit to rows; 0 means all.
func cut[R any](rows []R, limit int) []R {
	if limit > 0 && len(rows) > limit {
		return rows[:limit]
	}
	return rows
}

// ErrUnknownQuery is returned by [Run] for a name that is no query.
var ErrUnknownQuery = errors.New("query: no such query")

// ErrNotFound is returned when an id names nothing in the archive.
var ErrNotFound = errors.New("not found in this recording")

// ParamError reports a parameter that cannot be used.
type ParamError struct {
	Name  string // of the parameter
	Value string
	Want  string // what would be accepted
}

// Error implements error.
func (e *ParamError) Error() string {
	return fmt.Sprintf("parameter %s: %q: want %s", e.Name, e.Value, e.Want)
}

// HexID is a span id (dispatch, command buffer, wait) or a stack id: 16 lower-case hex digits in JSON, "" for none.
type HexID uint64

// String returns 16 hex digits, or "" for 0.
func (id HexID) String() string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", uint64(id))
}

// MarshalText implements encoding.TextMarshaler.
func (id HexID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *HexID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*id = 0
		return nil
	}
	v, err := ParseID(string(b))
	*id = v
	return err
}

// ParseID reads up to 16 hex digits, with or without 0x.
func ParseID(s string) (HexID, error) {
	t := s
	if len(t) > 2 && (t[:2] == "0x" || t[:2] == "0X") {
		t = t[2:]
	}
	v, err := strconv.ParseUint(t, 16, 64)
	if err != nil || v == 0 {
		return 0, &ParamError{Name: "id", Value: s, Want: "1 to 16 hex digits, not all zero"}
	}
	return HexID(v), nil
}
