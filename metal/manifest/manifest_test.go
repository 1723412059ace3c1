package manifest

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func TestGolden(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "shaders.metal"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Build(Options{Flavor: "release", Flags: []string{"-O2", "-std=metal4.0"}, Toolchain: "metal 32023.850 (an example)"},
		[]File{{"shaders/z.metal", []byte("kernel void z() {}")}, {"shaders/a.metal", text}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "manifest.golden.json")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("manifest differs from %s (go test -update writes it):\n%s", golden, b.Bytes())
	}
	back, err := Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := back.Write(&again); err != nil || !bytes.Equal(again.Bytes(), want) {
		t.Errorf("the manifest changes when it is read and written: %v", err)
	}
	for name, want := range map[string][3]any{
		"add": {"shaders/a.metal", 14, 20}, "scale_f32": {"shaders/a.metal", 40, 43}, "public_name": {"shaders/a.metal", 49, 49}, "z": {"shaders/z.metal", 1, 1},
	} {
		f, s, err := m.Find(name)
		if got := [3]any{s.Path, f.StartLine, f.EndLine}; err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"private_name", "scale", "in_macro", "in_string", "commented", "declared_only"} {
		if f, _, err := m.Find(name); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s was found: %+v, %v", name, f, err)
		}
	}
}

func TestScan(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", ""},
		{"kernel void f() {}", "kernel f 1-1"},
		{"kernel\nvoid\nf\n()\n{\n}\n", "kernel f 1-6"},
		{"\n// c\nkernel void f(constant uint2 &x [[buffer(0)]]) {\n}", "kernel f 3-4"},
		{"kernel void f() { { } } kernel void g() {}", "kernel f 1-1, kernel g 1-1"},
		{"kernel void f(", ""},
		{"kernel void f() {", ""},
		{"} } kernel void f() {}", "kernel f 1-1"},
		{"kernel;", ""},
		{"kernel () {}", ""},
		{"int kernel_count = 3; kernel void f() {}", "kernel f 1-1"},
		{"constant int kernel[] = {1}; kernel void f() {}", "kernel f 1-1"},
		{"#if 1\nkernel void f() {}\n#endif", "kernel f 2-2"},
		{"#define X \\\n kernel void f() {}\nkernel void g() {}", "kernel g 3-3"},
		{"#define X /* a\n } */ 1\nkernel void g() {}", "kernel g 3-3"},
		{"#define X // a /* b\nkernel void g() {}", "kernel g 2-2"},
		{"/* open", ""},
		{"// a \\\n kernel void f() {}", ""},
		{"[[host_name(\"f\")]] kernel void f() {}", "kernel f 1-1"},
		{"template [[host_name(\"g\")]] kernel void f<int>();", ""}, // no template to instantiate
		{"template<typename T> [[kernel]] void f() {}\r\ntemplate [[host_name(\"g\")]] decltype(f<int>) f<int>;", ""},
		{"template<typename T> void f() {}", ""},
		{"fragment float4 f(float4 p [[position]]) [[early_fragment_tests]] { return p; }", "fragment f 1-1"},
		{"[[intersection(triangle)]] bool hit() { return true; }", "intersection hit 1-1"},
		{"void f() [[visible]] {}", "visible f 1-1"},
		{"enum class E : int { kernel_a }; kernel void f() {}", "kernel f 1-1"},
		{"kernel void f() { auto s = \"\\\"}\"; char c = '\\''; }", "kernel f 1-1"},
		{"kernel void f() { \"open\n }", "kernel f 1-2"},
		{"kernel void größe() {}", "kernel größe 1-1"},
		{"kernel vector<float, 4> f() {}", "kernel f 1-1"},
		{"kernel void f(array<texture2d<float>, 4> t) {}", "kernel f 1-1"},
	} {
		var got []string
		for _, f := range Scan([]byte(c.src)) {
			s := f.Stage + " " + f.Name
			if f.HostName != "" {
				s += "=" + f.HostName
			}
			got = append(got, s+" "+itoa(f.StartLine)+"-"+itoa(f.EndLine))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%q: %q, want %q", c.src, strings.Join(got, ", "), c.want)
		}
	}
}

func itoa(n int) string {
	if n >= 10 {
		return itoa(n/10) + itoa(n%10)
	}
	return string(rune('0' + n))
}

func TestBuildRefuses(t *testing.T) {
	for name, files := range map[string][]File{
		"no path": {{"", nil}}, "twice": {{"a", nil}, {"a", []byte("x")}}, "huge": {{"a", make([]byte, MaxFileBytes+1)}}, "many": make([]File, MaxFiles+1),
	} {
		if _, err := Build(Options{}, files); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestIdentity(t *testing.T) {
	id := func(o Options, files ...File) string {
		t.Helper()
		m, err := Build(o, files)
		if err != nil {
			t.Fatal(err)
		}
		return m.Library.ID
	}
	a, b := File{"a", []byte("x")}, File{"b", []byte("y")}
	all := []string{
		id(Options{}), id(Options{}, a), id(Options{}, a, b), id(Options{Flags: []string{"-O2"}}, a, b),
		id(Options{Library: []byte("metallib")}, a), PipelineID("l", "f", nil), PipelineID("l", "f", []byte{1}), PipelineID("lf", "", nil),
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 8 {
		t.Errorf("ids collide: %q", all)
	}
	if id(Options{}, a, b) != id(Options{}, b, a) || id(Options{Flavor: "x"}, a) != id(Options{}, a) {
		t.Error("order or flavour changes the id")
	}
	for _, id := range all {
		if !validID(id) {
			t.Errorf("id %q", id)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	id := "sha256:" + strings.Repeat("ab", 32)
	lib := `"schema":"` + Schema + `","library":{"id":"` + id + `"}`
	src := `"sources":[{"id":"` + id + `","path":"a","lines":5}]`
	fn := func(s string) string { return "{" + lib + "," + src + `,"functions":[` + s + "]}" }
	if _, err := Parse([]byte(fn(`{"name":"f","source_id":"` + id + `","start_line":1,"end_line":5}`))); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]string{
		"no JSON": "{", "schema": `{"schema":"x"}`, "library id": `{"schema":"` + Schema + `","library":{"id":"sha256:AB"}}`,
		"source id":      "{" + lib + `,"sources":[{"id":"x","path":"a"}]}`,
		"path":           "{" + lib + `,"sources":[{"id":"` + id + `"}]}`,
		"unknown source": fn(`{"name":"f","source_id":"x","start_line":1,"end_line":5}`),
		"no name":        fn(`{"source_id":"` + id + `","start_line":1,"end_line":5}`),
		"past the end":   fn(`{"name":"f","source_id":"` + id + `","start_line":1,"end_line":6}`),
		"backwards":      fn(`{"name":"f","source_id":"` + id + `","start_line":3,"end_line":2}`),
	} {
		if _, err := Parse([]byte(in)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	m, err := Build(Options{}, []File{{"a", []byte("kernel void f() {}")}, {"b", []byte("kernel void f() {  }")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Find("f"); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("an ambiguous name: %v", err)
	}
	if err := m.Write(broken{}); err == nil {
		t.Error("a write error was lost")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

func FuzzScan(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "shaders.metal"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, s := range []string{"kernel void f() {}", "template [[host_name(\"x\")]] kernel void f<a>();", "[[kernel", "#", "\"", "\\\r\n#x", "kernel void f<>() {", "(>(<"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		lines := countLines(src)
		last := 0
		for _, fn := range Scan(src) {
			if fn.Name == "" || fn.StartLine < 1 || fn.StartLine < last || fn.EndLine < fn.StartLine || fn.EndLine > lines || !slices.Contains(stages, fn.Stage) {
				t.Errorf("%+v of %d lines", fn, lines)
			}
			if !bytes.Contains(src, []byte(fn.Name)) {
				t.Errorf("the name %q is not in the source", fn.Name)
			}
			last = fn.StartLine
		}
		// What stands before a file does not change what is found in it.
		shifted := Scan(append([]byte("kernel void before() {}\n"), src...))
		if n := len(Scan(src)); len(shifted) != n+1 {
			t.Errorf("%d functions after a line, %d without", len(shifted)-1, n)
		}
	})
}

func FuzzParse(f *testing.F) {
	golden, err := os.ReadFile(filepath.Join("testdata", "manifest.golden.json"))
	if err == nil {
		f.Add(golden)
	}
	f.Add([]byte(`{"schema":"stax.metal-manifest/1","library":{"id":"sha256:00"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse(b)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := m.Write(&out); err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(out.Bytes()); err != nil {
			t.Errorf("what was read cannot be read again: %v", err)
		}
	})
}
