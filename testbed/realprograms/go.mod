// Real programs that nobody here wrote, each with a thin main that reports its units of work. A module of its own, so
// that their dependencies are nobody else's.
module github.com/stax-otel/stax/testbed/realprograms

go 1.26.0

require (
	github.com/evanw/esbuild v0.28.2
	github.com/klauspost/compress v1.20.3
	github.com/stax-otel/stax/sdk v0.0.0
	golang.org/x/tools v0.52.0
	honnef.co/go/tools v0.8.2
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/stax-otel/stax/sdk => ../../sdk
