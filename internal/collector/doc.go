// Package collector holds the component set of the stax distribution and starts it inside a process.
package collector
