package collector

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/featuregate"
	"go.opentelemetry.io/collector/otelcol"
)

// TestExamples: the example configurations are valid for the component set, as they are.
func TestExamples(t *testing.T) {
	require.NoError(t, featuregate.GlobalRegistry().Set(profilesGate, true))
	files, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			col, err := otelcol.NewCollector(otelcol.CollectorSettings{
				BuildInfo: component.NewDefaultBuildInfo(),
				Factories: func() (otelcol.Factories, error) { return Factories(nil) },
				ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
					URIs: []string{"file:" + file}, ProviderFactories: call(providers), DefaultScheme: "env",
				}},
			})
			require.NoError(t, err)
			require.NoError(t, col.DryRun(t.Context()))
		})
	}
}
