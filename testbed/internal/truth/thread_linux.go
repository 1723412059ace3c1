package truth

import "syscall"

// Thread is the OS id of the calling thread.
func Thread() int64 { return int64(syscall.Gettid()) }
