//go:build !linux && !darwin

package recording

import "os"

type plainProcesses struct{}

// SystemProcesses returns the processes of this machine. On this system parents are unknown, so only listed pids and
// bearers of the token are members.
func SystemProcesses() Processes { return plainProcesses{} }

// Lookup implements [Processes]. Where the system cannot tell, a process counts as running.
func (plainProcesses) Lookup(pid int) (Process, bool) {
	if pid <= 0 {
		return Process{}, false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return Process{}, false
	}
	_ = p.Release()
	return Process{PID: pid}, true
}

// Namespace implements [Processes].
func (plainProcesses) Namespace() uint64 { return 0 }
