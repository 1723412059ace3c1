package sdk

import "syscall"

// threadID is the OS thread id of the caller.
func threadID() int64 { return int64(syscall.Gettid()) }
