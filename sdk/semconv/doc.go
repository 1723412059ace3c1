// Package semconv holds the names that stax puts on the wire: attribute keys, event and scope names, enum values and
// the schema URL. It is generated from model.yaml and has no dependencies; root, sdk and metal import it.
package semconv

//go:generate go run -C ../.. ./internal/semconvgen
