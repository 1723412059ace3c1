package originlinker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.uber.org/zap"

	"github.com/stax-otel/stax/internal/otlprows"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/processor/originlinker/internal/metadata"
	"github.com/stax-otel/stax/sdk/semconv"
)

// idleAfter is how long the evidence of a recording is kept after the last data of it.
const idleAfter = 5 * time.Minute

// managerExtension is what the linker needs of the staxquery extension.
type managerExtension interface{ RecordingManager() *recording.Manager }

// linker is the state of one component id, shared by its nodes. It is safe for concurrent use.
type linker struct {
	cfg       *Config
	log       *zap.Logger
	telemetry *metadata.TelemetryBuilder
	forget    func()
	now       func() time.Time

	nodes    int // created and not yet shut down; guarded by the factory's mutex until all are made, then by mu
	spans    atomic.Int64
	bytes    atomic.Int64
	refusing atomic.Bool // the last forwarding failed

	mu         sync.Mutex
	mgr        *recording.Manager // nil: no extension
	recordings map[recording.ID]*evidence
	swept      time.Time
}

func newLinker(cfg *Config, set component.TelemetrySettings, forget func()) (*linker, error) {
	tb, err := metadata.NewTelemetryBuilder(set)
	if err != nil {
		return nil, err
	}
	return &linker{
		cfg: cfg, log: set.Logger, telemetry: tb, forget: forget, now: time.Now, recordings: map[recording.ID]*evidence{},
	}, nil
}

// start looks for the recordings. Each node calls it; the answer is the same.
func (l *linker) start(host component.Host) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if me, ok := host.GetExtensions()[l.cfg.Query].(managerExtension); ok {
		l.mgr = me.RecordingManager()
	}
}

// stop ends the linker with its last node: another pipeline may still feed it after the first.
func (l *linker) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes--; l.nodes > 0 {
		return
	}
	l.recordings = map[recording.ID]*evidence{}
	l.mgr = nil
	l.forget()
	l.telemetry.Shutdown()
}

// evidence returns what is known of the recording that a resource belongs to. A resource without one, which has not come
// through the staxtarget receiver, shares the evidence of all such.
func (l *linker) evidence(resource pcommon.Resource) *evidence {
	id := recording.ID(otlprows.Str(resource.Attributes(), semconv.RecordingIDKey))
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.swept) > time.Second {
		l.swept = now
		for other, ev := range l.recordings {
			if other != id && now.Sub(ev.lastUsed()) > idleAfter {
				delete(l.recordings, other)
			}
		}
	}
	ev := l.recordings[id]
	if ev == nil {
		var rec *recording.Recording
		if l.mgr != nil {
			rec, _ = l.mgr.Get(id)
		}
		ev = newEvidence(l.cfg, rec, l.now)
		l.recordings[id] = ev
	}
	ev.used.Store(now.UnixNano())
	return ev
}

// full reports whether more is held than the configuration allows.
func (l *linker) full() bool {
	return l.spans.Load() > int64(l.cfg.MaxHeldSpans) || l.bytes.Load() > l.cfg.MaxHeldBytes
}

// node is what the nodes of all signals have in common.
type node struct{ linker *linker }

// Start implements component.Component.
func (n *node) Start(_ context.Context, host component.Host) error {
	n.linker.start(host)
	return nil
}

// Shutdown implements component.Component.
func (n *node) Shutdown(context.Context) error {
	n.linker.stop()
	return nil
}

// Capabilities implements consumer.Traces and its like: nothing is mutated.
func (n *node) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }
