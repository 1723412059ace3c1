//go:build !unix

package cputrace

// processCPU is the processor time of the process in nanoseconds, 0 when unknown.
func processCPU() int64 { return 0 }
