//go:build !unix

package staxarchiveexporter

// kernelRelease returns the release of the running kernel; here it is unknown.
func kernelRelease() string { return "" }
