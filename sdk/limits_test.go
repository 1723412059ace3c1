package sdk

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stax-otel/stax/sdk/internal/collectortest"
)

func TestClip(t *testing.T) {
	long := strings.Repeat("é", maxString) // two bytes each
	for _, s := range []string{"", "plain", "bad\xffbyte", long, "x" + long} {
		got := clip(s)
		if len(got) > maxString || !utf8.ValidString(got) {
			t.Errorf("clip(%d bytes) = %d bytes, valid %v", len(s), len(got), utf8.ValidString(got))
		}
	}
	if got := clip("x" + long); len(got) != maxString-1 {
		t.Errorf("clip cut a rune or too much: %d bytes", len(got))
	}
}

func TestHandles(t *testing.T) {
	first, again := NewName("n"), NewName("n")
	if first != again || first == NewName("m") || NewName("") != (Name{}) {
		t.Error("names are not interned")
	}
	if NewName("n").String() != "n" || NewQueue("q").String() != "q" || NewShader("s").String() != "s" || NewKey("k").String() != "k" {
		t.Error("handles do not name themselves")
	}
	for _, k := range []string{"stax.seq", "thread.id", ""} {
		if NewKey(k) != (Key{}) {
			t.Errorf("key %q was accepted", k)
		}
	}
}

func TestCounterSets(t *testing.T) {
	a := NewCounterSet("limits/set", "A", Counter{"x", UnitCount})
	if a.ID() != "limits_set" {
		t.Errorf("id %q keeps its slash", a.ID())
	}
	if b := NewCounterSet("limits/set", "A", Counter{"x", UnitCount}); a != b {
		t.Error("the same definition gave another set")
	}
	if b := NewCounterSet("limits/set", "B", Counter{"x", UnitCount}); a == b || b.index != 0 {
		t.Error("a conflicting definition was accepted")
	}
	if NewCounterSet("limits-empty", "").index != 0 || NewCounterSet("", "x", Counter{"x", UnitCount}).index != 0 {
		t.Error("an empty set was accepted")
	}
}

// TestRecordLimits overfills records: the limits hold, and the spans say how much is missing.
func TestRecordLimits(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	rt := newTestRuntime(t, c.Endpoint(), nil)
	lane := rt.NewLane("l", LaneGeneric)
	set := NewCounterSet("limits-two", "Two", Counter{"a", UnitCount}, Counter{"b", UnitCount})

	tags := lane.Dispatch(lane.Name("tags"))
	for i := range 100 {
		tags.TagInt(NewKey("limit."+strings.Repeat("k", i+1)), 1)
	}
	tags.Report(1, 2)

	big := lane.Dispatch(lane.Name("big"))
	for i := range 10 {
		big.Tag(NewKey("big."+string(rune('a'+i))), strings.Repeat("v", 2*maxString))
	}
	big.Tag(Key{}, "no key")
	big.Report(1, 2)

	counters := lane.Dispatch(lane.Name("counters"))
	counters.Counters(set, AfterDispatch, IntValue(1), IntValue(2), IntValue(3))
	counters.Counters(nil, AfterDispatch, IntValue(1))
	counters.Counters(set, "my/point", IntValue(9))
	counters.Report(1, 2)

	text := lane.Dispatch(lane.Name("text"))
	text.Tag(NewKey("text"), "bad\xff")
	text.Fault("also bad\xff")
	text.Report(1, 2)

	w := rt.BeginWait(nil, lane.Name("wait")) //nolint:staticcheck // SA1012: a nil context is allowed here
	for i := range maxAwaits + 10 {
		w.Await(DispatchID(i + 1))
	}
	w.Await(0)
	w.End()
	w.End()
	tags.Report(3, 4)

	flush(t, rt)
	c.See(func(v collectortest.View) {
		spans := map[string]collectortest.Span{}
		for _, s := range v.Spans() {
			spans[s.Name] = s
		}
		if len(v.Spans()) != 5 {
			t.Errorf("%d spans, want 5: a second Report must do nothing", len(v.Spans()))
		}
		n := 0
		for k := range spans["tags"].Attrs {
			if strings.HasPrefix(k, "limit.") {
				n++
			}
		}
		if n != maxTags || spans["tags"].Dropped != 100-maxTags {
			t.Errorf("%d tags arrived, %d dropped", n, spans["tags"].Dropped)
		}
		if s := spans["big"]; len(s.Attrs["big.a"].(string)) != maxString || s.Dropped != 8 {
			t.Errorf("big: %d bytes, %d dropped", len(s.Attrs["big.a"].(string)), s.Dropped)
		}
		if s := spans["counters"]; s.Attrs["stax.counter.limits-two/after_dispatch/b"] != int64(2) || s.Attrs["stax.counter.limits-two/my_point/a"] != int64(9) || s.Dropped != 1 {
			t.Errorf("counters: %+v", s)
		}
		if s := spans["text"]; s.Attrs["text"] != "bad?" || s.StatusMessage != "also bad?" {
			t.Errorf("text: %+v", s)
		}
		if s := spans["wait"]; len(s.Attrs["stax.wait.awaits"].([]string)) != maxAwaits || s.Dropped != 10 {
			t.Errorf("wait: %d awaits, %d dropped", len(s.Attrs["stax.wait.awaits"].([]string)), s.Dropped)
		}
	})
	for _, code := range []string{"attributes_dropped", "string_truncated", "awaits_dropped"} { // told within a second
		c.Until("diagnostic "+code, func(v collectortest.View) bool {
			return slices.ContainsFunc(v.Records("stax.diagnostic"), func(r collectortest.Record) bool {
				return r.Attrs["stax.diagnostic.code"] == code
			})
		})
	}
}

// TestStaleCopy uses a copy of a dispatch after the original was reported: the copy must not touch the buffer of
// another record.
func TestStaleCopy(t *testing.T) {
	rt := localRuntime(t, "")
	lane := rt.NewLane("l", LaneGeneric)
	d := lane.Dispatch(Name{})
	d.TagInt(NewKey("k"), 1)
	stale := d
	d.Report(1, 2)
	e := lane.Dispatch(Name{})
	e.TagInt(NewKey("k"), 2)
	before := string(e.b.x.buf)
	stale.TagInt(NewKey("k"), 3)
	stale.Report(3, 4)
	if string(e.b.x.buf) != before {
		t.Error("a stale copy wrote into another record")
	}
}

func TestTooManyLanes(t *testing.T) {
	rt := NewRuntime(Config{Endpoint: "off"})
	for range maxLanes {
		rt.NewLane("l", LaneGeneric)
	}
	l := rt.NewLane("one too many", LaneGeneric)
	if l.Active() || l.ID() != "" {
		t.Error("lane past the limit")
	}
	l.Report(Name{}, 1, 2)
	var none *Lane
	none.Report(Name{}, 1, 2)
	d := none.Dispatch(Name{})
	d.Report(1, 2)
	s := none.Begin(nil, Name{}) //nolint:staticcheck // SA1012: a nil context is allowed here
	s.End()
	if !none.CaptureOrigin(nil).IsZero() || none.Active() || none.Kind() != "" { //nolint:staticcheck // SA1012: a nil context is allowed here
		t.Error("a nil lane is not inert")
	}
}
