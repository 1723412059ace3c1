package originlinker

import (
	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/origin"
)

// newResolver makes the resolver of one recording.
func newResolver(cfg *Config, info archive.RecordingInfo) resolver {
	return &rebuilt{cfg: origin.Config{Limit: cfg.Limit}, facts: origin.Facts{Recording: info}, max: cfg.MaxEvidenceRows}
}

// rebuilt answers with an Index over everything that was added, made anew when there is more.
type rebuilt struct {
	cfg   origin.Config
	facts origin.Facts
	max   int
	index *origin.Index
}

func (r *rebuilt) Add(b *archive.Batch) {
	f := &r.facts
	f.Runtimes = append(f.Runtimes, b.Runtimes...)
	f.Lanes = append(f.Lanes, b.Lanes...)
	f.CommandBuffers = append(f.CommandBuffers, b.CommandBuffers...)
	f.Waits = append(f.Waits, b.Waits...)
	f.Awaits = append(f.Awaits, b.Awaits...)
	f.StackFrames = append(f.StackFrames, b.StackFrames...)
	f.Dispatches = append(f.Dispatches, b.Dispatches...)
	r.index = nil
}

func (r *rebuilt) ready() *origin.Index {
	if r.index == nil {
		r.index = origin.NewIndex(r.cfg, r.facts)
	}
	return r.index
}

func (r *rebuilt) Link(rt archive.RuntimeID, owner archive.OwnerKind, id uint64, kind archive.OriginKind, o *archive.Origin) archive.Link {
	return r.ready().Link(rt, owner, id, kind, o)
}

func (r *rebuilt) Certificate(d *archive.Dispatch) archive.Certificate {
	return r.ready().Certificate(d)
}

func (r *rebuilt) Evict(int64) {}
