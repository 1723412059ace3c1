//go:build !linux

package truth

// Thread is 0 where the platform gives no OS thread id without cgo.
func Thread() int64 { return 0 }
