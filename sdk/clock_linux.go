//go:build linux && (amd64 || arm64)

package sdk

import (
	"syscall"
	"time"
	"unsafe"
)

// monotonicNanos reads CLOCK_MONOTONIC, the clock that perf and the Go execution trace use too.
func monotonicNanos(c *clockState) int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return int64(time.Since(c.base))
	}
	return ts.Nano()
}
