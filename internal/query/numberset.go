package query

import (
	"math/bits"
	"slices"
)

// numberSet is an exact set of sequence numbers: a bitmap for dense stretches, short lists for the rest, so that
// neither ten million consecutive numbers nor a few wild ones cost much.
type numberSet struct {
	chunks   map[uint64]*numberChunk
	rows     uint64
	distinct uint64
	max      uint64
}

const (
	chunkBits = 16
	chunkSize = 1 << chunkBits
	listMax   = chunkSize / 16 // a list entry is 16 bits: past this a bitmap is smaller
)

type numberChunk struct {
	list []uint16 // sorted; used while bits is nil
	bits *[chunkSize / 64]uint64
}

func (s *numberSet) add(n uint64) {
	if s.chunks == nil {
		s.chunks = map[uint64]*numberChunk{}
	}
	s.rows++
	s.max = max(s.max, n)
	c := s.chunks[n>>chunkBits]
	if c == nil {
		c = &numberChunk{}
		s.chunks[n>>chunkBits] = c
	}
	if c.add(uint16(n)) {
		s.distinct++
	}
}

func (c *numberChunk) add(n uint16) bool {
	if c.bits == nil {
		i, found := slices.BinarySearch(c.list, n)
		if found {
			return false
		}
		if len(c.list) < listMax {
			c.list = slices.Insert(c.list, i, n)
			return true
		}
		c.bits, c.list = c.bitmap(), nil
	}
	word, bit := &c.bits[n/64], uint64(1)<<(n%64)
	fresh := *word&bit == 0
	*word |= bit
	return fresh
}

func (c *numberChunk) bitmap() *[chunkSize / 64]uint64 {
	if c.bits != nil {
		return c.bits
	}
	b := new([chunkSize / 64]uint64)
	for _, n := range c.list {
		b[n/64] |= 1 << (n % 64)
	}
	return b
}

// NumberRange is a run of sequence numbers, both ends included.
type NumberRange struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// within counts the members in (base, last].
func (s *numberSet) within(base, last uint64) (n uint64) {
	if last <= base {
		return 0
	}
	for key, c := range s.chunks {
		lo, hi := key<<chunkBits, key<<chunkBits+chunkSize-1
		if hi <= base || lo > last {
			continue
		}
		b := c.bitmap()
		for w, word := range b {
			at := lo + uint64(w)*64
			if at > last || at+63 <= base {
				continue
			}
			if at <= base {
				word &^= 1<<(base-at+1) - 1
			}
			if at+63 > last {
				word &= 1<<(last-at+1) - 1
			}
			n += uint64(bits.OnesCount64(word))
		}
	}
	return n
}

// holes returns the first runs of numbers in (base, last] that are not members, at most limit.
func (s *numberSet) holes(base, last uint64, limit int) []NumberRange {
	var out []NumberRange
	gap := func(from, to uint64) bool { // reports whether there is room for more
		if from <= to && len(out) > 0 && out[len(out)-1].To+1 == from {
			out[len(out)-1].To = to
		} else if from <= to {
			if len(out) == limit {
				return false
			}
			out = append(out, NumberRange{from, to})
		}
		return true
	}
	keys := make([]uint64, 0, len(s.chunks))
	for key := range s.chunks {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	next := base + 1
	for _, key := range keys {
		b := s.chunks[key].bitmap()
		for w, word := range b {
			for ; word != 0; word &= word - 1 {
				n := key<<chunkBits + uint64(w)*64 + uint64(bits.TrailingZeros64(word))
				if n < next {
					continue
				}
				if n > last {
					gap(next, last)
					return out
				}
				if n > next && !gap(next, n-1) {
					return out
				}
				next = n + 1
			}
		}
	}
	if next <= last {
		gap(next, last)
	}
	return out
}
