package staxtargetreceiver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/derive"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/detach"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/metadata"
)

// shutdownGrace is how long requests in progress may take to end.
const shutdownGrace = 5 * time.Second

// recordingManager is what the extension named by Config.Query has to be.
type recordingManager interface {
	RecordingManager() *recording.Manager
}

// targetReceiver is one receiver for all four signals: the service calls the factory once per signal with the same Config,
// and shared returns the same instance.
//
// The service also starts and stops it once per signal. It stops on the first Shutdown, since the pipeline of that
// signal is taken down next.
type targetReceiver struct {
	cfg       *Config
	set       receiver.Settings
	telemetry *metadata.TelemetryBuilder
	obsHTTP   *receiverhelper.ObsReport
	obsGRPC   *receiverhelper.ObsReport
	now       func() time.Time
	grace     time.Duration

	// connContext tells who is at the other end of a connection. Tests replace it.
	connContext func(context.Context, net.Conn) context.Context

	nextTraces   consumer.Traces
	nextMetrics  consumer.Metrics
	nextLogs     consumer.Logs
	nextProfiles xconsumer.Profiles

	manager  *recording.Manager
	segments *detach.Segmenter
	deriver  *derive.Deriver // nil: no derived metrics
	windows  windows
	traces   *traceSessions

	startOnce sync.Once
	startErr  error
	stopOnce  sync.Once
	stopErr   error

	closing    context.Context // ends when Shutdown begins: polls of the gate are let go
	close      context.CancelFunc
	servers    sync.WaitGroup
	emitter    sync.WaitGroup
	inFlight   tracker // exports
	httpServer *http.Server
	unused     unusedConns
	httpAddr   net.Addr
	grpcServer *grpc.Server
	grpcAddr   net.Addr
}

var (
	_ receiver.Traces  = (*targetReceiver)(nil)
	_ receiver.Metrics = (*targetReceiver)(nil)
	_ receiver.Logs    = (*targetReceiver)(nil)
)

var (
	instancesMu sync.Mutex
	instances   = map[*Config]*targetReceiver{}
)

// shared returns the receiver of a Config, made when it is new. A receiver that was shut down is forgotten.
func shared(set receiver.Settings, cfg component.Config) (*targetReceiver, error) {
	c := cfg.(*Config)
	instancesMu.Lock()
	defer instancesMu.Unlock()
	if r := instances[c]; r != nil {
		return r, nil
	}
	r, err := newTargetReceiver(set, c)
	if err != nil {
		return nil, err
	}
	instances[c] = r
	return r, nil
}

func newTargetReceiver(set receiver.Settings, cfg *Config) (*targetReceiver, error) {
	r := &targetReceiver{cfg: cfg, set: set, now: time.Now, grace: shutdownGrace, connContext: recording.PeerConnContext}
	r.closing, r.close = context.WithCancel(context.Background())
	r.traces = newTraceSessions()
	r.segments = detach.NewSegmenter(func() time.Time { return r.now() })
	var err error
	if r.telemetry, err = metadata.NewTelemetryBuilder(set.TelemetrySettings); err != nil {
		return nil, err
	}
	obs := func(transport string) (*receiverhelper.ObsReport, error) {
		return receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{
			ReceiverID: set.ID, Transport: transport, ReceiverCreateSettings: set,
		})
	}
	if r.obsHTTP, err = obs("http"); err != nil {
		return nil, err
	}
	r.obsGRPC, err = obs("grpc")
	return r, err
}

// Start opens the listeners. It runs once; later calls return what the first did.
func (r *targetReceiver) Start(ctx context.Context, host component.Host) error {
	r.startOnce.Do(func() {
		if r.startErr = r.start(ctx, host); r.startErr != nil {
			r.startErr = errors.Join(r.startErr, r.Shutdown(ctx))
		}
	})
	return r.startErr
}

func (r *targetReceiver) start(ctx context.Context, host component.Host) error {
	if r.manager == nil {
		ext, ok := host.GetExtensions()[r.cfg.Query]
		if !ok {
			return fmt.Errorf("staxtarget: there is no extension %q: add it to extensions and service::extensions, or name another one by query", r.cfg.Query)
		}
		m, ok := ext.(recordingManager)
		if !ok {
			return fmt.Errorf("staxtarget: extension %q does not own recordings: query must name a staxquery extension", r.cfg.Query)
		}
		r.manager = m.RecordingManager()
	}
	if r.nextMetrics != nil && r.cfg.DeriveInterval > 0 {
		r.deriver = derive.New(r.cfg.MaxSeries, func() time.Time { return r.now() })
		r.emitter.Go(r.emitLoop)
	}
	if c := r.cfg.Protocols.GRPC.Get(); c != nil {
		if err := r.startGRPC(ctx, host, c); err != nil {
			return err
		}
	}
	if c := r.cfg.Protocols.HTTP.Get(); c != nil {
		return r.startHTTP(ctx, host, &c.ServerConfig)
	}
	return nil
}

// serve runs a server in the background.
func (r *targetReceiver) serve(host component.Host, protocol string, l net.Listener, run func(net.Listener) error, ended error) {
	r.set.Logger.Info("receiving", zap.String("protocol", protocol), zap.Stringer("endpoint", l.Addr()))
	r.servers.Go(func() {
		if err := run(l); err != nil && !errors.Is(err, ended) {
			err = fmt.Errorf("staxtarget: %s server on %s: %w", protocol, l.Addr(), err)
			componentstatus.ReportStatus(host, componentstatus.NewFatalErrorEvent(err))
		}
	})
}

// Shutdown lets requests in progress end, for a while, and emits the last derived metrics. It runs once, and also after a
// Start that failed or never ran.
func (r *targetReceiver) Shutdown(ctx context.Context) error {
	r.stopOnce.Do(func() { r.stopErr = r.shutdown(ctx) })
	return r.stopErr
}

func (r *targetReceiver) shutdown(ctx context.Context) error {
	instancesMu.Lock()
	delete(instances, r.cfg)
	instancesMu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, r.grace)
	defer cancel()
	r.close()
	var httpErr error
	var stopping sync.WaitGroup // GracefulStop waits for handlers, which a stalled next consumer holds
	if s := r.grpcServer; s != nil {
		stopping.Go(func() {
			stop := context.AfterFunc(ctx, s.Stop)
			defer stop()
			s.GracefulStop()
		})
	}
	if s := r.httpServer; s != nil {
		if httpErr = s.Shutdown(ctx); httpErr != nil {
			httpErr = errors.Join(s.Close(), overdue(httpErr))
		}
	}
	waitFor(ctx, &stopping)
	waitFor(ctx, &r.servers)
	waitFor(ctx, &r.traces.watchers)
	if !r.inFlight.stop(ctx) {
		r.set.Logger.Warn("requests are still held by the next consumer", zap.Duration("grace", r.grace))
	}
	if r.deriver != nil {
		r.emitLast(ctx)
	}
	r.telemetry.Shutdown()
	return httpErr
}

// overdue turns the end of the grace period into no error: clients that hang are cut off, as announced.
func overdue(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// waitFor reports whether wg became zero before ctx ended.
func waitFor(ctx context.Context, wg *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// tracker counts the exports in progress. The zero value is ready.
type tracker struct {
	mu      sync.Mutex
	n       int
	stopped bool
	idle    chan struct{} // closed when stopped and n is 0
}

// enter reports whether an export may begin.
func (t *tracker) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.n++
	return true
}

func (t *tracker) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.stopped && t.n == 0 {
		close(t.idle)
	}
}

// stop lets no more exports begin and reports whether those in progress ended before ctx did. It is called once.
func (t *tracker) stop(ctx context.Context) bool {
	t.mu.Lock()
	t.stopped = true
	t.idle = make(chan struct{})
	if t.n == 0 {
		close(t.idle)
	}
	t.mu.Unlock()
	select {
	case <-t.idle:
		return true
	default:
	}
	select {
	case <-t.idle:
		return true
	case <-ctx.Done():
		return false
	}
}

// emitLoop emits derived metrics until Shutdown begins.
func (r *targetReceiver) emitLoop() {
	t := time.NewTicker(r.cfg.DeriveInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			r.emit(r.closing)
		case <-r.closing.Done():
			return
		}
	}
}

// emitLast sends what the loop has not, unless the next consumer hangs.
func (r *targetReceiver) emitLast(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.grace)
	defer cancel()
	if !waitFor(ctx, &r.emitter) {
		return
	}
	var last sync.WaitGroup
	last.Go(func() { r.emit(ctx) })
	waitFor(ctx, &last)
}

// emit sends the derived metrics and forgets recordings that are over. Sums are cumulative: what the next consumer refuses
// is in the next emission again.
func (r *targetReceiver) emit(ctx context.Context) {
	if md, ok := r.deriver.Metrics(); ok {
		if err := r.nextMetrics.ConsumeMetrics(ctx, md); err != nil {
			r.deriver.Unsent()
			if ctx.Err() == nil {
				r.set.Logger.Warn("derived metrics were not taken", zap.Error(err))
			}
		}
	}
	r.deriver.Retire(func(res derive.Resource) bool {
		rec, ok := r.manager.Get(recording.ID(res.Recording))
		if !ok {
			return true
		}
		select {
		case <-rec.Done():
			return true
		default:
			return false
		}
	})
}
