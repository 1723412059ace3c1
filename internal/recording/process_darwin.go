package recording

import (
	"golang.org/x/sys/unix"
)

type sysctlProcesses struct{}

// SystemProcesses returns the processes of this machine, as sysctl kern.proc.pid shows them.
func SystemProcesses() Processes { return sysctlProcesses{} }

// stateZombie is SZOMB of sys/proc.h.
const stateZombie = 5

// Lookup implements [Processes].
func (sysctlProcesses) Lookup(pid int) (Process, bool) {
	if pid <= 0 {
		return Process{}, false
	}
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid || k.Proc.P_stat == stateZombie {
		return Process{}, false
	}
	started := k.Proc.P_starttime
	return Process{PID: pid, Parent: int(k.Eproc.Ppid), Start: uint64(started.Sec)*1_000_000 + uint64(started.Usec)}, true
}

// Namespace implements [Processes]: there are no PID namespaces.
func (sysctlProcesses) Namespace() uint64 { return 0 }
