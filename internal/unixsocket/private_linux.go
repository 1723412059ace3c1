package unixsocket

import "syscall"

// MaxPath is the longest path of a socket in bytes: what fits into sockaddr_un with its terminating zero byte.
const MaxPath = 107

// private takes the permissions away between socket(2) and bind(2): on Linux the file gets those of the socket, so that
// there is no moment at which others can connect.
func private(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) }); cerr != nil {
		return cerr
	}
	return err
}
