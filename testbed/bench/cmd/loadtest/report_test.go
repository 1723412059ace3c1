package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/testbed/bench/internal/load"
)

func TestSpread(t *testing.T) {
	assert.Equal(t, spread{2, 1, 9}, spreadOf([]float64{9, 1, 2}))
	assert.Equal(t, spread{2.5, 1, 9}, spreadOf([]float64{9, 1, 2, 3}))
	assert.Equal(t, spread{}, spreadOf(nil))
}

func run1(cpu, closing time.Duration) Run {
	return Run{Records: 1e6, Dispatches: 9e5, LoadCPU: cpu, CloseCPU: closing, LoadRSS: 123e6, PeakRSS: 456e6, Disk: 18e6}
}

func TestTable(t *testing.T) {
	r := Result{Machine: "test", Date: "2026-01-02", Options: "options"}
	r.Rows = []Measured{
		{
			Row:  Row{Shape: load.ShapePlain, Transport: load.GRPC, Batch: 2048},
			Peer: []Run{run1(5*time.Second, 0), run1(4*time.Second, 0), run1(8*time.Second, 0)},
			Stax: []Run{run1(1*time.Second, time.Second), run1(4*time.Second, time.Second), run1(4*time.Second, 4*time.Second)},
		},
		{Row: Row{Shape: load.ShapeStax, Transport: load.HTTP, Batch: 256, Calibration: true}, Peer: []Run{run1(time.Second, 0)}},
	}
	var b strings.Builder
	require.NoError(t, r.Print(&b))
	for line := range strings.Lines(b.String()) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
	}
	for _, want := range []string{
		"plain grpc  2048  ack    200 [125–250]   250 [250–1000]  2.00 [1.00–5.00]    123  123",
		"closed 200 [125–250]   200 [125–500]   1.00 [0.80–2.50]    456  456   20.0   20.0",
		"stax  http   256  (nop)  1000 [1000–1000]",
	} {
		assert.Contains(t, b.String(), want)
	}
}

// TestCountSpans counts in a generated request what the generator says it holds.
func TestCountSpans(t *testing.T) {
	s := load.NewStream(load.ShapeStax, 100, 0)
	records, roots := uint64(0), 0
	for range 10 {
		require.NoError(t, countSpans(s.Next(), func(_ []byte, isRecord bool) {
			if isRecord {
				records++
			} else {
				roots++
			}
		}))
	}
	truth := s.Truth()
	assert.Equal(t, truth.Records(), records)
	assert.Positive(t, roots)
	assert.Error(t, countSpans([]byte{0x0a, 0x7f}, func([]byte, bool) {}))
}
