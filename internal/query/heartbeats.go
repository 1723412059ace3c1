package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/stax-otel/stax/archive"
)

type shardKey struct {
	runtime archive.RuntimeID
	shard   uint32
}

// stint is one stretch of a shard in this recording: a runtime that was switched off and on again begins a new one,
// with a higher base. Its counts are those of the newest heartbeat.
type stint struct {
	shardKey
	base, emitted                          uint64
	droppedFull, droppedSend, droppedOther uint64
}

// owed is the number of records that the recording should hold.
func (s *stint) owed() uint64 {
	if s.emitted < s.base {
		return 0
	}
	return s.emitted - s.base
}

// heartbeats is what the targets say about their own numbers.
type heartbeats struct {
	stints []*stint // by runtime, shard, base
	shards map[shardKey]bool
	last   map[archive.RuntimeID]lastBeat
	count  int64
}

type lastBeat struct {
	timeNanos int64
	final     bool
}

func readHeartbeats(ctx context.Context, r *archive.Reader) (*heartbeats, error) {
	type stintKey struct {
		shardKey
		base uint64
	}
	h := &heartbeats{shards: map[shardKey]bool{}, last: map[archive.RuntimeID]lastBeat{}}
	byKey := map[stintKey]*stint{}
	for rows, err := range archive.Scan[archive.Heartbeat](ctx, r) {
		if err != nil {
			return nil, err
		}
		for _, b := range rows {
			h.count++
			key := shardKey{b.Runtime, b.Shard}
			h.shards[key] = true
			s := byKey[stintKey{key, b.Base}]
			if s == nil {
				s = &stint{shardKey: key, base: b.Base}
				byKey[stintKey{key, b.Base}] = s
				h.stints = append(h.stints, s)
			}
			// Cumulative counts only grow, so the largest is the newest however the batches arrived.
			s.emitted = max(s.emitted, b.Emitted)
			s.droppedFull = max(s.droppedFull, b.DroppedFull)
			s.droppedSend = max(s.droppedSend, b.DroppedSend)
			s.droppedOther = max(s.droppedOther, b.DroppedOther)
			if l := h.last[b.Runtime]; b.TimeNanos > l.timeNanos {
				h.last[b.Runtime] = lastBeat{b.TimeNanos, b.Final}
			} else if b.TimeNanos == l.timeNanos && b.Final {
				h.last[b.Runtime] = lastBeat{b.TimeNanos, true}
			}
		}
	}
	slices.SortFunc(h.stints, func(a, b *stint) int {
		return cmp.Or(cmp.Compare(a.runtime, b.runtime), cmp.Compare(a.shard, b.shard), cmp.Compare(a.base, b.base))
	})
	return h, nil
}

// covers reports whether a drop row repeats what a heartbeat counts: drops inside a sequenced target.
func (h *heartbeats) covers(d archive.Drop) bool {
	return d.Stage == stageSDK && h.shards[shardKey{d.Runtime, d.Shard}]
}

// stageSDK is the stage of drops inside the target.
const stageSDK = "sdk"

// recordSignal reports whether a drop's signal is a numbered record; the others have counts of their own.
func recordSignal(signal string) bool {
	switch signal {
	case "dispatch", "command_buffer", "wait", "span":
		return true
	}
	return false
}
