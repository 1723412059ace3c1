// Package gotrace parses generations of Go execution traces into CPU samples, waits and origin events.
package gotrace

import _ "golang.org/x/exp/trace" // the parser
