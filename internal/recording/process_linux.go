package recording

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

type procfs struct{ root string }

// SystemProcesses returns the processes of this machine, as /proc shows them.
func SystemProcesses() Processes { return procfs{root: "/proc"} }

// Lookup implements [Processes].
func (fs procfs) Lookup(pid int) (Process, bool) {
	if pid <= 0 {
		return Process{}, false
	}
	dir := fs.root + "/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Process{}, false
	}
	p, ok := parseStat(stat)
	if !ok || p.PID != pid {
		return Process{}, false
	}
	if status, err := os.ReadFile(dir + "/status"); err == nil {
		p.Inner = parseNSpid(status)
	}
	return p, true
}

// parseStat reads pid, state, parent and start time of /proc/PID/stat (proc_pid_stat(5)): fields 1, 3, 4 and 22. Field 2,
// the name, is in parentheses and may itself contain spaces and parentheses.
func parseStat(stat []byte) (Process, bool) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return Process{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(stat[:open])))
	if err != nil {
		return Process{}, false
	}
	rest := strings.Fields(string(stat[end+1:])) // from field 3
	if len(rest) < 20 || rest[0] == "Z" || rest[0] == "X" {
		return Process{}, false
	}
	parent, err1 := strconv.Atoi(rest[1])
	start, err2 := strconv.ParseUint(rest[19], 10, 64)
	if err1 != nil || err2 != nil {
		return Process{}, false
	}
	return Process{PID: pid, Parent: parent, Start: start}, true
}

// parseNSpid reads the NSpid line of /proc/PID/status: the pid in our namespace, then in each nested one.
func parseNSpid(status []byte) []int {
	_, rest, found := bytes.Cut(status, []byte("\nNSpid:"))
	if !found {
		return nil
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	fields := strings.Fields(string(line))
	var inner []int
	for _, f := range fields[min(1, len(fields)):] {
		if n, err := strconv.Atoi(f); err == nil {
			inner = append(inner, n)
		}
	}
	return inner
}

var ownNamespace = sync.OnceValue(func() uint64 {
	fi, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return 0
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
})

// Namespace implements [Processes].
func (procfs) Namespace() uint64 { return ownNamespace() }
