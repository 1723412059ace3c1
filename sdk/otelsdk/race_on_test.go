//go:build race

package otelsdk

const raceEnabled = true // it allocates
