// Package otelsdk joins stax and an OpenTelemetry SDK that a program has already.
//
// [NewSpanProcessor] gives the program's ordinary spans the thread and the exact origin of their start, while a stax
// recording wants them.
//
// [NewRuntime] sends what lanes report through any TracerProvider instead of the stax exporter, so that a program needs
// no second pipeline: compatibility, not speed (about 3 µs per dispatch in a goroutine of its own, instead of 0.3).
//
// Both need a provider whose resource names the process: [Resource].
//
//	tp := sdktrace.NewTracerProvider(
//		sdktrace.WithResource(otelsdk.Resource()),
//		sdktrace.WithBatcher(exporter),
//	)
//
// # What the TracerProvider route cannot do
//
// It is unsequenced: nobody can count what a sampler, a processor's full queue or an exporter lost, so audit says
// "unsequenced". Use a sampler that keeps everything, and a span limit of attributes (128 by default) that holds the
// counters of a dispatch.
//
// # Ids
//
// The provider makes the span ids. The ids that lanes hand out (Dispatch.ID, CommandBuffer.ID) therefore name spans only
// within the program; whatever refers to them is rewritten: stax.command_buffer.id and stax.wait.awaits name the
// provider's ids. For that, a dispatch of a command buffer that was not reported yet, and a wait for something that was
// not reported yet, are kept back for up to 2 seconds; after that they are sent with the id as it is, which names nothing.
// The last 65,536 to 131,072 spans are remembered.
package otelsdk
