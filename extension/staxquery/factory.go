package staxquery

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/extension"

	"github.com/stax-otel/stax/extension/staxquery/internal/metadata"
	"github.com/stax-otel/stax/internal/recording"
)

// NewFactory returns the factory of the extension; each extension makes its own recording manager.
func NewFactory() extension.Factory { return NewFactoryWithManager(nil) }

// NewFactoryWithManager returns a factory whose extensions use m, for a program that runs the collector within itself. The
// extension stops m's recordings when the collector stops, and leaves m usable. With nil it is NewFactory.
func NewFactoryWithManager(m *recording.Manager) extension.Factory {
	return extension.NewFactory(metadata.Type, createDefaultConfig,
		func(_ context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
			return newQueryExtension(cfg.(*Config), set, m)
		}, metadata.ExtensionStability)
}

func createDefaultConfig() component.Config {
	server := confighttp.NewDefaultServerConfig()
	server.NetAddr.Endpoint = "127.0.0.1:4320"
	server.MaxRequestBodySize = maxBody
	server.ReadHeaderTimeout = 10 * time.Second
	server.WriteTimeout = 10 * time.Minute // stopping a recording seals its archive before it answers
	return &Config{
		Server: server, Directory: defaultDirectory(), DrainTimeout: 2 * time.Second, QueryTimeout: 2 * time.Minute, MaxQueries: 4,
	}
}

// defaultDirectory returns the recordings directory of this user, "" when there is none to find.
func defaultDirectory() string {
	base := os.Getenv("STAX_DIR")
	if base == "" {
		if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
			base = filepath.Join(data, "stax")
		} else if home, err := os.UserHomeDir(); err == nil {
			base = filepath.Join(home, ".local", "share", "stax")
		} else {
			return ""
		}
	}
	return filepath.Join(base, "recordings")
}
