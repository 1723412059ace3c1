package abi

import (
	"reflect"
	"strings"
	"testing"
)

func TestTableLoads(t *testing.T) {
	f, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, r := range f.Records {
		count[r.Kind]++
		if len(r.Sources) == 0 {
			t.Errorf("%s %s%s has no source", r.Kind, r.Name, r.Key())
		}
	}
	for kind, least := range map[string]int{"method": 150, "class": 10, "protocol": 15, "enum": 15, "struct": 8, "extern": 5, "cfunc": 20, "macro": 2, "block": 3} {
		if count[kind] < least {
			t.Errorf("%d records of kind %s", count[kind], kind)
		}
	}
	if f.Libraries["metal"] == "" {
		t.Error("the table has no library path of Metal")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, bad := range []string{"", "{", `{"schema":"stax.metal-abi/2"}`} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		"@32@0:8@16^@24":        "@@:@^@",
		"v40@0:8q16@24Q32":      "v@:q@Q",
		"v40@0:8r^@16Q24@32":    "v@:^@Q@",
		"v@:^r@Q@":              "v@:^@Q@",
		`v24@0:8@"MTLTensor"16`: "v@:@",
		"v72@0:8@16{_NSRange=QQ}24{MTL4BufferRange=QQ}40@56@64": "v@:@{_NSRange=QQ}{MTL4BufferRange=QQ}@@",
		"{?=QQQ}16@0:8": "{?=QQQ}@:",
		`@"broken`:      `@"broken`,
		"v16@?0@8":      "v@?@",
	} {
		if got := Normalize(in); got != want {
			t.Errorf("Normalize(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestOwnership(t *testing.T) {
	for sel, want := range map[string]string{
		"newCommandQueue": "+1", "new": "+1", "newBufferWithLength:options:": "+1", "copy": "+1", "mutableCopy": "+1", "alloc": "+1",
		"newsworthy": "autoreleased", "copying": "autoreleased", "commandBuffer": "autoreleased", "resolveCounterRange:": "autoreleased",
	} {
		if got := Ownership(sel); got != want {
			t.Errorf("Ownership(%s) = %s, want %s", sel, got, want)
		}
	}
}

type id uintptr

func (id) ObjCType() string { return "@" }

type rangeQQ struct{ A, B uint64 }

func (rangeQQ) ObjCType() string { return "{_NSRange=QQ}" }

func TestMethodEncoding(t *testing.T) {
	for want, fn := range map[string]any{
		"v@:q@Q":             (func(id, int64, id, uint64))(nil),
		"@@:@^@":             (func(id, id, *id) id)(nil),
		"B@:Q":               (func(id, uint64) bool)(nil),
		"d@:":                (func(id) float64)(nil),
		"v@:@{_NSRange=QQ}C": (func(id, id, rangeQQ, uint8))(nil),
		"*@:":                (func(id) *byte)(nil),
		"v@:^Q^Qif":          (func(id, *uint64, *uint64, int32, float32))(nil),
		"I@:":                (func(id) uint32)(nil),
	} {
		if got, err := MethodEncoding(reflect.TypeOf(fn)); got != want || err != nil {
			t.Errorf("%T: %q, %v; want %q", fn, got, err, want)
		}
	}
	for _, bad := range []any{func() {}, func(uint64) {}, func(id) (id, error) { return 0, nil }, func(id, string) {}, func(id, ...id) {}, func(id) string { return "" }, 1} {
		if _, err := MethodEncoding(reflect.TypeOf(bad)); err == nil {
			t.Errorf("%T was accepted", bad)
		}
	}
}

// TestMutatedTypesAreFound shows that the check of Go types notices a wrong width, sign, order, count and result.
func TestMutatedTypesAreFound(t *testing.T) {
	f, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	const stamp, heap, entry = "-MTL4ComputeCommandEncoder writeTimestampWithGranularity:intoHeap:atIndex:", "-MTL4CounterHeap resolveCounterRange:", "-MTLDevice sizeOfCounterHeapEntry:"
	type right struct {
		A func(id, int64, id, uint64) `objc:"-MTL4ComputeCommandEncoder writeTimestampWithGranularity:intoHeap:atIndex:"`
		B func(id, rangeQQ) id        `objc:"-MTL4CounterHeap resolveCounterRange:"`
		C struct {
			D func(id, int64) uint64 `objc:"-MTLDevice sizeOfCounterHeapEntry:"`
		}
	}
	if bad := f.Check(Bindings(&right{})); len(bad) > 0 {
		t.Fatalf("right types: %v", bad)
	}
	for what, b := range map[string]Binding{
		"width":  {stamp, reflect.TypeFor[func(id, int32, id, uint64)]()},
		"sign":   {stamp, reflect.TypeFor[func(id, uint64, id, uint64)]()},
		"order":  {stamp, reflect.TypeFor[func(id, id, int64, uint64)]()},
		"count":  {stamp, reflect.TypeFor[func(id, int64, id)]()},
		"result": {heap, reflect.TypeFor[func(id, rangeQQ) uint64]()},
		"struct": {heap, reflect.TypeFor[func(id, uint64, uint64) id]()},
		"void":   {entry, reflect.TypeFor[func(id, int64)]()},
		"type":   {entry, reflect.TypeFor[func(id, string) uint64]()},
		"name":   {"-MTLDevice sizeOfCounterHeap:", reflect.TypeFor[func(id, int64) uint64]()},
	} {
		if bad := f.Check([]Binding{b}); len(bad) != 1 || !strings.Contains(bad[0].String(), b.Key) {
			t.Errorf("a wrong %s was not found: %v", what, bad)
		}
	}
}

func TestCheckStruct(t *testing.T) {
	f, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.CheckStruct("NSRange", reflect.TypeFor[rangeQQ]()); err != nil {
		t.Error(err)
	}
	for name, typ := range map[string]reflect.Type{
		"NSRange": reflect.TypeFor[struct{ a uint64 }](), "MTLSize": reflect.TypeFor[rangeQQ](), "Nothing": reflect.TypeFor[int](),
		"MTL4BufferRange": reflect.TypeFor[rangeQQ](),
	} {
		if err := f.CheckStruct(name, typ); err == nil {
			t.Errorf("%s passed as %s", typ, name)
		}
	}
}

// FuzzNormalize: encodings come from whatever runtime runs.
func FuzzNormalize(f *testing.F) {
	facts, err := Load()
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range facts.Records[:40] {
		f.Add(r.Encoding)
	}
	f.Add(`v24@0:8@"MTLTensor`)
	f.Add("}}{{==")
	f.Fuzz(func(t *testing.T, enc string) {
		if got := Normalize(enc); len(got) > len(enc) {
			t.Errorf("%q became longer: %q", enc, got)
		}
	})
}
