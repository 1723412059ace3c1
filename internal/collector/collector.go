package collector

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/featuregate"
	"go.opentelemetry.io/collector/otelcol"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/stax-otel/stax/internal/recording"
)

// profilesGate is the collector's feature gate for the profiles signal.
const profilesGate = "service.profilesSupport"

// Options say what to run.
type Options struct {
	// Manager owns the recordings. nil: the staxquery extension makes one.
	Manager *recording.Manager
	// Directory is the recordings directory. Empty: that of the Manager, else the extension's default.
	Directory string

	// TargetSocket is the unix socket on which targets send OTLP/HTTP and ask the gate.
	TargetSocket string
	// HTTPEndpoint and GRPCEndpoint receive OTLP too: host:port, or unix:///path.
	HTTPEndpoint string
	GRPCEndpoint string

	// ControlSocket is the unix socket of the query and control API.
	ControlSocket string
	// QueryEndpoint is the host:port of the same API over TCP.
	QueryEndpoint string

	// SyncInterval, SegmentRows and SegmentAge are those of the archive exporter; 0 means its default. A negative
	// SyncInterval syncs each request.
	SyncInterval time.Duration
	SegmentRows  int
	SegmentAge   time.Duration

	// ExtraConfig is merged over the configuration made from these options: files, or URIs of the schemes yaml, file, env.
	ExtraConfig []string
	// Logger gets the collector's logs. nil discards them.
	Logger *zap.Logger
	// Version is reported as the recorder's version.
	Version string
}

// Collector is a running collector.
type Collector struct {
	col  *otelcol.Collector
	done chan struct{} // closed when it has ended
	err  error         // why; valid after done
}

// Start runs a collector with the pipelines of [Options], for all four signals from the stax target receiver to the archive
// exporter. It returns when the collector runs, or with one line that says why it does not. ctx bounds starting only.
//
// Start turns on the collector's feature gate for profiles, which is a setting of the whole process.
func Start(ctx context.Context, o Options) (*Collector, error) {
	if err := featuregate.GlobalRegistry().Set(profilesGate, true); err != nil {
		return nil, fmt.Errorf("collector: turn on %s: %w", profilesGate, err)
	}
	uri, err := o.config()
	if err != nil {
		return nil, err
	}
	log := o.Logger
	if log == nil {
		log = zap.NewNop()
	}
	begun := make(chan struct{}) // Run is past the point from which on Shutdown may be called beside it
	var once sync.Once
	col, err := otelcol.NewCollector(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "stax", Description: "stax for OpenTelemetry", Version: o.Version},
		Factories: func() (otelcol.Factories, error) {
			once.Do(func() { close(begun) })
			return Factories(o.Manager)
		},
		DisableGracefulShutdown: true,
		SkipSettingGRPCLogger:   true,
		LoggingOptions:          []zap.Option{zap.WrapCore(func(zapcore.Core) zapcore.Core { return log.Core() })},
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			URIs: append([]string{uri}, o.ExtraConfig...), ProviderFactories: call(providers), DefaultScheme: "env",
		}},
	})
	if err != nil {
		return nil, plain(err)
	}
	c := &Collector{col: col, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = plain(col.Run(context.WithoutCancel(ctx)))
	}()
	tick := time.NewTicker(time.Millisecond) // the collector tells its state only when asked
	defer tick.Stop()
	for {
		select {
		case <-c.done:
			if c.err == nil {
				return nil, errors.New("collector: ended while it started")
			}
			return nil, c.err
		case <-ctx.Done():
			select {
			case <-begun:
				col.Shutdown()
			case <-c.done:
			}
			<-c.done
			return nil, fmt.Errorf("collector: starting: %w", ctx.Err())
		case <-tick.C:
			if col.GetState() == otelcol.StateRunning {
				return c, nil
			}
		}
	}
}

// Done returns a channel that is closed when the collector has ended, by Shutdown or by itself.
func (c *Collector) Done() <-chan struct{} { return c.done }

// Err returns why the collector ended: nil after Shutdown without trouble. It is valid when Done is closed.
func (c *Collector) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Shutdown ends open recordings, which seals their archives, then the collector. When ctx ends first it returns ctx's error
// and the collector goes on ending.
func (c *Collector) Shutdown(ctx context.Context) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		c.col.Shutdown()
	}()
	select {
	case <-c.done:
		<-stopped
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("collector: shutting down: %w", ctx.Err())
	}
}

// plainError is an error of the collector in one clear line.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// noise is what the collector wraps around errors of components and of their configuration.
var noise = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\s*\n\s*`), " "},
	{regexp.MustCompile(`^failed to get config: `), ""},
	{regexp.MustCompile(`^(cannot unmarshal the configuration|cannot resolve the configuration|invalid configuration): `), ""},
	{regexp.MustCompile(`decoding failed due to the following error\(s\): `), ""},
	{regexp.MustCompile(`'(\w+)' error reading configuration for "([^"]+)": `), "$1::$2: "},
	{regexp.MustCompile(`error reading configuration for "([^"]+)": `), "$1: "},
	{regexp.MustCompile(`'' has invalid keys: `), "unknown keys: "},
	{regexp.MustCompile(`'([^']+)' has invalid keys: `), "$1: unknown keys: "},
	{regexp.MustCompile(`\b\w+\.Config: `), ""},
	{regexp.MustCompile(`^(cannot start pipelines|failed to start extensions|cannot retrieve the configuration): `), ""},
	{regexp.MustCompile(`^failed to build pipelines: `), ""},
	{regexp.MustCompile(`failed to (start|create) "([^"]+)" (receiver|exporter|processor|extension)( for data type "\w+")?: `), ""},
	{regexp.MustCompile(`failed to start extension "[^"]+": `), ""},
}

// plain reduces an error of the collector to one line for a person. The chain of the error stays.
func plain(err error) error {
	if err == nil {
		return nil
	}
	text := strings.TrimSpace(err.Error())
	for _, n := range noise {
		text = n.re.ReplaceAllString(text, n.with)
	}
	// The service appends what went wrong while it stopped after a failed start: the first error is the cause.
	if cause, _, found := strings.Cut(text, "; failed to "); found {
		text = cause
	}
	return &plainError{text: "collector: " + strings.TrimSpace(text), err: err}
}
