// Package e2e has the end-to-end tests: the real binaries as processes, real sockets, real archives, compared with the
// ground truth that the targets write down.
//
// TestMain builds stax and the targets once. Nothing here knows how a test's subject works inside: a test starts
// processes, disturbs them, and reads the archive through package archive and through the command line's --json.
// With -short everything is skipped.
package e2e
