//go:build linux && (amd64 || arm64)

package metaltest

import "syscall"

// threadID identifies the calling OS thread.
func threadID() int { return syscall.Gettid() }
