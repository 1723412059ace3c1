// Package bench compares stax with its peers: the load test is cmd/loadtest, the SDK's benchmarks beside the OpenTelemetry
// SDK are this package's tests. The folder is a module of its own because only here are peers dependencies.
//
//	go run ./cmd/loadtest -quick          # minutes less, same table
//	go test -run '^$' -bench . -count 5   # SDK
package bench
