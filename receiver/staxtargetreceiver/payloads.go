package staxtargetreceiver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/zap"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/gotrace"
	"github.com/stax-otel/stax/internal/profiles"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Reasons why a payload, or a part of it, is not forwarded. None of them makes the client send it again.
const (
	reasonBadGeneration      = "bad_trace_generation" // the parser of Go execution traces refuses it
	reasonGenerationTooLarge = "generation_too_large"
	reasonBadPprof           = "bad_pprof"
	reasonPprofTooLarge      = "pprof_too_large"
	reasonRepeated           = "repeated" // it was delivered before: nothing is missing
	reasonBadOriginEvent     = "bad_origin_event"
	reasonTooManySamples     = "too_many_samples"
	reasonTooManyWaits       = "too_many_waits"
	reasonTooManyOrigins     = "too_many_origin_events"
	reasonTooManyStacks      = "too_many_stacks"
	reasonTooManyGoroutines  = "too_many_goroutines"
	reasonNotTaken           = "not_taken" // the logs pipeline refused what the receiver says about a payload
)

const (
	// maxPayload is the size of one payload as it travels, maxUnpacked that of one that was packed.
	maxPayload  = 8 << 20
	maxUnpacked = 32 << 20
	// maxParsers is how many payloads are parsed at a time: a generation of 8 MiB takes about ten times its size.
	maxParsers = 2
	// maxTraceSessions bounds the runtimes whose traces are followed at a time; the one that was silent longest is forgotten.
	maxTraceSessions = 256
	// maxRememberedProfiles is how many CPU profiles of a runtime are told from their copies, which come within seconds.
	maxRememberedProfiles = 16
	// clockName is the clock that generations are stamped with, in clock samples.
	clockName = semconv.PayloadGoExecTrace
	// codeClockStep is the code of a diagnostic.
	codeClockStep = "clock_step"
)

// traceSession follows the execution trace of one runtime in one recording.
type traceSession struct {
	mu   sync.Mutex
	s    *gotrace.Session
	used time.Time

	profiles [maxRememberedProfiles][sha256.Size]byte // delivered CPU profiles: a copy would double their sums
	newest   int
}

// deliveredProfile notes a CPU profile. mu is held.
func (t *traceSession) deliveredProfile(sum [sha256.Size]byte) {
	t.newest = (t.newest + 1) % maxRememberedProfiles
	t.profiles[t.newest] = sum
}

type traceKey struct {
	rec     *recording.Recording
	runtime archive.RuntimeID
}

// traceSessions holds the sessions of the recordings that run.
type traceSessions struct {
	mu       sync.Mutex
	sessions map[traceKey]*traceSession
	watched  map[*recording.Recording]struct{}
	watchers sync.WaitGroup
	parsers  chan struct{}
}

func newTraceSessions() *traceSessions {
	return &traceSessions{
		sessions: map[traceKey]*traceSession{}, watched: map[*recording.Recording]struct{}{},
		parsers: make(chan struct{}, min(maxParsers, runtime.GOMAXPROCS(0))),
	}
}

// of returns the session of a runtime. It lives until the recording ends, or closing does.
func (t *traceSessions) of(key traceKey, period int64, now time.Time, closing <-chan struct{}) *traceSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[key]
	if s == nil {
		if len(t.sessions) >= maxTraceSessions {
			t.forgetOldest()
		}
		s = &traceSession{s: gotrace.NewSession(gotrace.Options{Period: time.Duration(period)})}
		t.sessions[key] = s
		if _, ok := t.watched[key.rec]; !ok {
			t.watched[key.rec] = struct{}{}
			t.watchers.Go(func() {
				select {
				case <-key.rec.Done():
				case <-closing:
				}
				t.forget(key.rec)
			})
		}
	}
	s.used = now
	return s
}

func (t *traceSessions) forgetOldest() {
	var oldest traceKey
	for k, s := range t.sessions {
		if o := t.sessions[oldest]; o == nil || s.used.Before(o.used) {
			oldest = k
		}
	}
	delete(t.sessions, oldest)
}

func (t *traceSessions) forget(rec *recording.Recording) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.watched, rec)
	for k := range t.sessions {
		if k.rec == rec {
			delete(t.sessions, k)
		}
	}
}

// payloads is the work on the payloads of one request.
type payloads struct {
	*request
	pd      pprofile.Profiles
	encoder *profiles.Encoder
	parsed  []parsedGeneration
	logs    plog.Logs // what the receiver says about them
	adm     admission // of the logs
	emptied bool      // the scope lost its last profile
}

// parsedGeneration is a payload that was parsed: a generation of a trace, or a CPU profile.
type parsedGeneration struct {
	session *traceSession
	g       *gotrace.Generation // nil: a CPU profile
	sum     [sha256.Size]byte   // of the CPU profile
}

// scope replaces the payloads of a scope. An error means that the request was given up by its sender.
func (p *payloads) scope(ctx context.Context, adm admission, rp pprofile.ResourceProfiles, sp pprofile.ScopeProfiles) error {
	p.emptied = false
	had := sp.Profiles().Len()
	var add []profiles.Data
	var failed error
	sp.Profiles().RemoveIf(func(prof pprofile.Profile) bool {
		if failed != nil || prof.OriginalPayload().Len() == 0 {
			return false
		}
		var d *profiles.Data
		switch prof.OriginalPayloadFormat() {
		case semconv.PayloadGoExecTrace:
			d, failed = p.generation(ctx, adm, rp, prof)
		case profiles.PayloadPprof:
			d, failed = p.pprof(ctx, adm, sp, prof)
			if d == nil && failed == nil { // of the heap, say: it is kept as it is
				return false
			}
		default:
			return false
		}
		if d != nil {
			add = append(add, *d)
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	for i := range add {
		if p.encoder == nil {
			p.encoder = profiles.NewEncoder(p.pd.Dictionary())
		}
		p.encoder.Encode(sp, &add[i])
	}
	p.emptied = had > 0
	return nil
}

// acquire waits for a parser's place.
func (p *payloads) acquire(ctx context.Context) error {
	select {
	case p.r.traces.parsers <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *payloads) releaseParser() { <-p.r.traces.parsers }

// generation parses one generation of a Go execution trace. No data means that there is nothing to say of it.
func (p *payloads) generation(ctx context.Context, adm admission, rp pprofile.ResourceProfiles, prof pprofile.Profile) (*profiles.Data, error) {
	facts := profiles.ReadFacts(p.pd, prof)
	facts.Source = cmp.Or(facts.Source, semconv.ProfileSourceGoExecTrace)
	size := prof.OriginalPayload().Len()
	facts.Bytes = uint64(size)
	if size > maxPayload {
		p.reject(adm, "profile", reasonGenerationTooLarge, noSeq, 1, 1)
		return lostPayload(facts, fmt.Sprintf("a generation of the execution trace has %d bytes, more than %d", size, maxPayload)), nil
	}
	s := p.r.traces.of(traceKey{adm.rec, adm.runtime}, facts.Period, p.r.now(), p.r.closing.Done())
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := p.acquire(ctx); err != nil {
		return nil, err
	}
	g, err := s.s.Parse(prof.OriginalPayload().AsRaw())
	p.releaseParser()
	if errors.Is(err, gotrace.ErrRepeated) {
		p.reject(adm, "profile", reasonRepeated, noSeq, 1, 0)
		return nil, nil //nolint:nilnil // nothing to say
	}
	if err != nil {
		p.reject(adm, "profile", reasonBadGeneration, noSeq, 1, 1)
		p.r.set.Logger.Warn("a generation of an execution trace cannot be parsed", zap.String("runtime", string(adm.runtime)), zap.Error(err))
		return lostPayload(facts, "a generation of the execution trace cannot be parsed: "+shorten(err.Error())), nil
	}
	p.parsed = append(p.parsed, parsedGeneration{session: s, g: g})
	for _, c := range [...]struct {
		reason string
		n      uint64
	}{
		{reasonBadOriginEvent, g.Stats.OriginsMalformed},
		{reasonTooManySamples, g.Stats.SamplesDropped},
		{reasonTooManyWaits, g.Stats.WaitsDropped},
		{reasonTooManyOrigins, g.Stats.OriginsDropped},
		{reasonTooManyStacks, g.Stats.StacksDropped},
		{reasonTooManyGoroutines, g.Stats.GoroutinesDropped},
	} {
		if c.n > 0 {
			p.reject(adm, "profile", c.reason, noSeq, int(c.n), 0)
		}
	}
	p.clock(adm, rp, g)
	limitWeights(g.Samples, facts.ProcessNanos)
	row := facts.ProfileSource
	row.State = cmp.Or(row.State, semconv.ProfileStateRunning)
	if row.EndNanos <= row.BeginNanos {
		row.BeginNanos, row.EndNanos = g.BeginNanos, g.EndNanos
	}
	row.Samples = uint64(len(g.Samples)) + g.Stats.SamplesDropped
	row.Waits, row.WaitsShort, row.ShortNanos = g.Stats.Waits, g.Stats.WaitsShort, g.Stats.ShortNanos
	row.OriginEvents = uint64(len(g.OriginEvents)) + g.Stats.OriginsDropped
	row.Events = g.Stats.Events
	row.ClockErrorNanos = g.Clock.ErrorNanos
	d := &profiles.Data{
		Samples: g.Samples, OffCPU: g.Waits, OriginEvents: g.OriginEvents, Stacks: g.Stacks, Sources: []archive.ProfileSource{row},
		LostGenerations: facts.LostGenerations, LostBytes: facts.LostBytes,
	}
	if row.Source != semconv.ProfileSourceGoExecTrace {
		for i := range d.Samples {
			d.Samples[i].Source = row.Source
		}
		for i := range d.OffCPU {
			d.OffCPU[i].Source = row.Source
		}
	}
	return d, nil
}

// limitWeights scales the weights of samples down when they come to more than the processor time that the whole process
// used, in nanoseconds (0: unknown). A trace does not show when the kernel takes the processor from a running thread, so on
// a busy machine the time between two samples is longer than what was used of it.
func limitWeights(samples []archive.Sample, process int64) {
	sum := int64(0)
	for i := range samples {
		sum += samples[i].CPUNanos
	}
	if process <= 0 || sum <= process {
		return
	}
	scale := float64(process) / float64(sum)
	for i := range samples {
		samples[i].CPUNanos = int64(float64(samples[i].CPUNanos) * scale)
	}
}

// pprof parses a CPU profile. No data means that it is none.
func (p *payloads) pprof(ctx context.Context, adm admission, sp pprofile.ScopeProfiles, prof pprofile.Profile) (*profiles.Data, error) {
	facts := profiles.ReadFacts(p.pd, prof)
	facts.Source = cmp.Or(facts.Source, sp.Scope().Name(), profiles.PayloadPprof)
	size := prof.OriginalPayload().Len()
	facts.Bytes = uint64(size)
	if size > maxPayload {
		p.reject(adm, "profile", reasonPprofTooLarge, noSeq, 1, 1)
		return lostPayload(facts, fmt.Sprintf("a CPU profile has %d bytes, more than %d", size, maxPayload)), nil
	}
	s := p.r.traces.of(traceKey{adm.rec, adm.runtime}, 0, p.r.now(), p.r.closing.Done())
	payload := prof.OriginalPayload().AsRaw()
	sum := sha256.Sum256(payload)
	s.mu.Lock()
	repeated := slices.Contains(s.profiles[:], sum)
	s.mu.Unlock()
	if repeated {
		p.reject(adm, "profile", reasonRepeated, noSeq, 1, 0)
		return &profiles.Data{}, nil
	}
	if err := p.acquire(ctx); err != nil {
		return nil, err
	}
	d, period, err := profiles.FromPprof(payload, facts.Source, maxUnpacked)
	p.releaseParser()
	switch {
	case errors.Is(err, profiles.ErrNotCPU):
		return nil, nil //nolint:nilnil // it is none
	case errors.Is(err, profiles.ErrTooLarge):
		p.reject(adm, "profile", reasonPprofTooLarge, noSeq, 1, 1)
		return lostPayload(facts, fmt.Sprintf("a CPU profile has more than %d bytes when unpacked", maxUnpacked)), nil
	case err != nil:
		p.reject(adm, "profile", reasonBadPprof, noSeq, 1, 1)
		return lostPayload(facts, "a CPU profile cannot be parsed: "+shorten(err.Error())), nil
	}
	p.parsed = append(p.parsed, parsedGeneration{session: s, sum: sum})
	row := facts.ProfileSource
	row.State = cmp.Or(row.State, semconv.ProfileStateRunning)
	row.PeriodNanos = cmp.Or(row.PeriodNanos, period)
	for i := range d.Samples {
		row.Samples += d.Samples[i].Count
	}
	d.Sources = []archive.ProfileSource{row}
	d.LostGenerations, d.LostBytes = facts.LostGenerations, facts.LostBytes
	return &d, nil
}

// lostPayload says what is left of a payload that was given up: when it was, and that it is not there.
func lostPayload(f profiles.Facts, why string) *profiles.Data {
	row := f.ProfileSource
	row.State, row.Reason = semconv.ProfileStateLost, why
	return &profiles.Data{
		Sources: []archive.ProfileSource{row}, LostGenerations: f.LostGenerations, LostBytes: f.LostBytes,
	}
}

// shorten keeps a parser's message, which may dump its state, to one line.
func shorten(s string) string {
	for i, c := range s {
		if c == '\n' || i > 200 {
			return s[:i]
		}
	}
	return s
}

// clock notes the clock sample of a generation, and a step of the clock before it.
func (p *payloads) clock(adm admission, rp pprofile.ResourceProfiles, g *gotrace.Generation) {
	p.adm = adm
	rl := p.logs.ResourceLogs().AppendEmpty()
	rp.Resource().CopyTo(rl.Resource())
	sl := rl.ScopeLogs().AppendEmpty()
	sl.Scope().SetName(semconv.ScopeCPUTrace)
	record := func(event string) pcommon.Map {
		lr := sl.LogRecords().AppendEmpty()
		lr.SetEventName(event)
		lr.SetTimestamp(pcommon.Timestamp(g.Clock.UnixNanos))
		lr.SetObservedTimestamp(pcommon.NewTimestampFromTime(p.r.now()))
		return lr.Attributes()
	}
	m := record(semconv.EventClockSample)
	m.PutStr(semconv.ClockNameKey, clockName)
	m.PutInt(semconv.ClockRawTicksKey, g.Clock.RawNanos)
	m.PutInt(semconv.ClockUnixNanosKey, g.Clock.RawNanos+g.Clock.OffsetNanos)
	m.PutInt(semconv.ClockBracketNanosKey, g.Clock.ErrorNanos)
	if step := g.Clock.StepNanos; step != 0 {
		m := record(semconv.EventDiagnostic)
		m.PutStr(semconv.DiagnosticCodeKey, codeClockStep)
		m.PutStr(semconv.DiagnosticTextKey, fmt.Sprintf("the wall clock was set by %s while the program was traced", time.Duration(step)))
	}
}

// delivered notes that the profiles have arrived, and sends what the receiver has to say about them.
func (p *payloads) delivered(ctx context.Context) {
	for _, x := range p.parsed {
		x.session.mu.Lock()
		if x.g != nil {
			x.session.s.Deliver(x.g)
		} else {
			x.session.deliveredProfile(x.sum)
		}
		x.session.mu.Unlock()
	}
	n := p.logs.LogRecordCount()
	if n == 0 || p.r.nextLogs == nil {
		return
	}
	if err := p.r.nextLogs.ConsumeLogs(ctx, p.logs); err != nil {
		p.r.set.Logger.Warn("clock samples of an execution trace were not taken", zap.Error(err))
		p.reject(p.adm, "log", reasonNotTaken, noSeq, n, 0)
	}
}
