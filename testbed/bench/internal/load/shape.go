package load

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stax-otel/stax/sdk/semconv"
)

// Shape says what a span looks like.
type Shape string

const (
	// ShapeStax is what stax's SDK sends: dispatches with thread, instant and stack of their origin and a sequence number,
	// command buffers of 15 dispatches that are their parents, two counters on a quarter of them, a wait and a heartbeat in
	// each batch.
	ShapeStax Shape = "stax"
	// ShapePlain is what another instrumentation may send: 4 attributes and 1.33 links with 3 attributes each, no numbers.
	ShapePlain Shape = "plain"
)

const (
	lanes      = 4
	names      = 200
	stacks     = 64
	frames     = 8
	perBuffer  = 15      // dispatches in a command buffer
	counters   = 2       // on a quarter of the dispatches
	waitLane   = lanes   // index of the waits' shard and trace
	perSegment = 5000    // spans of a lane in one trace
	distinct   = 1 << 16 // records of a stream before a template comes again
	clockError = 500     // ns
)

type recordKind uint8

const (
	kindDispatch recordKind = iota
	kindBuffer
	kindWait
)

// record is one span of a template.
type record struct {
	kind recordKind
	lane uint8
	dur  int32 // mean duration, ns
	of   int32 // buffer: its first dispatch; wait: the awaited buffer; else unused
}

// template is one export request whose changing parts are holes.
type template struct {
	encoder
	records []record
	counted Truth // what does not change: numbers of records
	roots   bool  // begins new segments
}

// seqWidth is the length of a sequence number of the shard as a varint, for every count that a run can reach.
func seqWidth(shard int) int { return protowire.SizeVarint(uint64(shard) << 48) }

func shardOf(lane int) int { return lane + 1 }

func laneName(lane int) string { return fmt.Sprintf("gpu%d/queue", lane) }

func threadOf(lane, i int) int64 { return int64(20000 + 2*lane + i%2) }

func dispatchName(i int) string {
	return fmt.Sprintf("kernel_%03d_%s", i, kernelKinds[i%len(kernelKinds)])
}

var kernelKinds = []string{"gemm", "gemm_bias_relu", "softmax", "layer_norm", "attention_qk", "attention_pv", "rope", "copy"}

func stackFrame(stack, depth int) (function, file string, line int64) {
	if depth > 2 { // the callers are shared
		return fmt.Sprintf("example.com/model/engine.(*Engine).level%d", depth), "/src/model/engine/engine.go", int64(100 * depth)
	}
	return fmt.Sprintf("example.com/model/layers.(*Layer%02d).step%d", stack, depth), fmt.Sprintf("/src/model/layers/layer%02d.go", stack), int64(10 + stack)
}

// stackID is the content hash that sdk.StackID documents.
func stackID(stack int) uint64 {
	h := fnv.New64a()
	for d := range frames {
		function, file, line := stackFrame(stack, d)
		_, _ = fmt.Fprintf(h, "%s\x00%s\x00%d\n", function, file, line)
	}
	return h.Sum64()
}

// buildTemplate makes a request of exactly batch records (and, with roots, a segment root for each lane besides).
func buildTemplate(shape Shape, batch int, roots bool, runtime string, pid int, rng *rand.Rand, zipf *rand.Zipf) *template {
	t := &template{roots: roots}
	t.message(1, func(e *encoder) { // ResourceSpans
		e.message(1, func(e *encoder) { resource(e, shape, runtime, pid) })
		waits := 0
		if shape == ShapeStax {
			waits = 1
		}
		var lastBuffer int32
		for lane := range lanes {
			share := (batch - waits) / lanes
			if lane < (batch-waits)%lanes {
				share++
			}
			e.message(2, func(e *encoder) { // ScopeSpans
				e.message(1, func(e *encoder) { laneScope(e, lane) })
				if roots {
					e.message(2, func(e *encoder) { segmentRoot(e, lane) })
				}
				if shape == ShapePlain {
					for range share {
						t.plainSpan(e, lane, rng, zipf)
					}
					return
				}
				for share > 0 {
					n := min(share, perBuffer+1)
					lastBuffer = t.buffer(e, lane, n-1, rng, zipf)
					share -= n
				}
			})
		}
		if shape == ShapePlain {
			return
		}
		e.message(2, func(e *encoder) {
			e.message(1, func(e *encoder) { e.str(1, "stax") })
			t.wait(e, lastBuffer, rng)
		})
		e.message(2, func(e *encoder) { heartbeat(e, false) })
	})
	return t
}

func resource(e *encoder, shape Shape, runtime string, pid int) {
	e.attrString(1, semconv.ServiceNameKey, "loadtest")
	e.attrInt(1, semconv.ProcessPIDKey, int64(pid))
	e.attrString(1, semconv.ProcessExecutableNameKey, "loadtest")
	e.attrString(1, semconv.RuntimeIDKey, runtime)
	if shape == ShapeStax {
		e.attrString(1, semconv.TelemetrySDKNameKey, "stax")
		e.attrString(1, semconv.TelemetrySDKLanguageKey, "go")
		e.attrInt(1, semconv.ClockErrorNanosKey, clockError)
	}
}

func laneScope(e *encoder, lane int) {
	e.str(1, "stax")
	laneAttributes(e, 3, lane)
	e.attr(3, semconv.SegmentIDKey, func(e *encoder) { e.hole(1, 16, patchSegHex, lane) })
}

func laneAttributes(e *encoder, field protowire.Number, lane int) {
	e.attrString(field, semconv.LaneIDKey, fmt.Sprint(lane+1))
	e.attrString(field, semconv.LaneNameKey, laneName(lane))
	e.attrString(field, semconv.LaneKindKey, semconv.LaneKindGPU)
}

func segmentRoot(e *encoder, lane int) {
	e.hole(1, 16, patchTrace, lane)
	e.hole(2, 8, patchSegment, lane)
	e.str(5, laneName(lane))
	e.varint(6, 1)
	e.fixed64(7, patchSegBegin, lane)
	e.fixed64(8, patchSegBegin, lane)
	e.attrString(9, semconv.SpanTypeKey, semconv.SpanTypeSegment)
}

// buffer writes n dispatches and their command buffer, whose record it returns.
func (t *template) buffer(e *encoder, lane, n int, rng *rand.Rand, zipf *rand.Zipf) int32 {
	first := len(t.records)
	id := first + n
	stack := int(zipf.Uint64()) % stacks
	for range n {
		i := len(t.records)
		name := int(zipf.Uint64())
		t.records = append(t.records, record{kind: kindDispatch, lane: uint8(lane), dur: meanDuration(name)})
		e.message(2, func(e *encoder) {
			spanHead(e, lane, i, patchID, id, dispatchName(name), 5)
			origin(e, i, threadOf(lane, 0), stack)
			seq(e, lane, i)
			if rng.IntN(4) == 0 {
				e.attrInt(9, semconv.CounterPrefix+"hw/"+semconv.SamplePointAfterDispatch+"/cycles", rng.Int64N(1<<24))
				e.attrDouble(9, semconv.CounterPrefix+"hw/"+semconv.SamplePointAfterDispatch+"/occupancy", float64(rng.IntN(1000))/10)
				t.counted.Counters += counters
			}
		})
		t.counted.Dispatches++
	}
	t.records = append(t.records, record{kind: kindBuffer, lane: uint8(lane), of: int32(first)})
	e.message(2, func(e *encoder) {
		spanHead(e, lane, id, patchSegment, lane, "forward", 5)
		e.attrString(9, semconv.SpanTypeKey, semconv.SpanTypeCommandBuffer)
		origin(e, id, threadOf(lane, 0), stack)
		seq(e, lane, id)
	})
	t.counted.Buffers++
	return int32(id)
}

func (t *template) wait(e *encoder, buffer int32, rng *rand.Rand) {
	i := len(t.records)
	lane := int(t.records[buffer].lane)
	t.records = append(t.records, record{kind: kindWait, lane: waitLane, of: buffer})
	e.message(2, func(e *encoder) {
		e.hole(1, 16, patchTrace, waitLane)
		e.hole(2, 8, patchID, i)
		e.str(5, "wait for results")
		e.varint(6, 1)
		e.fixed64(7, patchStart, i)
		e.fixed64(8, patchEnd, i)
		e.attrString(9, semconv.SpanTypeKey, semconv.SpanTypeWait)
		e.attr(9, semconv.WaitAwaitsKey, func(e *encoder) {
			e.message(5, func(e *encoder) {
				e.message(1, func(e *encoder) {
					prefix := semconv.AwaitCommandBufferPrefix
					e.b = protowire.AppendTag(e.b, 1, protowire.BytesType)
					e.b = protowire.AppendVarint(e.b, uint64(len(prefix)+16))
					e.b = append(e.b, prefix...)
					e.mark(patchIDHex, int(buffer))
					e.b = append(e.b, make([]byte, 16)...)
				})
			})
		})
		origin(e, i, threadOf(lane, 0), rng.IntN(stacks))
		seq(e, waitLane, i)
	})
	t.counted.Waits++
}

func (t *template) plainSpan(e *encoder, lane int, rng *rand.Rand, zipf *rand.Zipf) {
	i := len(t.records)
	name := int(zipf.Uint64())
	t.records = append(t.records, record{kind: kindDispatch, lane: uint8(lane), dur: meanDuration(name)})
	e.message(2, func(e *encoder) {
		spanHead(e, lane, i, patchSegment, lane, dispatchName(name), 5)
		e.attrInt(9, "layer", int64(rng.IntN(32)))
		e.attrInt(9, "bytes", int64(4096<<rng.IntN(16)))
		e.attrString(9, "dtype", []string{"f16", "f32", "bf16"}[rng.IntN(3)])
		e.attrInt(9, "batch", int64(1+rng.IntN(8)))
		link := func(kind string) {
			e.message(13, func(e *encoder) {
				e.hole(1, 16, patchTrace, waitLane)
				e.hole(2, 8, patchSegment, lane)
				e.attrString(4, semconv.OriginKindKey, kind)
				e.attrInt(4, semconv.OriginThreadIDKey, threadOf(lane, i))
				e.attr(4, semconv.OriginTimeKey, func(e *encoder) { e.varintHole(3, 9, patchOriginNow, i) })
			})
		}
		link(semconv.OriginKindDispatch)
		if i%3 == 0 {
			link(semconv.OriginKindCompletion)
		}
	})
	t.counted.Dispatches++
}

func spanHead(e *encoder, lane, i int, parent patchKind, parentArg int, name string, kind uint64) {
	e.hole(1, 16, patchTrace, lane)
	e.hole(2, 8, patchID, i)
	e.hole(4, 8, parent, parentArg)
	e.str(5, name)
	e.varint(6, kind)
	e.fixed64(7, patchStart, i)
	e.fixed64(8, patchEnd, i)
}

func origin(e *encoder, i int, thread int64, stack int) {
	e.attrInt(9, semconv.OriginThreadIDKey, thread)
	e.attr(9, semconv.OriginTimeKey, func(e *encoder) { e.varintHole(3, 9, patchOriginNow, i) })
	e.attrString(9, semconv.OriginStackIDKey, fmt.Sprintf("%016x", stackID(stack)))
}

func seq(e *encoder, lane, i int) {
	e.attr(9, semconv.SeqKey, func(e *encoder) { e.varintHole(3, seqWidth(shardOf(lane)), patchSeq, i) })
}

// heartbeat writes the scope's content; every run starts at sequence number 1.
func heartbeat(e *encoder, final bool) {
	e.message(1, func(e *encoder) {
		e.str(1, semconv.ScopeHeartbeat)
		e.attr(3, semconv.HeartbeatTimeKey, func(e *encoder) { e.varintHole(3, 9, patchNow, 0) })
		shards, zeros := make([]int64, lanes+1), make([]int64, lanes+1)
		for i := range shards {
			shards[i] = int64(shardOf(i))
		}
		e.attrInts(3, semconv.HeartbeatShardsKey, shards)
		e.attr(3, semconv.HeartbeatEmittedKey, func(e *encoder) {
			e.message(5, func(e *encoder) {
				for i := range shards {
					e.message(1, func(e *encoder) { e.varintHole(3, 5, patchEmitted, i) })
				}
			})
		})
		e.attrInts(3, semconv.HeartbeatBaseKey, zeros)
		e.attrInts(3, semconv.HeartbeatDroppedFullKey, zeros)
		e.attrInts(3, semconv.HeartbeatDroppedSendKey, zeros)
		e.attrInts(3, semconv.HeartbeatDroppedOtherKey, zeros)
		if final {
			e.attr(3, semconv.HeartbeatFinalKey, func(e *encoder) { e.varint(2, 1) })
		}
	})
}

// registrations is the logs request that defines lanes, stacks and counters.
func registrations(runtime string, pid int, now int64) []byte {
	var e encoder
	e.message(1, func(e *encoder) { // ResourceLogs
		e.message(1, func(e *encoder) { resource(e, ShapeStax, runtime, pid) })
		e.message(2, func(e *encoder) { // ScopeLogs
			e.message(1, func(e *encoder) { e.str(1, "stax") })
			event := func(name string, attributes func(*encoder)) {
				e.message(2, func(e *encoder) {
					e.b = protowire.AppendFixed64(protowire.AppendTag(e.b, 1, protowire.Fixed64Type), uint64(now))
					attributes(e)
					e.str(12, name)
				})
			}
			for lane := range lanes {
				event(semconv.EventLane, func(e *encoder) { laneAttributes(e, 6, lane) })
			}
			event(semconv.EventCounterSet, func(e *encoder) {
				e.attrString(6, semconv.CounterSetIDKey, "hw")
				e.attrString(6, semconv.CounterSetNameKey, "hardware")
				attrStrings(e, 6, semconv.CounterSetNamesKey, "cycles", "occupancy")
				attrStrings(e, 6, semconv.CounterSetUnitsKey, semconv.CounterUnitCycles, semconv.CounterUnitPercent)
			})
			for s := range stacks {
				var functions, files []string
				var lines []int64
				for d := range frames {
					function, file, line := stackFrame(s, d)
					functions, files, lines = append(functions, function), append(files, file), append(lines, line)
				}
				event(semconv.EventStack, func(e *encoder) {
					e.attrString(6, semconv.StackIDKey, fmt.Sprintf("%016x", stackID(s)))
					attrStrings(e, 6, semconv.StackFunctionsKey, functions...)
					attrStrings(e, 6, semconv.StackFilesKey, files...)
					e.attrInts(6, semconv.StackLinesKey, lines)
				})
			}
		})
	})
	return e.b
}

func attrStrings(e *encoder, n protowire.Number, key string, vs ...string) {
	e.attr(n, key, func(e *encoder) {
		e.message(5, func(e *encoder) {
			for _, v := range vs {
				e.message(1, func(e *encoder) { e.str(1, v) })
			}
		})
	})
}

// meanDuration is 5 to 105 µs, by name.
func meanDuration(name int) int32 { return int32(5000 + name*7919%100_000) }

func fill(b []byte, v uint64) { binary.BigEndian.PutUint64(b, v) }
