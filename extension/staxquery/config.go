package staxquery

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"time"

	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/confmap"

	"github.com/stax-otel/stax/internal/unixsocket"
)

// Config is the configuration of the extension.
type Config struct {
	// Server is the listener, with all keys of the collector's HTTP servers on the top level. endpoint may be empty when
	// control_socket is set; with transport unix it is the path of a socket. Default: 127.0.0.1:4320.
	Server confighttp.ServerConfig `mapstructure:",squash"`
	// Directory is where archives go that are started without a path, and where saved ones are found. It is made when the
	// first recording starts. Default: $STAX_DIR/recordings, else $XDG_DATA_HOME/stax/recordings, else
	// ~/.local/share/stax/recordings.
	Directory string `mapstructure:"directory"`
	// ControlSocket is the path of a unix socket that serves the same API beside endpoint. Default: none.
	ControlSocket string `mapstructure:"control_socket"`
	// Token, if set, is the bearer token that every call over TCP needs, except the gate and /healthz. Without it TCP may
	// only read. Default: none.
	Token configopaque.String `mapstructure:"token"`
	// AllowedHosts are names, beside those of the loopback interface, by which browsers may reach this server: values of
	// the Host header, without port. Default: none.
	AllowedHosts []string `mapstructure:"allowed_hosts"`
	// DrainTimeout bounds how long stopping a recording waits for the final data of its processes. Default: 2s.
	DrainTimeout time.Duration `mapstructure:"drain_timeout"`
	// QueryTimeout bounds one query. Default: 2m.
	QueryTimeout time.Duration `mapstructure:"query_timeout"`
	// MaxQueries bounds how many queries run at once; more wait. Default: 4.
	MaxQueries int `mapstructure:"max_queries"`
}

var _ confmap.Unmarshaler = (*Config)(nil)

// Unmarshal decodes the configuration. confighttp ignores keys that it does not know, since it shares its map with ours;
// what is neither its nor ours is misspelt, and an error.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	rest := conf.ToStringMap()
	for f := range reflect.TypeFor[Config]().Fields() {
		if key := f.Tag.Get("mapstructure"); !strings.HasPrefix(key, ",") {
			delete(rest, key)
		}
	}
	type withoutMethods confighttp.ServerConfig
	if err := confmap.NewFromStringMap(rest).Unmarshal(&withoutMethods{}); err != nil {
		return err
	}
	return conf.Unmarshal(c)
}

// Validate implements xconfmap.Validator.
func (c *Config) Validate() error {
	addr := c.Server.NetAddr
	switch {
	case c.Directory == "":
		return errors.New("directory must be set")
	case addr.Endpoint == "" && c.ControlSocket == "":
		return errors.New("endpoint or control_socket must be set")
	case c.DrainTimeout <= 0:
		return errors.New("drain_timeout must be more than 0s")
	case c.QueryTimeout <= 0:
		return errors.New("query_timeout must be more than 0s")
	case c.MaxQueries < 1:
		return errors.New("max_queries must be at least 1")
	case c.Token != "" && len(c.Token) < 16:
		return errors.New("token must have at least 16 bytes")
	case len(c.ControlSocket) > unixsocket.MaxPath:
		return fmt.Errorf("control_socket must have at most %d bytes, not %d", unixsocket.MaxPath, len(c.ControlSocket))
	}
	switch addr.Transport {
	case confignet.TransportTypeUnix:
		if len(addr.Endpoint) > unixsocket.MaxPath {
			return fmt.Errorf("endpoint must have at most %d bytes with transport unix, not %d", unixsocket.MaxPath, len(addr.Endpoint))
		}
	case confignet.TransportTypeTCP, confignet.TransportTypeTCP4, confignet.TransportTypeTCP6:
		if addr.Endpoint != "" && !loopbackEndpoint(addr.Endpoint) && !c.Server.TLS.HasValue() && !c.Server.Auth.HasValue() {
			return fmt.Errorf("endpoint %s is open to other machines: configure tls or auth, or use localhost", addr.Endpoint)
		}
	default:
		return fmt.Errorf("transport must be tcp or unix, not %q", addr.Transport)
	}
	return nil
}

// loopbackEndpoint reports whether host:port names the loopback interface.
func loopbackEndpoint(endpoint string) bool {
	host, _, err := net.SplitHostPort(endpoint)
	return err == nil && loopbackHost(host)
}
