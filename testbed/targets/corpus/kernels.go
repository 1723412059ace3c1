package main

import (
	"context"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// kernel is one kind of work of the simulated device, with the function that submits it.
type kernel struct {
	name    sdk.Name
	shader  sdk.Shader
	minCost time.Duration
	submit  func(*submission)
}

// cost draws the time the device takes, skewed so that percentiles differ.
func (k *kernel) cost(rng *rand.Rand) time.Duration {
	c := k.minCost + time.Duration(rng.ExpFloat64()*float64(k.minCost)/3)
	return min(c, 20*k.minCost)
}

var tagPhase = sdk.NewKey("phase")

var (
	blur      = kernel{name: sdk.NewName("blur"), shader: sdk.NewShader("filters/blur"), minCost: 20 * time.Microsecond}
	matmul    = kernel{name: sdk.NewName("matmul"), shader: sdk.NewShader("blas/matmul_f16"), minCost: 90 * time.Microsecond}
	reduce    = kernel{name: sdk.NewName("reduce"), shader: sdk.NewShader("blas/reduce_add"), minCost: 35 * time.Microsecond}
	softmax   = kernel{name: sdk.NewName("softmax"), shader: sdk.NewShader("nn/softmax"), minCost: 15 * time.Microsecond}
	transpose = kernel{name: sdk.NewName("transpose"), shader: sdk.NewShader("blas/transpose"), minCost: 8 * time.Microsecond}
	blit      = kernel{name: sdk.NewName("blit"), minCost: 4 * time.Microsecond}

	kernels = []*kernel{&blur, &matmul, &reduce, &softmax, &transpose}
)

func init() {
	blur.submit, matmul.submit, reduce.submit = submitBlur, submitMatmul, submitReduce
	softmax.submit, transpose.submit = submitSoftmax, submitTranspose
}

// encode fills s with 3 to 8 dispatches and seals it. The last one goes through a function that the compiler inlines.
func encode(s *submission) {
	for range 2 + s.rng.IntN(6) {
		kernels[s.rng.IntN(len(kernels))].submit(s)
	}
	submitBlit(s)
	s.seal()
}

// Each submit function captures with another call of the SDK. Their names and lines are what origins must show.

//go:noinline
func submitBlur(s *submission) {
	w := s.begin(&blur)
	w.fact.Origin.Site = truth.Below()
	w.dispatch.CaptureOrigin(s.ctx)
	w.captured()
}

//go:noinline
func submitMatmul(s *submission) {
	cpu := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3, 15: byte(s.rng.IntN(256))}, SpanID: trace.SpanID{9, 7: byte(s.rng.IntN(256))},
		TraceFlags: trace.FlagsSampled,
	})
	ctx := trace.ContextWithSpanContext(s.ctx, cpu)
	w := s.begin(&matmul)
	w.fact.Origin.CPUTrace, w.fact.Origin.CPUSpan = cpu.TraceID().String(), cpu.SpanID().String()
	w.fact.Origin.Site = truth.Below()
	o := s.lane.CaptureOrigin(ctx)
	w.captured()
	w.dispatch.Origin(o)
}

//go:noinline
func submitReduce(s *submission) {
	w := s.begin(&reduce)
	w.fact.Origin.Site = truth.Below()
	o := sdk.CaptureOrigin(context.Background())
	w.captured()
	w.dispatch.Origin(o)
}

//go:noinline
func submitSoftmax(s *submission) {
	w := s.begin(&softmax)
	func() { // a closure is a function of its own
		w.fact.Origin.Site = truth.Below()
		w.dispatch.CaptureOrigin(s.ctx)
	}()
	w.captured()
}

//go:noinline
func submitTranspose(s *submission) {
	w := s.begin(&transpose)
	submitDeep(s, w, 12)
}

// submitDeep captures at the end of a recursion.
//
//go:noinline
func submitDeep(s *submission, w *work, depth int) {
	if depth > 0 {
		submitDeep(s, w, depth-1)
		return
	}
	w.fact.Origin.Site = truth.Below()
	w.dispatch.CaptureOrigin(s.ctx)
	w.captured()
}

// submitBlit is small enough to be inlined: the stack must still name it.
func submitBlit(s *submission) {
	w := s.begin(&blit)
	w.fact.Origin.Site = truth.Below()
	w.dispatch.CaptureOrigin(s.ctx)
	w.captured()
}
