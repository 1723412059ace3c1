// Package metal will report Metal 4 work to stax without cgo.
//
// This version is the facade only: the types that the rest of stax may name, and a probe that says plainly that
// nothing is supported here. The bindings (purego), the fakes and the profiler come with their own releases of this
// module; until then [Supported] is [errors.ErrUnsupported] on every platform.
package metal

import (
	"errors"
	"fmt"
	"runtime"
)

// Supported reports why Metal instrumentation cannot be used in this build. It never returns nil in this version;
// the error wraps [errors.ErrUnsupported] and names the platform.
func Supported() error {
	return fmt.Errorf("metal: no Metal bindings in this build for %s/%s: %w", runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)
}
