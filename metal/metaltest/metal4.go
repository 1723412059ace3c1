//go:build (darwin || linux) && (amd64 || arm64)

package metaltest

func metal4Classes(w *World) {
	w.define("MTL4CounterHeapDescriptor", nil, methods{
		"setType:":  property("v@:q", "type"),
		"setCount:": property("v@:Q", "count"),
	}, nil)
	w.define("FakeHeap", []string{"MTL4CounterHeap"}, methods{
		"setLabel:": {"v@:@", func(c *call) uintptr { c.self.data.(*heapData).label = c.str(0); return 0 }},
		"count":     {"Q@:", func(c *call) uintptr { return uintptr(len(c.self.data.(*heapData).entries)) }},
		"resolveCounterRange:": {"@@:{_NSRange=QQ}", func(c *call) uintptr {
			h := c.self.data.(*heapData)
			first, n := c.rng(0)
			if first+n > len(h.entries) {
				return 0
			}
			return c.w.newData(wordBytes(h.entries[first : first+n]))
		}},
		"invalidateCounterRange:": {"v@:{_NSRange=QQ}", func(c *call) uintptr {
			h := c.self.data.(*heapData)
			first, n := c.rng(0)
			c.assert(first+n <= len(h.entries), "invalidate [%d, %d) of %d entries", first, first+n, len(h.entries))
			clear(h.entries[first : first+n])
			for cb := range h.users {
				if h.wiped == nil {
					h.wiped = map[*commandData]bool{}
				}
				h.wiped[cb] = true
				c.w.violation("a heap was invalidated while work that uses it was in flight")
			}
			return 0
		}},
	}, nil)
	w.define("FakeAllocator", []string{"MTL4CommandAllocator"}, methods{
		"reset": {"v@:", func(c *call) uintptr {
			c.assert(c.self.data.(*allocatorData).inFlight == 0, "reset of an allocator whose work is in flight")
			return 0
		}},
		"allocatedSize": {"Q@:", func(*call) uintptr { return 65536 }},
	}, nil)
	w.define("FakeCommandBuffer4", []string{"MTL4CommandBuffer"}, methods{
		"setLabel:": {"v@:@", func(c *call) uintptr { c.command().label = c.str(0); return 0 }},
		"beginCommandBufferWithAllocator:": {"v@:@", func(c *call) uintptr {
			cb := c.command()
			c.assert(!cb.recording && !cb.inFlight, "begin of a command buffer that is recording or in flight")
			cb.recording, cb.allocator, cb.encoders, cb.committed = true, c.obj(0).data.(*allocatorData), nil, false
			return 0
		}},
		"endCommandBuffer": {"v@:", func(c *call) uintptr {
			c.assert(c.command().recording, "end of a command buffer that was not begun")
			for _, e := range c.command().encoders {
				c.assert(e.ended, "endCommandBuffer with an open encoder")
			}
			c.command().recording = false
			return 0
		}},
		"computeCommandEncoder": {"@@:", func(c *call) uintptr {
			return c.newEncoder("FakeComputeEncoder4", &encoderData{start: -1, end: -1})
		}},
		"writeTimestampIntoHeap:atIndex:": {"v@:@Q", func(c *call) uintptr {
			h := c.obj(0).data.(*heapData)
			c.assert(c.u(1) < uint64(len(h.entries)), "timestamp index %d of %d", c.u(1), len(h.entries))
			c.command().between(op{kind: opBufferStamp, heap: h, index: int(c.u(1))})
			return 0
		}},
		"resolveCounterHeap:withRange:intoBuffer:waitFence:updateFence:": {
			"v@:@{_NSRange=QQ}{MTL4BufferRange=QQ}@@", func(c *call) uintptr {
				first, n := c.rng(1)
				address, length := c.rng(2)
				c.assert(c.args[3][0] == 0 && c.args[4][0] == 0, "fences %#x, %#x", c.args[3][0], c.args[4][0])
				c.assert(length == 8*n, "buffer range of %d bytes for %d entries", length, n)
				for _, o := range c.w.objects {
					if b, ok := o.data.(*bufferData); ok && uint64(address) >= b.address && uint64(address+length) <= b.address+uint64(len(b.mem)) {
						c.command().between(op{
							kind: opResolveHeap, heap: c.obj(0).data.(*heapData), index: first, n: n, buffer: b, offset: address - int(b.address),
						})
						return 0
					}
				}
				c.assert(false, "no buffer holds [%#x, %#x)", address, address+length)
				return 0
			},
		},
	}, nil)
	w.define("FakeComputeEncoder4", []string{"MTL4ComputeCommandEncoder", "MTL4CommandEncoder"}, with(encoderMethods, methods{
		"setArgumentTable:": {"v@:@", func(c *call) uintptr { c.encoder().table = c.obj(0).data.(*tableData); return 0 }},
		"barrierAfterEncoderStages:beforeEncoderStages:visibilityOptions:": {"v@:QQQ", func(c *call) uintptr {
			c.assert(c.u(0) != 0 && c.u(1) != 0, "barrier between no stages")
			c.encoder()
			return 0
		}},
		"writeTimestampWithGranularity:intoHeap:atIndex:": {"v@:q@Q", func(c *call) uintptr {
			h := c.obj(1).data.(*heapData)
			c.assert(c.u(0) <= 1, "granularity %d", c.u(0))
			c.assert(c.u(2) < uint64(len(h.entries)), "timestamp index %d of %d", c.u(2), len(h.entries))
			c.encoder().add(op{kind: opStamp, heap: h, index: int(c.u(2))})
			return 0
		}},
	}), nil)
	w.define("MTL4ArgumentTableDescriptor", nil, methods{
		"setMaxBufferBindCount:": property("v@:Q", "buffers"),
		"setInitializeBindings:": property("v@:B", "initialize"),
	}, nil)
	w.define("FakeArgumentTable", []string{"MTL4ArgumentTable"}, methods{
		"setAddress:atIndex:": {"v@:QQ", func(c *call) uintptr {
			t := c.self.data.(*tableData)
			c.assert(c.u(1) < uint64(len(t.addresses)), "argument table index %d of %d", c.u(1), len(t.addresses))
			t.addresses[c.u(1)] = c.u(0)
			return 0
		}},
	}, nil)
	w.define("MTLResidencySetDescriptor", nil, methods{
		"setInitialCapacity:": property("v@:Q", "capacity"),
		"setLabel:":           property("v@:@", "label"),
	}, nil)
	w.define("FakeResidencySet", []string{"MTLResidencySet"}, methods{
		"addAllocation:": {"v@:@", func(c *call) uintptr {
			r := c.self.data.(*residencyData)
			r.pending = append(r.pending, c.obj(0))
			return 0
		}},
		"removeAllocation:": {"v@:@", func(c *call) uintptr {
			r := c.self.data.(*residencyData)
			r.removed = append(r.removed, c.obj(0))
			return 0
		}},
		"containsAllocation:": {"B@:@", func(c *call) uintptr { return yes(c.self.data.(*residencyData).resident[c.obj(0)]) }},
		"allocationCount":     {"Q@:", func(c *call) uintptr { return uintptr(len(c.self.data.(*residencyData).resident)) }},
		"commit": {"v@:", func(c *call) uintptr {
			r := c.self.data.(*residencyData)
			for _, o := range r.pending {
				r.resident[o] = true
			}
			for _, o := range r.removed {
				delete(r.resident, o)
			}
			r.pending, r.removed = nil, nil
			return 0
		}},
		"requestResidency": {"v@:", func(*call) uintptr { return 0 }},
		"endResidency":     {"v@:", func(*call) uintptr { return 0 }},
	}, nil)
	w.define("MTL4CommitOptions", nil, methods{
		"addFeedbackHandler:": {"v@:@?", func(c *call) uintptr {
			d := c.self.data.(*descriptor)
			d.set("block", uint64(c.args[0][0]))
			c.w.blocks[c.args[0][0]].refs++
			return 0
		}},
	}, nil)
	w.define("FakeFeedback", []string{"MTL4CommitFeedback"}, methods{
		"error": {"@@:", func(c *call) uintptr {
			if c.command().err == nil {
				return 0
			}
			return c.w.autorelease(c.w.alloc("NSError", c.command().err))
		}},
		"GPUStartTime": {"d@:", func(c *call) uintptr { return float64bits(c.command().start) }},
		"GPUEndTime":   {"d@:", func(c *call) uintptr { return float64bits(c.command().end) }},
	}, nil)
	w.define("FakeQueue4", []string{"MTL4CommandQueue"}, methods{
		"addResidencySet:": {"v@:@", func(c *call) uintptr {
			q, r := c.self.data.(*queueData), c.obj(0)
			r.refs++
			q.residency = append(q.residency, r)
			return 0
		}},
		"removeResidencySet:": {"v@:@", func(c *call) uintptr {
			q := c.self.data.(*queueData)
			for i, r := range q.residency {
				if r == c.obj(0) {
					q.residency = append(q.residency[:i], q.residency[i+1:]...)
					c.w.releaseObject(r)
					return 0
				}
			}
			return 0
		}},
		"waitForEvent:value:": {"v@:@Q", func(c *call) uintptr { c.obj(0); return 0 }},
		"signalEvent:value:": {"v@:@Q", func(c *call) uintptr {
			e := c.obj(0)
			e.refs++
			c.w.commit(&work{queue: c.self, signals: []op{{kind: opSignal, event: e, value: c.u(1)}}})
			return 0
		}},
		"commit:count:options:": {"v@:r^@Q@", func(c *call) uintptr {
			k := &work{queue: c.self}
			for i := range c.u(1) {
				b := c.w.object(*(*uintptr)(pointer(uintptr(c.u(0)) + uintptr(i)*8)), c.name)
				cb := b.data.(*commandData)
				c.assert(!cb.recording && !cb.inFlight, "commit of a command buffer that is recording or in flight")
				cb.committed = true
				cb.allocator.inFlight++
				for _, e := range cb.encoders {
					for _, o := range e.ops {
						if o.heap != nil {
							if o.heap.users == nil {
								o.heap.users = map[*commandData]bool{}
							}
							o.heap.users[cb] = true
						}
					}
				}
				k.buffers = append(k.buffers, b)
			}
			if c.args[2][0] != 0 {
				if f := c.obj(2).data.(*descriptor).u["block"]; f != 0 {
					k.feedback = append(k.feedback, uintptr(f)) // the options' reference becomes the commit's
					c.obj(2).data.(*descriptor).set("block", 0)
				}
			}
			c.w.commit(k)
			return 0
		}},
	}, nil)
}

func (q *queueData) free(w *World) {
	for _, r := range q.residency {
		w.releaseObject(r)
	}
}
