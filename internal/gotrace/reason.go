package gotrace

import (
	"strings"

	"github.com/stax-otel/stax/sdk/semconv"
)

// The runtime's own words for what a goroutine waits for, and for a goroutine that is taken off its thread.
const (
	detailSync    = "sync"
	detailNetwork = "network"
	detailSyscall = "syscall"
	detailCreated = "created" // ours: the runtime says only that the goroutine began to exist
)

// waitReason says in stax's words what a goroutine waits for.
func waitReason(detail string, s *stack) string {
	switch detail {
	case "chan receive", "chan send":
		return semconv.WaitReasonIPC
	case "select", "sync.(*Cond).Wait", "forever", "system goroutine wait", "GC background sweeper wait", "synctest":
		return semconv.WaitReasonIdle
	case "sleep":
		return semconv.WaitReasonSleep
	case "preempted", "runtime.Gosched", detailCreated:
		return semconv.WaitReasonReady
	case detailSync:
		if s != nil {
			return s.sync
		}
		return semconv.WaitReasonLock
	case detailNetwork:
		if s != nil {
			return s.net
		}
		return semconv.WaitReasonConn
	}
	return semconv.WaitReasonOther
}

// classify finds out what the runtime's words leave open: its "sync" is a lock as well as a wait group, its "network" is
// every file that can be polled.
func (s *stack) classify() {
	s.sync, s.net, s.syscall = semconv.WaitReasonLock, semconv.WaitReasonConn, detailSyscall
	for i := range s.Frames {
		f := s.Frames[i].Function
		switch f {
		case "runtime.cgocall":
			s.cgo = s.cgo || i == 0
		case "sync.(*WaitGroup).Wait", "sync.runtime_SemacquireWaitGroup":
			s.sync = semconv.WaitReasonSem
		case "os.(*File).Read", "os.(*File).ReadAt", "os.(*File).pread", "os.(*File).read", "os.(*File).ReadFrom":
			s.net = semconv.WaitReasonIORead
		case "os.(*File).Write", "os.(*File).WriteAt", "os.(*File).pwrite", "os.(*File).write":
			s.net = semconv.WaitReasonIOWrite
		default:
			if s.syscall == detailSyscall && isNamedSyscall(f) {
				s.syscall = f
			}
		}
	}
}

// isNamedSyscall reports whether a function of a package of system calls names one, unlike the functions that make any.
func isNamedSyscall(function string) bool {
	name, ok := strings.CutPrefix(function, "syscall.")
	if !ok {
		if name, ok = strings.CutPrefix(function, "golang.org/x/sys/unix."); !ok {
			return false
		}
	}
	return !strings.HasPrefix(name, "Syscall") && !strings.HasPrefix(name, "RawSyscall") && !strings.HasPrefix(name, "syscall")
}
