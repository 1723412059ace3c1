// Command peerserver is the peer of the load test: a stock OpenTelemetry Collector in one process, otlpreceiver to
// fileexporter (protobuf, zstd), or to nothing as a calibration of the receiver alone.
//
// The load test starts it and talks to it over stdin and stdout, see package child.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/nopexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"

	"github.com/stax-otel/stax/testbed/bench/internal/child"
)

func main() {
	grpcEndpoint := flag.String("grpc", "", "TCP endpoint of OTLP/gRPC")
	httpSocket := flag.String("http", "", "unix socket of OTLP/HTTP")
	out := flag.String("out", "", "file to write; empty: receive only")
	flag.Parse()
	if err := run(*grpcEndpoint, *httpSocket, *out); err != nil {
		fmt.Fprintln(os.Stderr, "peerserver:", err)
		os.Exit(1)
	}
}

func run(grpcEndpoint, httpSocket, out string) error {
	col, err := otelcol.NewCollector(otelcol.CollectorSettings{
		Factories:               factories,
		DisableGracefulShutdown: true,
		BuildInfo:               component.BuildInfo{Command: "peerserver", Version: "0"},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs:              []string{"yaml:" + config(grpcEndpoint, httpSocket, out)},
			ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()},
		}},
	})
	if err != nil {
		return fmt.Errorf("building the collector: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- col.Run(context.Background()) }()
	for col.GetState() != otelcol.StateRunning {
		select {
		case err := <-ended:
			return fmt.Errorf("starting the collector: %w", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return child.Serve(child.Ready{}, func() error {
		col.Shutdown()
		return <-ended
	})
}

// config is what a user would write for this pipeline. fileexporter flushes its buffer each second and never syncs.
func config(grpcEndpoint, httpSocket, out string) string {
	traces, logs := "nop", "nop/logs"
	exporters := "{nop: {}, nop/logs: {}}"
	if out != "" {
		traces, logs = "file", "file/logs"
		exporters = fmt.Sprintf("{file: {path: %q, format: proto, compression: zstd}, file/logs: {path: %q, format: proto, compression: zstd}}",
			out, out+".logs")
	}
	return fmt.Sprintf(`
receivers:
  otlp:
    protocols:
      grpc: {endpoint: %q, max_recv_msg_size_mib: 16}
      http: {transport: unix, endpoint: %q}
exporters: %s
service:
  telemetry: {metrics: {level: none}, logs: {level: warn}}
  pipelines:
    traces: {receivers: [otlp], exporters: [%s]}
    logs: {receivers: [otlp], exporters: [%s]}
`, grpcEndpoint, httpSocket, exporters, traces, logs)
}

func factories() (f otelcol.Factories, err error) {
	f.Telemetry = otelconftelemetry.NewFactory()
	if f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return f, err
	}
	f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](fileexporter.NewFactory(), nopexporter.NewFactory())
	return f, err
}
