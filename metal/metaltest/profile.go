package metaltest

// Profile describes a device. The zero value is a device without counters and without Metal 4.
type Profile struct {
	Name, Architecture string
	Families           []int64 // MTLGPUFamily values
	Metal4             bool    // whether the Metal 4 methods exist
	UnifiedMemory      bool
	LowPower           bool

	Sets   []Set    // counter sets; nil: counterSets returns nil
	Points []uint64 // sampling points supported

	HeapHz         uint64  // ticks of a timestamp heap per second
	HeapEntryBytes uint64  // 0: 8
	GPUPeriod      float64 // nanoseconds per unit of the GPU value of sampleTimestamps and of classic timestamps
	GPUOffset      uint64  // GPU units at mach time 0
	GPUPPM         float64 // how much faster the GPU clock runs, parts per million

	Faults Faults
}

// Set is a counter set.
type Set struct {
	Name     string
	Counters []string
}

// Faults are ways in which a device misbehaves. All of them were reported for some Mac.
type Faults struct {
	NilErrors          bool // methods with an NSError return nil and set none
	ZeroStamps         bool // timestamps are never written (wgpu #9414, metal-rs #346)
	ErrorStamps        bool // timestamps are MTLCounterErrorValue
	LateStart          bool // a stamp before a dispatch is taken after it (phosphor engine notes, M3)
	HungQueue          bool // committed work never ends
	GPUError           bool // work ends with an out-of-memory error, its feedback says so
	CBStampsOutOfOrder bool // command-buffer stamps come 21 µs late (VectorAccelerate report, M3 Max)
}

// Counter sets as Metal's headers name their counters; the sets' own strings are from third-party stubs.
var (
	TimestampSet = Set{"timestamp", []string{"GPUTimestamp"}}
	StatisticSet = Set{"statistic", []string{
		"TessellationInputPatches", "VertexInvocations", "PostTessellationVertexInvocations", "ClipperInvocations",
		"ClipperPrimitivesOut", "FragmentInvocations", "FragmentsPassed", "KernelInvocations",
	}}
	StageUtilizationSet = Set{"stageutilization", []string{
		"TotalCycles", "VertexCycles", "TessellationCycles", "PostTessellationVertexCycles", "FragmentCycles", "RenderTargetWriteCycles",
	}}
)

// M3 is like the M3 Max of the VectorAccelerate spike report (macOS 26.5.2, 2026-09-14): Metal 4, heap ticks of 24 MHz in
// the mach timeline, only the timestamp set, only the stage boundary, classic stamps in nanoseconds.
func M3() Profile {
	return Profile{
		Name: "Apple M3 Max", Architecture: "applegpu_g15s", Families: []int64{1005, 1007, 1009, 5001, 5002}, Metal4: true, UnifiedMemory: true,
		Sets: []Set{TimestampSet}, Points: []uint64{0}, HeapHz: 24_000_000, GPUPeriod: 1,
	}
}

// Paravirtual is like the device of GitHub's macOS runners (ocannl #942, godot #101773): Apple5 family, no counter sets,
// no Metal 4.
func Paravirtual() Profile {
	return Profile{Name: "Apple Paravirtual device", Families: []int64{1005}, UnifiedMemory: true, GPUPeriod: 1}
}

// Discrete is like an AMD or Intel device of an older Mac: statistic and stage-utilisation sets, sampling at draw,
// dispatch and blit boundaries, a GPU clock of its own with 83.33 ns ticks (wgpu's constant for Intel) that drifts.
func Discrete() Profile {
	return Profile{
		Name: "Intel(R) UHD Graphics 630", Families: []int64{2002, 5001}, LowPower: true,
		Sets: []Set{TimestampSet, StageUtilizationSet, StatisticSet}, Points: []uint64{1, 2, 4},
		GPUPeriod: 83.333333, GPUOffset: 123_456_789, GPUPPM: 20,
	}
}

// Broken returns a copy of a profile with faults.
func (p Profile) Broken(f Faults) Profile {
	p.Faults = f
	return p
}
