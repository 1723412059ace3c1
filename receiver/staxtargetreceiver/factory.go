package staxtargetreceiver

import (
	"context"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/xreceiver"

	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/metadata"
)

// NewFactory returns the factory of the stax target receiver.
func NewFactory() receiver.Factory {
	return xreceiver.NewFactory(
		metadata.Type,
		createDefaultConfig,
		xreceiver.WithTraces(createTraces, metadata.TracesStability),
		xreceiver.WithMetrics(createMetrics, metadata.MetricsStability),
		xreceiver.WithLogs(createLogs, metadata.LogsStability),
		xreceiver.WithProfiles(createProfiles, metadata.ProfilesStability),
	)
}

func createDefaultConfig() component.Config {
	grpc := configgrpc.NewDefaultServerConfig()
	grpc.NetAddr.Transport = confignet.TransportTypeTCP
	grpc.NetAddr.Endpoint = "127.0.0.1:4317"
	grpc.MaxRecvMsgSizeMiB = maxBody >> 20 // as HTTP
	http := confighttp.NewDefaultServerConfig()
	http.NetAddr.Endpoint = "127.0.0.1:4318"
	http.MaxRequestBodySize = maxBody
	http.ReadTimeout = time.Minute // for clients that stop in the middle; longer than a poll of the gate
	return &Config{
		Query: component.MustNewID("staxquery"),
		Protocols: Protocols{
			GRPC: configoptional.Default(grpc),
			HTTP: configoptional.Default(HTTPConfig{ServerConfig: http}),
		},
		DeriveInterval: time.Second,
		MaxSeries:      2000,
	}
}

func createTraces(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Traces) (receiver.Traces, error) {
	r, err := shared(set, cfg)
	if err != nil {
		return nil, err
	}
	r.nextTraces = next
	return r, nil
}

func createMetrics(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Metrics) (receiver.Metrics, error) {
	r, err := shared(set, cfg)
	if err != nil {
		return nil, err
	}
	r.nextMetrics = next
	return r, nil
}

func createLogs(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Logs) (receiver.Logs, error) {
	r, err := shared(set, cfg)
	if err != nil {
		return nil, err
	}
	r.nextLogs = next
	return r, nil
}

func createProfiles(_ context.Context, set receiver.Settings, cfg component.Config, next xconsumer.Profiles) (xreceiver.Profiles, error) {
	r, err := shared(set, cfg)
	if err != nil {
		return nil, err
	}
	r.nextProfiles = next
	return r, nil
}
