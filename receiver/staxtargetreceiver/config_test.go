package staxtargetreceiver

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stax-otel/stax/internal/unixsocket"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/confmaptest"
)

func loadConfig(t *testing.T, conf *confmap.Conf) (*Config, error) {
	t.Helper()
	cfg := NewFactory().CreateDefaultConfig().(*Config)
	if err := conf.Unmarshal(cfg); err != nil {
		return nil, err
	}
	return cfg, confmap.Validate(cfg)
}

func TestLoadConfig(t *testing.T) {
	all, err := confmaptest.LoadConf(filepath.Join("testdata", "config.yaml"))
	require.NoError(t, err)
	load := func(name string) (*Config, error) {
		sub, err := all.Sub(name)
		require.NoError(t, err)
		return loadConfig(t, sub)
	}

	_, err = load("staxtarget")
	require.ErrorContains(t, err, "protocols must have http, grpc or both")

	c, err := load("staxtarget/socket")
	require.NoError(t, err)
	assert.Equal(t, component.MustNewIDWithName("staxquery", "other"), c.Query)
	assert.Equal(t, 500*time.Millisecond, c.DeriveInterval)
	assert.Equal(t, 100, c.MaxSeries)
	assert.False(t, c.Protocols.GRPC.HasValue())
	http := c.Protocols.HTTP.Get().ServerConfig
	assert.Equal(t, confignet.TransportTypeUnix, http.NetAddr.Transport)
	assert.Equal(t, "/run/user/1000/stax/target.sock", http.NetAddr.Endpoint)
	assert.Equal(t, time.Minute, http.ReadTimeout)

	c, err = load("staxtarget/tcp")
	require.NoError(t, err)
	assert.Equal(t, component.MustNewID("staxquery"), c.Query)
	assert.Equal(t, time.Second, c.DeriveInterval)
	assert.Equal(t, 2000, c.MaxSeries)
	assert.Equal(t, int64(1<<20), c.Protocols.HTTP.Get().ServerConfig.MaxRequestBodySize)
	assert.Equal(t, "[::1]:4317", c.Protocols.GRPC.Get().NetAddr.Endpoint)
	assert.Equal(t, 64, c.Protocols.GRPC.Get().MaxRecvMsgSizeMiB)
}

func TestConfigErrors(t *testing.T) {
	http := func(m map[string]any) map[string]any { return map[string]any{"protocols": map[string]any{"http": m}} }
	grpc := func(m map[string]any) map[string]any { return map[string]any{"protocols": map[string]any{"grpc": m}} }
	for _, tc := range []struct {
		name string
		conf map[string]any
		want string // in the error; "": none
	}{
		{"default http", http(nil), ""},
		{"default grpc", grpc(nil), ""},
		{"unknown key", map[string]any{"protocols": map[string]any{"http": nil}, "max_serie": 1}, "max_serie"},
		{"unknown key of protocols", map[string]any{"protocols": map[string]any{"https": nil}}, "https"},
		{"unknown key of http", http(map[string]any{"endpiont": "x"}), "endpiont"},
		{"unknown key of grpc", grpc(map[string]any{"endpiont": "x"}), "endpiont"},
		{"all interfaces", http(map[string]any{"endpoint": "0.0.0.0:4318"}), `protocols::http::endpoint "0.0.0.0:4318" can be reached from other machines`},
		{"no host", grpc(map[string]any{"endpoint": ":4317"}), "protocols::grpc::endpoint"},
		{"another host", grpc(map[string]any{"endpoint": "example.com:4317"}), "use 127.0.0.1, or configure tls or auth"},
		{"all interfaces with auth", http(map[string]any{"endpoint": "0.0.0.0:4318", "auth": map[string]any{"authenticator": "basicauth"}}), ""},
		{"no port", http(map[string]any{"endpoint": "localhost"}), "must be host:port"},
		{"relative socket", http(map[string]any{"transport": "unix", "endpoint": "stax.sock"}), "must be an absolute path"},
		{"default endpoint as socket", http(map[string]any{"transport": "unix"}), "must be an absolute path"},
		{
			"long socket", http(map[string]any{"transport": "unix", "endpoint": "/" + strings.Repeat("x", unixsocket.MaxPath)}),
			"use a shorter directory",
		},
		{"longest socket", http(map[string]any{"transport": "unix", "endpoint": "/" + strings.Repeat("x", unixsocket.MaxPath-1)}), ""},
		{"tls on a socket", grpc(map[string]any{"transport": "unix", "endpoint": "/x", "tls": map[string]any{
			"cert_file": "c", "key_file": "k",
		}}), "protocols::grpc::tls"},
		{"udp", grpc(map[string]any{"transport": "udp"}), `protocols::grpc::transport "udp"`},
		{"negative interval", map[string]any{"protocols": map[string]any{"http": nil}, "derive_interval": "-1s"}, "derive_interval must be at least 0"},
		{"no series", map[string]any{"protocols": map[string]any{"http": nil}, "max_series": 0}, "max_series must be at least 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := loadConfig(t, confmap.NewFromStringMap(tc.conf))
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}
