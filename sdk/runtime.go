package sdk

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/stax-otel/stax/sdk/internal/link"
	"github.com/stax-otel/stax/sdk/semconv"
)

// DefaultMemoryLimit bounds the memory of a runtime that records: rings, stacks and the request being built.
const DefaultMemoryLimit = 16 << 20

const (
	minMemoryLimit = 1 << 20
	maxLanes       = 4096 // of a runtime
)

// Config configures a runtime of its own. Most programs use the default runtime instead, which the environment
// configures.
type Config struct {
	// Endpoint is unix:///path or http://host:port of the receiver. Empty: the private socket of this user, if there
	// is one. "off": disabled.
	Endpoint string
	// Token is the recording token, sent as the Stax-Recording header. May be empty.
	Token string
	// ServiceName becomes service.name. Empty: unknown_service:<executable>.
	ServiceName string
	// MemoryLimit bounds the runtime's memory while recorded, in bytes. 0: DefaultMemoryLimit. At least 1 MiB.
	MemoryLimit int

	timing timing // intervals, changed by tests
}

// Runtime is one instrumentation runtime: it asks the gate, owns rings and sends. Make one with [NewRuntime], or use the
// package's functions for the default one. All methods may be called from any goroutine.
type Runtime struct {
	active    atomic.Uint32 // 0: not recorded, else the recording's OriginMode. The gate of every hot path
	shards    []shard       // set by start, before any lane exists
	stacks    atomic.Pointer[stackTable]
	idBase    uint64
	contended atomic.Uint64 // records dropped because every shard was locked: number and drop count of shard 0
	waking    atomic.Bool
	wakeup    chan struct{}
	_         [64]byte
	idCount   atomic.Uint64
	_         [56]byte

	initOnce   sync.Once
	launchOnce sync.Once
	cfg        Config
	id         string
	endpoint   endpoint

	ctx     context.Context // ends when Shutdown gives up or is done
	cancel  context.CancelFunc
	done    chan struct{} // closed when both goroutines ended; nil: never launched
	flushes chan *flushRequest
	changed chan struct{} // a new verdict is there
	counts  reporterCounts

	subMu sync.Mutex // serializes the calls of subscribers
	subs  []*subscriber

	mu      sync.Mutex
	lanes   []*Lane // by index - 1
	closing bool    // Shutdown was called
	want    verdict // the gate's last word
	cur     *session
	last    *session      // the previous one's account; the worker's
	defs    []*stackEntry // stacks of the current session that others than the worker named
	defined map[uint64]bool
	sink    link.Sink      // instead of a receiver; nil: a receiver
	holds   map[string]int // by recording id: who has something to send before the recording's last word
}

// std is the default runtime: a variable, not a pointer, so that [ReportingActive] is one load.
var std Runtime

// ReportingActive reports whether something records the default runtime now. It costs one atomic load.
func ReportingActive() bool { return std.active.Load() != 0 }

// ReportingActive is [ReportingActive] for this runtime.
func (rt *Runtime) ReportingActive() bool { return rt.active.Load() != 0 }

// NewRuntime makes a runtime. It does nothing until its first lane exists.
func NewRuntime(cfg Config) *Runtime { return &Runtime{cfg: cfg} }

// RuntimeID is the identity of the default runtime: 32 hex digits, new at each start of the process.
func RuntimeID() string { return std.ID() }

// ID is the runtime's identity, 32 hex digits.
func (rt *Runtime) ID() string {
	rt.init()
	return rt.id
}

// Stats is a snapshot of the default runtime's reporter.
func Stats() ReporterStats { return std.Stats() }

// Flush sends what the default runtime has queued. It returns when everything recorded before the call was accepted or
// given up, or when ctx ends.
func Flush(ctx context.Context) error { return std.Flush(ctx) }

// Shutdown ends the default runtime for good; see [Runtime.Shutdown].
func Shutdown(ctx context.Context) error { return std.Shutdown(ctx) }

// init makes what a runtime needs before its first lane: identity and shards, no buffers and no goroutine.
func (rt *Runtime) init() {
	rt.initOnce.Do(func() {
		if rt == &std {
			rt.cfg = Config{
				Endpoint:    os.Getenv(semconv.EnvEndpoint),
				Token:       os.Getenv(semconv.EnvToken),
				ServiceName: os.Getenv("OTEL_SERVICE_NAME"),
			}
		}
		rt.cfg.timing = rt.cfg.timing.withDefaults()
		if rt.cfg.MemoryLimit == 0 {
			rt.cfg.MemoryLimit = DefaultMemoryLimit
		}
		rt.cfg.MemoryLimit = max(rt.cfg.MemoryLimit, minMemoryLimit)
		rt.shards = make([]shard, shardCount(runtime.GOMAXPROCS(0), ringBudget(rt.cfg.MemoryLimit)))
		for i := range rt.shards {
			rt.shards[i].num = uint32(i + 1)
		}
		rt.wakeup = make(chan struct{}, 1)
		rt.changed = make(chan struct{}, 1)
		rt.flushes = make(chan *flushRequest)
		rt.ctx, rt.cancel = context.WithCancel(context.Background())
		var b [24]byte
		_, _ = rand.Read(b[:]) // never fails
		rt.id = hex.EncodeToString(b[:16])
		rt.idBase = binary.BigEndian.Uint64(b[16:]) & idMask
	})
}

func (rt *Runtime) register(l *Lane) {
	rt.init()
	rt.mu.Lock()
	if len(rt.lanes) >= maxLanes {
		rt.mu.Unlock()
		diagTooManyLanes.add()
		l.rt = &inertRuntime
		return
	}
	rt.lanes = append(rt.lanes, l)
	l.index = uint32(len(rt.lanes))
	rt.mu.Unlock()
	rt.launchOnce.Do(rt.launch)
}

// inertRuntime is the runtime of lanes past the limit: never active.
var inertRuntime Runtime

// wake asks the worker to drain now. It never blocks.
func (rt *Runtime) wake() {
	if !rt.waking.Load() && rt.waking.CompareAndSwap(false, true) {
		select {
		case rt.wakeup <- struct{}{}:
		default:
		}
	}
}
