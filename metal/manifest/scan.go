package manifest

import (
	"slices"
	"strings"
)

// Scan finds the functions with a stage in Metal Shading Language source.
//
// It is no compiler. It knows comments, strings, preprocessor lines, attributes, templates, namespaces and nested
// braces; it does not expand macros, so a function whose stage or name comes out of one is not found, and it takes all
// branches of #if, so branches whose braces do not balance by themselves hide what follows. A stage is a word
// (kernel, vertex, fragment) or an attribute ([[kernel]], [[mesh]] ...). An explicit instantiation of a template,
//
//	template [[host_name("add_f32")]] kernel void add<float>(...);
//
// is reported with the lines of the template's body. Functions come in the order of their lines. Any input is allowed.
func Scan(src []byte) []Function {
	s := scanner{lex: lexer{src: src, line: 1, fresh: true}}
	s.run()
	templates := map[string]*found{}
	for i := range s.found {
		if f := &s.found[i]; f.template && !f.instance && templates[f.Name] == nil {
			templates[f.Name] = f
		}
	}
	var out []Function
	for _, f := range s.found {
		if !f.instance {
			if !f.template || f.HostName != "" {
				out = append(out, f.Function)
			}
			continue
		}
		if t := templates[f.Name]; t != nil {
			f.StartLine, f.EndLine = t.StartLine, t.EndLine
			if f.Stage == "" {
				f.Stage = t.Stage
			}
			out = append(out, f.Function)
		}
	}
	slices.SortStableFunc(out, func(a, b Function) int { return a.StartLine - b.StartLine })
	return out
}

var stages = []string{"kernel", "vertex", "fragment", "object", "mesh", "visible", "intersection", "stitchable"}

// words are the stages that are also keywords; the others exist as attributes only.
var words = []string{"kernel", "vertex", "fragment"}

type found struct {
	Function
	template, instance bool
}

type scanner struct {
	lex   lexer
	found []found
}

// run reads declarations at namespace scope until the input ends.
func (s *scanner) run() {
	var decl []token
	for {
		t, ok := s.lex.next()
		if !ok {
			return
		}
		switch t.text {
		case ";":
			s.declaration(decl, 0)
			decl = decl[:0]
		case "}":
			decl = decl[:0]
		case "{":
			if opensScope(decl) {
				decl = decl[:0]
				continue
			}
			end, ok := s.skipBraces()
			if !ok {
				return
			}
			if s.declaration(decl, end) || !continues(decl) {
				decl = decl[:0]
			}
		default:
			decl = append(decl, t)
		}
	}
}

// opensScope tells whether a brace after these tokens only opens another place for declarations.
func opensScope(decl []token) bool {
	for i, t := range decl {
		switch {
		case t.text == "namespace":
			return true
		case t.text == "extern" && i+1 < len(decl) && decl[i+1].kind == str:
			return i+2 == len(decl)
		case t.text == "(":
			return false
		}
	}
	return false
}

// continues tells whether a declaration goes on after a braced part: types and initialisers do until a semicolon.
func continues(decl []token) bool {
	for _, t := range decl {
		switch t.text {
		case "struct", "class", "enum", "union", "=":
			return true
		case "(":
			return false
		}
	}
	return false
}

// skipBraces reads up to the brace that closes the one just read and returns its line.
func (s *scanner) skipBraces() (line int, ok bool) {
	for depth := 1; depth > 0; {
		t, ok := s.lex.next()
		if !ok {
			return 0, false
		}
		switch t.text {
		case "{":
			depth++
		case "}":
			depth--
			line = t.line
		}
	}
	return line, true
}

// declaration looks at the tokens before a body that ends at line end, or before a semicolon (end 0), and reports
// whether they are a function with a stage.
func (s *scanner) declaration(decl []token, end int) bool {
	f := found{}
	name, angle := -1, 0
	for i := 0; i < len(decl); i++ {
		t := decl[i]
		switch {
		case t.text == "[" && i+1 < len(decl) && decl[i+1].text == "[":
			i = attribute(decl, i, &f)
		case t.text == "(" && angle <= 0:
			if name < 0 {
				name = i
			}
			i = closing(decl, i, "(", ")")
		case t.text == "<":
			angle++
		case t.text == ">":
			angle--
		case t.text == "template" && name < 0:
			if i+1 < len(decl) && decl[i+1].text == "<" {
				f.template = true
				i = closing(decl, i+1, "<", ">")
			} else {
				f.instance = true
			}
		case t.text == "=" && name < 0 && angle <= 0:
			return false
		case t.kind == word && name < 0 && f.Stage == "" && slices.Contains(words, t.text):
			f.Stage = t.text
		}
	}
	if name < 0 || f.Stage == "" && !f.instance || end == 0 && !f.instance || end > 0 && f.instance {
		return false
	}
	n := name - 1
	if n >= 0 && decl[n].text == ">" {
		for depth := 0; n >= 0; n-- {
			if decl[n].text == ">" {
				depth++
			} else if decl[n].text == "<" {
				if depth--; depth == 0 {
					n--
					break
				}
			}
		}
	}
	if n < 0 || decl[n].kind != word || decl[n].text == "template" || slices.Contains(words, decl[n].text) {
		return false
	}
	f.Name, f.StartLine, f.EndLine = decl[n].text, decl[0].line, end
	if f.HostName == f.Name {
		f.HostName = ""
	}
	s.found = append(s.found, f)
	return true
}

// attribute reads [[ ... ]] at i and returns the index of its last token.
func attribute(decl []token, i int, f *found) int {
	end := closing(decl, i, "[", "]")
	depth := 0
	for j := i + 2; j < end; j++ {
		switch t := decl[j]; {
		case t.text == "(":
			depth++
		case t.text == ")":
			depth--
		case depth == 0 && t.kind == word && f.Stage == "" && slices.Contains(stages, t.text):
			f.Stage = t.text
		case depth == 0 && t.text == "host_name" && j+2 < end && decl[j+1].text == "(" && decl[j+2].kind == str:
			f.HostName = strings.Trim(decl[j+2].text, `"`)
		}
	}
	return end
}

// closing returns the index of the token that closes the one at i, or the last index.
func closing(decl []token, i int, open, shut string) int {
	depth := 0
	for ; i < len(decl); i++ {
		switch decl[i].text {
		case open:
			depth++
		case shut:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(decl) - 1
}

type kind int

const (
	punct kind = iota
	word
	str
)

type token struct {
	kind kind
	text string
	line int
}

// lexer splits source into words, strings and single characters; everything else is white space to it.
type lexer struct {
	src   []byte
	pos   int
	line  int
	fresh bool // nothing but space since the line began
}

func (l *lexer) peek(n int) byte {
	if l.pos+n < len(l.src) {
		return l.src[l.pos+n]
	}
	return 0
}

// advance moves on by n bytes and counts lines.
func (l *lexer) advance(n int) {
	for range min(n, len(l.src)-l.pos) {
		if l.src[l.pos] == '\n' {
			l.line++
			l.fresh = true
		}
		l.pos++
	}
}

// continuation tells whether a backslash ends the line at pos.
func (l *lexer) continuation() int {
	if l.peek(0) != '\\' {
		return 0
	}
	if l.peek(1) == '\n' {
		return 2
	}
	if l.peek(1) == '\r' && l.peek(2) == '\n' {
		return 3
	}
	return 0
}

// restOfLine skips to the end of a logical line; block comments inside may span lines.
func (l *lexer) restOfLine(comments bool) {
	for l.pos < len(l.src) && l.src[l.pos] != '\n' {
		switch n := l.continuation(); {
		case n > 0:
			l.advance(n)
		case comments && l.peek(0) == '/' && l.peek(1) == '*':
			l.blockComment()
		case comments && l.peek(0) == '/' && l.peek(1) == '/':
			comments = false
		default:
			l.advance(1)
		}
	}
}

func (l *lexer) blockComment() {
	l.advance(2)
	for l.pos < len(l.src) && (l.peek(0) != '*' || l.peek(1) != '/') {
		l.advance(1)
	}
	l.advance(2)
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

func (l *lexer) next() (token, bool) {
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		switch {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v':
			l.advance(1)
		case l.continuation() > 0:
			fresh := l.fresh
			l.advance(l.continuation())
			l.fresh = fresh
		case c == '/' && l.peek(1) == '/':
			l.restOfLine(false)
		case c == '/' && l.peek(1) == '*':
			l.blockComment()
		case c == '#' && l.fresh:
			l.restOfLine(true)
		default:
			l.fresh = false
			return l.token(c), true
		}
	}
	return token{}, false
}

func (l *lexer) token(c byte) token {
	begin, line := l.pos, l.line
	switch {
	case c == '"' || c == '\'':
		l.advance(1)
		for l.pos < len(l.src) && l.src[l.pos] != c && l.src[l.pos] != '\n' {
			if l.src[l.pos] == '\\' {
				l.advance(1)
			}
			l.advance(1)
		}
		if l.pos < len(l.src) && l.src[l.pos] == c {
			l.advance(1)
		}
		return token{str, string(l.src[begin:l.pos]), line}
	case c >= '0' && c <= '9':
		for l.pos < len(l.src) && (isWord(l.src[l.pos]) || l.src[l.pos] == '.' || l.src[l.pos] == '\'') {
			l.advance(1)
		}
		return token{punct, "0", line}
	case isWord(c):
		for l.pos < len(l.src) && isWord(l.src[l.pos]) {
			l.advance(1)
		}
		return token{word, string(l.src[begin:l.pos]), line}
	}
	l.advance(1)
	return token{punct, string(l.src[begin:l.pos]), line}
}
