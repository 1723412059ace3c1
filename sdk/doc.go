// Package sdk is what a target program imports to report lanes, dispatches, origins and waits.
package sdk

import _ "go.opentelemetry.io/otel/trace" // the OTel API is the only dependency
