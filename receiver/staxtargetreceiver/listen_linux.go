package staxtargetreceiver

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSocketPath is what fits into sockaddr_un with its terminating zero byte.
const maxSocketPath = 107

// privateSocket gives a socket its mode before it gets its name, so that there is no moment in which others can connect.
func privateSocket(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); cerr != nil {
		return cerr
	}
	return err
}
