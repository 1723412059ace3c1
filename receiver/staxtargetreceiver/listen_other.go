//go:build !linux

package staxtargetreceiver

import "syscall"

// maxSocketPath is what fits into sockaddr_un of the BSDs and macOS with its terminating zero byte.
const maxSocketPath = 103

// privateSocket does nothing: here the mode can only be set by name, right after the socket got it.
func privateSocket(_, _ string, _ syscall.RawConn) error { return nil }
