package main

import "github.com/stax-otel/stax/sdk/timeline"

// eventBus has a few bounded channels of events that wait for the next dispatch.
type eventBus struct {
	channels []channel
}

type channel struct {
	name                         string
	capacity, published, dropped int64
	waiting                      []int64
}

const (
	channelWorld = iota
	channelTrade
)

func newEventBus() *eventBus {
	return &eventBus{channels: []channel{{name: "world", capacity: 64}, {name: "trade", capacity: 16}}}
}

func (b *eventBus) publish(ch int, event int64) {
	c := &b.channels[ch]
	c.published++
	if int64(len(c.waiting)) >= c.capacity {
		c.dropped++
		return
	}
	c.waiting = append(c.waiting, event)
}

// dispatch hands every waiting event to f.
func (b *eventBus) dispatch(f func(event int64)) {
	for i := range b.channels {
		c := &b.channels[i]
		for _, e := range c.waiting {
			f(e)
		}
		c.waiting = c.waiting[:0]
	}
}

var _ timeline.EventSource = (*eventBus)(nil)

// Utilization is the fullest channel's.
func (b *eventBus) Utilization() (u float64) {
	for i := range b.channels {
		u = max(u, float64(len(b.channels[i].waiting))/float64(b.channels[i].capacity))
	}
	return u
}

// AppendPressure appends the channels in their fixed order.
func (b *eventBus) AppendPressure(dst []timeline.ChannelPressure) []timeline.ChannelPressure {
	for i := range b.channels {
		c := &b.channels[i]
		dst = append(dst, timeline.ChannelPressure{
			Channel: c.name, Capacity: c.capacity, InUse: int64(len(c.waiting)), Published: c.published, Dropped: c.dropped,
		})
	}
	return dst
}
