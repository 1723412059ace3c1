package staxtargetreceiver

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/stax-otel/stax/internal/unixsocket"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
)

// Config is the receiver's configuration.
type Config struct {
	// Query is the id of the extension that owns the recordings. Default: staxquery.
	Query component.ID `mapstructure:"query"`
	// Protocols are the servers to run; at least one.
	Protocols Protocols `mapstructure:"protocols"`
	// DeriveInterval is how often derived metrics are emitted; 0 turns them off. They need a metrics pipeline. Default: 1s.
	DeriveInterval time.Duration `mapstructure:"derive_interval"`
	// MaxSeries bounds the series of derived metrics over all recordings; what comes later goes to overflow series.
	// Default: 2000.
	MaxSeries int `mapstructure:"max_series"`
}

// Protocols are the servers that can be run.
type Protocols struct {
	// GRPC is OTLP/gRPC. Default endpoint: 127.0.0.1:4317.
	GRPC configoptional.Optional[configgrpc.ServerConfig] `mapstructure:"grpc"`
	// HTTP is OTLP/HTTP and the recording gate. Default endpoint: 127.0.0.1:4318.
	HTTP configoptional.Optional[HTTPConfig] `mapstructure:"http"`
}

// HTTPConfig configures the HTTP server.
type HTTPConfig struct {
	// ServerConfig is the collector's own. With transport: unix the endpoint is the path of the socket.
	ServerConfig confighttp.ServerConfig `mapstructure:",squash"`
}

var _ confmap.Unmarshaler = (*HTTPConfig)(nil)

// Unmarshal decodes the configuration. confighttp ignores keys that it does not know, since it may share its map with
// others; here nobody else has keys, so a misspelt one is an error.
func (h *HTTPConfig) Unmarshal(conf *confmap.Conf) error {
	type withoutMethods confighttp.ServerConfig
	if err := conf.Unmarshal(&withoutMethods{}); err != nil {
		return err
	}
	return h.ServerConfig.Unmarshal(conf)
}

// Validate checks the configuration.
func (c *Config) Validate() error {
	if !c.Protocols.GRPC.HasValue() && !c.Protocols.HTTP.HasValue() {
		return errors.New("protocols must have http, grpc or both")
	}
	var errs []error
	if h := c.Protocols.HTTP.Get(); h != nil {
		s := &h.ServerConfig
		errs = append(errs, checkEndpoint("http", s.NetAddr, s.TLS.HasValue(), s.Auth.HasValue()))
	}
	if g := c.Protocols.GRPC.Get(); g != nil {
		errs = append(errs, checkEndpoint("grpc", g.NetAddr, g.TLS.HasValue(), g.Auth.HasValue()))
	}
	if c.DeriveInterval < 0 {
		errs = append(errs, errors.New("derive_interval must be at least 0"))
	}
	if c.MaxSeries < 1 {
		errs = append(errs, errors.New("max_series must be at least 1"))
	}
	return errors.Join(errs...)
}

func checkEndpoint(protocol string, a confignet.AddrConfig, tls, auth bool) error {
	switch a.Transport {
	case confignet.TransportTypeUnix:
		switch {
		case !filepath.IsAbs(a.Endpoint):
			return fmt.Errorf("protocols::%s::endpoint %q must be an absolute path with transport: unix", protocol, a.Endpoint)
		case len(a.Endpoint) > unixsocket.MaxPath:
			return fmt.Errorf("protocols::%s::endpoint %q has %d bytes; the path of a unix socket can have %d: use a shorter directory",
				protocol, a.Endpoint, len(a.Endpoint), unixsocket.MaxPath)
		case tls:
			return fmt.Errorf("protocols::%s::tls is not used on a unix socket, which is private to its user: remove it", protocol)
		}
	case confignet.TransportTypeTCP, confignet.TransportTypeTCP4, confignet.TransportTypeTCP6:
		host, _, err := net.SplitHostPort(a.Endpoint)
		if err != nil {
			return fmt.Errorf("protocols::%s::endpoint %q must be host:port: %w", protocol, a.Endpoint, err)
		}
		if !isLoopback(host) && !tls && !auth {
			return fmt.Errorf("protocols::%s::endpoint %q can be reached from other machines: use 127.0.0.1, or configure tls or auth",
				protocol, a.Endpoint)
		}
	default:
		return fmt.Errorf("protocols::%s::transport %q must be tcp, tcp4, tcp6 or unix", protocol, a.Transport)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
