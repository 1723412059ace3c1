//go:build (darwin || linux) && (amd64 || arm64)

package mtl_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stax-otel/stax/metal/abi"
	"github.com/stax-otel/stax/metal/internal/mtl"
	"github.com/stax-otel/stax/metal/internal/objc"
	"github.com/stax-otel/stax/metal/metaltest"
)

func facts(t *testing.T) *abi.Facts {
	t.Helper()
	return must(abi.Load())(t)
}

// TestGoTypesAgainstTable compares every Go function type that is bound with its record, and the table has no method
// that nobody binds.
func TestGoTypesAgainstTable(t *testing.T) {
	f := facts(t)
	bound := abi.Bindings(mtl.Table(), objc.FoundationTable())
	for _, m := range f.Check(bound) {
		t.Error(m)
	}
	keys := map[string]bool{}
	for _, b := range bound {
		if keys[b.Key] {
			t.Errorf("%s is bound twice", b.Key)
		}
		keys[b.Key] = true
	}
	n := 0
	for _, r := range f.Records {
		if r.Kind == "method" {
			n++
			if !keys[r.Key()] {
				t.Errorf("%s is in the table and not bound", r.Key())
			}
		}
	}
	t.Logf("%d methods bound, %d records", len(bound), n)
}

// TestOwnershipAgainstTable checks Cocoa's naming rule, which the wrappers follow, against the table's ownership.
func TestOwnershipAgainstTable(t *testing.T) {
	for _, r := range facts(t).Records {
		if r.Kind == "method" && r.Ownership != "" && r.Ownership != abi.Ownership(r.Selector) {
			t.Errorf("%s: the table says %s, the name says %s", r.Key(), r.Ownership, abi.Ownership(r.Selector))
		}
	}
}

func TestStructsAgainstTable(t *testing.T) {
	f := facts(t)
	for name, typ := range map[string]reflect.Type{
		"NSRange": reflect.TypeFor[objc.Range](), "MTLSize": reflect.TypeFor[mtl.Size](), "MTL4BufferRange": reflect.TypeFor[mtl.BufferRange](),
		"MTLResourceID": reflect.TypeFor[mtl.ResourceID](), "NSOperatingSystemVersion": reflect.TypeFor[objc.OSVersion](),
		"mach_timebase_info_data_t": reflect.TypeFor[[2]uint32](),
	} {
		if err := f.CheckStruct(name, typ); err != nil {
			t.Error(err)
		}
	}
}

func TestConstantsAgainstTable(t *testing.T) {
	f := facts(t)
	for _, c := range []struct {
		enum, name string
		value      int64
	}{
		{"MTLGPUFamily", "MTLGPUFamilyApple5", mtl.FamilyApple5},
		{"MTLGPUFamily", "MTLGPUFamilyApple7", mtl.FamilyApple7},
		{"MTLGPUFamily", "MTLGPUFamilyApple9", mtl.FamilyApple9},
		{"MTLGPUFamily", "MTLGPUFamilyApple10", mtl.FamilyApple10},
		{"MTLGPUFamily", "MTLGPUFamilyMac2", mtl.FamilyMac2},
		{"MTLGPUFamily", "MTLGPUFamilyMetal3", mtl.FamilyMetal3},
		{"MTLGPUFamily", "MTLGPUFamilyMetal4", mtl.FamilyMetal4},
		{"MTLCounterSamplingPoint", "MTLCounterSamplingPointAtStageBoundary", int64(mtl.AtStage)},
		{"MTLCounterSamplingPoint", "MTLCounterSamplingPointAtDrawBoundary", int64(mtl.AtDraw)},
		{"MTLCounterSamplingPoint", "MTLCounterSamplingPointAtDispatchBoundary", int64(mtl.AtDispatch)},
		{"MTLCounterSamplingPoint", "MTLCounterSamplingPointAtTileDispatchBoundary", int64(mtl.AtTileDispatch)},
		{"MTLCounterSamplingPoint", "MTLCounterSamplingPointAtBlitBoundary", int64(mtl.AtBlit)},
		{"MTL4TimestampGranularity", "MTL4TimestampGranularityRelaxed", int64(mtl.Relaxed)},
		{"MTL4TimestampGranularity", "MTL4TimestampGranularityPrecise", int64(mtl.Precise)},
		{"MTL4CounterHeapType", "MTL4CounterHeapTypeTimestamp", mtl.HeapTypeTimestamp},
		{"MTLStages", "MTLStageDispatch", mtl.StageDispatch},
		{"MTL4VisibilityOptions", "MTL4VisibilityOptionDevice", mtl.VisibilityDevice},
		{"MTLCommandBufferStatus", "MTLCommandBufferStatusNotEnqueued", int64(mtl.StatusNotEnqueued)},
		{"MTLCommandBufferStatus", "MTLCommandBufferStatusCompleted", int64(mtl.StatusCompleted)},
		{"MTLCommandBufferStatus", "MTLCommandBufferStatusError", int64(mtl.StatusError)},
		{"MTLCaptureDestination", "MTLCaptureDestinationDeveloperTools", int64(mtl.ToDeveloperTools)},
		{"MTLCaptureDestination", "MTLCaptureDestinationGPUTraceDocument", int64(mtl.ToGPUTrace)},
		{"MTLResourceOptions", "MTLResourceStorageModeShared", int64(mtl.StorageShared)},
		{"MTLResourceOptions", "MTLResourceStorageModePrivate", int64(mtl.StoragePrivate)},
		{"MTLBarrierScope", "MTLBarrierScopeBuffers", 1},
		{"MTLFunctionType", "MTLFunctionTypeKernel", 3},
		{"BlockFlags", "BLOCK_HAS_COPY_DISPOSE", 1 << 25},
		{"BlockFlags", "BLOCK_HAS_SIGNATURE", 1 << 30},
	} {
		r := f.Named("enum", c.enum)
		if r == nil {
			t.Errorf("no enum %s", c.enum)
			continue
		}
		if v, err := r.Values[c.name].Int64(); err != nil || v != c.value {
			t.Errorf("%s: table %s, code %d (%v)", c.name, r.Values[c.name], c.value, err)
		}
	}
	if r := f.Named("macro", "MTLCounterErrorValue"); r == nil || r.Value != "0xFFFFFFFFFFFFFFFF" || mtl.ErrorValue != ^uint64(0) {
		t.Errorf("MTLCounterErrorValue: %+v", r)
	}
	for _, name := range []string{"MTL4CommitFeedbackHandler", "MTLCommandBufferHandler"} {
		if r := f.Named("block", name); r == nil || r.Signature != objc.BlockSignature {
			t.Errorf("block %s: %+v", name, r)
		}
	}
}

// TestRuntimeAgainstTable asks the (fake) runtime for the encoding of every method that is bound and compares it with the
// table: the check that the probe does on a Mac. The fake's encodings are written by hand.
func TestRuntimeAgainstTable(t *testing.T) {
	_, s := open(t, metaltest.M3())
	different, absent := s.CheckABI(facts(t))
	for _, m := range different {
		t.Error(m)
	}
	for _, key := range absent {
		t.Errorf("%s: the fake lacks it", key)
	}
	rt := s.Runtime()
	if got := rt.ProtocolEncoding("MTLDevice", "nothing", true) + rt.ProtocolEncoding("NoProtocol", "name", true); got != "" {
		t.Errorf("unknown methods have the encoding %q", got)
	}
}

// TestMutatedRuntimeIsFound shows that the check of a runtime notices one changed encoding.
func TestMutatedRuntimeIsFound(t *testing.T) {
	const sel = "writeTimestampWithGranularity:intoHeap:atIndex:"
	for name, enc := range map[string]string{"width": "v@:i@Q", "sign": "v@:Q@Q", "order": "v@:@qQ", "count": "v@:q@"} {
		w, s := open(t, metaltest.M3())
		w.SetEncoding(sel, enc)
		different, _ := s.CheckABI(facts(t))
		if len(different) != 1 || different[0].Key != "-MTL4ComputeCommandEncoder "+sel || different[0].Got != enc {
			t.Errorf("a wrong %s was not found: %v", name, different)
		}
	}
	w, s := open(t, metaltest.M3())
	w.RemoveMethod(sel)
	if different, absent := s.CheckABI(facts(t)); len(different) != 0 || !slices.Equal(absent, []string{"-MTL4ComputeCommandEncoder " + sel}) {
		t.Errorf("removed method: %v, %v", different, absent)
	}
	if different, _ := s.CheckABI(must(abi.Parse([]byte(`{"schema":"stax.metal-abi/1"}`)))(t)); len(different) < 100 {
		t.Errorf("an empty table gives %d differences", len(different))
	}
}
