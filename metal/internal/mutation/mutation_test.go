// Package mutation breaks this module's code on purpose, one line at a time, and shows that its tests notice: slot order,
// resolve before completion, heap reuse, calibration, ownership and the binary interface. The working tree is not
// touched: each broken file reaches the compiler through go test -overlay.
package mutation

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// mutation replaces old by new in a file of the module and expects a test of a package to fail.
type mutation struct {
	name     string
	file     string
	old, new string
	pkg, run string
}

var mutations = []mutation{
	{
		"slot order: the end is stamped first", "internal/zones/zones.go",
		"e.WriteTimestamp(g, heap, slot.Start)\n\t}\n\tdispatch()\n\te.WriteTimestamp(g, heap, slot.End)", "e.WriteTimestamp(g, heap, slot.End)\n\t}\n\tdispatch()\n\te.WriteTimestamp(g, heap, slot.Start)",
		"./internal/zones", "TestIntervals",
	},
	{
		"slot order: start and end are swapped", "ring/ring.go",
		"Start: first, End: first + 1}", "Start: first + 1, End: first}",
		"./internal/zones", "TestIntervals",
	},
	{
		"slot order: a dispatch gets its neighbour's stamps", "ring/ring.go",
		"s.Start, s.End = stamps[2*i], stamps[2*i+1]", "s.Start, s.End = stamps[n-2-uint64(2*i)], stamps[n-1-uint64(2*i)]",
		"./ring", "TestPairsBelongToTheirDispatch",
	},
	{
		"resolve before completion", "internal/zones/zones.go",
		"err := q.Commit(buffers, func(f mtl.Feedback) {\n\t\tsamples := b.commit.Complete()", "samples := b.commit.Complete()\n\terr := q.Commit(buffers, func(f mtl.Feedback) {",
		"./internal/zones", "TestNothingIsReadBeforeCompletion",
	},
	{
		"a heap is reused while its stamps are in flight", "ring/ring.go",
		"if other.live > 0 {", "if other.live > 1<<40 {",
		"./ring", "TestHeapIsReusedOnlyWhenAllItsBlocksRetired",
	},
	{
		"a heap is not invalidated before reuse", "ring/ring.go",
		"other.heap.Invalidate(0, other.next)", "",
		"./ring", "TestHeapIsReusedOnlyWhenAllItsBlocksRetired",
	},
	{
		"heaps are released while a commit is out", "ring/ring.go",
		"return r.heaps[0].live == 0 && r.heaps[1].live == 0", "return true",
		"./internal/zones", "TestNothingIsReadBeforeCompletion",
	},
	{
		"calibration: any unit fits", "clock/unit.go",
		"fits = fits && Inside(tb, u, t)", "fits = fits || t.End > 0",
		"./clock", "TestDecide",
	},
	{
		"calibration: ticks and nanoseconds are mixed up", "clock/timebase.go",
		"return mulDiv(ticks, uint64(t.Numer), uint64(t.Denom))", "return mulDiv(ticks, uint64(t.Denom), uint64(t.Numer))",
		"./internal/zones", "TestIntervals",
	},
	{
		"calibration: blocks are not checked", "internal/zones/zones.go",
		"if s.Err == nil && !z.clock.Verify(t) {", "if false {",
		"./internal/zones", "TestClockIsCheckedOnEveryBlock",
	},
	{
		"calibration: the first reading of a second wins, not the tightest", "clock/track.go",
		"t.kept[n-1] = t.join(last, p)", "",
		"./clock", "TestTrackStaysInsideItsBound",
	},
	{
		"calibration: the bound forgets the bracket", "clock/track.go",
		"max(a.width(), b.width())/2", "0",
		"./clock", "TestTrackStaysInsideItsBound",
	},
	{
		"a zero becomes a time", "clock/unit.go",
		"case start == 0 && end == 0:", "case start == 1 && end == 0:",
		"./internal/zones", "TestBrokenDevices",
	},
	{
		"counters: an error value becomes a value", "internal/counters/counters.go",
		"if v == mtl.ErrorValue {", "if v == mtl.ErrorValue-1 {",
		"./internal/counters", "TestBrokenDevices",
	},
	{
		"counters: a sample is used twice", "internal/counters/counters.go",
		"s.next += 2", "s.next += 0",
		"./internal/counters", "TestNoRoom",
	},
	{
		"counters: a point that is not supported is sampled", "internal/mtl/classic.go",
		"if !e.dev.SupportsSampling(AtDispatch) {", "if false {",
		"./internal/mtl", "TestClassicDispatch",
	},
	{
		"ownership: an autoreleased object is not retained", "internal/mtl/system.go",
		"if got = get(); got != 0 {\n\t\t\to.s.rt.Retain(got)", "if got = get(); got != 0 {",
		"./internal/mtl", "TestMetal4Dispatch",
	},
	{
		"ownership: an owned object is retained again", "internal/mtl/metal4.go",
		"return &Queue4{object{d.s, q}}, nil", "return &Queue4{object{d.s, d.s.rt.Retain(q)}}, nil",
		"./internal/mtl", "TestMetal4Dispatch",
	},
	{
		"ownership: a feedback block is not released", "internal/mtl/metal4.go",
		"defer s.rt.ReleaseBlock(block)", "",
		"./internal/mtl", "TestMetal4Dispatch",
	},
	{
		"ownership: no autorelease pool", "internal/objc/runtime.go",
		"token, _, _ := purego.SyscallN(rt.sym.poolPush)\n\tdefer func() { _, _, _ = purego.SyscallN(rt.sym.poolPop, token) }()", "",
		"./internal/mtl", "TestLibrary",
	},
	{
		"interface: a sign", "internal/mtl/bindings.go",
		"func(id, int64)  `objc:\"-MTL4CounterHeapDescriptor setType:", "func(id, uint64) `objc:\"-MTL4CounterHeapDescriptor setType:",
		"./internal/mtl", "TestGoTypesAgainstTable",
	},
	{
		"interface: the words of a call", "internal/objc/plan.go",
		"case next+n <= regs:", "case next+n < regs:",
		"./internal/mtl", "TestMetal4Dispatch",
	},
	{
		"interface: the upper bytes of a BOOL", "internal/objc/bind.go",
		"v.SetBool(send(call)&0xff != 0)", "v.SetBool(send(call) != 0)",
		"./internal/mtl", "TestDeviceInfo",
	},
}

func TestMutationsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("each mutation compiles a package")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to compile the mutations with")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			path := filepath.Join(root, filepath.FromSlash(m.file))
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(src), m.old); n != 1 {
				t.Fatalf("%q occurs %d times in %s, want once: bring this mutation up to date", m.old, n, m.file)
			}
			dir := t.TempDir()
			broken := filepath.Join(dir, "broken.go")
			if err := os.WriteFile(broken, []byte(strings.Replace(string(src), m.old, m.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			overlay, err := json.Marshal(map[string]map[string]string{"Replace": {path: broken}})
			if err != nil {
				t.Fatal(err)
			}
			list := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(list, overlay, 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, goTool, "test", "-count=1", "-vet=off", "-timeout=60s", "-overlay="+list, "-run=^"+m.run+"$", m.pkg)
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			switch text := string(out); {
			case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]"):
				t.Fatalf("the mutation does not compile:\n%s", text)
			case err == nil:
				t.Errorf("%s passes although the code is broken", m.run)
			case !strings.Contains(text, "--- FAIL") && !strings.Contains(text, "panic:"):
				t.Errorf("%s failed for another reason:\n%s", m.run, text)
			}
		})
	}
}
