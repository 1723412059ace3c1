//go:build race

package archive

// raceEnabled makes the exhaustive tests, which have no concurrency to find races in, take samples.
const raceEnabled = true
