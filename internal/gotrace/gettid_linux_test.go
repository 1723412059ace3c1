package gotrace

import "syscall"

// gettid is what the kernel calls the calling thread.
func gettid() int { return syscall.Gettid() }
