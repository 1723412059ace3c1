//go:build race

package sdk

// raceEnabled says that sync.Pool drops items at random, so allocation counts mean nothing.
const raceEnabled = true
