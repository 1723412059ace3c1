// Package auto enables sdk/cputrace for the default runtime when it is imported:
//
//	import _ "github.com/stax-otel/stax/sdk/cputrace/auto"
//
// Where STAX_ENDPOINT is set, the program start waits at most 50 ms for the gate's first answer.
package auto

import "github.com/stax-otel/stax/sdk/cputrace"

func init() { cputrace.Enable(cputrace.Options{}) }
