//go:build (darwin || linux) && (amd64 || arm64)

package mtl

import (
	"fmt"
	"unsafe"
)

// Families asked for by name (MTLGPUFamily).
const (
	FamilyApple5  int64 = 1005
	FamilyApple7  int64 = 1007
	FamilyApple9  int64 = 1009
	FamilyApple10 int64 = 1010
	FamilyMac2    int64 = 2002
	FamilyMetal3  int64 = 5001
	FamilyMetal4  int64 = 5002
)

// Resource options (MTLResourceOptions).
const (
	StorageShared  uint64 = 0
	StoragePrivate uint64 = 0x20
)

// Device is an MTLDevice.
type Device struct{ object }

// DeviceInfo is what a device says about itself. Sizes are bytes.
type DeviceInfo struct {
	Name, Architecture                                string // Architecture needs macOS 14, else ""
	RegistryID, Location                              uint64
	UnifiedMemory, LowPower, Headless, Removable      bool
	RecommendedWorkingSet, Allocated, MaxBufferLength uint64
	MaxThreads                                        Size
	Families                                          []int64
}

// Info reads the device's properties.
func (d *Device) Info() DeviceInfo {
	m := &d.s.m.Device
	i := DeviceInfo{
		Name: d.text(m.Name), RegistryID: m.RegistryID(d.id), Location: m.Location(d.id),
		UnifiedMemory: m.HasUnifiedMemory(d.id), LowPower: m.IsLowPower(d.id), Headless: m.IsHeadless(d.id), Removable: m.IsRemovable(d.id),
		RecommendedWorkingSet: m.RecommendedWorkingSet(d.id), Allocated: m.CurrentAllocatedSize(d.id),
		MaxBufferLength: m.MaxBufferLength(d.id), MaxThreads: m.MaxThreads(d.id),
	}
	if d.need("architecture") == nil {
		d.s.Pool(func() {
			if a := m.Architecture(d.id); a != 0 {
				i.Architecture = d.s.rt.GoString(d.s.m.Architecture.Name(a))
			}
		})
	}
	for _, f := range []int64{FamilyApple5, FamilyApple7, FamilyApple9, FamilyApple10, FamilyMac2, FamilyMetal3, FamilyMetal4} {
		if m.SupportsFamily(d.id, f) {
			i.Families = append(i.Families, f)
		}
	}
	return i
}

// SupportsMetal4 tells whether the device is of the Metal 4 family and its driver has the methods this module sends.
func (d *Device) SupportsMetal4() error {
	if !d.s.m.Device.SupportsFamily(d.id, FamilyMetal4) {
		return fmt.Errorf("%s is not of the Metal 4 family: %w", d.text(d.s.m.Device.Name), errUnsupported)
	}
	for _, sel := range []string{"newMTL4CommandQueue", "newCommandAllocator", "newCommandBuffer", "newArgumentTableWithDescriptor:error:", "newCounterHeapWithDescriptor:error:"} {
		if err := d.need(sel); err != nil {
			return err
		}
	}
	return nil
}

// SampleTimestamps reads a CPU and a GPU time together. Apple documents the CPU value as nanoseconds of
// mach_absolute_time; the GPU value has the device's own unit. Apple warns that the call may trap into the kernel.
func (d *Device) SampleTimestamps() (cpu, gpu uint64) {
	c, g := new(uint64), new(uint64)
	d.s.m.Device.SampleTimestamps(d.id, c, g)
	return *c, *g
}

// TimestampFrequency is queryTimestampFrequency: ticks of a timestamp heap per second. The M3 Max of the VectorAccelerate
// report (macOS 26.5.2) said 24,000,000; not run here.
func (d *Device) TimestampFrequency() (uint64, error) {
	if err := d.need("queryTimestampFrequency"); err != nil {
		return 0, err
	}
	return d.s.m.Device.TimestampFrequency(d.id), nil
}

// Buffer is an MTLBuffer.
type Buffer struct{ object }

// NewBuffer makes a buffer of length bytes with the given MTLResourceOptions.
func (d *Device) NewBuffer(length, options uint64) (*Buffer, error) {
	b := d.s.m.Device.NewBuffer(d.id, length, options)
	if b == 0 {
		return nil, fmt.Errorf("new buffer of %d bytes: %w", length, ErrNil)
	}
	return &Buffer{object{d.s, b}}, nil
}

// Length is the buffer's size in bytes.
func (b *Buffer) Length() uint64 { return b.s.m.Buffer.Length(b.id) }

// GPUAddress is what a Metal 4 argument table takes.
func (b *Buffer) GPUAddress() uint64 { return b.s.m.Buffer.GPUAddress(b.id) }

// SetLabel names the buffer.
func (b *Buffer) SetLabel(s string) { b.label(b.s.m.Buffer.SetLabel, s) }

// Contents is the buffer's memory, nil for private storage. It is valid until Release, and the GPU writes to it.
func (b *Buffer) Contents() []byte {
	p := b.s.m.Buffer.Contents(b.id)
	if p == nil {
		return nil
	}
	return unsafe.Slice((*byte)(p), b.Length())
}

// CompileOptions are the library settings that change the code. The zero value keeps Metal's defaults.
type CompileOptions struct {
	LanguageVersion uint64 // MTLLanguageVersion, 0: default
	SetMathMode     bool
	MathMode        int64 // MTLMathMode
	SetOptimization bool
	Optimization    int64 // MTLLibraryOptimizationLevel
}

// Library is an MTLLibrary.
type Library struct{ object }

// NewLibrary compiles MSL source.
func (d *Device) NewLibrary(source string, o CompileOptions) (*Library, error) {
	opts, err := d.s.compileOptions(o)
	if err != nil {
		return nil, err
	}
	defer opts.Release()
	got, err := d.created("compile library", func(e *id) id {
		return d.s.m.Device.NewLibraryWithSource(d.id, d.s.rt.String(source), opts.id, e)
	})
	if err != nil {
		return nil, err
	}
	return &Library{got}, nil
}

func (s *System) compileOptions(o CompileOptions) (object, error) {
	if o == (CompileOptions{}) {
		return object{}, nil
	}
	opts, err := s.descriptor("MTLCompileOptions")
	if err != nil {
		return opts, err
	}
	m := &s.m.CompileOptions
	if o.LanguageVersion != 0 {
		m.SetLanguageVersion(opts.id, o.LanguageVersion)
	}
	if o.SetMathMode && opts.need("setMathMode:") == nil {
		m.SetMathMode(opts.id, o.MathMode)
	}
	if o.SetOptimization && opts.need("setOptimizationLevel:") == nil {
		m.SetOptimization(opts.id, o.Optimization)
	}
	return opts, nil
}

// OpenLibrary loads a .metallib file.
func (d *Device) OpenLibrary(path string) (*Library, error) {
	got, err := d.created("open library "+path, func(e *id) id {
		return d.s.m.Device.NewLibraryWithURL(d.id, d.s.rt.FileURL(path), e)
	})
	if err != nil {
		return nil, err
	}
	return &Library{got}, nil
}

// SetLabel names the library.
func (l *Library) SetLabel(s string) { l.label(l.s.m.Library.SetLabel, s) }

// FunctionNames lists the library's functions.
func (l *Library) FunctionNames() (out []string) {
	l.s.Pool(func() {
		for _, n := range l.s.rt.Array(l.s.m.Library.FunctionNames(l.id)) {
			out = append(out, l.s.rt.GoString(n))
		}
	})
	return out
}

// Function is an MTLFunction.
type Function struct{ object }

// NewFunction finds a function by name; an unknown name is an error.
func (l *Library) NewFunction(name string) (*Function, error) {
	var f id
	l.s.Pool(func() { f = l.s.m.Library.NewFunction(l.id, l.s.rt.String(name)) })
	if f == 0 {
		return nil, fmt.Errorf("function %s: %w", name, ErrNil)
	}
	return &Function{object{l.s, f}}, nil
}

// Name is the function's name.
func (f *Function) Name() string { return f.text(f.s.m.Function.Name) }

// Type is the function's MTLFunctionType; 3 is a kernel.
func (f *Function) Type() uint64 { return f.s.m.Function.Type(f.id) }

// Pipeline is an MTLComputePipelineState.
type Pipeline struct{ object }

// PipelineInfo is the metadata of a pipeline. ThreadgroupMemory is bytes.
type PipelineInfo struct {
	Label                                              string
	MaxTotalThreads, ExecutionWidth, ThreadgroupMemory uint64
	ResourceID                                         uint64 // 0 before macOS 13
}

// NewPipeline makes a compute pipeline. The M3 Max report used the same classic method for Metal 4 work.
func (d *Device) NewPipeline(f *Function) (*Pipeline, error) {
	got, err := d.created("new pipeline", func(e *id) id { return d.s.m.Device.NewPipeline(d.id, f.id, e) })
	if err != nil {
		return nil, err
	}
	return &Pipeline{got}, nil
}

// Info reads the pipeline's metadata.
func (p *Pipeline) Info() PipelineInfo {
	m := &p.s.m.Pipeline
	i := PipelineInfo{
		Label: p.text(m.Label), MaxTotalThreads: m.MaxTotalThreads(p.id), ExecutionWidth: m.ExecutionWidth(p.id),
		ThreadgroupMemory: m.ThreadgroupMemory(p.id),
	}
	if p.need("gpuResourceID") == nil {
		i.ResourceID = m.ResourceID(p.id).Value
	}
	return i
}

// SharedEvent is an MTLSharedEvent.
type SharedEvent struct{ object }

// NewSharedEvent makes an event that GPU and CPU can wait for.
func (d *Device) NewSharedEvent() (*SharedEvent, error) {
	e := d.s.m.Device.NewSharedEvent(d.id)
	if e == 0 {
		return nil, fmt.Errorf("new shared event: %w", ErrNil)
	}
	return &SharedEvent{object{d.s, e}}, nil
}

// Value is the last value signalled.
func (e *SharedEvent) Value() uint64 { return e.s.m.SharedEvent.Value(e.id) }

// SetValue signals from the CPU.
func (e *SharedEvent) SetValue(v uint64) { e.s.m.SharedEvent.SetValue(e.id, v) }

// Wait blocks the calling thread until the value is reached or timeoutMS milliseconds have passed, and tells which.
func (e *SharedEvent) Wait(value, timeoutMS uint64) bool {
	return e.s.m.SharedEvent.Wait(e.id, value, timeoutMS)
}
