//go:build (darwin || linux) && (amd64 || arm64)

package mtl

import (
	"unsafe"

	"github.com/stax-otel/stax/metal/internal/objc"
)

type (
	id    = objc.ID
	class = objc.Class
	rng   = objc.Range
)

// bindings are the methods this module sends, named as the SDK names them. Go forms and ownership are checked against
// the ABI table in a test; respondsToSelector decides at run time whether a method may be sent.
type bindings struct {
	Object struct {
		New func(class) id `objc:"+NSObject new"`
	}
	Device struct {
		Name                    func(id) id                 `objc:"-MTLDevice name"`
		RegistryID              func(id) uint64             `objc:"-MTLDevice registryID"`
		SupportsFamily          func(id, int64) bool        `objc:"-MTLDevice supportsFamily:"`
		SupportsCounterSampling func(id, uint64) bool       `objc:"-MTLDevice supportsCounterSampling:"`
		CounterSets             func(id) id                 `objc:"-MTLDevice counterSets"`
		NewSampleBuffer         func(id, id, *id) id        `objc:"-MTLDevice newCounterSampleBufferWithDescriptor:error:"`
		SampleTimestamps        func(id, *uint64, *uint64)  `objc:"-MTLDevice sampleTimestamps:gpuTimestamp:"`
		TimestampFrequency      func(id) uint64             `objc:"-MTLDevice queryTimestampFrequency"`
		SizeOfCounterHeapEntry  func(id, int64) uint64      `objc:"-MTLDevice sizeOfCounterHeapEntry:"`
		NewCounterHeap          func(id, id, *id) id        `objc:"-MTLDevice newCounterHeapWithDescriptor:error:"`
		NewCommandQueue         func(id) id                 `objc:"-MTLDevice newCommandQueue"`
		NewMTL4CommandQueue     func(id) id                 `objc:"-MTLDevice newMTL4CommandQueue"`
		NewCommandAllocator     func(id) id                 `objc:"-MTLDevice newCommandAllocator"`
		NewCommandBuffer        func(id) id                 `objc:"-MTLDevice newCommandBuffer"`
		NewArgumentTable        func(id, id, *id) id        `objc:"-MTLDevice newArgumentTableWithDescriptor:error:"`
		NewResidencySet         func(id, id, *id) id        `objc:"-MTLDevice newResidencySetWithDescriptor:error:"`
		NewLibraryWithSource    func(id, id, id, *id) id    `objc:"-MTLDevice newLibraryWithSource:options:error:"`
		NewLibraryWithURL       func(id, id, *id) id        `objc:"-MTLDevice newLibraryWithURL:error:"`
		NewPipeline             func(id, id, *id) id        `objc:"-MTLDevice newComputePipelineStateWithFunction:error:"`
		NewBuffer               func(id, uint64, uint64) id `objc:"-MTLDevice newBufferWithLength:options:"`
		NewSharedEvent          func(id) id                 `objc:"-MTLDevice newSharedEvent"`
		HasUnifiedMemory        func(id) bool               `objc:"-MTLDevice hasUnifiedMemory"`
		IsLowPower              func(id) bool               `objc:"-MTLDevice isLowPower"`
		IsHeadless              func(id) bool               `objc:"-MTLDevice isHeadless"`
		IsRemovable             func(id) bool               `objc:"-MTLDevice isRemovable"`
		RecommendedWorkingSet   func(id) uint64             `objc:"-MTLDevice recommendedMaxWorkingSetSize"`
		CurrentAllocatedSize    func(id) uint64             `objc:"-MTLDevice currentAllocatedSize"`
		MaxBufferLength         func(id) uint64             `objc:"-MTLDevice maxBufferLength"`
		MaxThreads              func(id) Size               `objc:"-MTLDevice maxThreadsPerThreadgroup"`
		Architecture            func(id) id                 `objc:"-MTLDevice architecture"`
		Location                func(id) uint64             `objc:"-MTLDevice location"`
	}
	Architecture struct {
		Name func(id) id `objc:"-MTLArchitecture name"`
	}
	Queue struct {
		SetLabel      func(id, id) `objc:"-MTLCommandQueue setLabel:"`
		CommandBuffer func(id) id  `objc:"-MTLCommandQueue commandBuffer"`
	}
	CommandBuffer struct {
		SetLabel           func(id, id)         `objc:"-MTLCommandBuffer setLabel:"`
		Commit             func(id)             `objc:"-MTLCommandBuffer commit"`
		WaitUntilCompleted func(id)             `objc:"-MTLCommandBuffer waitUntilCompleted"`
		Status             func(id) uint64      `objc:"-MTLCommandBuffer status"`
		Error              func(id) id          `objc:"-MTLCommandBuffer error"`
		GPUStartTime       func(id) float64     `objc:"-MTLCommandBuffer GPUStartTime"`
		GPUEndTime         func(id) float64     `objc:"-MTLCommandBuffer GPUEndTime"`
		AddCompleted       func(id, objc.Block) `objc:"-MTLCommandBuffer addCompletedHandler:"`
		ComputeEncoder     func(id) id          `objc:"-MTLCommandBuffer computeCommandEncoder"`
		ComputeWithPass    func(id, id) id      `objc:"-MTLCommandBuffer computeCommandEncoderWithDescriptor:"`
		BlitEncoder        func(id) id          `objc:"-MTLCommandBuffer blitCommandEncoder"`
		EncodeSignal       func(id, id, uint64) `objc:"-MTLCommandBuffer encodeSignalEvent:value:"`
	}
	Encoder struct {
		SetLabel       func(id, id) `objc:"-MTLCommandEncoder setLabel:"`
		End            func(id)     `objc:"-MTLCommandEncoder endEncoding"`
		PushDebugGroup func(id, id) `objc:"-MTLCommandEncoder pushDebugGroup:"`
		PopDebugGroup  func(id)     `objc:"-MTLCommandEncoder popDebugGroup"`
	}
	Compute struct {
		SetPipeline          func(id, id)                             `objc:"-MTLComputeCommandEncoder setComputePipelineState:"`
		SetBuffer            func(id, id, uint64, uint64)             `objc:"-MTLComputeCommandEncoder setBuffer:offset:atIndex:"`
		SetBytes             func(id, unsafe.Pointer, uint64, uint64) `objc:"-MTLComputeCommandEncoder setBytes:length:atIndex:"`
		DispatchThreadgroups func(id, Size, Size)                     `objc:"-MTLComputeCommandEncoder dispatchThreadgroups:threadsPerThreadgroup:"`
		DispatchThreads      func(id, Size, Size)                     `objc:"-MTLComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:"`
		SampleCounters       func(id, id, uint64, bool)               `objc:"-MTLComputeCommandEncoder sampleCountersInBuffer:atSampleIndex:withBarrier:"`
		MemoryBarrier        func(id, uint64)                         `objc:"-MTLComputeCommandEncoder memoryBarrierWithScope:"`
	}
	Blit struct {
		ResolveCounters func(id, id, rng, id, uint64) `objc:"-MTLBlitCommandEncoder resolveCounters:inRange:destinationBuffer:destinationOffset:"`
		Fill            func(id, id, rng, uint8)      `objc:"-MTLBlitCommandEncoder fillBuffer:range:value:"`
	}
	ComputePass struct {
		New         func(class) id      `objc:"+MTLComputePassDescriptor computePassDescriptor"`
		Attachments func(id) id         `objc:"-MTLComputePassDescriptor sampleBufferAttachments"`
		At          func(id, uint64) id `objc:"-MTLComputePassSampleBufferAttachmentDescriptorArray objectAtIndexedSubscript:"`
		SetBuffer   func(id, id)        `objc:"-MTLComputePassSampleBufferAttachmentDescriptor setSampleBuffer:"`
		SetStart    func(id, uint64)    `objc:"-MTLComputePassSampleBufferAttachmentDescriptor setStartOfEncoderSampleIndex:"`
		SetEnd      func(id, uint64)    `objc:"-MTLComputePassSampleBufferAttachmentDescriptor setEndOfEncoderSampleIndex:"`
	}
	Counter struct {
		Name func(id) id `objc:"-MTLCounter name"`
	}
	CounterSet struct {
		Name     func(id) id `objc:"-MTLCounterSet name"`
		Counters func(id) id `objc:"-MTLCounterSet counters"`
	}
	SampleDescriptor struct {
		SetCounterSet  func(id, id)     `objc:"-MTLCounterSampleBufferDescriptor setCounterSet:"`
		SetLabel       func(id, id)     `objc:"-MTLCounterSampleBufferDescriptor setLabel:"`
		SetStorageMode func(id, uint64) `objc:"-MTLCounterSampleBufferDescriptor setStorageMode:"`
		SetSampleCount func(id, uint64) `objc:"-MTLCounterSampleBufferDescriptor setSampleCount:"`
	}
	SampleBuffer struct {
		SampleCount func(id) uint64  `objc:"-MTLCounterSampleBuffer sampleCount"`
		Resolve     func(id, rng) id `objc:"-MTLCounterSampleBuffer resolveCounterRange:"`
	}
	Library struct {
		SetLabel      func(id, id)    `objc:"-MTLLibrary setLabel:"`
		NewFunction   func(id, id) id `objc:"-MTLLibrary newFunctionWithName:"`
		FunctionNames func(id) id     `objc:"-MTLLibrary functionNames"`
	}
	Function struct {
		Name func(id) id     `objc:"-MTLFunction name"`
		Type func(id) uint64 `objc:"-MTLFunction functionType"`
	}
	CompileOptions struct {
		SetLanguageVersion func(id, uint64) `objc:"-MTLCompileOptions setLanguageVersion:"`
		SetMathMode        func(id, int64)  `objc:"-MTLCompileOptions setMathMode:"`
		SetOptimization    func(id, int64)  `objc:"-MTLCompileOptions setOptimizationLevel:"`
	}
	Pipeline struct {
		Label             func(id) id         `objc:"-MTLComputePipelineState label"`
		MaxTotalThreads   func(id) uint64     `objc:"-MTLComputePipelineState maxTotalThreadsPerThreadgroup"`
		ExecutionWidth    func(id) uint64     `objc:"-MTLComputePipelineState threadExecutionWidth"`
		ThreadgroupMemory func(id) uint64     `objc:"-MTLComputePipelineState staticThreadgroupMemoryLength"`
		ResourceID        func(id) ResourceID `objc:"-MTLComputePipelineState gpuResourceID"`
	}
	Buffer struct {
		SetLabel   func(id, id)            `objc:"-MTLResource setLabel:"`
		Length     func(id) uint64         `objc:"-MTLBuffer length"`
		Contents   func(id) unsafe.Pointer `objc:"-MTLBuffer contents"`
		GPUAddress func(id) uint64         `objc:"-MTLBuffer gpuAddress"`
	}
	SharedEvent struct {
		Value    func(id) uint64               `objc:"-MTLSharedEvent signaledValue"`
		SetValue func(id, uint64)              `objc:"-MTLSharedEvent setSignaledValue:"`
		Wait     func(id, uint64, uint64) bool `objc:"-MTLSharedEvent waitUntilSignaledValue:timeoutMS:"`
	}
	ResidencySet struct {
		Add      func(id, id)      `objc:"-MTLResidencySet addAllocation:"`
		Remove   func(id, id)      `objc:"-MTLResidencySet removeAllocation:"`
		Contains func(id, id) bool `objc:"-MTLResidencySet containsAllocation:"`
		Count    func(id) uint64   `objc:"-MTLResidencySet allocationCount"`
		Commit   func(id)          `objc:"-MTLResidencySet commit"`
		Request  func(id)          `objc:"-MTLResidencySet requestResidency"`
		End      func(id)          `objc:"-MTLResidencySet endResidency"`
	}
	ResidencySetDescriptor struct {
		SetCapacity func(id, uint64) `objc:"-MTLResidencySetDescriptor setInitialCapacity:"`
		SetLabel    func(id, id)     `objc:"-MTLResidencySetDescriptor setLabel:"`
	}
	CaptureManager struct {
		Shared              func(class) id         `objc:"+MTLCaptureManager sharedCaptureManager"`
		NewScopeForDevice   func(id, id) id        `objc:"-MTLCaptureManager newCaptureScopeWithDevice:"`
		NewScopeForQueue    func(id, id) id        `objc:"-MTLCaptureManager newCaptureScopeWithCommandQueue:"`
		SupportsDestination func(id, int64) bool   `objc:"-MTLCaptureManager supportsDestination:"`
		Start               func(id, id, *id) bool `objc:"-MTLCaptureManager startCaptureWithDescriptor:error:"`
		Stop                func(id)               `objc:"-MTLCaptureManager stopCapture"`
		IsCapturing         func(id) bool          `objc:"-MTLCaptureManager isCapturing"`
	}
	CaptureDescriptor struct {
		SetObject      func(id, id)    `objc:"-MTLCaptureDescriptor setCaptureObject:"`
		SetDestination func(id, int64) `objc:"-MTLCaptureDescriptor setDestination:"`
		SetOutputURL   func(id, id)    `objc:"-MTLCaptureDescriptor setOutputURL:"`
	}
	CaptureScope struct {
		Begin    func(id)     `objc:"-MTLCaptureScope beginScope"`
		End      func(id)     `objc:"-MTLCaptureScope endScope"`
		SetLabel func(id, id) `objc:"-MTLCaptureScope setLabel:"`
	}
	HeapDescriptor struct {
		SetType  func(id, int64)  `objc:"-MTL4CounterHeapDescriptor setType:"`
		SetCount func(id, uint64) `objc:"-MTL4CounterHeapDescriptor setCount:"`
	}
	Heap struct {
		SetLabel   func(id, id)     `objc:"-MTL4CounterHeap setLabel:"`
		Count      func(id) uint64  `objc:"-MTL4CounterHeap count"`
		Resolve    func(id, rng) id `objc:"-MTL4CounterHeap resolveCounterRange:"`
		Invalidate func(id, rng)    `objc:"-MTL4CounterHeap invalidateCounterRange:"`
	}
	Queue4 struct {
		Commit          func(id, *id, uint64, id) `objc:"-MTL4CommandQueue commit:count:options:"`
		Signal          func(id, id, uint64)      `objc:"-MTL4CommandQueue signalEvent:value:"`
		WaitFor         func(id, id, uint64)      `objc:"-MTL4CommandQueue waitForEvent:value:"`
		AddResidencySet func(id, id)              `objc:"-MTL4CommandQueue addResidencySet:"`
		RemoveResidency func(id, id)              `objc:"-MTL4CommandQueue removeResidencySet:"`
	}
	CommitOptions struct {
		AddFeedback func(id, objc.Block) `objc:"-MTL4CommitOptions addFeedbackHandler:"`
	}
	Feedback struct {
		Error func(id) id      `objc:"-MTL4CommitFeedback error"`
		Start func(id) float64 `objc:"-MTL4CommitFeedback GPUStartTime"`
		End   func(id) float64 `objc:"-MTL4CommitFeedback GPUEndTime"`
	}
	Allocator struct {
		Reset         func(id)        `objc:"-MTL4CommandAllocator reset"`
		AllocatedSize func(id) uint64 `objc:"-MTL4CommandAllocator allocatedSize"`
	}
	CommandBuffer4 struct {
		SetLabel       func(id, id)                           `objc:"-MTL4CommandBuffer setLabel:"`
		Begin          func(id, id)                           `objc:"-MTL4CommandBuffer beginCommandBufferWithAllocator:"`
		End            func(id)                               `objc:"-MTL4CommandBuffer endCommandBuffer"`
		ComputeEncoder func(id) id                            `objc:"-MTL4CommandBuffer computeCommandEncoder"`
		WriteTimestamp func(id, id, uint64)                   `objc:"-MTL4CommandBuffer writeTimestampIntoHeap:atIndex:"`
		ResolveHeap    func(id, id, rng, BufferRange, id, id) `objc:"-MTL4CommandBuffer resolveCounterHeap:withRange:intoBuffer:waitFence:updateFence:"`
	}
	Encoder4 struct {
		SetLabel       func(id, id)                     `objc:"-MTL4CommandEncoder setLabel:"`
		End            func(id)                         `objc:"-MTL4CommandEncoder endEncoding"`
		PushDebugGroup func(id, id)                     `objc:"-MTL4CommandEncoder pushDebugGroup:"`
		PopDebugGroup  func(id)                         `objc:"-MTL4CommandEncoder popDebugGroup"`
		Barrier        func(id, uint64, uint64, uint64) `objc:"-MTL4CommandEncoder barrierAfterEncoderStages:beforeEncoderStages:visibilityOptions:"`
	}
	Compute4 struct {
		SetPipeline          func(id, id)                `objc:"-MTL4ComputeCommandEncoder setComputePipelineState:"`
		SetArgumentTable     func(id, id)                `objc:"-MTL4ComputeCommandEncoder setArgumentTable:"`
		DispatchThreadgroups func(id, Size, Size)        `objc:"-MTL4ComputeCommandEncoder dispatchThreadgroups:threadsPerThreadgroup:"`
		DispatchThreads      func(id, Size, Size)        `objc:"-MTL4ComputeCommandEncoder dispatchThreads:threadsPerThreadgroup:"`
		WriteTimestamp       func(id, int64, id, uint64) `objc:"-MTL4ComputeCommandEncoder writeTimestampWithGranularity:intoHeap:atIndex:"`
		Fill                 func(id, id, rng, uint8)    `objc:"-MTL4ComputeCommandEncoder fillBuffer:range:value:"`
	}
	ArgumentTableDescriptor struct {
		SetMaxBuffers func(id, uint64) `objc:"-MTL4ArgumentTableDescriptor setMaxBufferBindCount:"`
		SetInitialize func(id, bool)   `objc:"-MTL4ArgumentTableDescriptor setInitializeBindings:"`
	}
	ArgumentTable struct {
		SetAddress func(id, uint64, uint64) `objc:"-MTL4ArgumentTable setAddress:atIndex:"`
	}
}

// Table is the binding table of this package, for the checks against the ABI table.
func Table() any { return &bindings{} }

// Size is MTLSize.
type Size struct{ Width, Height, Depth uint64 }

// ObjCType returns the encoding of MTLSize.
func (Size) ObjCType() string { return "{?=QQQ}" }

// BufferRange is MTL4BufferRange: a GPU address and a length in bytes.
type BufferRange struct{ Address, Length uint64 }

// ObjCType returns the encoding of MTL4BufferRange.
func (BufferRange) ObjCType() string { return "{MTL4BufferRange=QQ}" }

// ResourceID is MTLResourceID.
type ResourceID struct{ Value uint64 }

// ObjCType returns the encoding of MTLResourceID.
func (ResourceID) ObjCType() string { return "{MTLResourceID=Q}" }
