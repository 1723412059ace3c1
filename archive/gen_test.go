package archive

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator makes rows as the receiver delivers them: four lanes in turn, 200 names with a zipf
// distribution, random span ids, command buffers of 16 dispatches, origins with one of 300 stacks on
// one of 8 threads. The strings of each batch are fresh copies, as decoded OTLP has them.
type generator struct {
	r     *rand.Rand
	zipf  *rand.Zipf
	now   int64
	n     uint64
	names []string
	stack []StackID
	cb    CommandBufferID
	trace TraceID
	lanes []string
}

func newGenerator(seed uint64) *generator {
	r := rand.New(rand.NewPCG(seed, 1))
	g := &generator{r: r, zipf: rand.NewZipf(r, 1.2, 4, 199), now: 1_790_000_000_000_000_000}
	for i := range 200 {
		g.names = append(g.names, fmt.Sprintf("kernel_%03d_matmul_f32_%dx%d", i, i*8, i*16))
	}
	for range 300 {
		g.stack = append(g.stack, StackID(r.Uint64()))
	}
	g.lanes = []string{"lane-0", "lane-1", "lane-2", "lane-3"}
	return g
}

const testRuntime = "0123456789abcdef0123456789abcdef"

// dispatches fills dst with the next rows, all of one lane per 64 rows.
func (g *generator) dispatches(dst []Dispatch) {
	runtime := RuntimeID(strings.Clone(testRuntime))
	for i := range dst {
		if g.n%16 == 0 {
			g.cb = CommandBufferID(g.r.Uint64())
		}
		if g.n%1024 == 0 {
			for j := range g.trace {
				g.trace[j] = byte(g.r.Uint32())
			}
		}
		lane := g.lanes[g.n/64%4]
		g.n++
		g.now += 1000 + g.r.Int64N(20_000)
		thread := g.r.Int64N(8)
		dst[i] = Dispatch{
			Runtime: runtime, Lane: LaneID(lane), ID: DispatchID(g.r.Uint64()), CommandBuffer: g.cb,
			Queue: "queue-0", QueueSeq: g.n / 16,
			Name:       strings.Clone(g.names[g.zipf.Uint64()]),
			StartNanos: g.now, EndNanos: g.now + 2000 + g.r.Int64N(100_000),
			Origin: Origin{
				ThreadID: 4000 + thread, GoroutineID: 100 + thread*3, TimeNanos: g.now - 20_000 - g.r.Int64N(50_000),
				Stack: g.stack[g.r.IntN(len(g.stack))],
			},
			Trace: g.trace,
			Seq:   Seq{Shard: uint32(thread % 2), N: g.n},
		}
	}
}
