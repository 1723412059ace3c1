// Package ownprofile starts a CPU profile of the program's own, as many programs can, when REALPROGRAMS_CPUPROFILE names
// a file. It does so before sdk/cputrace asks whether it is recorded: Go initialises a package that needs nothing but
// runtime/pprof before those that need a network.
//
// The profile is the independent account of a recorded run. The runtime takes one sample for it and for the execution
// trace; everything after that (buffers, encoding, transport, parsing, names, sums) is runtime/pprof's and go tool
// pprof's own on one side, and stax's on the other.
package ownprofile

import (
	"fmt"
	"os"
	"runtime/pprof"
)

// Env names the file to write.
const Env = "REALPROGRAMS_CPUPROFILE"

var file *os.File

func init() {
	path := os.Getenv(Env)
	if path == "" {
		return
	}
	f, err := os.Create(path)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ownprofile:", err)
		os.Exit(1)
	}
	file = f
}

// Stop ends the profile and completes the file.
func Stop() error {
	if file == nil {
		return nil
	}
	pprof.StopCPUProfile()
	return file.Close()
}
