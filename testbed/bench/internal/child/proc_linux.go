package child

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the CPU time that the process used so far, user and system, all threads.
func (p *Process) CPU() (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED: see clock_getcpuclockid(3)
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^p.PID())<<3|sched, &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", p.PID(), err)
	}
	return time.Duration(ts.Nano()), nil
}

// PeakRSS is the largest resident set so far, in bytes.
func (p *Process) PeakRSS() (int64, error) {
	name := fmt.Sprintf("/proc/%d/status", p.PID())
	b, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kib, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no VmHWM", name)
}
