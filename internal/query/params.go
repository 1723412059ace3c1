package query

import (
	"net/url"
	"path"
	"sort"
	"strconv"
	"strings"
)

// paramReader decodes URL parameters and remembers which it was asked for, so that a misspelt one is an error and
// not an unfiltered answer.
type paramReader struct {
	v    url.Values
	used map[string]bool
	err  error
	dry  bool // only check the parameters
}

func readParams(v url.Values) *paramReader {
	return &paramReader{v: v, used: map[string]bool{}}
}

func (p *paramReader) text(name string) string {
	p.used[name] = true
	return p.v.Get(name)
}

func (p *paramReader) fail(name, want string) {
	if p.err == nil {
		p.err = &ParamError{Name: name, Value: p.v.Get(name), Want: want}
	}
}

func (p *paramReader) limit(def int) int {
	s := p.text("limit")
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		p.fail("limit", "a number of rows, 0 for all")
		return def
	}
	return n
}

func (p *paramReader) id(name string) HexID {
	s := p.text(name)
	if s == "" {
		return 0
	}
	id, err := ParseID(s)
	if err != nil {
		p.fail(name, "1 to 16 hex digits, not all zero")
	}
	return id
}

func (p *paramReader) tid(name string) int64 {
	s := p.text(name)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil || n <= 0 {
		p.fail(name, "a thread id, decimal or 0x hex")
	}
	return n
}

func (p *paramReader) oneOf(name, def string, values ...string) string {
	s := p.text(name)
	if s == "" {
		return def
	}
	for _, v := range values {
		if s == v {
			return s
		}
	}
	p.fail(name, "one of "+strings.Join(values, ", "))
	return def
}

// done reports the first bad value, else the first parameter that nobody asked for.
func (p *paramReader) done() error {
	if p.err != nil {
		return p.err
	}
	var unknown []string
	for name := range p.v {
		if !p.used[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	sort.Strings(unknown)
	known := make([]string, 0, len(p.used))
	for name := range p.used {
		known = append(known, name)
	}
	sort.Strings(known)
	want := "no parameters"
	if len(known) > 0 {
		want = "one of the parameters " + strings.Join(known, ", ")
	}
	return &ParamError{Name: unknown[0], Value: p.v.Get(unknown[0]), Want: want}
}

// pattern is a text filter: "" matches everything, "=x" exactly x, a pattern with * ? or [ as a shell pattern on the
// whole text, anything else as a part of the text.
type pattern struct {
	text  string
	exact bool
	glob  bool
}

func newPattern(s string) pattern {
	switch {
	case strings.HasPrefix(s, "="):
		return pattern{text: s[1:], exact: true}
	case strings.ContainsAny(s, "*?["):
		// path.Match does not let * match a slash; names may hold slashes, so both sides hide them.
		return pattern{text: hideSlash(s), glob: true}
	}
	return pattern{text: s}
}

func hideSlash(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

func (p pattern) match(s string) bool {
	switch {
	case p.exact:
		return s == p.text
	case p.glob:
		ok, err := path.Match(p.text, hideSlash(s))
		return ok && err == nil
	}
	return strings.Contains(s, p.text)
}
