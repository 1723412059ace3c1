//go:build (darwin || linux) && (amd64 || arm64)

package metaltest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/stax-otel/stax/metal/internal/objc"
)

// World is one fake system with its devices. Its lookup stands in for dlsym.
type World struct {
	slot *slot

	mu       sync.Mutex
	changed  *sync.Cond // an event was signalled, work ended or hold changed
	wg       sync.WaitGroup
	nextID   uintptr
	objects  map[uintptr]*object
	freed    map[uintptr]string // class names
	classes  map[string]*class
	classIDs map[uintptr]*class
	sels     map[string]uintptr
	selNames map[uintptr]string
	methods  map[uintptr]string // Method → encoding
	cstrings map[string]*byte
	strings  map[string]uintptr // constants
	externs  map[string]*uintptr
	pools    map[int][]*pool // by thread
	blocks   map[uintptr]*block

	now        uint64 // mach time, ns
	sleep      uint64 // ns that mach_continuous_time is ahead
	gpuFree    uint64 // ns
	skew       uint64 // ns that heap stamps are ahead
	devices    []uintptr
	manager    uintptr
	violations []string
	held       bool
	active     int // commits that run by themselves
	pending    []*work
	kernels    map[string]Kernel
	sampleBufs int
	captureOn  bool // MTL_CAPTURE_ENABLED
	capturing  string
	calls      map[string]int // sends by "Class selector"
	nils       map[string]bool
}

type object struct {
	id    uintptr
	class *class
	refs  int
	data  any
}

type pool struct{ objects []*object }

type block struct {
	mem  []uint64
	refs int
}

type class struct {
	id        uintptr
	name      string
	protocols []string
	methods   map[string]method
	static    map[string]method
}

type method struct {
	encoding string
	fn       func(c *call) uintptr
}

// call is one message on its way through a method.
type call struct {
	w    *World
	self *object
	name string
	args [][]uintptr
}

func (c *call) u(i int) uint64       { return uint64(c.args[i][0]) }
func (c *call) obj(i int) *object    { return c.w.object(c.args[i][0], c.name) }
func (c *call) rng(i int) (a, n int) { return int(c.args[i][0]), int(c.args[i][1]) }
func (c *call) str(i int) string {
	if c.args[i][0] == 0 {
		return ""
	}
	return c.obj(i).text()
}

// assert panics as Metal aborts.
func (c *call) assert(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf("-[%s]: failed assertion `%s'", c.name, fmt.Sprintf(format, args...)))
	}
}

// New makes a system with the given devices; the first is the default one. Close it.
func New(devices ...Profile) *World {
	w := &World{
		nextID: 0x6000_0000_0000, objects: map[uintptr]*object{}, freed: map[uintptr]string{}, classes: map[string]*class{},
		classIDs: map[uintptr]*class{}, sels: map[string]uintptr{}, selNames: map[uintptr]string{}, methods: map[uintptr]string{},
		cstrings: map[string]*byte{}, strings: map[string]uintptr{}, externs: map[string]*uintptr{}, pools: map[int][]*pool{},
		blocks: map[uintptr]*block{}, now: 1_000_000_000_000, kernels: map[string]Kernel{}, calls: map[string]int{},
	}
	w.changed = sync.NewCond(&w.mu)
	for _, define := range []func(*World){foundationClasses, deviceClasses, classicClasses, metal4Classes, captureClasses} {
		define(w)
	}
	for _, p := range devices {
		w.devices = append(w.devices, w.newDevice(p).id)
	}
	w.manager = w.alloc("MTLCaptureManager", nil).id
	w.slot = takeSlot(w)
	return w
}

// Close waits for running work, gives the callbacks back and reports what is left: objects, blocks and pools that the
// program never released, and what it did wrong on the way.
func (w *World) Close() []string {
	w.mu.Lock()
	w.held = false
	for _, k := range w.pending {
		w.abandon(k)
	}
	w.pending = nil
	w.mu.Unlock()
	w.wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Clone(w.violations)
	own := append(slices.Clone(w.devices), w.manager)
	for _, o := range w.objects {
		extra := o.refs
		if slices.Contains(own, o.id) {
			extra--
		}
		if _, constant := o.data.(constant); !constant && extra > 0 {
			out = append(out, fmt.Sprintf("leaked %s (%d references)", o.class.name, extra))
		}
	}
	if n := len(w.blocks); n > 0 {
		out = append(out, fmt.Sprintf("leaked %d blocks", n))
	}
	for _, stack := range w.pools {
		if len(stack) > 0 {
			out = append(out, fmt.Sprintf("%d autorelease pools were never popped", len(stack)))
		}
	}
	slices.Sort(out)
	w.slot.give()
	return out
}

// Lookup is the world's symbol table.
func (w *World) Lookup(name string) (uintptr, error) {
	if addr, ok := w.slot.symbols[name]; ok {
		return addr, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if value, ok := externs[name]; ok {
		v, ok := w.externs[name]
		if !ok {
			v = new(uintptr)
			*v = w.constant(value)
			w.externs[name] = v
		}
		return uintptr(unsafe.Pointer(v)), nil
	}
	return 0, fmt.Errorf("metaltest has no symbol %s", name)
}

// Calls returns how often a message was sent to a class of the fake, such as "FakeHeap resolveCounterRange:".
func (w *World) Calls(classAndSelector string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[classAndSelector]
}

// Live is the number of live objects of a class of the fake.
func (w *World) Live(className string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.objects {
		if o.class.name == className {
			n++
		}
	}
	return n
}

// Encodings returns the type encodings of every method by "-Owner selector", for comparison with the ABI table. The
// owner is the protocol or the class that the table names.
func (w *World) Encodings() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]string{}
	for _, c := range w.classes {
		for _, owner := range append([]string{c.name}, c.protocols...) {
			for sel, m := range c.methods {
				out["-"+owner+" "+sel] = m.encoding
			}
			for sel, m := range c.static {
				out["+"+owner+" "+sel] = m.encoding
			}
		}
	}
	return out
}

// methods of a class by selector.
type methods map[string]method

func (w *World) define(name string, protocols []string, instance, static methods) *class {
	w.nextID += 16
	c := &class{id: w.nextID, name: name, protocols: protocols, methods: instance, static: static}
	if c.static == nil {
		c.static = methods{}
	}
	if len(protocols) == 0 { // a class of the SDK
		if _, ok := c.static["new"]; !ok {
			c.static["new"] = method{"@@:", func(c *call) uintptr { return c.w.alloc(name, &descriptor{}).id }}
		}
	}
	w.classes[name], w.classIDs[c.id] = c, c
	return c
}

// descriptor is the state of any object that only holds properties.
type descriptor struct {
	u   map[string]uint64
	obj map[string]*object
}

func (d *descriptor) set(k string, v uint64) {
	if d.u == nil {
		d.u = map[string]uint64{}
	}
	d.u[k] = v
}

// property makes a setter of a descriptor. Objects are retained as properties do.
func property(encoding, key string) method {
	return method{encoding, func(c *call) uintptr {
		d := c.self.data.(*descriptor)
		if encoding != "v@:@" {
			d.set(key, c.u(0))
			return 0
		}
		if d.obj == nil {
			d.obj = map[string]*object{}
		}
		old := d.obj[key]
		d.obj[key] = nil
		if c.args[0][0] != 0 {
			d.obj[key] = c.obj(0)
			d.obj[key].refs++
		}
		c.w.releaseObject(old)
		return 0
	}}
}

func (w *World) alloc(className string, data any) *object {
	c := w.classes[className]
	if c == nil {
		panic("metaltest: no class " + className)
	}
	w.nextID += 16
	o := &object{id: w.nextID, class: c, refs: 1, data: data}
	w.objects[o.id] = o
	return o
}

// object finds a live object or panics: what a real runtime would answer with a crash, or with silence.
func (w *World) object(id uintptr, by string) *object {
	if o := w.objects[id]; o != nil {
		return o
	}
	if name, ok := w.freed[id]; ok {
		panic(fmt.Sprintf("metaltest: %s used a freed %s", by, name))
	}
	panic(fmt.Sprintf("metaltest: %s used %#x, which is no object", by, id))
}

func (w *World) releaseObject(o *object) {
	if o == nil {
		return
	}
	if w.objects[o.id] == nil {
		panic("metaltest: a freed " + o.class.name + " was released again")
	}
	o.refs--
	if o.refs > 0 {
		return
	}
	delete(w.objects, o.id)
	w.freed[o.id] = o.class.name
	switch d := o.data.(type) {
	case *descriptor:
		for _, p := range d.obj {
			w.releaseObject(p)
		}
	case interface{ free(w *World) }:
		d.free(w)
	}
}

// autorelease hands an object over to the innermost pool of the calling thread.
func (w *World) autorelease(o *object) uintptr {
	stack := w.pools[threadID()]
	if len(stack) == 0 {
		panic(fmt.Sprintf("metaltest: a %s was autoreleased with no pool in place", o.class.name))
	}
	p := stack[len(stack)-1]
	p.objects = append(p.objects, o)
	return o.id
}

type constant string

// constant returns an immortal string.
func (w *World) constant(s string) uintptr {
	id, ok := w.strings[s]
	if !ok {
		id = w.alloc("NSString", constant(s)).id
		w.strings[s] = id
	}
	return id
}

func (w *World) newString(s string) uintptr { return w.autorelease(w.alloc("NSString", s)) }

// cstring returns a C string that lives as long as the world.
func (w *World) cstring(s string) uintptr {
	p, ok := w.cstrings[s]
	if !ok {
		b := append([]byte(s), 0)
		p = &b[0]
		w.cstrings[s] = p
	}
	return uintptr(unsafe.Pointer(p))
}

func (w *World) find(self, sel uintptr) (*object, method, string) {
	name, ok := w.selNames[sel]
	if !ok {
		panic(fmt.Sprintf("metaltest: selector %#x was never registered", sel))
	}
	if c, ok := w.classIDs[self]; ok {
		m, ok := c.static[name]
		if !ok {
			panic(fmt.Sprintf("+[%s %s]: unrecognized selector sent to class", c.name, name))
		}
		return nil, m, c.name + " " + name
	}
	o := w.object(self, name)
	m, ok := w.methodOf(o, name)
	if !ok {
		panic(fmt.Sprintf("-[%s %s]: unrecognized selector sent to instance %#x", o.class.name, name, self))
	}
	return o, m, o.class.name + " " + name
}

func (w *World) methodOf(o *object, name string) (method, bool) { return w.classMethod(o.class, name) }

func (w *World) classMethod(c *class, name string) (method, bool) {
	m, ok := c.methods[name]
	return m, ok
}

// send is objc_msgSend.
func (w *World) send(a []uintptr) uintptr {
	if a[0] == 0 {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o, m, name := w.find(a[0], a[1])
	w.calls[name]++
	if w.nils[name] {
		return 0
	}
	return m.fn(&call{w: w, self: o, name: name, args: arguments(m.encoding, a)})
}

// arguments takes a method's arguments out of the words of a call: the general registers, then the stack.
func arguments(encoding string, a []uintptr) [][]uintptr {
	regs := 8
	if runtime.GOARCH == "amd64" {
		regs = 6
	}
	var out [][]uintptr
	reg, stack := 2, regs
	takeStack := func(n int) []uintptr {
		stack += n
		return a[stack-n : stack]
	}
	for _, t := range argumentTypes(encoding) {
		n := 1
		if strings.HasPrefix(t, "{") {
			n = strings.Count(t[strings.IndexByte(t, '='):], "Q")
		}
		switch {
		case n > 2 && runtime.GOARCH == "amd64":
			out = append(out, takeStack(n))
		case n > 2: // the address of a copy
			var p uintptr
			if reg < regs {
				p = a[reg]
				reg++
			} else {
				p = takeStack(1)[0]
			}
			out = append(out, slices.Clone(unsafe.Slice((*uintptr)(pointer(p)), n)))
		case reg+n <= regs:
			out = append(out, a[reg:reg+n])
			reg += n
		default:
			if runtime.GOARCH != "amd64" {
				reg = regs
			}
			out = append(out, takeStack(n))
		}
	}
	for i, t := range argumentTypes(encoding) { // narrow types leave the rest of a register undefined
		if t == "B" || t == "C" {
			out[i] = []uintptr{out[i][0] & 0xff}
		}
	}
	return out
}

// argumentTypes splits a stripped encoding into the types after receiver and selector.
func argumentTypes(enc string) (out []string) {
	take := func() string {
		i := 0
		for enc[i] == '^' {
			i++
		}
		if enc[i] == '{' {
			depth := 0
			for ; ; i++ {
				if enc[i] == '{' {
					depth++
				} else if enc[i] == '}' {
					if depth--; depth == 0 {
						break
					}
				}
			}
		} else if enc[i] == '@' && i+1 < len(enc) && enc[i+1] == '?' {
			i++
		}
		t := enc[:i+1]
		enc = enc[i+1:]
		return t
	}
	take() // result
	take() // self
	take() // _cmd
	for enc != "" {
		out = append(out, take())
	}
	return out
}

func pointer(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

func cstringAt(addr uintptr) string {
	p := pointer(addr)
	n := 0
	for *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}

// double carries a floating-point result: Go callbacks return no float, but a struct of one.
type double struct{ v float64 }

// words3 and words2 carry results of three and two words.
type (
	words3 struct{ a, b, c uint64 }
	words2 struct{ a, b uintptr }
)

// sendDouble and sendWords are the entries for results that a uintptr cannot hold.
func (w *World) sendDouble(self, sel uintptr) double {
	if self == 0 {
		return double{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o, m, name := w.find(self, sel)
	w.calls[name]++
	return double{float64frombits(m.fn(&call{w: w, self: o, name: name}))}
}

func (w *World) sendWords(self, sel uintptr) words3 {
	if self == 0 {
		return words3{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o, m, name := w.find(self, sel)
	w.calls[name]++
	var out words3
	m.fn(&call{w: w, self: o, name: name, args: [][]uintptr{{uintptr(unsafe.Pointer(&out))}}})
	return out
}

var _ objc.Lookup = (*World)(nil).Lookup
