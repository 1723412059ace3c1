//go:build !linux

package sdk

// threadID is 0, unknown: there is no portable thread id here.
func threadID() int64 { return 0 }
