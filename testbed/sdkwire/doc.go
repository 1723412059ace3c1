// Package sdkwire checks what the SDK puts on the wire with an independent decoder: the collector's pdata. It has tests
// only.
package sdkwire
