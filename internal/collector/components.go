package collector

import (
	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/prometheusexporter"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/debugexporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/zpagesextension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"

	"github.com/stax-otel/stax/exporter/staxarchiveexporter"
	"github.com/stax-otel/stax/extension/staxquery"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/processor/originlinker"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver"
)

// The component set. builder-config.yaml has the same; a test compares them.
var (
	extensions = []func() extension.Factory{staxquery.NewFactory, zpagesextension.NewFactory}
	receivers  = []func() receiver.Factory{staxtargetreceiver.NewFactory, otlpreceiver.NewFactory}
	processors = []func() processor.Factory{originlinker.NewFactory, memorylimiterprocessor.NewFactory}
	exporters  = []func() exporter.Factory{
		staxarchiveexporter.NewFactory, otlpexporter.NewFactory, otlphttpexporter.NewFactory, debugexporter.NewFactory,
		prometheusexporter.NewFactory,
	}
	providers = []func() confmap.ProviderFactory{envprovider.NewFactory, fileprovider.NewFactory, yamlprovider.NewFactory}
)

// Factories returns the component set. The staxquery extension uses the recordings of m; with nil it makes its own from its
// configuration.
func Factories(m *recording.Manager) (otelcol.Factories, error) {
	f := otelcol.Factories{Telemetry: otelconftelemetry.NewFactory()}
	var err error
	if f.Extensions, err = otelcol.MakeFactoryMap(call(extensions)...); err != nil {
		return otelcol.Factories{}, err
	}
	query := staxquery.NewFactoryWithManager(m)
	f.Extensions[query.Type()] = query
	if f.Receivers, err = otelcol.MakeFactoryMap(call(receivers)...); err != nil {
		return otelcol.Factories{}, err
	}
	if f.Processors, err = otelcol.MakeFactoryMap(call(processors)...); err != nil {
		return otelcol.Factories{}, err
	}
	if f.Exporters, err = otelcol.MakeFactoryMap(call(exporters)...); err != nil {
		return otelcol.Factories{}, err
	}
	return f, nil
}

func call[T any](fs []func() T) []T {
	out := make([]T, len(fs))
	for i, f := range fs {
		out[i] = f()
	}
	return out
}
