//go:build (darwin || linux) && (amd64 || arm64)

package metaltest

func (c *call) encoder() *encoderData {
	e := c.self.data.(*encoderData)
	c.assert(!e.ended, "encoding after endEncoding")
	return e
}

func (c *call) command() *commandData { return c.self.data.(*commandData) }

func (e *encoderData) add(o op) { e.ops = append(e.ops, o) }

// size reads an MTLSize argument and returns its product.
func (c *call) product(i int) uint64 {
	a := c.args[i]
	return uint64(a[0] * a[1] * a[2])
}

// newEncoder begins an encoder; the last one must have ended.
func (c *call) newEncoder(className string, e *encoderData) uintptr {
	cb := c.command()
	c.assert(!cb.committed || cb.metal4, "command encoder requested from a committed buffer")
	c.assert(!cb.metal4 || cb.recording, "command buffer is not recording")
	for _, old := range cb.encoders {
		c.assert(old.ended, "A command encoder is already encoding to this command buffer")
	}
	e.cb = cb
	cb.encoders = append(cb.encoders, e)
	return c.w.autorelease(c.w.alloc(className, e))
}

// between is an ended encoder that holds operations outside encoders.
func (cb *commandData) between(o op) {
	cb.encoders = append(cb.encoders, &encoderData{cb: cb, ended: true, blit: true, ops: []op{o}, start: -1, end: -1})
}

func (e *encoderData) bind(i uint64, b *bufferData) {
	for uint64(len(e.bufs)) <= i {
		e.bufs = append(e.bufs, nil)
	}
	e.bufs[i] = b
}

func (c *call) dispatch(threads uint64) uintptr {
	e := c.encoder()
	c.assert(e.pipeline != nil, "no compute pipeline is set")
	o := op{kind: opDispatch, threads: threads, kernel: e.pipeline.name, bufs: append([]*bufferData(nil), e.bufs...)}
	if e.cb.metal4 {
		c.assert(e.table != nil, "no argument table is set")
		o.address = append([]uint64{}, e.table.addresses...)
	}
	e.add(o)
	return 0
}

var encoderMethods = methods{
	"setLabel:":       {"v@:@", func(c *call) uintptr { c.str(0); return 0 }},
	"pushDebugGroup:": {"v@:@", func(c *call) uintptr { c.str(0); return 0 }},
	"popDebugGroup":   {"v@:", func(c *call) uintptr { c.encoder(); return 0 }},
	"endEncoding":     {"v@:", func(c *call) uintptr { c.encoder().ended = true; return 0 }},
	"setComputePipelineState:": {"v@:@", func(c *call) uintptr {
		c.encoder().pipeline = c.obj(0).data.(*pipelineData)
		return 0
	}},
	"dispatchThreadgroups:threadsPerThreadgroup:": {"v@:{?=QQQ}{?=QQQ}", func(c *call) uintptr {
		return c.dispatch(c.product(0) * c.product(1))
	}},
	"dispatchThreads:threadsPerThreadgroup:": {"v@:{?=QQQ}{?=QQQ}", func(c *call) uintptr {
		c.assert(c.product(1) > 0, "threadsPerThreadgroup is zero")
		return c.dispatch(c.product(0))
	}},
	"fillBuffer:range:value:": {"v@:@{_NSRange=QQ}C", func(c *call) uintptr {
		b := c.obj(0).data.(*bufferData)
		first, n := c.rng(1)
		c.assert(first+n <= len(b.mem), "range [%d, %d) outside the buffer", first, first+n)
		c.encoder().add(op{kind: opFill, buffer: b, offset: first, n: n, value: c.u(2)})
		return 0
	}},
}

func with(base, more methods) methods {
	out := methods{}
	for k, v := range base {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

func classicClasses(w *World) {
	w.define("FakeQueue", []string{"MTLCommandQueue"}, methods{
		"setLabel:": {"v@:@", func(c *call) uintptr { c.self.data.(*queueData).label = c.str(0); return 0 }},
		"commandBuffer": {"@@:", func(c *call) uintptr {
			return c.w.autorelease(c.w.alloc("FakeCommandBuffer", &commandData{of: of{dev: c.self.data.(*queueData).dev}, queue: c.self}))
		}},
	}, nil)
	w.define("FakeCommandBuffer", []string{"MTLCommandBuffer"}, methods{
		"setLabel:": {"v@:@", func(c *call) uintptr { c.command().label = c.str(0); return 0 }},
		"commit": {"v@:", func(c *call) uintptr {
			cb := c.command()
			c.assert(!cb.committed, "commit an already committed command buffer")
			for _, e := range cb.encoders {
				c.assert(e.ended, "commit command buffer with uncommitted encoder")
			}
			cb.committed, cb.status = true, 2
			c.w.commit(&work{queue: cb.queue, buffers: []*object{c.self}})
			return 0
		}},
		"waitUntilCompleted": {"v@:", func(c *call) uintptr {
			cb := c.command()
			c.assert(cb.committed, "waitUntilCompleted before commit")
			c.self.refs++
			defer c.w.releaseObject(c.self)
			for cb.inFlight {
				if cb.dev.device().p.Faults.HungQueue {
					c.w.now += 5_000_000_000
					cb.status, cb.err = 5, &errorData{"MTLCommandBufferErrorDomain", 2, "Caused GPU Timeout Error"}
					return 0
				}
				c.assert(len(c.w.pending) == 0, "waitUntilCompleted while the world is held would never return")
				c.w.changed.Wait()
			}
			return 0
		}},
		"status": {"Q@:", func(c *call) uintptr { return uintptr(c.command().status) }},
		"error": {"@@:", func(c *call) uintptr {
			if c.command().err == nil {
				return 0
			}
			return c.w.autorelease(c.w.alloc("NSError", c.command().err))
		}},
		"GPUStartTime": {"d@:", func(c *call) uintptr { return float64bits(c.command().start) }},
		"GPUEndTime":   {"d@:", func(c *call) uintptr { return float64bits(c.command().end) }},
		"addCompletedHandler:": {"v@:@?", func(c *call) uintptr {
			c.assert(!c.command().committed, "Completed handler provided after commit call")
			c.w.blocks[c.args[0][0]].refs++
			c.command().handlers = append(c.command().handlers, c.args[0][0])
			return 0
		}},
		"encodeSignalEvent:value:": {"v@:@Q", func(c *call) uintptr {
			e := c.obj(0)
			e.refs++
			c.command().between(op{kind: opSignal, event: e, value: c.u(1)})
			return 0
		}},
		"computeCommandEncoder": {"@@:", func(c *call) uintptr {
			return c.newEncoder("FakeComputeEncoder", &encoderData{start: -1, end: -1})
		}},
		"computeCommandEncoderWithDescriptor:": {"@@:@", func(c *call) uintptr {
			e := &encoderData{start: -1, end: -1}
			if a := c.obj(0).data.(*passData).attachment; a != nil && a.obj["buffer"] != nil {
				e.sample = a.obj["buffer"].data.(*sampleData)
				n := uint64(len(e.sample.values) / len(e.sample.set.Counters))
				for key, at := range map[string]*int{"start": &e.start, "end": &e.end} {
					if v := a.u[key]; v != ^uint64(0) {
						c.assert(v < n, "sample index %d of %d", v, n)
						*at = int(v)
					}
				}
			}
			return c.newEncoder("FakeComputeEncoder", e)
		}},
		"blitCommandEncoder": {"@@:", func(c *call) uintptr {
			return c.newEncoder("FakeBlitEncoder", &encoderData{blit: true, start: -1, end: -1})
		}},
	}, nil)
	w.define("FakeComputeEncoder", []string{"MTLComputeCommandEncoder", "MTLCommandEncoder"}, with(encoderMethods, methods{
		"setBuffer:offset:atIndex:": {"v@:@QQ", func(c *call) uintptr {
			b := c.obj(0).data.(*bufferData)
			c.assert(c.u(1) < uint64(len(b.mem)), "offset %d of a buffer of %d bytes", c.u(1), len(b.mem))
			view := *b
			view.mem = b.mem[c.u(1):]
			c.encoder().bind(c.u(2), &view)
			return 0
		}},
		"setBytes:length:atIndex:": {"v@:r^vQQ", func(c *call) uintptr {
			mem := make([]byte, c.u(1))
			for i := range mem {
				mem[i] = *(*byte)(pointer(uintptr(c.u(0)) + uintptr(i)))
			}
			c.encoder().bind(c.u(2), &bufferData{of: of{dev: c.encoder().cb.dev}, mem: mem})
			return 0
		}},
		"memoryBarrierWithScope:": {"v@:Q", func(c *call) uintptr { c.encoder(); return 0 }},
		"sampleCountersInBuffer:atSampleIndex:withBarrier:": {"v@:@QB", func(c *call) uintptr {
			supported := false
			for _, p := range c.encoder().cb.dev.device().p.Points {
				supported = supported || p == 2
			}
			c.assert(supported, "sampleCountersInBuffer:atSampleIndex:withBarrier: is not supported on this device")
			s := c.obj(0).data.(*sampleData)
			c.assert(int(c.u(1)) < len(s.values)/len(s.set.Counters), "sample index %d", c.u(1))
			c.encoder().add(op{kind: opSample, sample: s, index: int(c.u(1))})
			return 0
		}},
	}), nil)
	w.define("FakeBlitEncoder", []string{"MTLBlitCommandEncoder", "MTLCommandEncoder"}, with(encoderMethods, methods{
		"resolveCounters:inRange:destinationBuffer:destinationOffset:": {"v@:@{_NSRange=QQ}@Q", func(c *call) uintptr {
			first, n := c.rng(1)
			c.encoder().add(op{
				kind: opResolveSamples, sample: c.obj(0).data.(*sampleData), index: first, n: n,
				buffer: c.obj(2).data.(*bufferData), offset: int(c.u(3)),
			})
			return 0
		}},
	}), nil)
	w.define("FakeSampleBuffer", []string{"MTLCounterSampleBuffer"}, methods{
		"sampleCount": {"Q@:", func(c *call) uintptr {
			s := c.self.data.(*sampleData)
			return uintptr(len(s.values) / len(s.set.Counters))
		}},
		"resolveCounterRange:": {"@@:{_NSRange=QQ}", func(c *call) uintptr {
			s := c.self.data.(*sampleData)
			first, n := c.rng(0)
			k := len(s.set.Counters)
			if (first+n)*k > len(s.values) {
				return 0
			}
			return c.w.newData(wordBytes(s.values[first*k : (first+n)*k]))
		}},
	}, nil)
	w.define("MTLCounterSampleBufferDescriptor", nil, methods{
		"setCounterSet:":  property("v@:@", "set"),
		"setLabel:":       property("v@:@", "label"),
		"setStorageMode:": property("v@:Q", "storage"),
		"setSampleCount:": property("v@:Q", "count"),
	}, nil)
	w.define("MTLComputePassDescriptor", nil, methods{
		"sampleBufferAttachments": {"@@:", func(c *call) uintptr {
			return c.w.autorelease(c.w.alloc("MTLComputePassSampleBufferAttachmentDescriptorArray", c.self.data))
		}},
	}, methods{
		"computePassDescriptor": {"@@:", func(c *call) uintptr {
			return c.w.autorelease(c.w.alloc("MTLComputePassDescriptor", &passData{}))
		}},
	})
	w.define("MTLComputePassSampleBufferAttachmentDescriptorArray", nil, methods{
		"objectAtIndexedSubscript:": {"@@:Q", func(c *call) uintptr {
			c.assert(c.u(0) < 4, "sampleBufferAttachments[%d]", c.u(0))
			p := c.self.data.(*passData)
			p.attachment = &descriptor{}
			return c.w.autorelease(c.w.alloc("MTLComputePassSampleBufferAttachmentDescriptor", p.attachment))
		}},
	}, nil)
	w.define("MTLComputePassSampleBufferAttachmentDescriptor", nil, methods{
		"setSampleBuffer:":              property("v@:@", "buffer"),
		"setStartOfEncoderSampleIndex:": property("v@:Q", "start"),
		"setEndOfEncoderSampleIndex:":   property("v@:Q", "end"),
	}, nil)
}

type passData struct{ attachment *descriptor }

func wordBytes(v []uint64) []byte {
	out := make([]byte, 8*len(v))
	for i, x := range v {
		putWord(out[8*i:], x)
	}
	return out
}
