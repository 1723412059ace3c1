package recording

import "slices"

// Process is what membership needs to know of a running process.
type Process struct {
	PID    int
	Parent int    // 0: unknown
	Start  uint64 // tells a process from a later one with the same pid; 0: unknown
	// Inner lists the process's pids as seen from inside nested PID namespaces, its own last. Empty: unknown or not nested.
	Inner []int
}

// Processes looks up processes of this machine.
type Processes interface {
	// Lookup returns the process with the pid, false when there is none or it has ended (a zombie has).
	Lookup(pid int) (Process, bool)
	// Namespace returns the inode number of the collector's own PID namespace; 0: unknown.
	Namespace() uint64
}

// maxAncestors bounds the walk to the root, against cycles made by pids that are reused while walking.
const maxAncestors = 256

// hasMember reports whether pid or one of its ancestors is a member, and makes it one if so. A process that has ended
// keeps the membership it had: its last data may still be on the way.
func (r *Recording) hasMember(pid int) bool {
	if pid <= 0 {
		return false
	}
	procs := r.mgr.opts.Processes
	self, alive := procs.Lookup(pid)
	r.mu.Lock()
	start, known := r.members[pid]
	if known && alive && start != 0 && self.Start != 0 && start != self.Start { // the pid was reused
		delete(r.members, pid)
		known = false
	}
	members := len(r.members)
	r.mu.Unlock()
	if known {
		return true
	}
	if !alive || members == 0 {
		return false
	}
	for p, n := self.Parent, 0; p > 1 && n < maxAncestors; n++ {
		parent, ok := procs.Lookup(p)
		if !ok {
			return false
		}
		r.mu.Lock()
		start, known := r.members[p]
		if known && (start == 0 || parent.Start == 0 || start == parent.Start) {
			r.members[pid] = self.Start
			r.mu.Unlock()
			return true
		}
		r.mu.Unlock()
		p = parent.Parent
	}
	return false
}

// descends reports whether ancestor is pid or one of its ancestors.
func descends(procs Processes, pid, ancestor int) bool {
	for n := 0; pid > 0 && n < maxAncestors; n++ {
		if pid == ancestor {
			return true
		}
		p, ok := procs.Lookup(pid)
		if !ok {
			return false
		}
		pid = p.Parent
	}
	return false
}

func (p Process) hasInner(pid int) bool { return slices.Contains(p.Inner, pid) }
