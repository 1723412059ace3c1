package profiles

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/google/pprof/profile"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/gotrace"
)

// PayloadPprof is the original_payload_format of a profile as runtime/pprof and others write it.
const PayloadPprof = "pprof"

// Errors of [FromPprof].
var (
	// ErrTooLarge means that a payload is larger, when unpacked, than the limit.
	ErrTooLarge = errors.New("profiles: the payload is too large")
	// ErrNotCPU means that a profile has neither samples nor processor time: it is one of the heap, say.
	ErrNotCPU = errors.New("profiles: this is no CPU profile")
)

// FromPprof reads a CPU profile in pprof's format, packed by gzip or not: samples without instants, threads and
// goroutines. limit bounds its size when unpacked, in bytes. The rows have the given source; period is in nanoseconds, 0
// when unknown.
func FromPprof(payload []byte, source string, limit int) (d Data, period int64, err error) {
	defer func() { // the parser trusts its input in places
		if r := recover(); r != nil {
			d, period, err = Data{}, 0, fmt.Errorf("profiles: the parser of pprof failed: %v", r)
		}
	}()
	if bytes.HasPrefix(payload, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(payload))
		if err != nil {
			return Data{}, 0, fmt.Errorf("profiles: unpack pprof: %w", err)
		}
		if payload, err = io.ReadAll(io.LimitReader(z, int64(limit)+1)); err != nil {
			return Data{}, 0, fmt.Errorf("profiles: unpack pprof: %w", err)
		}
	}
	if len(payload) > limit {
		return Data{}, 0, ErrTooLarge
	}
	p, err := profile.ParseUncompressed(payload)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return Data{}, 0, fmt.Errorf("profiles: parse pprof: %w", err)
	}
	count, cpu := -1, -1
	for i, t := range p.SampleType {
		switch {
		case t.Type == typeSamples && t.Unit == unitCount:
			count = i
		case t.Type == typeCPU && t.Unit == unitNanos:
			cpu = i
		}
	}
	if count < 0 && cpu < 0 {
		return Data{}, 0, ErrNotCPU
	}
	if p.PeriodType != nil && p.PeriodType.Type == typeCPU && p.PeriodType.Unit == unitNanos {
		period = max(p.Period, 0)
	}
	seen := map[archive.StackID]struct{}{}
	var frames []Frame
	for _, s := range p.Sample {
		frames = frames[:0]
		for _, l := range s.Location {
			frames = pprofFrames(frames, l)
		}
		row := archive.Sample{Source: source}
		if len(frames) > 0 {
			row.Stack = gotrace.HashFrames(frames)
			if _, ok := seen[row.Stack]; !ok {
				seen[row.Stack] = struct{}{}
				d.Stacks = append(d.Stacks, Stack{ID: row.Stack, Frames: append([]Frame(nil), frames...)})
			}
		}
		if cpu >= 0 {
			row.CPUNanos = max(s.Value[cpu], 0)
		}
		switch {
		case count >= 0:
			row.Count = uint64(max(s.Value[count], 0))
		case period > 0:
			row.Count = uint64((row.CPUNanos + period/2) / period)
		}
		if row.Count != 0 || row.CPUNanos != 0 {
			d.Samples = append(d.Samples, row)
		}
	}
	return d, period, nil
}

func pprofFrames(frames []Frame, l *profile.Location) []Frame {
	if len(l.Line) == 0 {
		f := Frame{Function: hexAddress(l.Address)}
		if l.Mapping != nil {
			f.File = l.Mapping.File
		}
		return append(frames, f)
	}
	for _, line := range l.Line {
		if len(frames) >= maxStackFrames {
			return frames
		}
		f := Frame{Line: line.Line}
		if line.Function != nil {
			f.Function, f.File = line.Function.Name, line.Function.Filename
		}
		if f.Function == "" {
			f.Function = hexAddress(l.Address)
		}
		frames = append(frames, f)
	}
	return frames
}
