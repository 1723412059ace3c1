//go:build !linux

package unixsocket

import "syscall"

// MaxPath is the longest path of a socket in bytes: what fits into sockaddr_un of macOS and the BSDs with its terminating
// zero byte.
const MaxPath = 103

// private does nothing here: the socket lies in a directory that only its user can enter.
func private(string, string, syscall.RawConn) error { return nil }
