//go:build linux && !stax_portable

package cputrace

import (
	"io"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
	"unsafe" // for go:linkname
)

// readProfile blocks until the CPU profiler has data. The runtime keeps it reachable by this name for other profilers.
//
//go:linkname readProfile runtime/pprof.readProfile
func readProfile() (data []uint64, tags []unsafe.Pointer, eof bool)

// rate is the sampling rate that a wish for hz gets.
func rate(hz int) int { return hz }

// startSampler runs the CPU profiler at hz samples per second and thread.
//
// runtime/pprof knows one rate only, the rate can be set only while no profile runs, and a rate set behind pprof's back
// would let the program start a profile of its own that reads our data and panics. So pprof has to believe that it
// profiles, for us:
//
//  1. pprof starts a profile; from now on the program cannot.
//  2. The rate is set to 0. pprof's reader comes to the end of its data and writes its profile into our [gateWriter],
//     which holds it there.
//  3. The profiler is free and starts anew at our rate. A goroutine of ours drains it: a profile whose data nobody reads
//     to the end can never be followed by another one.
//  4. At the end the rate is set to 0, our reader comes to the end and lets pprof's reader go, and pprof is told to stop.
//
// A program that calls StopCPUProfile although it started nothing sets the rate to 0 and waits for pprof's reader, which
// waits for ours: when the call returns the profiler is free for whatever the program does next.
func startSampler(hz int) (*sampler, error) {
	if hz == portableHz {
		return startPortable()
	}
	gone := make(chan struct{})
	held := &gateWriter{reached: make(chan struct{}), open: gone}
	if pprof.StartCPUProfile(held) != nil {
		return nil, errProfilerTaken
	}
	runtime.SetCPUProfileRate(0)
	<-held.reached
	runtime.SetCPUProfileRate(hz)
	go func() {
		defer close(gone)
		for {
			if _, _, eof := readProfile(); eof {
				return
			}
		}
	}()
	believes := make(chan bool, 1)
	go func() { believes <- pprofBelieves() }()
	select {
	case <-believes:
	case <-time.After(100 * time.Millisecond):
		// The program called StopCPUProfile between steps 1 and 3: it holds pprof's lock and waits for us.
		runtime.SetCPUProfileRate(0)
		<-gone
		if <-believes { // or only this machine was slow
			pprof.StopCPUProfile()
		}
		return nil, errProfilerTaken
	}
	return &sampler{hz: rate(hz), gone: gone, stop: func() {
		select {
		case <-gone: // the program stopped it, and may run a profile of its own now
			return
		default:
		}
		runtime.SetCPUProfileRate(0)
		<-gone
		pprof.StopCPUProfile()
	}}, nil
}

// pprofBelieves reports whether pprof believes that a profile runs.
func pprofBelieves() bool {
	if pprof.StartCPUProfile(io.Discard) != nil {
		return true
	}
	pprof.StopCPUProfile()
	return false
}

// gateWriter holds its first writer until open is closed.
type gateWriter struct {
	once    sync.Once
	reached chan struct{} // closed at the first write
	open    <-chan struct{}
}

func (w *gateWriter) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.reached) })
	<-w.open
	return len(p), nil
}
