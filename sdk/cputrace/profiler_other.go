//go:build !linux || stax_portable

package cputrace

// rate is the sampling rate that a wish for hz gets.
func rate(int) int { return portableHz }

// startSampler runs the CPU profiler at its fixed rate.
func startSampler(int) (*sampler, error) { return startPortable() }
