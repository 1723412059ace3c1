package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"gopkg.in/yaml.v3"

	"github.com/stax-otel/stax/internal/collector"
)

func newServeCmd(a *app) *cobra.Command {
	var o collector.Options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the collector as a daemon: any number of recordings, and an API for answers",
		Long: `Run the collector as a daemon, until Ctrl-C or SIGTERM; recordings that are open then are sealed.

Programs with the stax SDK find it by themselves, so stax record --pid works for programs that run
already. The API answers the same questions as the command line.`,
		Example: `  stax serve
  stax serve --http 127.0.0.1:4318 --grpc 127.0.0.1:4317`,
		Args: args(cobra.NoArgs),
	}
	f := cmd.Flags()
	f.StringVar(&o.QueryEndpoint, "listen", "127.0.0.1:4320", "serve the API at this host:port; empty: only on the control socket")
	f.StringVar(&o.HTTPEndpoint, "http", "", "receive OTLP over HTTP at this host:port")
	f.StringVar(&o.GRPCEndpoint, "grpc", "", "receive OTLP over gRPC at this host:port")
	f.StringArrayVar(&o.ExtraConfig, "config", nil, "collector configuration to merge over the built-in one: a file, or a URI; may be repeated")
	verbose := f.Bool("verbose", false, "log what the collector does")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		for i, uri := range o.ExtraConfig {
			if _, err := os.Stat(uri); err == nil {
				if err := checkYAML(uri); err != nil {
					return err
				}
				o.ExtraConfig[i] = "file:" + uri
			}
		}
		if err := pickPort(&o.QueryEndpoint); err != nil {
			return err
		}
		signals := catchSignals()
		defer signals.stop()
		for _, c := range findCollectors() {
			if c.daemon() {
				return fmt.Errorf("stax serve runs already (pid %d)", c.pid)
			}
		}
		level := zap.NewAtomicLevelAt(zapcore.FatalLevel) // why it does not start is our own last line
		if *verbose {
			level.SetLevel(zapcore.InfoLevel)
		}
		o.Logger = a.logger(level)
		st, err := startStation(cmd.Context(), true, o)
		if err != nil {
			return err
		}
		defer st.sockets.remove()
		if !*verbose {
			level.SetLevel(zapcore.WarnLevel)
		}
		url := ""
		if o.QueryEndpoint != "" {
			url = "http://" + o.QueryEndpoint
		}
		if err := os.WriteFile(filepath.Join(st.sockets.dir, urlFile), []byte(url+"\n"), 0o600); err != nil {
			return errors.Join(err, st.stop(cmd.Context()))
		}
		a.say("serving; targets: unix://%s", st.sockets.target)
		if url != "" {
			a.say("API: %s/api/v1/recordings", url)
		}
		select {
		case <-signals.c:
		case <-cmd.Context().Done():
		case <-st.collector.Done():
			return errors.Join(st.collector.Err(), errors.New("the collector ended by itself"))
		}
		a.say("stopping; open recordings are sealed. Ctrl-C again: leave them unsealed")
		// Sealing takes as long as it takes: it is the user who decides to give up.
		stopped := make(chan error, 1)
		go func() { stopped <- st.collector.Shutdown(context.WithoutCancel(cmd.Context())) }()
		select {
		case err := <-stopped:
			return err
		case <-signals.c:
			return errors.New("given up before every archive was sealed; they are readable as they are")
		}
	}
	return cmd
}

// pickPort replaces port 0 by a free port, so that it can be told.
func pickPort(endpoint *string) error {
	host, port, err := net.SplitHostPort(*endpoint)
	if err != nil || port != "0" {
		return nil //nolint:nilerr // the collector's own check says what is wrong with it
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	*endpoint = l.Addr().String()
	return l.Close()
}

// checkYAML reports a file that is no YAML by its name, which the collector does not.
func checkYAML(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	var node yaml.Node
	if err := yaml.Unmarshal(b, &node); err != nil {
		return fmt.Errorf("configuration %s: %w", path, err)
	}
	return nil
}

// logger writes to stderr what is at least at level.
func (a *app) logger(level zap.AtomicLevel) *zap.Logger {
	c := zap.NewDevelopmentEncoderConfig()
	c.CallerKey, c.NameKey, c.StacktraceKey = "", "", ""
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(c), zapcore.Lock(zapcore.AddSync(a.stderr)), level))
}

// daemon reports whether a collector is a stax serve.
func (c *collectorClient) daemon() bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(c.control), urlFile))
	return err == nil
}
