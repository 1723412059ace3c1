//go:build (darwin || linux) && (amd64 || arm64)

package metaltest

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/stax-otel/stax/metal/internal/objc"
)

// A slot is a set of C entry points that lead to one world at a time. purego never frees callbacks (2000 in a process),
// so slots are used again.
type slot struct {
	world   atomic.Pointer[World]
	symbols map[string]uintptr
}

var slots struct {
	sync.Mutex
	free []*slot
}

func takeSlot(w *World) *slot {
	slots.Lock()
	defer slots.Unlock()
	var s *slot
	if n := len(slots.free); n > 0 {
		s, slots.free = slots.free[n-1], slots.free[:n-1]
	} else {
		s = newSlot()
	}
	s.world.Store(w)
	return s
}

func (s *slot) give() {
	s.world.Store(nil)
	slots.Lock()
	slots.free = append(slots.free, s)
	slots.Unlock()
}

func (s *slot) w() *World {
	if w := s.world.Load(); w != nil {
		return w
	}
	panic("metaltest: call into a closed world")
}

func float64frombits(v uintptr) float64 { return math.Float64frombits(uint64(v)) }

// float64bits is how a method returns a double to sendDouble.
func float64bits(f float64) uintptr { return uintptr(math.Float64bits(f)) }

func newSlot() *slot {
	s := &slot{}
	locked := func(fn func(w *World, a, b uintptr) uintptr) uintptr {
		return purego.NewCallback(func(a, b uintptr) uintptr {
			w := s.w()
			w.mu.Lock()
			defer w.mu.Unlock()
			return fn(w, a, b)
		})
	}
	s.symbols = map[string]uintptr{
		"objc_msgSend": purego.NewCallback(func(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p uintptr) uintptr {
			return s.w().send([]uintptr{a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p})
		}),
		"objc_msgSend_stret":    purego.NewCallback(func(self, sel uintptr) words3 { return s.w().sendWords(self, sel) }),
		objc.FakeDoubleSend:     purego.NewCallback(func(self, sel uintptr) double { return s.w().sendDouble(self, sel) }),
		"_NSConcreteStackBlock": locked(func(*World, uintptr, uintptr) uintptr { panic("metaltest: _NSConcreteStackBlock was called") }),
		"sel_registerName": locked(func(w *World, name, _ uintptr) uintptr {
			n := cstringAt(name)
			id, ok := w.sels[n]
			if !ok {
				w.nextID += 16
				id = w.nextID
				w.sels[n], w.selNames[id] = id, n
			}
			return id
		}),
		"objc_getClass": locked(func(w *World, name, _ uintptr) uintptr {
			if c := w.classes[cstringAt(name)]; c != nil {
				return c.id
			}
			return 0
		}),
		"object_getClass": locked(func(w *World, id, _ uintptr) uintptr {
			if id == 0 {
				return 0
			}
			return w.object(id, "object_getClass").class.id
		}),
		"class_getName": locked(func(w *World, c, _ uintptr) uintptr {
			if c == 0 {
				return w.cstring("nil")
			}
			return w.cstring(w.classIDs[c].name)
		}),
		"class_respondsToSelector": locked(func(w *World, c, sel uintptr) uintptr {
			const undefined = 0xabcd00 // the upper bytes of a BOOL mean nothing
			if _, ok := w.classMethod(w.classIDs[c], w.selNames[sel]); ok {
				return undefined | 1
			}
			return undefined
		}),
		"class_getInstanceMethod": locked(func(w *World, c, sel uintptr) uintptr { return w.methodID(w.classIDs[c].methods, sel) }),
		"class_getClassMethod":    locked(func(w *World, c, sel uintptr) uintptr { return w.methodID(w.classIDs[c].static, sel) }),
		"method_getTypeEncoding":  locked(func(w *World, m, _ uintptr) uintptr { return w.cstring(w.methods[m]) }),
		"objc_getProtocol": locked(func(w *World, name, _ uintptr) uintptr {
			for _, c := range w.classes {
				for _, p := range c.protocols {
					if p == cstringAt(name) {
						return w.constant("protocol " + p)
					}
				}
			}
			return 0
		}),
		"protocol_getMethodDescription": purego.NewCallback(func(p, sel, _, instance uintptr) words2 {
			w := s.w()
			w.mu.Lock()
			defer w.mu.Unlock()
			name := string(w.objects[p].data.(constant))[len("protocol "):]
			for _, c := range w.classes {
				m, ok := c.methods[w.selNames[sel]]
				for _, has := range c.protocols {
					if ok && has == name && instance&0xff == 1 {
						return words2{sel, w.cstring(m.encoding)}
					}
				}
			}
			return words2{}
		}),
		"objc_autoreleasePoolPush": locked(func(w *World, _, _ uintptr) uintptr {
			t := threadID()
			w.pools[t] = append(w.pools[t], &pool{})
			return uintptr(len(w.pools[t]))
		}),
		"objc_autoreleasePoolPop": locked(func(w *World, token, _ uintptr) uintptr {
			t := threadID()
			stack := w.pools[t]
			if int(token) < 1 || int(token) > len(stack) {
				panic(fmt.Sprintf("metaltest: pool %d popped on a thread with %d pools", token, len(stack)))
			}
			gone := stack[token-1:]
			if token == 1 {
				delete(w.pools, t)
			} else {
				w.pools[t] = stack[:token-1]
			}
			for _, p := range gone {
				for _, o := range p.objects {
					w.releaseObject(o)
				}
			}
			return 0
		}),
		"objc_retain": locked(func(w *World, id, _ uintptr) uintptr {
			w.object(id, "objc_retain").refs++
			return id
		}),
		"objc_release": locked(func(w *World, id, _ uintptr) uintptr {
			w.releaseObject(w.object(id, "objc_release"))
			return 0
		}),
		"_Block_copy": locked(func(w *World, literal, _ uintptr) uintptr {
			if b := w.blocks[literal]; b != nil {
				b.refs++
				return literal
			}
			size := *(*uint64)(unsafe.Add(pointer(*(*uintptr)(unsafe.Add(pointer(literal), 24))), 8))
			b := &block{mem: make([]uint64, size/8), refs: 1}
			copy(b.mem, unsafe.Slice((*uint64)(pointer(literal)), size/8))
			addr := uintptr(unsafe.Pointer(&b.mem[0]))
			w.blocks[addr] = b
			return addr
		}),
		"_Block_release": purego.NewCallback(func(addr uintptr) uintptr { s.w().releaseBlock(addr); return 0 }),
		"MTLCreateSystemDefaultDevice": locked(func(w *World, _, _ uintptr) uintptr {
			if len(w.devices) == 0 {
				return 0
			}
			w.objects[w.devices[0]].refs++
			return w.devices[0]
		}),
		"MTLCopyAllDevices": locked(func(w *World, _, _ uintptr) uintptr { return w.newArray(w.devices).id }),
		"mach_absolute_time": locked(func(w *World, _, _ uintptr) uintptr {
			w.now += 500
			return uintptr(machTicks(w.now))
		}),
		"mach_continuous_time": locked(func(w *World, _, _ uintptr) uintptr {
			w.now += 500
			return uintptr(machTicks(w.now + w.sleep))
		}),
		"mach_timebase_info": locked(func(_ *World, info, _ uintptr) uintptr {
			p := (*[2]uint32)(pointer(info))
			p[0], p[1] = timebaseNumer, timebaseDenom
			return 0
		}),
	}
	s.symbols[objc.FakeWordsSend] = s.symbols["objc_msgSend_stret"]
	return s
}

// The timebase of Apple silicon: 24 MHz.
const timebaseNumer, timebaseDenom = 125, 3

func machTicks(ns uint64) uint64 {
	return ns/timebaseNumer*timebaseDenom + ns%timebaseNumer*timebaseDenom/timebaseNumer
}

func (w *World) methodID(ms methods, sel uintptr) uintptr {
	m, ok := ms[w.selNames[sel]]
	if !ok {
		return 0
	}
	w.nextID += 16
	w.methods[w.nextID] = m.encoding
	return w.nextID
}

// releaseBlock drops a reference; the last one calls the block's dispose helper.
func (w *World) releaseBlock(addr uintptr) {
	w.mu.Lock()
	b := w.blocks[addr]
	if b == nil {
		w.mu.Unlock()
		panic(fmt.Sprintf("metaltest: _Block_release of %#x, which is no block", addr))
	}
	b.refs--
	last := b.refs == 0
	if last {
		delete(w.blocks, addr)
	}
	w.mu.Unlock()
	if last {
		dispose := *(*uintptr)(unsafe.Add(pointer(uintptr(b.mem[3])), 24))
		_, _, _ = purego.SyscallN(dispose, addr)
	}
	_ = b.mem[0] // the memory lives until here
}

// invoke calls a block with one object and releases it. The world is not locked.
func (w *World) invoke(addr, arg uintptr) {
	w.mu.Lock()
	fn := uintptr(w.blocks[addr].mem[2])
	w.mu.Unlock()
	_, _, _ = purego.SyscallN(fn, addr, arg)
	w.releaseBlock(addr)
}
