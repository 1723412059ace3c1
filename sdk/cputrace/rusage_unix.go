//go:build unix

package cputrace

import "syscall"

// processCPU is the processor time of the process in nanoseconds, 0 when unknown.
func processCPU() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
