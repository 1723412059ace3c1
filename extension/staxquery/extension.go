package staxquery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensioncapabilities"
	"go.uber.org/zap"

	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/internal/unixsocket"
)

// shutdownGrace is how long calls in progress may take when the extension stops.
const shutdownGrace = 2 * time.Second

var _ extensioncapabilities.PipelineWatcher = (*queryExtension)(nil)

type queryExtension struct {
	cfg   *Config
	set   component.TelemetrySettings
	mgr   *recording.Manager
	owned bool // mgr was made here

	ready    atomic.Bool // pipelines run: recordings have a place to go
	queries  chan struct{}
	archives archives
	// peerOf says who is at the other end of a connection; tests replace it.
	connContext func(context.Context, net.Conn) context.Context
	uid         int

	cancel context.CancelFunc
	srv    *http.Server
	addrs  []net.Addr
	wg     sync.WaitGroup
}

func newQueryExtension(cfg *Config, set extension.Settings, m *recording.Manager) (*queryExtension, error) {
	x := &queryExtension{
		cfg: cfg, set: set.TelemetrySettings, mgr: m, queries: make(chan struct{}, cfg.MaxQueries),
		connContext: recording.PeerConnContext, uid: os.Getuid(),
	}
	x.archives.dir = cfg.Directory
	if m == nil {
		var err error
		x.mgr, err = recording.NewManager(recording.Options{Dir: cfg.Directory, DrainTimeout: cfg.DrainTimeout, Logger: set.Logger})
		if err != nil {
			return nil, err
		}
		x.owned = true
	}
	return x, nil
}

// RecordingManager returns the recordings, for other components of the collector.
func (x *queryExtension) RecordingManager() *recording.Manager { return x.mgr }

// Start opens the listeners and serves.
func (x *queryExtension) Start(ctx context.Context, host component.Host) error {
	listeners, err := x.listen(ctx)
	if err != nil {
		return err
	}
	closeAll := func() {
		for _, l := range listeners {
			_ = l.Close() // nothing has connected
		}
	}
	x.srv, err = x.cfg.Server.ToServer(ctx, host.GetExtensions(), x.set, x.handler(),
		confighttp.WithErrorHandler(func(w http.ResponseWriter, _ *http.Request, msg string, code int) {
			writeError(w, code, errors.New(msg))
		}))
	if err != nil {
		closeAll()
		return fmt.Errorf("staxquery: %w", err)
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	x.cancel = cancel
	x.srv.BaseContext = func(net.Listener) context.Context { return base }
	x.srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return withTransport(x.connContext(ctx, c), c)
	}
	x.srv.MaxHeaderBytes = 64 << 10
	for _, l := range listeners {
		x.addrs = append(x.addrs, l.Addr())
		x.wg.Go(func() {
			if err := x.srv.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
				componentstatus.ReportStatus(host, componentstatus.NewFatalErrorEvent(fmt.Errorf("staxquery: serve %s: %w", l.Addr(), err)))
			}
		})
		x.set.Logger.Info("serving recordings", zap.Stringer("address", l.Addr()), zap.String("network", l.Addr().Network()))
	}
	return nil
}

// listen opens the endpoint and the control socket, as far as they are configured.
func (x *queryExtension) listen(ctx context.Context) (listeners []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range listeners {
				_ = l.Close() // nothing has connected
			}
		}
	}()
	addr := x.cfg.Server.NetAddr
	var sockets []string
	switch {
	case addr.Endpoint == "":
	case addr.Transport == confignet.TransportTypeUnix:
		sockets = append(sockets, addr.Endpoint)
	default:
		l, err := x.cfg.Server.ToListener(ctx)
		if err != nil {
			hint := ""
			if errors.Is(err, syscall.EADDRINUSE) {
				hint = "; another program has this port: stop it, or change endpoint"
			}
			return listeners, fmt.Errorf("staxquery: listen on %s: %w%s", addr.Endpoint, err, hint)
		}
		listeners = append(listeners, l)
	}
	if x.cfg.ControlSocket != "" {
		sockets = append(sockets, x.cfg.ControlSocket)
	}
	for _, path := range sockets {
		l, err := unixsocket.Listen(ctx, path)
		if err != nil {
			return listeners, fmt.Errorf("staxquery: %w", err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// Ready implements [extensioncapabilities.PipelineWatcher]: from now on recordings can start.
func (x *queryExtension) Ready() error {
	x.ready.Store(true)
	return nil
}

// NotReady implements [extensioncapabilities.PipelineWatcher]. The pipelines are about to stop, and still run: this is the
// moment to end recordings, while their last data can be received.
func (x *queryExtension) NotReady() error {
	x.ready.Store(false)
	if err := x.mgr.StopAll(context.Background(), "collector stopped"); err != nil {
		return fmt.Errorf("staxquery: %w", err)
	}
	return nil
}

// Shutdown stops serving. Recordings of a manager made here end, if NotReady has not ended them.
func (x *queryExtension) Shutdown(ctx context.Context) error {
	var errs []error
	if x.owned {
		errs = append(errs, x.mgr.Shutdown(ctx))
	}
	if x.srv != nil {
		x.cancel() // polls of the gate and queries end
		grace, cancel := context.WithTimeout(ctx, shutdownGrace)
		if err := x.srv.Shutdown(grace); err != nil {
			errs = append(errs, x.srv.Close())
		}
		cancel()
		x.wg.Wait()
	}
	return errors.Join(errs...)
}
