package sdk

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stax-otel/stax/sdk/internal/wire"
	"github.com/stax-otel/stax/sdk/semconv"
)

// encoder turns records into OTLP bytes. It belongs to one session and the worker; all its buffers are reused.
//
// Spans are appended to the buffer of their group, one per lane segment, while the rings are drained; the request is put
// together from the groups at the end, when all lengths are known.
type encoder struct {
	rt      *Runtime
	s       *session
	now     time.Time
	nowUnix uint64

	resource []byte   // content of an OTLP Resource
	names    []string // by interned id
	lanes    []*laneEncoder
	groups   []*group // of this request, in order of appearance
	free     []*group
	waits    []byte // spans
	waitN    int
	records  []byte // log records of this request
	out      [2][]byte
	scratch  []byte
	body     []byte
	seen     []uint64 // tag keys and counter sets at points of the span being written
	spans    int      // bytes in groups

	lanesTold, setsTold int
	defsTold            int
	stacks              map[uint64]*stackEntry // by hash of program counters
	stacksTold          map[uint64]bool        // by stack id
	diagTold            []uint64
	counterKeys         map[counterKey][]string
}

type stackEntry struct {
	id     uint64
	frames []Frame
}

type counterKey struct{ set, point uint32 }

// Fields of the OTLP trace, logs, common and resource messages that stax writes.
const (
	requestResource = 1 // ExportTraceServiceRequest.resource_spans, ExportLogsServiceRequest.resource_logs

	resourceResource = 1 // ResourceSpans, ResourceLogs
	resourceScope    = 2
	resourceSchema   = 3

	resourceAttributes = 1

	scopeScope = 1 // ScopeSpans, ScopeLogs
	scopeItems = 2

	scopeName       = 1
	scopeAttributes = 3

	spanTraceID    = 1
	spanID         = 2
	spanParent     = 4
	spanName       = 5
	spanKind       = 6
	spanStart      = 7
	spanEnd        = 8
	spanAttributes = 9
	spanDropped    = 10
	spanEvents     = 11
	spanLinks      = 13
	spanStatus     = 15

	eventTime       = 1
	eventName       = 2
	eventAttributes = 3

	linkTraceID    = 1
	linkSpanID     = 2
	linkAttributes = 4

	statusMessage = 2
	statusCode    = 3

	logTime       = 1
	logSeverity   = 2
	logAttributes = 6
	logObserved   = 11
	logEventName  = 12

	kindInternal = 1
	kindConsumer = 5

	codeError    = 2
	severityInfo = 9
	severityWarn = 13
)

const scopeStax = "stax"

func newEncoder(rt *Runtime, s *session) *encoder {
	return &encoder{
		rt: rt, s: s,
		resource:    appendResource(nil, rt, s.id),
		stacks:      map[uint64]*stackEntry{},
		stacksTold:  map[uint64]bool{},
		diagTold:    make([]uint64, len(diagCounters)),
		counterKeys: map[counterKey][]string{},
	}
}

// appendResource describes the runtime.
func appendResource(b []byte, rt *Runtime, recording string) []byte {
	exe := executable()
	service := rt.cfg.ServiceName
	if service == "" {
		service = "unknown_service:" + exe
	}
	const f = resourceAttributes
	b = wire.Int(b, f, semconv.ProcessPIDKey, int64(os.Getpid()))
	b = wire.Int(b, f, semconv.ProcessParentPIDKey, int64(os.Getppid()))
	b = wire.String(b, f, semconv.ProcessExecutableNameKey, exe)
	b = wire.String(b, f, semconv.ServiceNameKey, clip(service))
	b = wire.String(b, f, semconv.TelemetrySDKNameKey, "stax")
	b = wire.String(b, f, semconv.TelemetrySDKVersionKey, Version)
	b = wire.String(b, f, semconv.TelemetrySDKLanguageKey, "go")
	b = wire.String(b, f, semconv.RuntimeIDKey, rt.id)
	if ns := pidNamespace(); ns != 0 {
		b = wire.Int(b, f, semconv.PIDNamespaceKey, int64(ns))
	}
	b = wire.String(b, f, semconv.RecordingIDKey, recording)
	return wire.Int(b, f, semconv.ClockErrorNanosKey, clock.bound.Load())
}

func executable() string {
	if p, err := os.Executable(); err == nil {
		return clip(filepath.Base(p))
	}
	if len(os.Args) > 0 {
		return clip(filepath.Base(os.Args[0]))
	}
	return "unknown"
}

// reset begins a request.
func (e *encoder) reset(now time.Time) {
	e.now, e.nowUnix = now, uint64(Now())
	e.names = names.snapshot()
	for _, g := range e.groups {
		g.seg.group = nil
		g.seg, g.lane = nil, nil
		e.free = append(e.free, g)
	}
	e.groups = e.groups[:0]
	e.waits, e.waitN = e.waits[:0], 0
	e.records, e.spans = e.records[:0], 0
}

// size is about how many bytes the request has so far.
func (e *encoder) size() int { return e.spans + len(e.waits) + len(e.records) }

// forget makes the next request define everything again: a request with definitions was lost.
func (e *encoder) forget() {
	e.lanesTold, e.setsTold, e.defsTold = 0, 0, 0
	clear(e.stacksTold)
	clear(e.diagTold)
}

func (e *encoder) name(id uint32) string {
	if int(id) >= len(e.names) {
		e.names = names.snapshot()
		if int(id) >= len(e.names) {
			return ""
		}
	}
	return e.names[id]
}

// traceHead is the first half of every trace id of the runtime.
func (e *encoder) traceID(hi, lo uint32) (id [16]byte) {
	_, _ = hex.Decode(id[:8], []byte(e.rt.id[:16]))
	binary.BigEndian.PutUint32(id[8:], hi)
	binary.BigEndian.PutUint32(id[12:], lo)
	return id
}

// finishTraces assembles the traces request: lane segments, waits, heartbeat. The bytes are valid until the next
// request.
func (e *encoder) finishTraces(final bool) []byte {
	b := e.out[0][:0]
	guess := wire.SizeVarint(uint64(e.spans + len(e.waits) + len(e.resource) + 512*(len(e.groups)+1)))
	b, request := wire.Open(b, requestResource, guess)
	b = wire.Bytes(b, resourceResource, e.resource)
	for _, g := range e.groups {
		b = g.append(b)
	}
	if e.waitN > 0 {
		var m wire.Mark
		b, m = wire.Open(b, resourceScope, wire.SizeVarint(uint64(len(e.waits)+8)))
		b = wire.Header(b, scopeScope, wire.SizeBytes(len(scopeStax)))
		b = wire.Text(b, scopeName, scopeStax)
		b = append(b, e.waits...)
		b = wire.Close(b, m)
	}
	b = e.heartbeat(b, final)
	b = wire.Text(b, resourceSchema, semconv.SchemaURL)
	b = wire.Close(b, request)
	e.out[0] = b
	return b
}

// heartbeat appends the empty ScopeSpans that carries the counts of the last snapshot.
func (e *encoder) heartbeat(b []byte, final bool) []byte {
	b, items := wire.Open(b, resourceScope, 2)
	b, scope := wire.Open(b, scopeScope, 2)
	b = wire.Text(b, scopeName, semconv.ScopeHeartbeat)
	b = wire.Int(b, scopeAttributes, semconv.HeartbeatTimeKey, int64(e.nowUnix))
	for _, col := range heartbeatColumns {
		var a wire.Array
		b, a = wire.OpenArray(b, scopeAttributes, col.key)
		for i := range e.s.shards {
			// Shard 0 exists only once it dropped something; shard 1 always speaks, so that final has a carrier.
			if acc := &e.s.shards[i]; acc.emitted > 0 || i == 1 {
				b = wire.ElementInt(b, int64(col.value(i, acc)))
			}
		}
		b = wire.CloseArray(b, a)
	}
	if final {
		b = wire.Bool(b, scopeAttributes, semconv.HeartbeatFinalKey, true)
	}
	return wire.Close(wire.Close(b, scope), items)
}

var heartbeatColumns = []struct {
	key   string
	value func(i int, a *shardSession) uint64
}{
	{semconv.HeartbeatShardsKey, func(i int, _ *shardSession) uint64 { return uint64(i) }},
	{semconv.HeartbeatEmittedKey, func(_ int, a *shardSession) uint64 { return a.emitted }},
	{semconv.HeartbeatBaseKey, func(_ int, a *shardSession) uint64 { return a.base }},
	{semconv.HeartbeatDroppedFullKey, func(_ int, a *shardSession) uint64 { return a.droppedFull - a.baseFull }},
	{semconv.HeartbeatDroppedSendKey, func(_ int, a *shardSession) uint64 { return a.droppedSend }},
	{semconv.HeartbeatDroppedOtherKey, func(_ int, a *shardSession) uint64 { return a.droppedOther - a.baseOther }},
}

// key returns the attribute keys of a counter set at a sample point, by counter.
func (e *encoder) key(set, point uint32) []string {
	k := counterKey{set, point}
	if keys, ok := e.counterKeys[k]; ok {
		return keys
	}
	sets := snapshotCounterSets()
	if set == 0 || int(set) > len(sets) {
		return nil
	}
	s := sets[set-1]
	keys := make([]string, len(s.counters))
	for i, c := range s.counters {
		keys[i] = semconv.CounterPrefix + s.id + "/" + points.name(point) + "/" + c.Name
	}
	e.counterKeys[k] = keys
	return keys
}

// duplicate reports whether the span being written has this key, and notes it: keys must be unique.
func (e *encoder) duplicate(key uint64) bool {
	if slices.Contains(e.seen, key) {
		return true
	}
	e.seen = append(e.seen, key)
	return false
}
