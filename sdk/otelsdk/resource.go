package otelsdk

import (
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/stax-otel/stax/sdk/internal/link"
)

// Resource is for sdktrace.WithResource: the OpenTelemetry SDK's default resource and what stax needs to know about the
// process, its process id first. Without process.pid nothing relates the provider's spans to the CPU samples of the
// process; without stax.clock.error_ns no wait can prove anything.
func Resource() *resource.Resource {
	ours := resource.NewSchemaless(link.Process()...)
	r, err := resource.Merge(resource.Default(), ours)
	if err != nil { // schema URLs cannot conflict: ours has none
		return ours
	}
	return r
}
