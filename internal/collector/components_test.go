package collector

import (
	"os"
	"path"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"gopkg.in/yaml.v3"

	"github.com/stax-otel/stax/internal/recording"
)

// manifest is builder-config.yaml, as far as it is compared.
type manifest struct {
	Extensions []module `yaml:"extensions"`
	Receivers  []module `yaml:"receivers"`
	Processors []module `yaml:"processors"`
	Exporters  []module `yaml:"exporters"`
	Connectors []module `yaml:"connectors"`
	Providers  []module `yaml:"providers"`
	Replaces   []string `yaml:"replaces"`
}

type module struct {
	GoMod  string `yaml:"gomod"`
	Import string `yaml:"import"`
}

// importPaths returns the import paths of the modules, which are the module's own where none is given.
func importPaths(ms []module) []string {
	var out []string
	for _, m := range ms {
		p := m.Import
		if p == "" {
			p, _, _ = strings.Cut(m.GoMod, " ")
		}
		out = append(out, p)
	}
	return out
}

// packagesOf returns the import paths of functions of type func() T.
func packagesOf[T any](fs []func() T) []string {
	var out []string
	for _, f := range fs {
		name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name() // path/to/pkg.NewFactory
		dir, base := path.Split(name)
		pkg, _, _ := strings.Cut(base, ".")
		out = append(out, dir+pkg)
	}
	return out
}

func readManifest(t *testing.T) manifest {
	t.Helper()
	b, err := os.ReadFile("../../builder-config.yaml")
	require.NoError(t, err)
	var m manifest
	require.NoError(t, yaml.Unmarshal(b, &m))
	return m
}

func TestBuilderConfigHasTheSameComponents(t *testing.T) {
	m := readManifest(t)
	assert.ElementsMatch(t, importPaths(m.Extensions), packagesOf(extensions))
	assert.ElementsMatch(t, importPaths(m.Receivers), packagesOf(receivers))
	assert.ElementsMatch(t, importPaths(m.Processors), packagesOf(processors))
	assert.ElementsMatch(t, importPaths(m.Exporters), packagesOf(exporters))
	assert.ElementsMatch(t, importPaths(m.Providers), packagesOf(providers))
	assert.Empty(t, m.Connectors)
}

func TestBuilderConfigHasTheSameVersions(t *testing.T) {
	b, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	required := map[string]string{"github.com/stax-otel/stax": "v0.0.0"}
	for _, line := range regexp.MustCompile(`(?m)^\t(?:require )?(\S+) (v\S+)`).FindAllStringSubmatch(string(b), -1) {
		required[line[1]] = line[2]
	}
	m := readManifest(t)
	for _, list := range [][]module{m.Extensions, m.Receivers, m.Processors, m.Exporters, m.Providers} {
		for _, c := range list {
			name, version, _ := strings.Cut(c.GoMod, " ")
			assert.Equal(t, required[name], version, name)
		}
	}
	for _, line := range regexp.MustCompile(`(?m)^(?:replace |\t)(github.com/stax-otel/stax/\S+) => \./(\S+)`).FindAllStringSubmatch(string(b), -1) {
		assert.Contains(t, m.Replaces, line[1]+" => ../../"+line[2], "ocb reads no replace lines of go.mod")
	}
}

func TestFactories(t *testing.T) {
	m, err := recording.NewManager(recording.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	f, err := Factories(m)
	require.NoError(t, err)
	assert.Contains(t, f.Receivers, component.MustNewType("staxtarget"))
	assert.Contains(t, f.Exporters, component.MustNewType("staxarchive"))
	assert.Contains(t, f.Extensions, component.MustNewType("staxquery"))
	assert.NotNil(t, f.Telemetry)
}
