//go:build (darwin || linux) && (amd64 || arm64)

package objc

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/ebitengine/purego"
)

type size struct{ A, B, C uint64 }

func types(v ...any) (out []reflect.Type) {
	for _, x := range v {
		out = append(out, reflect.TypeOf(x))
	}
	return out
}

// TestLayout pins where arguments go on both architectures, whichever runs the test. The words of receiver and selector
// are 0 and 1.
func TestLayout(t *testing.T) {
	resolve := types(ID(0), Range{}, struct{ a, b uint64 }{}, ID(0), ID(0))
	for _, c := range []struct {
		name, arch string
		args       []reflect.Type
		want       []place
		total      int
	}{
		{"stamp amd64", "amd64", types(int64(0), ID(0), uint64(0)), []place{{at: 2, words: 1}, {at: 3, words: 1}, {at: 4, words: 1}}, 5},
		{"resolveCounterHeap amd64", "amd64", resolve, // purego issue 525: the buffer range on the stack, the fence in the register left over
			[]place{{at: 2, words: 1}, {at: 3, words: 2}, {at: 6, words: 2}, {at: 5, words: 1}, {at: 8, words: 1}}, 9},
		{
			"resolveCounterHeap arm64", "arm64", resolve,
			[]place{{at: 2, words: 1}, {at: 3, words: 2}, {at: 5, words: 2}, {at: 7, words: 1}, {at: 8, words: 1}},
			9,
		},
		{"dispatch amd64", "amd64", types(size{}, size{}), []place{{at: 6, words: 3}, {at: 9, words: 3}}, 12},
		{"dispatch arm64", "arm64", types(size{}, size{}), []place{{at: 2, words: 1, byRef: true}, {at: 3, words: 1, byRef: true}}, 4},
		{"seven words amd64", "amd64", types(ID(0), Range{}, ID(0), uint64(0)), []place{{at: 2, words: 1}, {at: 3, words: 2}, {at: 5, words: 1}, {at: 6, words: 1}}, 7},
		{"seven words arm64", "arm64", types(ID(0), Range{}, ID(0), uint64(0)), []place{{at: 2, words: 1}, {at: 3, words: 2}, {at: 5, words: 1}, {at: 6, words: 1}}, 7},
		{
			"closed registers arm64", "arm64", types(Range{}, Range{}, ID(0), Range{}, ID(0)),
			[]place{{at: 2, words: 2}, {at: 4, words: 2}, {at: 6, words: 1}, {at: 8, words: 2}, {at: 10, words: 1}},
			11,
		},
		{"large on the stack arm64", "arm64", types(Range{}, Range{}, Range{}, size{}), []place{{at: 2, words: 2}, {at: 4, words: 2}, {at: 6, words: 2}, {at: 8, words: 1, byRef: true}}, 9},
	} {
		p, err := layout(c.arch, c.args)
		if err != nil || !reflect.DeepEqual(p.places, c.want) || p.total != c.total {
			t.Errorf("%s: %+v, %d words, %v; want %+v, %d", c.name, p.places, p.total, err, c.want, c.total)
		}
	}
	for name, args := range map[string][]reflect.Type{
		"narrow on the stack": types(Range{}, Range{}, Range{}, true),
		"float struct":        types(struct{ a float64 }{}),
		"string":              types(""),
	} {
		if _, err := layout("arm64", args); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestFill(t *testing.T) {
	for _, c := range []struct {
		v    any
		want []uintptr
	}{
		{true, []uintptr{1}},
		{false, []uintptr{0}},
		{int64(-1), []uintptr{^uintptr(0)}},
		{uint8(7), []uintptr{7}},
		{ID(5), []uintptr{5}},
		{Range{1, 2}, []uintptr{1, 2}},
		{OSVersion{-1, 2, 3}, []uintptr{^uintptr(0), 2, 3}},
		{(*ID)(nil), []uintptr{0}},
	} {
		got := make([]uintptr, len(c.want))
		fill(got, reflect.ValueOf(c.v))
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("fill(%v) = %v", c.v, got)
		}
	}
}

func TestBindRefuses(t *testing.T) {
	rt := &Runtime{}
	rt.sels.Store("a", SEL(1))
	rt.sels.Store("a:", SEL(1))
	rt.sels.Store("a:b:c:d:", SEL(1))
	for want, table := range map[string]any{
		"tag": &struct {
			F func(ID) `objc:"a"`
		}{},
		"1 arguments": &struct {
			F func(ID, ID) `objc:"-X a"`
		}{},
		"result": &struct {
			F func(ID) string `objc:"-X a"`
		}{},
		"a result of": &struct {
			F func(ID, ID) float64 `objc:"-X a:"`
		}{},
		"argument": &struct {
			F func(ID, string) `objc:"-X a:"`
		}{},
		"on the stack": &struct {
			F func(ID, Range, Range, Range, bool) `objc:"-X a:b:c:d:"`
		}{},
		"bind -X a: a r": &struct {
			Inner struct {
				F func(ID) string `objc:"-X a"`
			}
		}{},
	} {
		if err := rt.Bind(table); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestNilsAndTypes(t *testing.T) {
	rt := &Runtime{}
	if rt.GoString(0) != "" || rt.Bytes(0) != nil || rt.Array(0) != nil || rt.URLPath(0) != "" || rt.Error(0) != nil || goString(0) != "" || rt.Responds(0, "x") {
		t.Error("nil is not empty")
	}
	rt.Release(0)
	rt.ReleaseBlock(0)
	for want, typ := range map[string]interface{ ObjCType() string }{
		"@": ID(0), "#": Class(0), ":": SEL(0), "@?": Block(0), "{_NSRange=QQ}": Range{}, "{?=qqq}": OSVersion{},
	} {
		if typ.ObjCType() != want {
			t.Errorf("%T is %q", typ, typ.ObjCType())
		}
	}
	if e := (&Error{"D", 3, "text"}); e.Error() != "text (D 3)" {
		t.Errorf("%v", e)
	}
}

// TestHotShapesAllocateLittle sends to a C function that does nothing much, so that only the bridge is measured.
func TestHotShapesAllocateLittle(t *testing.T) {
	libc := "libc.so.6"
	if runtime.GOOS == "darwin" {
		libc = "/usr/lib/libSystem.B.dylib"
	}
	h, err := purego.Dlopen(libc, purego.RTLD_NOW)
	if err != nil {
		t.Skip(err)
	}
	addr, err := purego.Dlsym(h, "getppid")
	if err != nil {
		t.Fatal(err)
	}
	rt := &Runtime{sym: symbols{msgSend: addr}}
	rt.sels.Store("a:b:c:", SEL(1))
	rt.sels.Store("a", SEL(1))
	var hot struct {
		Stamp func(ID, int64, ID, uint64) `objc:"-X a:b:c:"`
		Cold  func(ID) int64              `objc:"-X a"`
	}
	if err := rt.Bind(&hot); err != nil {
		t.Fatal(err)
	}
	stamp := testing.AllocsPerRun(1000, func() { hot.Stamp(1, 1, 2, 3) })
	cold := testing.AllocsPerRun(1000, func() { hot.Cold(1) })
	if stamp > 3 || cold <= stamp {
		t.Errorf("%g allocations for a timestamp, %g through reflection", stamp, cold)
	}
	t.Logf("%g allocations for a timestamp, %g through reflection", stamp, cold)
}

func BenchmarkSend(b *testing.B) {
	h, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	if err != nil {
		b.Skip(err)
	}
	addr, err := purego.Dlsym(h, "getppid")
	if err != nil {
		b.Fatal(err)
	}
	rt := &Runtime{sym: symbols{msgSend: addr}}
	rt.sels.Store("a:b:c:", SEL(1))
	var hot struct {
		Stamp func(ID, int64, ID, uint64) `objc:"-X a:b:c:"`
	}
	if err := rt.Bind(&hot); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		hot.Stamp(1, 1, 2, 3)
	}
}
