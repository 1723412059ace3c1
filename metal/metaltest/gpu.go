//go:build (darwin || linux) && (amd64 || arm64)

package metaltest

import (
	"fmt"
	"time"
)

// The GPU: encoders record operations, a commit runs them in order on a goroutine of its own or, while the world is
// held, when told to. All times are virtual nanoseconds of the mach timeline.

type queueData struct {
	of
	metal4    bool
	residency []*object
	tail      chan struct{} // closed when the last commit of this queue has run
}

type allocatorData struct{ inFlight int }

type heapData struct {
	of
	entries []uint64
	// wiped are the command buffers in flight when the heap was invalidated: what they write is lost.
	wiped map[*commandData]bool
	users map[*commandData]bool
}

type sampleData struct {
	of
	set    *Set
	values []uint64
}

func (s *sampleData) free(w *World) { w.sampleBufs-- }

type residencyData struct {
	pending  []*object
	resident map[*object]bool
	removed  []*object
}

type tableData struct{ addresses []uint64 }

type opKind int

const (
	opDispatch opKind = iota
	opStamp           // inside an encoder
	opBufferStamp
	opSample
	opFill
	opResolveHeap
	opResolveSamples
	opSignal
)

type op struct {
	kind    opKind
	heap    *heapData
	sample  *sampleData
	index   int
	n       int
	threads uint64
	kernel  string
	bufs    []*bufferData
	address []uint64 // Metal 4: bound addresses
	buffer  *bufferData
	offset  int
	value   uint64
	event   *object
}

type encoderData struct {
	cb       *commandData
	ops      []op
	pipeline *pipelineData
	table    *tableData
	bufs     []*bufferData
	start    int // sample indices, -1: none
	end      int
	sample   *sampleData
	ended    bool
	blit     bool
}

type commandData struct {
	of
	metal4    bool
	queue     *object
	allocator *allocatorData
	recording bool
	encoders  []*encoderData // an encoder with only cb-level ops stands for what is between encoders
	handlers  []uintptr
	status    uint64
	err       *errorData
	start     float64
	end       float64
	committed bool
	inFlight  bool
}

// work is one commit.
type work struct {
	queue    *object
	buffers  []*object
	feedback []uintptr // blocks
	after    chan struct{}
	done     chan struct{}
	signals  []op // Metal 4 queue signals after it
}

func (d *deviceData) gpuTime(ns uint64) uint64 {
	return d.p.GPUOffset + uint64(float64(ns)*(1+d.p.GPUPPM/1e6)/d.p.GPUPeriod)
}

func (d *deviceData) heapTicks(ns uint64) uint64 {
	hz := d.p.HeapHz
	return ns/1e9*hz + ns%1e9*hz/1e9
}

func (d *deviceData) stamp(v uint64) uint64 {
	switch {
	case d.p.Faults.ZeroStamps:
		return 0
	case d.p.Faults.ErrorStamps:
		return ^uint64(0)
	}
	return v
}

// Hold keeps committed work from running until Finish or Resume.
func (w *World) Hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = true
}

// Pending is the number of commits that wait because of Hold.
func (w *World) Pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending)
}

// Finish runs the i-th pending commit to its end, feedback included: in any order, as different queues may.
func (w *World) Finish(i int) {
	w.mu.Lock()
	k := w.pending[i]
	w.pending = append(w.pending[:i], w.pending[i+1:]...)
	w.mu.Unlock()
	w.run(k)
}

// Resume ends Hold and runs what is pending.
func (w *World) Resume() {
	w.mu.Lock()
	w.held = false
	w.mu.Unlock()
	for w.Pending() > 0 {
		w.Finish(0)
	}
}

// Sleep lets the machine sleep: mach_absolute_time stands still while mach_continuous_time goes on.
func (w *World) Sleep(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sleep += uint64(d)
}

// Advance lets virtual time pass.
func (w *World) Advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now += uint64(d)
}

// EnableCapture is MTL_CAPTURE_ENABLED=1 in the environment.
func (w *World) EnableCapture() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.captureOn = true
}

func (w *World) violation(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// commit starts a work or queues it up. The world is locked.
func (w *World) commit(k *work) {
	q := k.queue.data.(*queueData)
	k.queue.refs++
	for _, b := range k.buffers {
		b.refs++
		b.data.(*commandData).inFlight = true
	}
	k.after, k.done = q.tail, make(chan struct{})
	q.tail = k.done
	if q.dev.device().p.Faults.HungQueue {
		w.hang(k)
		return
	}
	if w.held {
		w.pending = append(w.pending, k)
		return
	}
	w.active++
	w.wg.Go(func() {
		if k.after != nil {
			<-k.after
		}
		w.run(k)
		w.mu.Lock()
		w.active--
		w.changed.Broadcast()
		w.mu.Unlock()
	})
}

// hang keeps a work for ever: Close finds it.
func (w *World) hang(k *work) { w.pending = append(w.pending, k) }

// abandon drops a work that never ran. The world is locked.
func (w *World) abandon(k *work) {
	for _, b := range k.buffers {
		c := b.data.(*commandData)
		c.inFlight = false
		w.release(c)
		w.releaseObject(b)
	}
	for _, s := range k.signals {
		w.releaseObject(s.event)
	}
	w.releaseObject(k.queue)
	feedback := k.feedback
	for _, b := range k.buffers {
		feedback = append(feedback, b.data.(*commandData).handlers...)
		b.data.(*commandData).handlers = nil
	}
	w.mu.Unlock()
	for _, f := range feedback {
		w.releaseBlock(f)
	}
	w.mu.Lock()
	close(k.done)
}

// release gives back what a command buffer in flight uses.
func (w *World) release(c *commandData) {
	if c.allocator != nil {
		c.allocator.inFlight--
	}
	for _, e := range c.encoders {
		for _, o := range e.ops {
			if o.heap != nil {
				delete(o.heap.users, c)
				delete(o.heap.wiped, c)
			}
			if o.kind == opSignal {
				w.releaseObject(o.event)
			}
		}
	}
}

// run executes a work and tells everybody.
func (w *World) run(k *work) {
	w.mu.Lock()
	dev := k.queue.data.(*queueData).dev.device()
	t := max(w.now, w.gpuFree) + 2000
	start := t
	var handlers []uintptr
	var handled []*object
	for _, b := range k.buffers {
		c := b.data.(*commandData)
		c.start = float64(t) / 1e9
		for _, e := range c.encoders {
			t = w.execute(dev, k.queue.data.(*queueData), c, e, t)
		}
		c.end = float64(t) / 1e9
		c.status = 4
		if dev.p.Faults.GPUError && !c.metal4 {
			c.status, c.err = 5, &errorData{"MTLCommandBufferErrorDomain", 8, "Insufficient Memory"}
		}
		c.inFlight = false
		w.release(c)
		for _, h := range c.handlers {
			handlers, handled = append(handlers, h), append(handled, b)
		}
		c.handlers = nil
		if c.metal4 {
			c.encoders = nil
		}
	}
	w.gpuFree = t
	w.now = max(w.now, t+1000)
	for _, s := range k.signals {
		w.signal(s)
		w.releaseObject(s.event)
	}
	var fb *object
	if len(k.feedback) > 0 {
		d := &commandData{start: float64(start) / 1e9, end: float64(t) / 1e9}
		if dev.p.Faults.GPUError {
			d.err = &errorData{"MTL4CommandQueueErrorDomain", 3, "Insufficient Memory"}
		}
		fb = w.alloc("FakeFeedback", d)
	}
	close(k.done)
	w.changed.Broadcast()
	w.mu.Unlock()
	for i, h := range handlers {
		w.invoke(h, handled[i].id)
	}
	for _, f := range k.feedback {
		w.invoke(f, fb.id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.releaseObject(fb)
	for _, b := range k.buffers {
		w.releaseObject(b)
	}
	w.releaseObject(k.queue)
}

func (w *World) signal(o op) {
	v := o.event.data.(*uint64)
	*v = max(*v, o.value)
}

// execute runs one encoder from time t and returns its end. An encoder without work is dropped with its stamps.
func (w *World) execute(dev *deviceData, q *queueData, c *commandData, e *encoderData, t uint64) uint64 {
	works := e.blit
	for _, o := range e.ops {
		if o.kind != opStamp && o.kind != opSample {
			works = true
		}
	}
	if !works {
		return t
	}
	put := func(h *heapData, i int, ns uint64) {
		if !h.wiped[c] {
			h.entries[i] = dev.stamp(dev.heapTicks(ns + w.skew))
		}
	}
	sample := func(s *sampleData, i int, ns, invocations uint64) {
		n := len(s.set.Counters)
		for j := range n {
			v := dev.gpuTime(ns)
			if s.set.Name != "timestamp" {
				v = invocations * uint64(j+1)
			}
			s.values[i*n+j] = dev.stamp(v)
		}
	}
	var invocations uint64
	if e.sample != nil && e.start >= 0 {
		sample(e.sample, e.start, t, 0)
	}
	for i, o := range e.ops {
		switch o.kind {
		case opDispatch:
			t += 2000 + o.threads
			invocations += o.threads
			if k := w.kernels[o.kernel]; k != nil {
				k(w.bound(q, o), o.threads)
			}
		case opStamp:
			ns := t
			if dev.p.Faults.LateStart && i+1 < len(e.ops) && e.ops[i+1].kind == opDispatch {
				ns = t + 2000 + e.ops[i+1].threads + 500
			}
			put(o.heap, o.index, ns)
		case opBufferStamp:
			ns := t
			if dev.p.Faults.CBStampsOutOfOrder {
				ns += 21_000
			}
			put(o.heap, o.index, ns)
		case opSample:
			sample(o.sample, o.index, t, invocations)
		case opFill:
			for i := range o.n {
				o.buffer.mem[o.offset+i] = byte(o.value)
			}
			t += 1000
		case opResolveHeap:
			for i := range o.n {
				putWord(o.buffer.mem[o.offset+8*i:], o.heap.entries[o.index+i])
			}
		case opResolveSamples:
			n := len(o.sample.set.Counters)
			for i := range o.n * n {
				putWord(o.buffer.mem[o.offset+8*i:], o.sample.values[o.index*n+i])
			}
		case opSignal:
			w.signal(o)
		}
	}
	if e.sample != nil && e.end >= 0 {
		sample(e.sample, e.end, t, invocations)
	}
	return t
}

func putWord(b []byte, v uint64) {
	for i := range 8 {
		b[i] = byte(v >> (8 * i))
	}
}

// bound is the memory a dispatch sees.
func (w *World) bound(q *queueData, o op) [][]byte {
	if o.address == nil {
		out := make([][]byte, len(o.bufs))
		for i, b := range o.bufs {
			if b != nil {
				out[i] = b.mem
			}
		}
		return out
	}
	out := make([][]byte, len(o.address))
	for i, a := range o.address {
		if a == 0 {
			continue
		}
		for _, obj := range w.objects {
			b, ok := obj.data.(*bufferData)
			if !ok || a < b.address || a >= b.address+uint64(len(b.mem)) {
				continue
			}
			out[i] = make([]byte, uint64(len(b.mem))-(a-b.address))
			for _, r := range q.residency {
				if r.data.(*residencyData).resident[obj] {
					out[i] = b.mem[a-b.address:]
				}
			}
		}
	}
	return out
}

// waitEvent waits for an event's value. Held and hung work makes the virtual time-out pass at once.
func (w *World) waitEvent(e *object, value, timeoutMS uint64) bool {
	v := e.data.(*uint64)
	e.refs++
	defer w.releaseObject(e)
	deadline := time.AfterFunc(10*time.Second, w.changed.Broadcast)
	defer deadline.Stop()
	begun := time.Now()
	for *v < value {
		if len(w.pending) > 0 || w.active == 0 || time.Since(begun) > 10*time.Second {
			w.now += timeoutMS * 1_000_000
			return false
		}
		w.changed.Wait()
	}
	return true
}
