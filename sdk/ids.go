package sdk

import "fmt"

// DispatchID identifies a dispatch within its runtime; on the wire it is the span id. 0: none.
type DispatchID uint64

// CommandBufferID identifies a command buffer within its runtime; on the wire it is the span id. 0: none.
type CommandBufferID uint64

// String is the id as it stands on the wire: 16 hex digits.
func (id DispatchID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// String is the id as it stands on the wire: 16 hex digits.
func (id CommandBufferID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// Ids are (class << 56) + (random start + counter) mod 2^56. The random start makes ids of different processes differ;
// the counter makes neighbours compress. Class 0 counts ids reserved before the work (one shared atomic); classes 1 to
// maxShards are the shards, whose ids come from the record's own number and cost nothing; the last class is segment
// roots. Ids are therefore unique in the runtime.
const (
	idClassShift   = 56
	idMask         = 1<<idClassShift - 1
	idClassSegment = 0xff
)

// reserveID hands out an id of class 0, never 0.
func (rt *Runtime) reserveID() uint64 {
	for {
		if id := (rt.idBase + rt.idCount.Add(1)) & idMask; id != 0 {
			return id
		}
	}
}

// shardID is the id of record n of a shard.
func (rt *Runtime) shardID(shard uint32, n uint64) uint64 {
	return uint64(shard)<<idClassShift | (rt.idBase+n)&idMask
}

// segmentID is the span id of the root of segment seg of a lane.
func (rt *Runtime) segmentID(lane uint32, seg uint64) uint64 {
	return uint64(idClassSegment)<<idClassShift | (rt.idBase+uint64(lane)<<36+seg)&idMask
}
