package sdk_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/internal/collectortest"
)

// waitActive outlasts a machine so slow that the synchronous first question timed out.
func waitActive(t *testing.T, lane *sdk.Lane) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !lane.Active(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not recorded")
		}
	}
}

// TestStackNamesTheCaller checks function and line of the leaf for every call that captures.
func TestStackNamesTheCaller(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	rt := sdk.NewRuntime(sdk.Config{Endpoint: c.Endpoint()})
	t.Cleanup(func() { _ = rt.Shutdown(context.Background()) })
	lane := rt.NewLane("l", sdk.LaneGeneric)
	waitActive(t, lane)
	ctx := t.Context()
	here := func() string { _, _, line, _ := runtime.Caller(1); return fmt.Sprint(line) }
	above := func() string { _, _, line, _ := runtime.Caller(1); return fmt.Sprint(line - 1) }
	want := map[string]string{}

	o, line := lane.CaptureOrigin(ctx), here()
	lane.ReportFrom(o, lane.Name("Lane.CaptureOrigin"), 1, 2)
	want["Lane.CaptureOrigin"] = line

	o, line = rt.CaptureOrigin(ctx), here()
	lane.ReportFrom(o, lane.Name("Runtime.CaptureOrigin"), 1, 2)
	want["Runtime.CaptureOrigin"] = line

	d := lane.Dispatch(lane.Name("Dispatch.CaptureOrigin"))
	d.CaptureOrigin(ctx)
	want["Dispatch.CaptureOrigin"] = above()
	d.Report(1, 2)

	cb := lane.CommandBuffer(lane.Name("CommandBuffer.CaptureOrigin"))
	cb.CaptureOrigin(ctx)
	want["CommandBuffer.CaptureOrigin"] = above()
	cb.Report(1, 2)

	s, line := lane.Begin(ctx, lane.Name("Begin")), here()
	s.End()
	want["Begin"] = line

	w, line := rt.BeginWait(ctx, lane.Name("BeginWait")), here()
	w.Await(d.ID())
	w.End()
	want["BeginWait"] = line

	func() { // an inlined closure, many frames deep
		o, line = lane.CaptureOrigin(ctx), here()
	}()
	lane.ReportFrom(o, lane.Name("closure"), 1, 2)
	want["closure"] = line

	deep(60, func() { lane.ReportFrom(lane.CaptureOrigin(ctx), lane.Name("deep"), 1, 2) })

	if err := rt.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	c.See(func(v collectortest.View) {
		stacks := map[any]collectortest.Record{}
		for _, r := range v.Records("stax.stack") {
			if _, twice := stacks[r.Attrs["stax.stack.id"]]; twice {
				t.Errorf("stack %v is defined twice", r.Attrs["stax.stack.id"])
			}
			stacks[r.Attrs["stax.stack.id"]] = r
		}
		seen := 0
		for _, s := range v.Spans() {
			r, ok := stacks[s.Attrs["stax.origin.stack_id"]]
			if !ok {
				t.Errorf("%s: stack %v is not defined", s.Name, s.Attrs["stax.origin.stack_id"])
				continue
			}
			fns := r.Attrs["stax.stack.functions"].([]string)
			files := r.Attrs["stax.stack.files"].([]string)
			lines := r.Attrs["stax.stack.lines"].([]int64)
			if s.Name == "deep" {
				if len(fns) != 32 {
					t.Errorf("deep: %d frames, want 32", len(fns))
				}
				continue
			}
			seen++
			if !strings.Contains(fns[0], "sdk_test.TestStackNamesTheCaller") || !strings.HasSuffix(files[0], "capture_test.go") || fmt.Sprint(lines[0]) != want[s.Name] {
				t.Errorf("%s: leaf %s %s:%d, want line %s", s.Name, fns[0], files[0], lines[0], want[s.Name])
			}
			if runtime.GOOS == "linux" && s.Attrs["stax.origin.thread_id"] == nil {
				t.Errorf("%s: no thread", s.Name)
			}
			at, _ := s.Attrs["stax.origin.time_unix_nano"].(int64)
			if d := time.Since(time.Unix(0, at)); d < 0 || d > time.Minute {
				t.Errorf("%s: origin %v ago", s.Name, d)
			}
		}
		if seen != len(want) {
			t.Errorf("%d spans, want %d", seen, len(want))
		}
	})
}

//go:noinline
func deep(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	deep(n-1, f)
}

// TestCPUSpanContext carries the OTel span of the context as attributes, link and, for a wait, as parent.
func TestCPUSpanContext(t *testing.T) {
	c := collectortest.New(t)
	c.Record("r")
	rt := sdk.NewRuntime(sdk.Config{Endpoint: c.Endpoint()})
	t.Cleanup(func() { _ = rt.Shutdown(context.Background()) })
	lane := rt.NewLane("l", sdk.LaneGeneric)
	waitActive(t, lane)
	sc := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{0xaa, 15: 1}, SpanID: trace.SpanID{0xbb, 7: 2}})
	ctx := trace.ContextWithSpanContext(t.Context(), sc)
	d := lane.Dispatch(lane.Name("d"))
	d.CaptureOrigin(ctx)
	d.Report(1, 2)
	w := rt.BeginWait(ctx, lane.Name("w"))
	w.End()
	alone := rt.BeginWait(nil, lane.Name("alone")) //nolint:staticcheck // SA1012: a nil context is allowed here
	alone.End()
	if err := rt.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	c.See(func(v collectortest.View) {
		for _, s := range v.Spans() {
			attrs := s.Attrs["stax.origin.trace_id"] == sc.TraceID().String() && s.Attrs["stax.origin.span_id"] == sc.SpanID().String()
			switch s.Name {
			case "d":
				link := len(s.Links) == 1 && s.Links[0].TraceID == sc.TraceID().String() && s.Links[0].SpanID == sc.SpanID().String() &&
					s.Links[0].Attrs["stax.origin.kind"] == "dispatch"
				if !attrs || !link || s.TraceID == sc.TraceID().String() {
					t.Errorf("d: %+v", s)
				}
			case "w":
				if !attrs || s.TraceID != sc.TraceID().String() || s.Parent != sc.SpanID().String() {
					t.Errorf("w: %+v", s)
				}
			case "alone":
				if s.Parent != "" || s.TraceID == "" || s.Attrs["stax.wait.awaits"] == nil || !slices.Equal(s.Attrs["stax.wait.awaits"].([]string), nil) {
					t.Errorf("alone: %+v", s)
				}
			}
		}
	})
}
