package cputrace

import (
	"errors"
	"io"
	"runtime/pprof"
)

// errProfilerTaken says that the program profiles itself.
var errProfilerTaken = errors.New("the program runs a CPU profile of its own")

// portableHz is the rate of pprof.StartCPUProfile.
const portableHz = 100

// startPortable runs the CPU profiler at its fixed rate for the sake of the execution trace, which sees every sample.
func startPortable() (*sampler, error) {
	if pprof.StartCPUProfile(io.Discard) != nil {
		return nil, errProfilerTaken
	}
	return &sampler{hz: portableHz, stop: pprof.StopCPUProfile}, nil
}

// sampler is a running CPU profile whose own data nobody wants.
type sampler struct {
	hz   int
	gone <-chan struct{} // closed when somebody else ended it; nil: never known
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
