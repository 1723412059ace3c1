package metaltest

import (
	"sync"

	"github.com/ebitengine/purego"
)

var pthreadSelf = sync.OnceValue(func() uintptr {
	lib, err := purego.Dlopen("/usr/lib/libSystem.B.dylib", purego.RTLD_LAZY|purego.RTLD_GLOBAL)
	if err != nil {
		panic(err)
	}
	addr, err := purego.Dlsym(lib, "pthread_self")
	if err != nil {
		panic(err)
	}
	return addr
})

// threadID identifies the calling OS thread.
func threadID() int {
	r, _, _ := purego.SyscallN(pthreadSelf())
	return int(r)
}
