//go:build amd64 || arm64

package mtl

import (
	"fmt"
	"sync"

	"github.com/ebitengine/purego"

	"github.com/stax-otel/stax/metal/internal/objc"
)

// libraries of a Mac, in the order they are loaded: in a command-line program CoreGraphics must be there before the first
// device is asked for. The paths are in the ABI table too; a test compares them.
var libraries = []string{
	"/usr/lib/libSystem.B.dylib",
	"/usr/lib/libobjc.A.dylib",
	"/System/Library/Frameworks/Foundation.framework/Foundation",
	"/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
	"/System/Library/Frameworks/Metal.framework/Metal",
}

// SystemLookup finds symbols in the Mac's own libraries. It has been compiled, and never run by this project.
func SystemLookup() (objc.Lookup, error) { return systemLookup() }

var systemLookup = sync.OnceValues(func() (objc.Lookup, error) {
	var handles []uintptr
	for _, path := range libraries {
		h, err := purego.Dlopen(path, purego.RTLD_LAZY|purego.RTLD_GLOBAL)
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", path, err)
		}
		handles = append(handles, h)
	}
	return func(name string) (uintptr, error) {
		var err error
		for _, h := range handles {
			var addr uintptr
			if addr, err = purego.Dlsym(h, name); err == nil {
				return addr, nil
			}
		}
		return 0, err
	}, nil
})
