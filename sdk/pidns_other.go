//go:build !linux

package sdk

// pidNamespace is 0, unknown: there are no PID namespaces here.
func pidNamespace() uint64 { return 0 }
