//go:build (darwin || linux) && (amd64 || arm64)

package mtl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
)

// SamplingPoint is an MTLCounterSamplingPoint.
type SamplingPoint uint64

// The places where classic counters may be sampled.
const (
	AtStage SamplingPoint = iota
	AtDraw
	AtDispatch
	AtTileDispatch
	AtBlit
)

// ErrorValue is MTLCounterErrorValue, what Metal writes for a sample it could not take. It is also MTLCounterDontSample.
const ErrorValue = ^uint64(0)

// Limits of counter sample buffers, from public reports: 32 live buffers in a process (WebKit #48756 citing Apple's
// feature set tables; measured in cubecl #1361), of which 4 are left to the program we live in, and 4096 samples in a
// buffer (gpuweb #3648). Not run here.
const (
	MaxSampleBuffers = 28
	MaxSamples       = 4096
)

// ErrBudget says that this process already holds [MaxSampleBuffers] sample buffers made through this package.
var ErrBudget = errors.New("the process's budget of counter sample buffers is used up")

// sampleBuffers counts the live sample buffers of the process.
var sampleBuffers atomic.Int64

// CounterSet is a counter set of a device with its counters' names, in the order of the results.
type CounterSet struct {
	Name     string
	Counters []string
	obj      object
}

// Release gives the set up.
func (c *CounterSet) Release() { c.obj.Release() }

// CounterSets lists the device's counter sets; nil when the driver returns nil, as paravirtual devices do (ocannl #942).
func (d *Device) CounterSets() (out []*CounterSet) {
	rt, m := d.s.rt, &d.s.m
	d.s.Pool(func() {
		for _, set := range rt.Array(m.Device.CounterSets(d.id)) {
			c := &CounterSet{Name: rt.GoString(m.CounterSet.Name(set)), obj: object{d.s, rt.Retain(set)}}
			for _, counter := range rt.Array(m.CounterSet.Counters(set)) {
				c.Counters = append(c.Counters, rt.GoString(m.Counter.Name(counter)))
			}
			out = append(out, c)
		}
	})
	return out
}

// SupportsSampling tells whether counters can be sampled at a point. Sampling elsewhere aborts the process (gpuweb
// #1956), so the encoders of this package ask again before they sample.
func (d *Device) SupportsSampling(p SamplingPoint) bool {
	return d.need("supportsCounterSampling:") == nil && d.s.m.Device.SupportsCounterSampling(d.id, uint64(p))
}

// SampleBuffer is an MTLCounterSampleBuffer with shared storage: the M3 Max report saw blit-resolved private buffers one
// run stale.
type SampleBuffer struct {
	object
	set *CounterSet
}

// NewSampleBuffer makes a sample buffer of n samples. It counts against the process's budget until Release.
func (d *Device) NewSampleBuffer(set *CounterSet, n uint64, label string) (*SampleBuffer, error) {
	if n == 0 || n > MaxSamples {
		return nil, fmt.Errorf("new counter sample buffer of %d samples: want 1 to %d", n, MaxSamples)
	}
	if sampleBuffers.Add(1) > MaxSampleBuffers {
		sampleBuffers.Add(-1)
		return nil, fmt.Errorf("new counter sample buffer: %w", ErrBudget)
	}
	b, err := d.newSampleBuffer(set, n, label)
	if err != nil {
		sampleBuffers.Add(-1)
	}
	return b, err
}

func (d *Device) newSampleBuffer(set *CounterSet, n uint64, label string) (*SampleBuffer, error) {
	desc, err := d.s.descriptor("MTLCounterSampleBufferDescriptor")
	if err != nil {
		return nil, err
	}
	defer desc.Release()
	m := &d.s.m.SampleDescriptor
	m.SetCounterSet(desc.id, set.obj.id)
	m.SetSampleCount(desc.id, n)
	m.SetStorageMode(desc.id, 0)
	desc.label(m.SetLabel, label)
	got, err := d.created("new counter sample buffer", func(e *id) id { return d.s.m.Device.NewSampleBuffer(d.id, desc.id, e) })
	if err != nil {
		return nil, err
	}
	return &SampleBuffer{got, set}, nil
}

// Release gives the buffer and its place in the budget up.
func (b *SampleBuffer) Release() {
	if b.id != 0 {
		sampleBuffers.Add(-1)
	}
	b.object.Release()
}

// Resolve reads the values of n samples from the first on, counter by counter in the set's order. It must only be called
// after the command buffer completed. Values that are all ones are errors of Metal, see [ErrorValue]; a zero may be a
// sample that was never written. A result whose size is not 8 bytes per counter and sample is refused.
func (b *SampleBuffer) Resolve(first, n uint64) ([][]uint64, error) {
	var raw []byte
	b.s.Pool(func() { raw = b.s.rt.Bytes(b.s.m.SampleBuffer.Resolve(b.id, rng{Location: first, Length: n})) })
	if raw == nil {
		return nil, fmt.Errorf("resolve counters [%d, %d): %w", first, first+n, ErrNil)
	}
	perSample := len(b.set.Counters)
	if want := int(n) * perSample * 8; len(raw) != want {
		return nil, fmt.Errorf("resolve counters [%d, %d) of set %s: %d bytes, want %d", first, first+n, b.set.Name, len(raw), want)
	}
	out := make([][]uint64, n)
	for i := range out {
		out[i] = make([]uint64, perSample)
		for j := range out[i] {
			out[i][j] = binary.LittleEndian.Uint64(raw[(i*perSample+j)*8:])
		}
	}
	return out, nil
}
