package detach

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/validate"
	"github.com/stax-otel/stax/sdk/semconv"
)

func id(n int) pcommon.SpanID {
	return pcommon.SpanID{1, 4: byte(n >> 24), 5: byte(n >> 16), 6: byte(n >> 8), 7: byte(n)}
}

// block makes a scope of spans; parents[i] is the index of the i-th span's parent, -1 for none.
func block(parents ...int) (ptrace.ResourceSpans, ptrace.ScopeSpans) {
	rs := ptrace.NewTraces().ResourceSpans().AppendEmpty()
	ss := rs.ScopeSpans().AppendEmpty()
	for i, p := range parents {
		s := ss.Spans().AppendEmpty()
		s.SetTraceID(pcommon.TraceID{1})
		s.SetSpanID(id(i))
		if p >= 0 {
			s.SetParentSpanID(id(p))
		}
	}
	return rs, ss
}

type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

var (
	lane = validate.Lane{ID: "1", Name: "gpu", Kind: "gpu"}
	key  = Key{Recording: "r", Runtime: "rt", Lane: "1"}
)

func TestSegments(t *testing.T) {
	c := &clock{t: time.Unix(1000, 0)}
	sg := NewSegmenter(c.now)
	send := func(k Key) (trace pcommon.TraceID, spans int) {
		rs, ss := block(-1)
		moved, _ := sg.Move(k, lane, rs, ss)
		require.Equal(t, 1, moved)
		return ss.Spans().At(0).TraceID(), ss.Spans().Len()
	}
	first, n := send(key)
	assert.Equal(t, 2, n, "a new segment brings its root")
	c.t = c.t.Add(MaxAge - 1)
	again, n := send(key)
	assert.Equal(t, first, again)
	assert.Equal(t, 1, n)
	c.t = c.t.Add(1)
	next, n := send(key)
	assert.NotEqual(t, first, next)
	assert.Equal(t, 2, n)

	for _, other := range []Key{{"r2", "rt", "1"}, {"r", "rt2", "1"}, {"r", "rt", "2"}, {"", "rrt", "1"}} {
		trace, _ := send(other)
		assert.NotEqual(t, next, trace)
	}

	sg2 := NewSegmenter((&clock{t: time.Unix(1000, 0)}).now)
	rs, ss := block(-1)
	sg2.Move(key, lane, rs, ss)
	assert.Equal(t, first, ss.Spans().At(0).TraceID(), "same lane, same instant, same trace id")
}

func TestSegmentsInOneTick(t *testing.T) {
	sg := NewSegmenter((&clock{t: time.Unix(1000, 0)}).now)
	parents := make([]int, 3*MaxSpans)
	for i := range parents {
		parents[i] = -1
	}
	rs, ss := block(parents...)
	moved, _ := sg.Move(key, lane, rs, ss)
	assert.Equal(t, len(parents), moved)
	require.Equal(t, 3, rs.ScopeSpans().Len())
	seen := map[pcommon.TraceID]bool{}
	for _, ss := range rs.ScopeSpans().All() {
		assert.Equal(t, MaxSpans+1, ss.Spans().Len())
		seen[ss.Spans().At(0).TraceID()] = true
	}
	assert.Len(t, seen, 3)
}

// TestShapes: chains, cycles, self-parents and duplicates neither hang nor get lost.
func TestShapes(t *testing.T) {
	chain := make([]int, 50_000)
	for i := range chain {
		chain[i] = i - 1
	}
	reversed := make([]int, 50_000)
	for i := range reversed {
		reversed[i] = i + 1
	}
	for name, parents := range map[string][]int{
		"chain":        chain,
		"reversed":     reversed,
		"self":         {0, 1, 1},
		"cycle":        {1, 2, 0, 0},
		"two cycles":   {1, 0, 3, 2},
		"late parent":  {1, -1},
		"outside":      {77, 78},
		"tail of loop": {1, 2, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			sg := NewSegmenter((&clock{t: time.Unix(1000, 0)}).now)
			rs, ss := block(parents...)
			moved, _ := sg.Move(key, lane, rs, ss)
			assert.Equal(t, len(parents), moved)
			n := 0
			for _, ss := range rs.ScopeSpans().All() {
				n += ss.Spans().Len() - 1
				in := map[pcommon.SpanID]pcommon.SpanID{}
				for _, s := range ss.Spans().All() {
					in[s.SpanID()] = s.ParentSpanID()
				}
				for sid, parent := range in {
					if _, ok := in[parent]; !ok && !parent.IsEmpty() {
						t.Fatalf("%s: parent %s is elsewhere", sid, parent)
					}
				}
			}
			assert.Equal(t, len(parents), n)
		})
	}
}

func TestWaitsStay(t *testing.T) {
	rs, ss := block(-1, 0)
	w := ss.Spans().At(1)
	w.Attributes().PutStr(semconv.SpanTypeKey, semconv.SpanTypeWait)
	moved, _ := NewSegmenter(time.Now).Move(key, lane, rs, ss)
	assert.Equal(t, 1, moved)
	assert.Equal(t, pcommon.TraceID{1}, ss.Spans().At(1).TraceID())
	assert.Equal(t, id(0), ss.Spans().At(1).ParentSpanID())
}

func TestUndo(t *testing.T) {
	sg := NewSegmenter((&clock{t: time.Unix(1000, 0)}).now)
	rs, ss := block(-1)
	_, undo := sg.Move(key, lane, rs, ss)
	undo()
	rs, ss = block(-1)
	sg.Move(key, lane, rs, ss)
	assert.Equal(t, 2, ss.Spans().Len(), "the root comes again")
	rs, ss = block(-1)
	_, undo = sg.Move(key, lane, rs, ss)
	undo()
	rs, ss = block(-1)
	sg.Move(key, lane, rs, ss)
	assert.Equal(t, 1, ss.Spans().Len(), "a request that brought no root undoes none")
}

// TestManyLanes: memory is bounded, whatever lanes are made up.
func TestManyLanes(t *testing.T) {
	c := &clock{t: time.Unix(1000, 0)}
	sg := NewSegmenter(c.now)
	for i := range 2 * maxLanes {
		rs, ss := block(-1)
		sg.Move(Key{Lane: fmt.Sprint(i)}, lane, rs, ss)
		assert.LessOrEqual(t, len(sg.lanes), maxLanes)
	}
	c.t = c.t.Add(MaxAge)
	rs, ss := block(-1)
	sg.Move(key, lane, rs, ss)
	assert.Len(t, sg.lanes, 1, "what is over goes first")
}
