package recording

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// PeerOf returns the credentials of the process that opened the other end of c, false unless c is a unix socket.
func PeerOf(c net.Conn) (Peer, bool) {
	if a := c.LocalAddr(); a == nil || a.Network() != "unix" {
		return Peer{}, false
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return Peer{}, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return Peer{}, false
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return Peer{}, false
	}
	return Peer{PID: int(cred.Pid), UID: int(cred.Uid)}, true
}
