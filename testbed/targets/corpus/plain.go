package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/testbed/internal/truth"
)

// plain holds the lanes that use the SDK's short calls.
type plain struct {
	ledger            *ledger
	disk, codec, tick *sdk.Lane
}

func newPlain(l *ledger) *plain {
	p := &plain{
		ledger: l,
		disk:   sdk.NewLane("disk", sdk.LaneStorage),
		codec:  sdk.NewLane("codec", sdk.LaneCodec, sdk.WithOrigins(sdk.OriginOff)),
		tick:   sdk.NewLane("tick", sdk.LaneTick),
	}
	l.Lane(truth.Lane{Name: "disk", Kind: string(sdk.LaneStorage)})
	l.Lane(truth.Lane{Name: "codec", Kind: string(sdk.LaneCodec)})
	l.Lane(truth.Lane{Name: "tick", Kind: string(sdk.LaneTick)})
	return p
}

var (
	nameRead   = sdk.NewName("read block")
	nameEncode = sdk.NewName("encode frame")
	nameTick   = sdk.NewName("tick")
)

// plainMain does one of each, again and again.
func plainMain(ctx context.Context, p *plain, rng *rand.Rand, pace time.Duration) {
	frame := make([]byte, 16<<10)
	for n := uint64(0); ctx.Err() == nil; n++ {
		tick := beginTick(ctx, p)
		readBlock(ctx, p, rng)
		encodeFrame(p, frame, n)
		tick.end(p)
		rest(ctx, rng, pace)
	}
}

//go:noinline
func readBlock(ctx context.Context, p *plain, rng *rand.Rand) {
	d := truth.Dispatch{Lane: "disk", Scenario: "read", Name: nameRead.String(), Origin: &truth.Origin{NotBefore: int64(sdk.Now())}}
	d.Origin.Site = truth.Below()
	o := p.disk.CaptureOrigin(ctx)
	d.Origin.NotAfter = int64(sdk.Now())
	start := sdk.Now() + sdk.Time(rng.IntN(5000))
	end := start + sdk.Time(20000+rng.IntN(60000))
	sleepUntil(end)
	t := time.Now()
	id := p.disk.ReportFrom(o, nameRead, start, end)
	p.ledger.Called(t)
	d.ID, d.StartNanos, d.EndNanos = truth.ID(id), int64(start), int64(end)
	p.ledger.reported(id != 0, d, unproven)
}

//go:noinline
func encodeFrame(p *plain, frame []byte, n uint64) {
	start := sdk.Now()
	frame[0] = byte(checksum(frame, n))
	end := sdk.Now()
	recorded := p.codec.Active()
	t := time.Now()
	p.codec.Report(nameEncode, start, end)
	p.ledger.Called(t)
	p.ledger.reported(recorded, truth.Dispatch{
		Lane: "codec", Scenario: "encode", Name: nameEncode.String(), StartNanos: int64(start), EndNanos: int64(end),
	}, "")
}

// spanning is a span of the tick lane. The SDK reads the clock itself, so its times are brackets: the truth has the
// start and end that the target saw from outside.
type spanning struct {
	span sdk.Span
	fact truth.Dispatch
}

//go:noinline
func beginTick(ctx context.Context, p *plain) *spanning {
	s := &spanning{fact: truth.Dispatch{Lane: "tick", Scenario: "tick", Name: nameTick.String(), Origin: &truth.Origin{}, Bracketed: true}}
	s.fact.Origin.NotBefore = int64(sdk.Now())
	s.fact.StartNanos = s.fact.Origin.NotBefore
	s.fact.Origin.Site = truth.Below()
	s.span = p.tick.Begin(ctx, nameTick)
	s.fact.Origin.NotAfter = int64(sdk.Now())
	s.fact.ID = truth.ID(s.span.ID())
	return s
}

func (s *spanning) end(p *plain) {
	recorded := s.fact.ID != 0
	t := time.Now()
	s.span.End()
	p.ledger.Called(t)
	s.fact.EndNanos = int64(sdk.Now())
	p.ledger.reported(recorded, s.fact, unproven)
}
