//go:build unix

package forward

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// legacySpan is a span in Jaeger's own JSON (/api/traces), which its user interface reads.
type legacySpan struct {
	TraceID    string      `json:"traceID"`
	SpanID     string      `json:"spanID"`
	Name       string      `json:"operationName"`
	References []reference `json:"references"`
}

type reference struct {
	Type    string `json:"refType"` // CHILD_OF or FOLLOWS_FROM
	TraceID string `json:"traceID"`
	SpanID  string `json:"spanID"`
}

// shownParents returns for each span the parent that Jaeger's user interface draws it below: its first reference, of either
// type, to a span of the same trace. A link to a span of the same trace is as good as a parent to it.
func shownParents(trace []legacySpan) map[string]string {
	in := map[string]bool{}
	for _, s := range trace {
		in[s.SpanID] = true
	}
	out := map[string]string{}
	for _, s := range trace {
		for _, r := range s.References {
			if (r.Type == "CHILD_OF" || r.Type == "FOLLOWS_FROM") && r.TraceID == s.TraceID && in[r.SpanID] {
				out[s.SpanID] = r.SpanID
				break
			}
		}
	}
	return out
}

// misplaced returns a sentence for each target span that is shown below a span that is none.
func misplaced(trace []legacySpan, isTarget func(spanID string) bool) []string {
	var out []string
	parents := shownParents(trace)
	for _, s := range trace {
		if p, ok := parents[s.SpanID]; ok && isTarget(s.SpanID) && !isTarget(p) {
			out = append(out, fmt.Sprintf("target span %s %q is shown below CPU span %s", s.SpanID, s.Name, p))
		}
	}
	return out
}

// TestMisplaced: the check that the test below relies on finds what it is there for.
func TestMisplaced(t *testing.T) {
	target := func(id string) bool { return id[0] == 't' }
	for name, c := range map[string]struct {
		trace string
		want  int
	}{
		"a dispatch below its segment": {`[{"traceID":"L","spanID":"t1"},
			{"traceID":"L","spanID":"t2","references":[{"refType":"CHILD_OF","traceID":"L","spanID":"t1"},{"refType":"FOLLOWS_FROM","traceID":"C","spanID":"c1"}]}]`, 0},
		"a dispatch with a CPU parent": {`[{"traceID":"C","spanID":"c1"},
			{"traceID":"C","spanID":"t2","references":[{"refType":"CHILD_OF","traceID":"C","spanID":"c1"}]}]`, 1},
		"a dispatch without parent that links into its trace": {`[{"traceID":"C","spanID":"c1"},
			{"traceID":"C","spanID":"t2","references":[{"refType":"FOLLOWS_FROM","traceID":"C","spanID":"c1"}]}]`, 1},
		"the link comes first": {`[{"traceID":"C","spanID":"c1"},{"traceID":"C","spanID":"t1"},
			{"traceID":"C","spanID":"t2","references":[{"refType":"FOLLOWS_FROM","traceID":"C","spanID":"c1"},{"refType":"CHILD_OF","traceID":"C","spanID":"t1"}]}]`, 1},
		"a wait below a CPU span": {`[{"traceID":"C","spanID":"c1"},
			{"traceID":"C","spanID":"c2","references":[{"refType":"CHILD_OF","traceID":"C","spanID":"c1"}]}]`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var trace []legacySpan
			require.NoError(t, json.Unmarshal([]byte(c.trace), &trace))
			assert.Len(t, misplaced(trace, target), c.want)
		})
	}
}
