package guides

import (
	"context"
	"log"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stax-otel/stax/sdk"
	_ "github.com/stax-otel/stax/sdk/cputrace/auto"
	"github.com/stax-otel/stax/sdk/otelsdk"
)

// The code of cpu-samples.md, compiled.

func tracerProvider(exporter sdktrace.SpanExporter) *sdktrace.TracerProvider {
	tp := sdktrace.NewTracerProvider(
		sdktrace.WithResource(otelsdk.Resource()),
		sdktrace.WithSpanProcessor(otelsdk.NewSpanProcessor(nil)),
		sdktrace.WithBatcher(exporter),
	)
	return tp
}

func shutDown(ctx context.Context) {
	if err := sdk.Shutdown(ctx); err != nil {
		log.Print(err)
	}
}

func givenOrigin(threadID, goroutineID int64, at sdk.Time) sdk.Origin {
	o := sdk.OriginAt(threadID, at).WithGoroutine(goroutineID) // or WithThreadLocked, after runtime.LockOSThread
	return o
}

// TestCPUSamplesGuide keeps the guide's code equal to the code above, which compiles and runs.
func TestCPUSamplesGuide(t *testing.T) {
	requireSameCode(t, "cpu-samples.md", "cpu_samples_test.go", 4)
	require.EqualValues(t, 3, givenOrigin(1, 3, 2).GoroutineID())
	tp := tracerProvider(tracetest.NewNoopExporter())
	shutDown(t.Context())
	require.NoError(t, tp.Shutdown(t.Context()))
}
