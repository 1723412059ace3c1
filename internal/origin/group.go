package origin

import (
	"slices"
	"sort"
)

// A group is the set of waits that name the same thing: one dispatch, one command buffer, or one
// queue. Classification asks a group for the first wait with certain bounds. Most groups hold one
// wait, but a queue that is drained in a loop has as many as the recording is long, and each of its
// dispatches asks. So a group of more than leafSize waits has a tree above its waits, in order of
// begin, with the bounds of each node's ends and sequence numbers: a search looks only into nodes
// that can hold an answer.
type group struct {
	waits []int32  // indexes into runtimeIndex.waits, ascending: by (begin, end, id)
	upTo  []uint64 // parallel to waits: highest submission awaited; nil: no bound by submission
	bad   []int32  // waits without usable times, ascending
	badTo []uint64 // parallel to bad

	nodes []node // implicit binary tree over leaves of leafSize waits; nil for small groups
	first int    // index of the first leaf in nodes
}

const leafSize = 16

type node struct {
	minEnd, maxEnd int64
	maxUpTo        uint64
}

// bounds is what a search wants: end in [minEnd, maxEnd], submission at least seq.
type bounds struct {
	minEnd, maxEnd int64
	seq            uint64
}

func (g *group) upToOf(i int) uint64 {
	if g.upTo == nil {
		return ^uint64(0)
	}
	return g.upTo[i]
}

// put adds a wait that came late, in its place, or raises its bound by submission. It returns the position from which on
// the tree has to be made again, -1 for nowhere.
func (g *group) put(rt *runtimeIndex, w int32, upTo *uint64) int {
	usable := rt.waits[w].usable()
	waits, tos := &g.waits, &g.upTo
	if !usable {
		waits, tos = &g.bad, &g.badTo
	}
	at, found := slices.BinarySearchFunc(*waits, w, rt.compare)
	switch {
	case found && (upTo == nil || (*tos)[at] >= *upTo):
		return -1
	case found:
		(*tos)[at] = *upTo
	default:
		*waits = slices.Insert(*waits, at, w)
		if upTo != nil {
			*tos = slices.Insert(*tos, at, *upTo)
		}
	}
	if !usable {
		return -1
	}
	return at
}

// drop takes a wait out, before its row changes.
func (g *group) drop(rt *runtimeIndex, w int32) {
	waits, tos := &g.waits, &g.upTo
	if !rt.waits[w].usable() {
		waits, tos = &g.bad, &g.badTo
	}
	if at, found := slices.BinarySearchFunc(*waits, w, rt.compare); found {
		*waits = slices.Delete(*waits, at, at+1)
		if *tos != nil {
			*tos = slices.Delete(*tos, at, at+1)
		}
	}
}

// keep renumbers the waits and leaves out those whose new number is negative.
func (g *group) keep(number []int32) {
	keep := func(waits *[]int32, tos *[]uint64) {
		n := 0
		for i, w := range *waits {
			if number[w] < 0 {
				continue
			}
			(*waits)[n] = number[w]
			if *tos != nil {
				(*tos)[n] = (*tos)[i]
			}
			n++
		}
		*waits = (*waits)[:n]
		if *tos != nil {
			*tos = (*tos)[:n]
		}
	}
	keep(&g.waits, &g.upTo)
	keep(&g.bad, &g.badTo)
}

func (g *group) empty() bool { return len(g.waits)+len(g.bad) == 0 }

// rebuild makes the tree again from a position on.
func (g *group) rebuild(waits []waitRow, from int) {
	if len(g.waits) <= leafSize {
		g.nodes = nil
		return
	}
	leaves := g.first + 1
	if g.nodes == nil || leaves*leafSize < len(g.waits) {
		g.build(waits)
		return
	}
	lo, hi := g.first+from/leafSize, 2*leaves-2
	for n := lo; n <= hi; n++ {
		g.nodes[n] = node{minEnd: timeLimit, maxEnd: -timeLimit}
		first := (n - g.first) * leafSize
		for i := first; i < min(first+leafSize, len(g.waits)); i++ {
			end := waits[g.waits[i]].end
			g.nodes[n].add(node{end, end, g.upToOf(i)})
		}
	}
	for lo > 0 {
		lo, hi = (lo-1)/2, (hi-1)/2
		for n := lo; n <= hi; n++ {
			g.nodes[n] = g.nodes[2*n+1]
			g.nodes[n].add(g.nodes[2*n+2])
		}
	}
}

// build makes the tree when it pays.
func (g *group) build(waits []waitRow) {
	if len(g.waits) <= leafSize {
		return
	}
	leaves := 1
	for leaves*leafSize < len(g.waits) {
		leaves *= 2
	}
	g.first = leaves - 1
	g.nodes = make([]node, 2*leaves-1)
	for i := range g.nodes {
		g.nodes[i] = node{minEnd: timeLimit, maxEnd: -timeLimit}
	}
	for i, w := range g.waits {
		n := &g.nodes[g.first+i/leafSize]
		n.add(node{waits[w].end, waits[w].end, g.upToOf(i)})
	}
	for i := g.first - 1; i >= 0; i-- {
		g.nodes[i].add(g.nodes[2*i+1])
		g.nodes[i].add(g.nodes[2*i+2])
	}
}

func (n *node) add(o node) {
	n.minEnd, n.maxEnd, n.maxUpTo = min(n.minEnd, o.minEnd), max(n.maxEnd, o.maxEnd), max(n.maxUpTo, o.maxUpTo)
}

func (b bounds) mayMatch(n node) bool {
	return n.maxEnd >= b.minEnd && n.minEnd <= b.maxEnd && n.maxUpTo >= b.seq
}

func (b bounds) match(end int64, upTo uint64) bool {
	return end >= b.minEnd && end <= b.maxEnd && upTo >= b.seq
}

// find returns the first position in [lo, hi) whose wait is within b, or -1.
func (g *group) find(waits []waitRow, lo, hi int, b bounds) int {
	if lo >= hi {
		return -1
	}
	if g.nodes == nil {
		return g.scan(waits, lo, hi, b)
	}
	return g.descend(waits, 0, 0, g.first+1, lo, hi, b)
}

func (g *group) scan(waits []waitRow, lo, hi int, b bounds) int {
	for i := lo; i < hi; i++ {
		if b.match(waits[g.waits[i]].end, g.upToOf(i)) {
			return i
		}
	}
	return -1
}

// descend searches node n, which covers the leaves [from, from+leaves).
func (g *group) descend(waits []waitRow, n, from, leaves, lo, hi int, b bounds) int {
	if from*leafSize >= hi || (from+leaves)*leafSize <= lo || !b.mayMatch(g.nodes[n]) {
		return -1
	}
	if leaves == 1 {
		return g.scan(waits, max(lo, from*leafSize), min(hi, (from+1)*leafSize), b)
	}
	if i := g.descend(waits, 2*n+1, from, leaves/2, lo, hi, b); i >= 0 {
		return i
	}
	return g.descend(waits, 2*n+2, from+leaves/2, leaves/2, lo, hi, b)
}

// each calls f with every position in [lo, hi) whose wait is within b, in order.
func (g *group) each(waits []waitRow, lo, hi int, b bounds, f func(i int)) {
	for lo < hi {
		i := g.find(waits, lo, hi, b)
		if i < 0 {
			return
		}
		f(i)
		lo = i + 1
	}
}

// notBefore returns the first position whose wait begins at or after the instant.
func (g *group) notBefore(waits []waitRow, nanos int64) int {
	if len(g.waits) == 1 {
		if waits[g.waits[0]].begin >= nanos {
			return 0
		}
		return 1
	}
	return sort.Search(len(g.waits), func(i int) bool { return waits[g.waits[i]].begin >= nanos })
}

// after returns the first position whose wait begins after the instant.
func (g *group) after(waits []waitRow, nanos int64) int { return g.notBefore(waits, nanos+1) }
