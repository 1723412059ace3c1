//go:build (darwin || linux) && (amd64 || arm64)

package mtl

import (
	"errors"
	"fmt"
)

// Destination is an MTLCaptureDestination.
type Destination int64

// Where a capture goes.
const (
	ToDeveloperTools Destination = 1
	ToGPUTrace       Destination = 2
)

// CaptureManager is the process's MTLCaptureManager.
type CaptureManager struct{ object }

// CaptureManager returns the shared capture manager.
func (s *System) CaptureManager() (*CaptureManager, error) {
	c, err := s.rt.Class("MTLCaptureManager")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, errors.ErrUnsupported)
	}
	root := object{s: s}
	o, err := root.borrowed("capture manager", func() id { return s.m.CaptureManager.Shared(c) })
	if err != nil {
		return nil, err
	}
	return &CaptureManager{o}, nil
}

// Supports tells whether captures can go to a destination. For .gputrace documents the environment must have had
// MTL_CAPTURE_ENABLED=1 before the device was made.
func (m *CaptureManager) Supports(d Destination) bool {
	return m.s.m.CaptureManager.SupportsDestination(m.id, int64(d))
}

// IsCapturing tells whether a capture runs.
func (m *CaptureManager) IsCapturing() bool { return m.s.m.CaptureManager.IsCapturing(m.id) }

// Scope is an MTLCaptureScope.
type Scope struct{ object }

// Captured is what a capture can record: a [Device], [Queue], [Queue4] or [Scope].
type Captured interface {
	captured() id
}

func (d *Device) captured() id { return d.id }
func (q *Queue) captured() id  { return q.id }
func (q *Queue4) captured() id { return q.id }
func (c *Scope) captured() id  { return c.id }

// NewScope makes a scope for a device or a queue. A scope of a Metal 4 queue is refused as an object of [Capture]: with
// the capture layer on, starting such a capture killed the process (Snowapril/vkm implementation notes; not run here).
func (m *CaptureManager) NewScope(of Captured, label string) (*Scope, error) {
	b := &m.s.m.CaptureManager
	var got id
	switch of := of.(type) {
	case *Device:
		got = b.NewScopeForDevice(m.id, of.id)
	case *Queue:
		got = b.NewScopeForQueue(m.id, of.id)
	case *Queue4:
		return nil, fmt.Errorf("capture scope of a Metal 4 queue: %w", errors.ErrUnsupported)
	default:
		return nil, fmt.Errorf("capture scope of a %T: %w", of, errors.ErrUnsupported)
	}
	if got == 0 {
		return nil, fmt.Errorf("new capture scope: %w", ErrNil)
	}
	s := &Scope{object{m.s, got}}
	s.label(m.s.m.CaptureScope.SetLabel, label)
	return s, nil
}

// Begin marks the start of what the scope captures.
func (c *Scope) Begin() { c.s.m.CaptureScope.Begin(c.id) }

// End marks its end.
func (c *Scope) End() { c.s.m.CaptureScope.End(c.id) }

// Start begins a capture into path, which must end in .gputrace and not exist.
func (m *CaptureManager) Start(of Captured, path string) error {
	desc, err := m.s.descriptor("MTLCaptureDescriptor")
	if err != nil {
		return err
	}
	defer desc.Release()
	b := &m.s.m.CaptureDescriptor
	b.SetObject(desc.id, of.captured())
	b.SetDestination(desc.id, int64(ToGPUTrace))
	var fault error
	m.s.Pool(func() {
		b.SetOutputURL(desc.id, m.s.rt.FileURL(path))
		nserr := new(id)
		if m.s.m.CaptureManager.Start(m.id, desc.id, nserr) {
			return
		}
		fault = ErrNil
		if e := m.s.rt.Error(*nserr); e != nil {
			fault = e
		}
	})
	if fault != nil {
		return fmt.Errorf("start capture to %s: %w", path, fault)
	}
	return nil
}

// Stop ends the running capture.
func (m *CaptureManager) Stop() { m.s.m.CaptureManager.Stop(m.id) }
