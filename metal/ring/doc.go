// Package ring hands out the entries of timestamp heaps and turns what the GPU wrote there into intervals.
//
// Two heaps take turns. Each commit reserves one contiguous block, one pair of entries per dispatch (start, end), at the
// moment its dispatch is encoded. A block is resolved after its work completed, at once and by whoever learns of it; a heap
// is invalidated and used again only when all of its blocks have retired, because invalidating it earlier would wipe
// stamps that are still to be written (phosphor engine notes; not run here).
//
// Nothing is made up. A dispatch that finds no room gets no pair and is counted; stamps that are no times become a
// [Sample] with the reason; a commit that never completes keeps its heap, and what that costs is counted too.
//
// The GPU is behind [Heap], so everything here runs without Metal.
package ring
