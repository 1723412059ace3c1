package staxarchiveexporter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/recording"
)

// Only runtimes that were asked to report and of which nothing at all came are silent.
func TestSilent(t *testing.T) {
	s := &state{now: func() time.Time { return time.Unix(0, 7) }, runtimes: map[archive.RuntimeID]*runtimeState{"heard": {}}}
	got := s.silent([]recording.RuntimeInfo{
		{Runtime: "quiet-b", PID: 12, Gated: true},
		{Runtime: "heard", PID: 10, Gated: true},
		{Runtime: "foreign", PID: 11},
		{Runtime: "quiet-a", PID: 13, Gated: true},
	})
	require.Len(t, got, 2)
	for i, want := range []struct{ runtime, text string }{{"quiet-a", "process 13 "}, {"quiet-b", "process 12 "}} {
		assert.Equal(t, archive.RuntimeID(want.runtime), got[i].Runtime)
		assert.Equal(t, archive.DiagnosticSilentRuntime, got[i].Code)
		assert.Contains(t, got[i].Text, want.text)
		assert.Equal(t, int64(7), got[i].TimeNanos)
	}
}
