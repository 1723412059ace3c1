//go:build !linux || stax_portable

package cputrace

// startSampler runs the CPU profiler at its fixed rate.
func startSampler(int) (*sampler, error) { return startPortable() }
