//go:build (darwin || linux) && (amd64 || arm64)

package objc

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Blocks. A block literal is {isa, flags, reserved, invoke, descriptor} and then its captured words: here one, the
// number of a Go function. _Block_copy moves the literal to the heap; when the last reference goes, the descriptor's
// dispose helper forgets the Go function. All blocks of a process share one invoke and one dispose callback, because
// purego never frees callbacks and has 2000; which runtime a block belongs to is kept beside its function. Layout:
// clang's Block-ABI-Apple.
var blocks struct {
	sync.Mutex
	next  uint64
	funcs map[uint64]blockFunc
}

type blockFunc struct {
	rt *Runtime
	fn func(arg ID)
}

// blockCode is the shared descriptor and invoke callback.
var blockCode = sync.OnceValue(func() *struct {
	invoke     uintptr
	descriptor blockDescriptor
} {
	blocks.funcs = map[uint64]blockFunc{}
	invoke := purego.NewCallback(func(literal unsafe.Pointer, arg ID) uintptr {
		blocks.Lock()
		fn := blocks.funcs[(*blockLiteral)(literal).number].fn
		blocks.Unlock()
		if fn != nil {
			fn(arg)
		}
		return 0
	})
	dispose := purego.NewCallback(func(literal unsafe.Pointer) uintptr {
		blocks.Lock()
		delete(blocks.funcs, (*blockLiteral)(literal).number)
		blocks.Unlock()
		return 0
	})
	// A copy helper must exist beside dispose; the captured word needs no help, so it does nothing.
	noop := purego.NewCallback(func(_, _ uintptr) uintptr { return 0 })
	return &struct {
		invoke     uintptr
		descriptor blockDescriptor
	}{invoke, blockDescriptor{
		size: uint64(unsafe.Sizeof(blockLiteral{})), copyFn: noop, disposeFn: dispose, signature: cString(BlockSignature),
	}}
})

type blockLiteral struct {
	isa        uintptr
	flags      int32
	_          int32
	invoke     uintptr
	descriptor *blockDescriptor
	number     uint64
}

type blockDescriptor struct {
	_         uint64
	size      uint64
	copyFn    uintptr
	disposeFn uintptr
	signature *byte
}

const (
	blockHasCopyDispose = 1 << 25
	blockHasSignature   = 1 << 30
)

// BlockSignature is the type of the blocks that can be made: void (^)(id).
const BlockSignature = "v16@?0@8"

// NewBlock makes a heap block that calls fn, on whatever thread the system chooses, with its one object argument, which
// is only borrowed. Release it when the call that takes it has returned: the callee keeps its own reference.
func (rt *Runtime) NewBlock(fn func(arg ID)) Block {
	code := blockCode()
	blocks.Lock()
	blocks.next++
	n := blocks.next
	blocks.funcs[n] = blockFunc{rt, fn}
	blocks.Unlock()
	literal := &blockLiteral{
		isa: rt.sym.stackISA, flags: blockHasCopyDispose | blockHasSignature, invoke: code.invoke, descriptor: &code.descriptor, number: n,
	}
	r, _, _ := purego.SyscallN(rt.sym.blockCopy, uintptr(unsafe.Pointer(literal)))
	runtime.KeepAlive(literal)
	return Block(r)
}

// ReleaseBlock gives up a reference to a block.
func (rt *Runtime) ReleaseBlock(b Block) {
	if b != 0 {
		_, _, _ = purego.SyscallN(rt.sym.blockRelease, uintptr(b))
	}
}

// LiveBlocks is the number of blocks of this runtime whose Go function is still held.
func (rt *Runtime) LiveBlocks() (n int) {
	blocks.Lock()
	defer blocks.Unlock()
	for _, f := range blocks.funcs {
		if f.rt == rt {
			n++
		}
	}
	return n
}
