package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/query"
)

// TestLanesThroughTracerProvider records lanes that go through the program's own OpenTelemetry pipeline: the exact code
// that queued each piece of work and the proof that it was waited for survive the way.
func TestLanesThroughTracerProvider(t *testing.T) {
	w := newWorld(t)
	path := w.path("otelroute.stax")
	p := w.start("stax", "record", "--out", path, "--http", freeAddress(t), "--", program("otelroute"), "-n", "300")
	require.Equal(t, 0, p.wait(60*time.Second), "%s", p.err)
	assert.NotContains(t, p.err.String(), "refused")

	c := readCPU(t, path)
	require.Len(t, c.links, 300)
	for id, l := range c.links {
		require.Equal(t, []string{"linked", "A"}, []string{l.Status, l.Grade}, "dispatch %d", id)
		leaf := c.stacks[l.Stack]
		require.True(t, slices.ContainsFunc(leaf, func(f archive.StackFrame) bool { return f.Depth == 0 && strings.HasSuffix(f.Function, "main.handle") }), "%v", leaf)
	}
	classes := classAnswers(w, path)
	assert.GreaterOrEqual(t, classes["pool job synchronous"], 270, "%v", classes) // the others were done before the wait began
	assert.NotEmpty(t, c.samples)
	a := audited(w, path, 3)
	assert.Equal(t, query.VerdictUnproven, a.Verdict)
	assert.Contains(t, strings.Join(reasonCodes(a), " "), "unsequenced")

	r, err := archive.Open(path, archive.ReaderOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	buffers := map[archive.CommandBufferID]bool{}
	scan(t, r, func(x archive.CommandBuffer) { buffers[x.ID] = true })
	scan(t, r, func(x archive.Dispatch) {
		assert.True(t, buffers[x.CommandBuffer], "dispatch %v has no command buffer", x.ID)
	})
	assert.Len(t, buffers, 300)
}
