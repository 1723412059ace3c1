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
// dispose helper forgets the Go function. All blocks of a runtime share one invoke and one dispose callback, because
// purego never frees callbacks. Layout: clang's Block-ABI-Apple.
type blockTable struct {
	rt              *Runtime
	invoke, dispose uintptr
	one             blockDescriptor // lives in the Runtime, which the callbacks keep alive: never freed

	mu    sync.Mutex
	next  uint64
	funcs map[uint64]func(arg ID)
}

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

func (t *blockTable) init(rt *Runtime) {
	t.rt = rt
	t.funcs = map[uint64]func(ID){}
	t.invoke = purego.NewCallback(func(literal unsafe.Pointer, arg ID) uintptr {
		t.mu.Lock()
		fn := t.funcs[(*blockLiteral)(literal).number]
		t.mu.Unlock()
		if fn != nil {
			fn(arg)
		}
		return 0
	})
	t.dispose = purego.NewCallback(func(literal unsafe.Pointer) uintptr {
		t.mu.Lock()
		delete(t.funcs, (*blockLiteral)(literal).number)
		t.mu.Unlock()
		return 0
	})
	// copyFn must exist beside disposeFn; the captured word needs no help, so it is a callback that does nothing.
	t.one = blockDescriptor{
		size: uint64(unsafe.Sizeof(blockLiteral{})), copyFn: noop(), disposeFn: t.dispose, signature: cString(BlockSignature),
	}
}

var noop = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(_, _ uintptr) uintptr { return 0 })
})

// NewBlock makes a heap block that calls fn, on whatever thread the system chooses, with its one object argument, which
// is only borrowed. Release it when the call that takes it has returned: the callee keeps its own reference.
func (rt *Runtime) NewBlock(fn func(arg ID)) Block {
	t := &rt.blocks
	t.mu.Lock()
	t.next++
	n := t.next
	t.funcs[n] = fn
	t.mu.Unlock()
	literal := &blockLiteral{
		isa: rt.sym.stackISA, flags: blockHasCopyDispose | blockHasSignature, invoke: t.invoke, descriptor: &t.one, number: n,
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

// LiveBlocks is the number of blocks whose Go function is still held.
func (rt *Runtime) LiveBlocks() int {
	rt.blocks.mu.Lock()
	defer rt.blocks.mu.Unlock()
	return len(rt.blocks.funcs)
}
