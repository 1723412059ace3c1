// Package collector holds the component set of stax and starts it inside a process: receiver and archive, with the query
// extension beside them.
package collector
