package staxarchiveexporter

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/exporterhelper/xexporterhelper"
	"go.opentelemetry.io/collector/exporter/xexporter"

	"github.com/stax-otel/stax/exporter/staxarchiveexporter/internal/metadata"
)

// NewFactory returns the factory of the exporter.
func NewFactory() exporter.Factory {
	f := &factory{shared: map[*Config]*archiveExporter{}}
	return xexporter.NewFactory(metadata.Type, createDefaultConfig,
		xexporter.WithTraces(f.createTraces, metadata.TracesStability),
		xexporter.WithMetrics(f.createMetrics, metadata.MetricsStability),
		xexporter.WithLogs(f.createLogs, metadata.LogsStability),
		xexporter.WithProfiles(f.createProfiles, metadata.ProfilesStability),
	)
}

func createDefaultConfig() component.Config {
	return &Config{
		Query:        component.MustNewID("staxquery"),
		SyncInterval: time.Second,
		SegmentRows:  65536,
		SegmentAge:   30 * time.Second,
	}
}

// factory shares one exporter among the signals of one component id: the collector calls it once per signal, each time
// with the same Config.
type factory struct {
	mu     sync.Mutex
	shared map[*Config]*archiveExporter
}

func (f *factory) get(set exporter.Settings, cfg component.Config) (*archiveExporter, error) {
	c := cfg.(*Config)
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok := f.shared[c]; ok {
		return e, nil
	}
	e, err := newArchiveExporter(c, set, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.shared, c)
	})
	if err != nil {
		return nil, err
	}
	f.shared[c] = e
	return e, nil
}

// options are the same for all signals: synchronous, no time limit of our own, nothing mutated.
func options(e *archiveExporter) []exporterhelper.Option {
	return []exporterhelper.Option{
		exporterhelper.WithStart(e.start), exporterhelper.WithShutdown(e.shutdown),
		exporterhelper.WithTimeout(exporterhelper.TimeoutConfig{}),
		exporterhelper.WithCapabilities(consumer.Capabilities{MutatesData: false}),
	}
}

func (f *factory) createTraces(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Traces, error) {
	e, err := f.get(set, cfg)
	if err != nil {
		return nil, err
	}
	return exporterhelper.NewTraces(ctx, set, cfg, e.consumeTraces, options(e)...)
}

func (f *factory) createMetrics(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Metrics, error) {
	e, err := f.get(set, cfg)
	if err != nil {
		return nil, err
	}
	return exporterhelper.NewMetrics(ctx, set, cfg, e.consumeMetrics, options(e)...)
}

func (f *factory) createLogs(ctx context.Context, set exporter.Settings, cfg component.Config) (exporter.Logs, error) {
	e, err := f.get(set, cfg)
	if err != nil {
		return nil, err
	}
	return exporterhelper.NewLogs(ctx, set, cfg, e.consumeLogs, options(e)...)
}

func (f *factory) createProfiles(ctx context.Context, set exporter.Settings, cfg component.Config) (xexporter.Profiles, error) {
	e, err := f.get(set, cfg)
	if err != nil {
		return nil, err
	}
	return xexporterhelper.NewProfiles(ctx, set, cfg, e.consumeProfiles, options(e)...)
}
