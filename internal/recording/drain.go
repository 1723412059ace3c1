package recording

import (
	"time"

	"go.uber.org/zap"
)

const (
	// deathCheck is how often draining looks whether the processes it waits for still live.
	deathCheck = 25 * time.Millisecond
	// lastWords is how long data of a process that died without a final heartbeat may still be on its way through the
	// socket. It is counted from the beginning of draining.
	lastWords = 50 * time.Millisecond
)

// drain waits until every gated runtime has sent its final heartbeat or died, and no request is held, at most
// DrainTimeout. It returns how many live runtimes did not answer.
func (m *Manager) drain(r *Recording) (undrained int) {
	began := time.Now()
	deadline := time.NewTimer(m.opts.DrainTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(deathCheck)
	defer tick.Stop()
	for {
		live, dead, held := m.pending(r)
		if live == 0 && held == 0 && (dead == 0 || time.Since(began) >= lastWords) {
			return 0
		}
		select {
		case <-r.drained:
		case <-tick.C:
		case <-deadline.C:
			live, _, held = m.pending(r)
			if live > 0 || held > 0 {
				m.log.Warn("recording stopped before all final data came", zap.String("recording", string(r.id)),
					zap.Int("runtimes", live), zap.Int("requests", held), zap.Duration("timeout", m.opts.DrainTimeout))
			}
			return live
		case <-m.ctx.Done():
			live, _, _ = m.pending(r)
			return live
		}
	}
}

// pending counts the gated runtimes without a final heartbeat, by whether their process lives, and the held requests.
func (m *Manager) pending(r *Recording) (live, dead, held int) {
	r.mu.Lock()
	var pids []int
	var starts []uint64
	for _, rt := range r.runtimes {
		if rt.gated && !rt.final {
			pids = append(pids, rt.pid)
			starts = append(starts, r.members[rt.pid])
		}
	}
	held = r.holds
	r.mu.Unlock()
	for i, pid := range pids {
		if pid != 0 {
			p, ok := m.opts.Processes.Lookup(pid)
			if !ok || (starts[i] != 0 && p.Start != 0 && p.Start != starts[i]) {
				dead++
				continue
			}
		}
		live++
	}
	return live, dead, held
}
