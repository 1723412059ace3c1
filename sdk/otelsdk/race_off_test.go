//go:build !race

package otelsdk

const raceEnabled = false
