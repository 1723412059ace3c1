//go:build !linux || !(amd64 || arm64)

package sdk

import "time"

// monotonicNanos counts from the start of the process where CLOCK_MONOTONIC is out of reach.
func monotonicNanos(c *clockState) int64 { return int64(time.Since(c.base)) }
