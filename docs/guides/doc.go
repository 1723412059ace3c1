// Package guides holds the guides of stax. It has no code of its own: its tests compile what the guides show.
package guides
