//go:build (darwin || linux) && (amd64 || arm64)

package metaltest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unsafe"
)

// Externs: constants that are NSString variables.
var externs = map[string]string{
	"MTLCommonCounterSetTimestamp":        "timestamp",
	"MTLCommonCounterSetStatistic":        "statistic",
	"MTLCommonCounterSetStageUtilization": "stageutilization",
	"MTLCounterErrorDomain":               "MTLCounterErrorDomain",
	"MTLCaptureErrorDomain":               "MTLCaptureErrorDomain",
	"MTL4CommandQueueErrorDomain":         "MTL4CommandQueueErrorDomain",
	"MTLLibraryErrorDomain":               "MTLLibraryErrorDomain",
	"MTLCommandBufferErrorDomain":         "MTLCommandBufferErrorDomain",
}

type deviceData struct {
	p    Profile
	sets []*object
	next uint64 // GPU address
	live uint64 // bytes
}

func (o *object) device() *deviceData { return o.data.(*deviceData) }

// of is the state of objects that only need to know their device.
type of struct {
	dev   *object
	label string
}

type bufferData struct {
	of
	mem     []byte
	private bool
	address uint64
}

func (b *bufferData) free(*World) { b.dev.device().live -= uint64(len(b.mem)) }

type libraryData struct{ names []string }

type functionData struct{ name string }

type pipelineData struct{ name string }

// Kernel is what a function of a compiled library does: bufs are the bound buffers by index, nil where none is bound.
// Buffers that are in no residency set arrive as fresh zeros, as reported for Metal 4.
type Kernel func(bufs [][]byte, threads uint64)

// Kernel registers the code of a function; functions without code take time and change nothing.
func (w *World) Kernel(name string, k Kernel) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kernels[name] = k
}

func (w *World) newDevice(p Profile) *object {
	name := "FakeDeviceClassic"
	if p.Metal4 {
		name = "FakeDevice"
	}
	d := &deviceData{p: p, next: 0x1_0000_0000}
	for _, s := range p.Sets {
		d.sets = append(d.sets, w.alloc("FakeCounterSet", constant(s.Name)))
	}
	return w.alloc(name, d)
}

func (d *deviceData) set(o *object) *Set {
	for i, s := range d.sets {
		if s == o {
			return &d.p.Sets[i]
		}
	}
	return nil
}

// broken makes a method with an NSError fail without one where the device's faults say so.
func broken(fn func(c *call) uintptr) func(c *call) uintptr {
	return func(c *call) uintptr {
		if c.self.device().p.Faults.NilErrors {
			return 0
		}
		return fn(c)
	}
}

func yes(b bool) uintptr {
	const undefined = 0x5500 // the upper bytes of a BOOL mean nothing
	if b {
		return undefined | 1
	}
	return undefined
}

var kernelName = regexp.MustCompile(`\bkernel\s+void\s+(\w+)`)

func deviceClasses(w *World) {
	create := func(encoding, className string, data func(c *call) any) method {
		return method{encoding, func(c *call) uintptr { return c.w.alloc(className, data(c)).id }}
	}
	classic := methods{
		"name":                         {"@@:", func(c *call) uintptr { return c.w.newString(c.self.device().p.Name) }},
		"registryID":                   {"Q@:", func(*call) uintptr { return 0x1000002fd }},
		"location":                     {"Q@:", func(*call) uintptr { return 0 }},
		"hasUnifiedMemory":             {"B@:", func(c *call) uintptr { return yes(c.self.device().p.UnifiedMemory) }},
		"isLowPower":                   {"B@:", func(c *call) uintptr { return yes(c.self.device().p.LowPower) }},
		"isHeadless":                   {"B@:", func(*call) uintptr { return yes(false) }},
		"isRemovable":                  {"B@:", func(*call) uintptr { return yes(false) }},
		"recommendedMaxWorkingSetSize": {"Q@:", func(*call) uintptr { return 96 << 30 }},
		"currentAllocatedSize":         {"Q@:", func(c *call) uintptr { return uintptr(c.self.device().live) }},
		"maxBufferLength":              {"Q@:", func(*call) uintptr { return 64 << 30 }},
		"maxThreadsPerThreadgroup":     {"{?=QQQ}@:", func(c *call) uintptr { *(*words3)(pointer(c.args[0][0])) = words3{1024, 1024, 1024}; return 0 }},
		"supportsFamily:":              {"B@:q", func(c *call) uintptr { return yes(slices.Contains(c.self.device().p.Families, int64(c.u(0)))) }},
		"supportsCounterSampling:":     {"B@:Q", func(c *call) uintptr { return yes(slices.Contains(c.self.device().p.Points, c.u(0))) }},
		"architecture": {"@@:", func(c *call) uintptr {
			if c.self.device().p.Architecture == "" {
				return 0
			}
			return c.w.autorelease(c.w.alloc("MTLArchitecture", c.self.device().p.Architecture))
		}},
		"counterSets": {"@@:", func(c *call) uintptr {
			if c.self.device().p.Sets == nil {
				return 0
			}
			var ids []uintptr
			for _, s := range c.self.device().sets {
				ids = append(ids, s.id)
			}
			return c.w.autorelease(c.w.newArray(ids))
		}},
		"sampleTimestamps:gpuTimestamp:": {"v@:^Q^Q", func(c *call) uintptr {
			c.w.now += 800
			*(*uint64)(pointer(c.args[0][0])) = c.w.now
			*(*uint64)(pointer(c.args[1][0])) = c.self.device().gpuTime(c.w.now)
			c.w.now += 800
			return 0
		}},
		"newCommandQueue": create("@@:", "FakeQueue", func(c *call) any { return &queueData{of: of{dev: c.self}} }),
		"newSharedEvent":  create("@@:", "FakeSharedEvent", func(*call) any { return new(uint64) }),
		"newBufferWithLength:options:": {"@@:QQ", func(c *call) uintptr {
			n, d := c.u(0), c.self.device()
			if n == 0 || n > 1<<30 {
				return 0
			}
			b := &bufferData{of: of{dev: c.self}, mem: make([]byte, n), private: c.u(1)&0xf0 == 0x20, address: d.next}
			d.next += (n + 0xffff) &^ 0xffff
			d.live += n
			return c.w.alloc("FakeBuffer", b).id
		}},
		"newLibraryWithSource:options:error:": {"@@:@@^@", broken(func(c *call) uintptr {
			src := c.str(0)
			names := kernelName.FindAllStringSubmatch(src, -1)
			if len(names) == 0 || strings.Count(src, "{") != strings.Count(src, "}") {
				return c.fail(2, "MTLLibraryErrorDomain", 3, "program_source:1:1: error: expected a kernel")
			}
			l := &libraryData{}
			for _, n := range names {
				l.names = append(l.names, n[1])
			}
			return c.w.alloc("FakeLibrary", l).id
		})},
		"newLibraryWithURL:error:": {"@@:@^@", broken(func(c *call) uintptr {
			return c.fail(1, "MTLLibraryErrorDomain", 6, "library not found: "+c.str(0))
		})},
		"newComputePipelineStateWithFunction:error:": {"@@:@^@", broken(func(c *call) uintptr {
			f := c.obj(0).data.(*functionData)
			if f.name == "unlinkable" {
				return c.fail(1, "MTLLibraryErrorDomain", 2, "the function cannot be linked")
			}
			return c.w.alloc("FakePipeline", &pipelineData{f.name}).id
		})},
		"newCounterSampleBufferWithDescriptor:error:": {"@@:@^@", broken(func(c *call) uintptr {
			desc := c.obj(0).data.(*descriptor)
			n := desc.u["count"]
			switch {
			case n == 0 || n > 4096:
				return c.fail(1, "MTLCounterErrorDomain", 1, fmt.Sprintf("%d samples, at most 4096", n))
			case c.w.sampleBufs >= 32:
				return c.fail(1, "MTLCounterErrorDomain", 0, "Cannot allocate sample buffer")
			}
			set := c.self.device().set(desc.obj["set"])
			c.w.sampleBufs++
			return c.w.alloc("FakeSampleBuffer", &sampleData{of: of{dev: c.self}, set: set, values: make([]uint64, int(n)*len(set.Counters))}).id
		})},
		"newResidencySetWithDescriptor:error:": {"@@:@^@", broken(func(c *call) uintptr {
			c.obj(0)
			return c.w.alloc("FakeResidencySet", &residencyData{resident: map[*object]bool{}}).id
		})},
	}
	metal4 := methods{
		"queryTimestampFrequency": {"Q@:", func(c *call) uintptr { return uintptr(c.self.device().p.HeapHz) }},
		"sizeOfCounterHeapEntry:": {"Q@:q", func(c *call) uintptr {
			c.assert(c.u(0) == 1, "invalid counter heap type %d", c.u(0))
			return uintptr(max(c.self.device().p.HeapEntryBytes, 8))
		}},
		"newCounterHeapWithDescriptor:error:": {"@@:@^@", broken(func(c *call) uintptr {
			d := c.obj(0).data.(*descriptor)
			if d.u["type"] != 1 || d.u["count"] == 0 {
				return c.fail(1, "MTLDeviceErrorDomain", 1, "invalid counter heap descriptor")
			}
			return c.w.alloc("FakeHeap", &heapData{of: of{dev: c.self}, entries: make([]uint64, d.u["count"])}).id
		})},
		"newMTL4CommandQueue": create("@@:", "FakeQueue4", func(c *call) any { return &queueData{of: of{dev: c.self}, metal4: true} }),
		"newCommandAllocator": create("@@:", "FakeAllocator", func(*call) any { return &allocatorData{} }),
		"newCommandBuffer":    create("@@:", "FakeCommandBuffer4", func(c *call) any { return &commandData{of: of{dev: c.self}, metal4: true} }),
		"newArgumentTableWithDescriptor:error:": {"@@:@^@", broken(func(c *call) uintptr {
			d := c.obj(0).data.(*descriptor)
			if n := d.u["buffers"]; n == 0 || n > 31 {
				return c.fail(1, "MTLDeviceErrorDomain", 1, fmt.Sprintf("maxBufferBindCount %d", n))
			}
			return c.w.alloc("FakeArgumentTable", &tableData{addresses: make([]uint64, d.u["buffers"])}).id
		})},
	}
	w.define("FakeDeviceClassic", []string{"MTLDevice"}, classic, nil)
	all := maps.Clone(classic)
	maps.Copy(all, metal4)
	w.define("FakeDevice", []string{"MTLDevice"}, all, nil)

	text := func(c *call) uintptr { return c.w.newString(c.self.text()) }
	w.define("MTLArchitecture", nil, methods{"name": {"@@:", text}}, nil)
	w.define("FakeCounter", []string{"MTLCounter"}, methods{"name": {"@@:", text}}, nil)
	w.define("FakeCounterSet", []string{"MTLCounterSet"}, methods{
		"name": {"@@:", text},
		"counters": {"@@:", func(c *call) uintptr {
			var ids []uintptr
			for _, o := range c.w.devices {
				if s := c.w.objects[o].device().set(c.self); s != nil {
					for _, n := range s.Counters {
						ids = append(ids, c.w.autorelease(c.w.alloc("FakeCounter", n)))
					}
				}
			}
			return c.w.autorelease(c.w.newArray(ids))
		}},
	}, nil)
	w.define("FakeBuffer", []string{"MTLBuffer", "MTLResource", "MTLAllocation"}, methods{
		"setLabel:": {"v@:@", func(c *call) uintptr { c.self.data.(*bufferData).label = c.str(0); return 0 }},
		"length":    {"Q@:", func(c *call) uintptr { return uintptr(len(c.self.data.(*bufferData).mem)) }},
		"contents": {"^v@:", func(c *call) uintptr {
			b := c.self.data.(*bufferData)
			if b.private {
				return 0
			}
			return uintptr(unsafe.Pointer(&b.mem[0]))
		}},
		"gpuAddress": {"Q@:", func(c *call) uintptr { return uintptr(c.self.data.(*bufferData).address) }},
	}, nil)
	w.define("FakeLibrary", []string{"MTLLibrary"}, methods{
		"setLabel:": {"v@:@", func(c *call) uintptr { c.str(0); return 0 }},
		"newFunctionWithName:": {"@@:@", func(c *call) uintptr {
			if !slices.Contains(c.self.data.(*libraryData).names, c.str(0)) {
				return 0
			}
			return c.w.alloc("FakeFunction", &functionData{c.str(0)}).id
		}},
		"functionNames": {"@@:", func(c *call) uintptr {
			var ids []uintptr
			for _, n := range c.self.data.(*libraryData).names {
				ids = append(ids, c.w.newString(n))
			}
			return c.w.autorelease(c.w.newArray(ids))
		}},
	}, nil)
	w.define("FakeFunction", []string{"MTLFunction"}, methods{
		"name":         {"@@:", func(c *call) uintptr { return c.w.newString(c.self.data.(*functionData).name) }},
		"functionType": {"Q@:", func(*call) uintptr { return 3 }},
	}, nil)
	w.define("FakePipeline", []string{"MTLComputePipelineState"}, methods{
		"label":                         {"@@:", func(*call) uintptr { return 0 }},
		"maxTotalThreadsPerThreadgroup": {"Q@:", func(*call) uintptr { return 1024 }},
		"threadExecutionWidth":          {"Q@:", func(*call) uintptr { return 32 }},
		"staticThreadgroupMemoryLength": {"Q@:", func(*call) uintptr { return 512 }},
		"gpuResourceID":                 {"{MTLResourceID=Q}@:", func(c *call) uintptr { return c.self.id >> 4 }},
	}, nil)
	w.define("FakeSharedEvent", []string{"MTLSharedEvent", "MTLEvent"}, methods{
		"signaledValue": {"Q@:", func(c *call) uintptr { return uintptr(*c.self.data.(*uint64)) }},
		"setSignaledValue:": {"v@:Q", func(c *call) uintptr {
			*c.self.data.(*uint64) = c.u(0)
			c.w.changed.Broadcast()
			return 0
		}},
		"waitUntilSignaledValue:timeoutMS:": {"B@:QQ", func(c *call) uintptr {
			return yes(c.w.waitEvent(c.self, c.u(0), c.u(1)))
		}},
	}, nil)
	w.define("MTLCompileOptions", nil, methods{
		"setLanguageVersion:":   property("v@:Q", "language"),
		"setMathMode:":          property("v@:q", "math"),
		"setOptimizationLevel:": property("v@:q", "optimization"),
	}, nil)
}
