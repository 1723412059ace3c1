//go:generate go tool -modfile=../../tools/go.mod mdatagen metadata.yaml

// Package staxquery is the extension that owns the recordings: it starts, stops and lists them, answers questions about
// them, live or saved, and serves the recording gate. The receiver and the archive exporter find the recordings through it.
//
// Who may do what: on a unix socket the peer must be the collector's own user (or root) and may do everything. On TCP the
// Host and Origin headers must name this server, against DNS rebinding; without a configured token TCP may only read, with
// one every call needs it. Naming an archive's path is for unix sockets only, since it acts with the collector's rights.
package staxquery
