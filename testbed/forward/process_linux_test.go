package forward

import "syscall"

// attributes make the process end with the test, even when that is killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
