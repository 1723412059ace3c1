package timelineotel

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/stax-otel/stax/sdk/timeline"
)

// meter counts by instrument name and attributes.
type meter struct {
	noop.Meter
	counts map[string]int64
	fail   string
}

type counter struct {
	noop.Int64Counter
	m    *meter
	name string
}

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	if name == m.fail {
		return nil, errors.New("refused")
	}
	return &counter{m: m, name: name}, nil
}

func (c *counter) Add(_ context.Context, n int64, o ...metric.AddOption) {
	set := metric.NewAddConfig(o).Attributes()
	key := c.name
	for _, kv := range set.ToSlice() {
		key += " " + string(kv.Key) + "=" + kv.Value.AsString()
	}
	c.m.counts[key] += n
}

func TestCounters(t *testing.T) {
	m := &meter{counts: map[string]int64{}}
	tel, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Duration(0)
	rec := timeline.New(timeline.Options{
		Enabled: true, StepBudget: 10 * time.Millisecond, Clock: func() time.Duration { return now },
		Telemetry: tel, SystemLabels: []string{"ai"},
	})
	slow := func() error { now += 6 * time.Millisecond; return nil }
	for n := range int64(5) {
		rec.BeginTick(timeline.TickStart{Tick: n})
		_ = rec.CaptureSystem("ai", slow)
		_ = rec.CaptureSystem("made at run time", slow)
		_ = rec.CaptureSystem("made later", slow)
		rec.EndTick(timeline.TickEnd{})
	}
	want := map[string]int64{
		"runtime_ticks_over_budget_total":        5,
		"runtime_system_slow_total system=ai":    4, // the first slow execution is no warning
		"runtime_system_slow_total system=other": 8,
	}
	if !reflect.DeepEqual(m.counts, want) {
		t.Errorf("got %v, want %v", m.counts, want)
	}
}

func TestMeterFails(t *testing.T) {
	for _, name := range []string{timeline.CounterTicksOverBudget, timeline.CounterSystemSlow} {
		if tel, err := New(&meter{fail: name}); err == nil || tel != nil {
			t.Errorf("%s: no error", name)
		}
	}
}
