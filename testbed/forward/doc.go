// Package forward tests the way to other backends with the backends themselves: otelcol-stax as ocb builds it, running
// examples/forward.yaml, a Jaeger and a Prometheus on this machine, and targets that are recorded through all of it. What the
// backends say is compared with the archive.
//
// Jaeger is built from its module and Prometheus is taken from the Debian package; both are kept in the user's cache
// directory below stax-e2e and made once. With -short everything that needs them is skipped, and when one of them cannot be
// had the reason is printed.
package forward
