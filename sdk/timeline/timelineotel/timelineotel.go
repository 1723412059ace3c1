// Package timelineotel counts the warnings of a [timeline.Recorder] with an OpenTelemetry meter. It needs the metric API
// only; the program brings its own SDK and exporter.
//
//	tel, err := timelineotel.New(provider.Meter("game"))
//	rec := timeline.New(timeline.Options{Enabled: true, Telemetry: tel, SystemLabels: []string{"physics", "ai"}})
//
// The counters are runtime_ticks_over_budget_total and runtime_system_slow_total; Prometheus shows them under exactly
// these names. The latter has the attribute "system" for systems that were registered with SystemLabels, and "other" in
// it for all others together, so that ids made at run time never become label values.
package timelineotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/stax-otel/stax/sdk/timeline"
)

// SystemKey is the attribute that names a system, and OtherSystems its value for systems that are not registered. A
// registered system of that name is counted with them.
const (
	SystemKey    = "system"
	OtherSystems = "other"
)

// Telemetry is a [timeline.Telemetry]. It serves one recorder: its methods belong to the tick loop's goroutine.
type Telemetry struct {
	overBudget, slow metric.Int64Counter
	options          map[string][]metric.AddOption // by label: made once, so that counting does not allocate
}

var _ timeline.Telemetry = (*Telemetry)(nil)

// New makes the counters. It fails only if the meter does.
func New(m metric.Meter) (*Telemetry, error) {
	over, err := m.Int64Counter(timeline.CounterTicksOverBudget,
		metric.WithDescription("Ticks that took longer than their budget."))
	if err != nil {
		return nil, fmt.Errorf("timelineotel: %w", err)
	}
	slow, err := m.Int64Counter(timeline.CounterSystemSlow,
		metric.WithDescription("Executions of systems that were repeatedly slow."))
	if err != nil {
		return nil, fmt.Errorf("timelineotel: %w", err)
	}
	return &Telemetry{overBudget: over, slow: slow, options: map[string][]metric.AddOption{}}, nil
}

// TickOverBudget counts a tick.
func (t *Telemetry) TickOverBudget(timeline.TickOverBudget) {
	t.overBudget.Add(context.Background(), 1)
}

// SystemSlow counts an execution of a system.
func (t *Telemetry) SystemSlow(w timeline.SystemSlowWarning) {
	o, ok := t.options[w.Label]
	if !ok { // labels are registered, so there are few
		label := w.Label
		if label == "" {
			label = OtherSystems
		}
		o = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attribute.String(SystemKey, label)))}
		t.options[w.Label] = o
	}
	t.slow.Add(context.Background(), 1, o...)
}
