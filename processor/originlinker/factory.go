package originlinker

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/xprocessor"

	"github.com/stax-otel/stax/processor/originlinker/internal/metadata"
)

// NewFactory returns the factory of the processor.
func NewFactory() processor.Factory {
	f := &factory{shared: map[*Config]*linker{}}
	return xprocessor.NewFactory(metadata.Type, createDefaultConfig,
		xprocessor.WithTraces(f.createTraces, metadata.TracesStability),
		xprocessor.WithLogs(f.createLogs, metadata.LogsStability),
		xprocessor.WithProfiles(f.createProfiles, metadata.ProfilesStability),
	)
}

func createDefaultConfig() component.Config {
	return &Config{
		Hold:            2 * time.Second,
		Limit:           50 * time.Millisecond,
		MaxHeldSpans:    100_000,
		MaxHeldBytes:    64 << 20,
		EvidenceAge:     30 * time.Second,
		MaxEvidenceRows: 1_000_000,
		Query:           component.MustNewID("staxquery"),
	}
}

// factory shares one linker among the nodes of one component id: the collector calls it once for each pipeline that has the
// processor, each time with the same Config.
type factory struct {
	mu     sync.Mutex
	shared map[*Config]*linker
}

func (f *factory) get(set processor.Settings, cfg component.Config) (*linker, error) {
	c := cfg.(*Config)
	f.mu.Lock()
	defer f.mu.Unlock()
	if l, ok := f.shared[c]; ok {
		l.nodes++
		return l, nil
	}
	l, err := newLinker(c, set.TelemetrySettings, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.shared, c)
	})
	if err != nil {
		return nil, err
	}
	l.nodes = 1
	f.shared[c] = l
	return l, nil
}

func (f *factory) createTraces(_ context.Context, set processor.Settings, cfg component.Config, next consumer.Traces) (processor.Traces, error) {
	l, err := f.get(set, cfg)
	if err != nil {
		return nil, err
	}
	return newTracesNode(l, next), nil
}

func (f *factory) createLogs(_ context.Context, set processor.Settings, cfg component.Config, next consumer.Logs) (processor.Logs, error) {
	l, err := f.get(set, cfg)
	if err != nil {
		return nil, err
	}
	return &logsNode{node: node{linker: l}, next: next}, nil
}

func (f *factory) createProfiles(_ context.Context, set processor.Settings, cfg component.Config, next xconsumer.Profiles) (xprocessor.Profiles, error) {
	l, err := f.get(set, cfg)
	if err != nil {
		return nil, err
	}
	return &profilesNode{node: node{linker: l}, next: next}, nil
}
