package main

import "syscall"

// threadID is the OS id of the calling thread.
func threadID() int64 { return int64(syscall.Gettid()) }
