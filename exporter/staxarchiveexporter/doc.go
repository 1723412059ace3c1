//go:generate go tool -modfile=../../tools/go.mod mdatagen metadata.yaml

// Package staxarchiveexporter writes what a recording receives into its archive.
//
// The exporter is a sink of the recording manager (it opens and closes archives) and an exporter of all four signals (it
// fills them). It writes synchronously and has no queue by default: when an export returns without error, write(2) has
// accepted the rows, and the receiver may tell the target so. All rows of one request and one recording go into one
// archive.Append, so a reader sees all of them or none.
package staxarchiveexporter
