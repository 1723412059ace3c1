//go:build !linux

package main

// threadID is 0 where the platform gives no OS thread id without cgo.
func threadID() int64 { return 0 }
