package query

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestNumberSet compares the set with a map, dense and sparse, around the borders of chunks.
func TestNumberSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for round := range 60 {
		var s numberSet
		plain := map[uint64]bool{}
		begin := []uint64{1, chunkSize - 50, 5*chunkSize - 3}[round%3]
		width := []uint64{40, 200, 3 * chunkSize}[round/3%3]
		for range rng.IntN(int(width)) {
			n := begin + rng.Uint64N(width)
			plain[n] = true
			s.add(n)
		}
		assert.Equal(t, uint64(len(plain)), s.distinct, "round %d", round)
		base := begin - 1 + rng.Uint64N(width/2+1)
		last := base + rng.Uint64N(width)
		want := uint64(0)
		var holes []NumberRange
		for n := base + 1; n <= last; n++ {
			switch {
			case plain[n]:
				want++
			case len(holes) > 0 && holes[len(holes)-1].To+1 == n:
				holes[len(holes)-1].To = n
			default:
				holes = append(holes, NumberRange{n, n})
			}
		}
		assert.Equal(t, want, s.within(base, last), "round %d: (%d, %d]", round, base, last)
		assert.Equal(t, holes, s.holes(base, last, len(holes)+1), "round %d: (%d, %d]", round, base, last)
		if len(holes) > 2 {
			assert.Equal(t, holes[:2], s.holes(base, last, 2), "round %d: limit", round)
		}
	}
	var empty numberSet
	assert.Zero(t, empty.within(0, 100))
	assert.Equal(t, []NumberRange{{1, 100}}, empty.holes(0, 100, 5))
	assert.Empty(t, empty.holes(5, 5, 5))
	s := numberSet{}
	s.add(^uint64(0)) // a wild number costs no memory
	s.add(1)
	assert.Equal(t, uint64(2), s.distinct)
	assert.Equal(t, uint64(1), s.within(0, 10))
}
