//go:build !linux

package gotrace

// gettid is 0 where a trace's thread ids are not those of the kernel.
func gettid() int { return 0 }
