package cputrace

import (
	"errors"
	"runtime/pprof"
	"sync"
)

// errProfilerTaken says that the program profiles itself.
var errProfilerTaken = errors.New("the program runs a CPU profile of its own")

// portableHz is the rate of pprof.StartCPUProfile.
const portableHz = 100

// startPortable runs the CPU profiler at its fixed rate for the sake of the execution trace, which sees every sample.
func startPortable() (*sampler, error) {
	gone := make(chan struct{})
	if pprof.StartCPUProfile(&endWriter{ended: gone}) != nil {
		return nil, errProfilerTaken
	}
	return &sampler{hz: portableHz, gone: gone, stop: func() {
		select {
		case <-gone: // the program stopped it, and may run a profile of its own now
		default:
			pprof.StopCPUProfile()
		}
	}}, nil
}

// endWriter tells the end of a profile: pprof collects samples in memory and writes once no more come.
type endWriter struct {
	once  sync.Once
	ended chan struct{} // closed at the first write
}

func (w *endWriter) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.ended) })
	return len(p), nil
}

// sampler is a running CPU profile whose own data nobody wants.
type sampler struct {
	hz   int
	gone <-chan struct{} // closed when it ended
	stop func()
}

// lost reports whether somebody else ended the profile.
func (s *sampler) lost() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}
