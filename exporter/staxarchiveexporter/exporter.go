package staxarchiveexporter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/exporter/staxarchiveexporter/internal/metadata"
	"github.com/stax-otel/stax/internal/origin"
	"github.com/stax-otel/stax/internal/otlprows"
	"github.com/stax-otel/stax/internal/profiles"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/semconv"
)

var _ recording.Sink = (*archiveExporter)(nil)

// managerExtension is what the exporter needs of the staxquery extension.
type managerExtension interface{ RecordingManager() *recording.Manager }

// writer is the part of archive.Writer that the exporter uses.
type writer interface {
	Append(*archive.Batch) error
	UpdateInfo(func(*archive.RecordingInfo)) error
	Finish(ctx context.Context, change func(*archive.RecordingInfo), progress func(done, total int)) error
	Close() error
}

// archiveExporter writes the archives of one component id, for all its signals.
type archiveExporter struct {
	cfg       *Config
	log       *zap.Logger
	version   string
	telemetry *metadata.TelemetryBuilder
	forget    func()
	now       func() time.Time
	create    func(dir string, info archive.RecordingInfo, o archive.WriterOptions) (writer, error)
	derive    func(ctx context.Context, dir string) error
	maxRows   int // of one append of profiles

	mu     sync.Mutex
	refs   int // started signals
	mgr    *recording.Manager
	stores map[recording.ID]*store
}

// store is one open archive.
type store struct {
	rec   *recording.Recording
	state *state

	mu      sync.RWMutex // read: appending; write: closing
	w       writer
	closed  bool
	checked atomic.Int64 // when the directory was last looked at, Unix nanoseconds
	pids    atomic.Int64 // number of pids in the manifest
	failing atomic.Bool
}

func newArchiveExporter(cfg *Config, set exporter.Settings, forget func()) (*archiveExporter, error) {
	tb, err := metadata.NewTelemetryBuilder(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return &archiveExporter{
		cfg: cfg, log: set.Logger, version: set.BuildInfo.Version, telemetry: tb, forget: forget, now: time.Now,
		create: func(dir string, info archive.RecordingInfo, o archive.WriterOptions) (writer, error) {
			return archive.Create(dir, info, o)
		},
		derive: origin.DeriveInto, maxRows: maxAppendRows, stores: map[recording.ID]*store{},
	}, nil
}

// start finds the recordings, once for all signals.
func (e *archiveExporter) start(_ context.Context, host component.Host) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refs == 0 {
		ext, ok := host.GetExtensions()[e.cfg.Query]
		if !ok {
			return fmt.Errorf("staxarchive: extension %q is not running: add it to service::extensions, or name another one in query", e.cfg.Query)
		}
		me, ok := ext.(managerExtension)
		if !ok {
			return fmt.Errorf("staxarchive: extension %q has no recordings: query must name a staxquery extension", e.cfg.Query)
		}
		e.mgr = me.RecordingManager()
		e.mgr.AddSink(e)
	}
	e.refs++
	return nil
}

// shutdown ends the exporter with its last signal: another pipeline may still feed it after the first. Archives that are
// open then close when their recordings stop.
func (e *archiveExporter) shutdown(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refs > 0 {
		e.refs--
	}
	if e.refs > 0 {
		return nil
	}
	if e.mgr != nil {
		e.mgr.RemoveSink(e)
		e.mgr = nil
	}
	e.forget()
	if len(e.stores) == 0 {
		e.telemetry.Shutdown()
	}
	return nil
}

// OpenRecording implements [recording.Sink]: it makes the archive.
func (e *archiveExporter) OpenRecording(_ context.Context, r *recording.Recording) error {
	in := r.Info()
	info := archive.RecordingInfo{
		ID: string(in.ID), Name: in.Name, Mode: in.Mode, State: archive.StateRecording, Command: in.Command, PIDs: pids64(in.PIDs),
		StartedNanos: in.StartedUnixNano, Host: hostInfo(), RecorderVersion: e.version, RecorderPID: os.Getpid(),
	}
	o := archive.WriterOptions{Sync: e.cfg.SyncInterval, SegmentRows: e.cfg.SegmentRows, SegmentAge: e.cfg.SegmentAge, Now: e.now}
	if o.Sync == 0 {
		o.Sync = -1
	}
	w, err := e.create(r.Path(), info, o)
	if err != nil {
		return fmt.Errorf("make archive %s: %w", r.Path(), err)
	}
	st := &store{rec: r, w: w, state: newState(r, e.now)}
	st.checked.Store(e.now().UnixNano())
	st.pids.Store(int64(len(in.PIDs)))
	e.mu.Lock()
	e.stores[r.ID()] = st
	e.mu.Unlock()
	return nil
}

// CloseRecording implements [recording.Sink]: it seals the archive and derives links and certificates. When that fails, what
// the archive has accepted stays readable in it.
func (e *archiveExporter) CloseRecording(ctx context.Context, r *recording.Recording) error {
	e.mu.Lock()
	st := e.stores[r.ID()]
	e.mu.Unlock()
	if st == nil {
		return nil
	}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.stores, r.ID())
		if e.refs == 0 && len(e.stores) == 0 {
			e.telemetry.Shutdown()
		}
	}()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closed = true

	var errs []error
	last := archive.Batch{Drops: r.TakeDrops(), Diagnostics: st.state.silent(r.Info().Runtimes)}
	if last.Len() > 0 {
		if err := st.w.Append(&last); err != nil {
			r.ReturnDrops(last.Drops)
			errs = append(errs, fmt.Errorf("write the last drop counts: %w", err))
		}
	}
	err := st.w.Finish(ctx, func(info *archive.RecordingInfo) { finalInfo(info, r.Info()) }, r.SetProgress)
	if err != nil {
		errs = append(errs, fmt.Errorf("seal archive: %w", err))
		if err := st.w.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close archive: %w", err))
		}
		return e.explain(r.Path(), errors.Join(errs...))
	}
	if err := e.derive(ctx, r.Path()); err != nil {
		errs = append(errs, fmt.Errorf("derive links and certificates (queries compute them instead): %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return e.explain(r.Path(), err)
	}
	return nil
}

// finalInfo copies what the recording came to.
func finalInfo(info *archive.RecordingInfo, in recording.Info) {
	info.PIDs, info.Command = pids64(in.PIDs), in.Command
	info.StoppedNanos, info.StopReason = in.StoppedUnixNano, in.StopReason
	info.ExitCode, info.ExitSignal = in.ExitCode, in.ExitSignal
}

func (e *archiveExporter) consumeTraces(ctx context.Context, td ptrace.Traces) error {
	all := td.ResourceSpans()
	return e.export(ctx, all.Len(),
		func(i int) pcommon.Resource { return all.At(i).Resource() },
		func(s *state, q *request, i int) { s.spans(q, all.At(i)) },
		func(i int) (string, int) {
			n := 0
			for _, ss := range all.At(i).ScopeSpans().All() {
				n += ss.Spans().Len()
			}
			return otlprows.SignalSpan, n
		})
}

func (e *archiveExporter) consumeLogs(ctx context.Context, ld plog.Logs) error {
	all := ld.ResourceLogs()
	return e.export(ctx, all.Len(),
		func(i int) pcommon.Resource { return all.At(i).Resource() },
		func(s *state, q *request, i int) { s.logs(q, all.At(i)) },
		func(i int) (string, int) {
			n := 0
			for _, sl := range all.At(i).ScopeLogs().All() {
				n += sl.LogRecords().Len()
			}
			return otlprows.SignalLog, n
		})
}

func (e *archiveExporter) consumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	if onlyDerived(md) {
		return nil // nothing to store, also when the recording is over
	}
	all := md.ResourceMetrics()
	return e.export(ctx, all.Len(),
		func(i int) pcommon.Resource { return all.At(i).Resource() },
		func(s *state, q *request, i int) { s.metrics(q, all.At(i)) },
		func(i int) (string, int) {
			n := 0
			for _, sm := range all.At(i).ScopeMetrics().All() {
				n += sm.Metrics().Len()
			}
			return signalMetric, n
		})
}

func (e *archiveExporter) consumeProfiles(ctx context.Context, pd pprofile.Profiles) error {
	all := pd.ResourceProfiles()
	dec := profiles.NewDecoder(pd)
	return e.export(ctx, all.Len(),
		func(i int) pcommon.Resource { return all.At(i).Resource() },
		func(s *state, q *request, i int) { s.profiles(q, dec, pd, i) },
		func(i int) (string, int) {
			n := 0
			for _, sp := range all.At(i).ScopeProfiles().All() {
				n += sp.Profiles().Len()
			}
			return signalProfile, n
		})
}

// export converts the resources of one request, n of them, and appends the rows: one append for each recording that they
// name, which is one in all but odd cases.
func (e *archiveExporter) export(ctx context.Context, n int, resource func(int) pcommon.Resource,
	convert func(*state, *request, int), size func(int) (signal string, items int),
) error {
	var errs []error
	for begin := 0; begin < n; {
		id := recording.ID(otlprows.Str(resource(begin).Attributes(), semconv.RecordingIDKey))
		end := begin + 1
		for end < n && otlprows.Str(resource(end).Attributes(), semconv.RecordingIDKey) == string(id) {
			end++
		}
		e.mu.Lock()
		st := e.stores[id]
		e.mu.Unlock()
		if st == nil {
			reason := reasonRecordingOver
			err := fmt.Errorf("staxarchive: recording %q is not open: its data is not stored", id)
			if id == "" {
				reason = reasonNoRecording
				err = fmt.Errorf("staxarchive: the resource has no %s: send it through the staxtarget receiver", semconv.RecordingIDKey)
			}
			for i := begin; i < end; i++ {
				signal, items := size(i)
				e.count(ctx, reason, signal, uint64(items))
			}
			errs = append(errs, consumererror.NewPermanent(err))
		} else if err := e.append(ctx, st, func(q *request) {
			for i := begin; i < end; i++ {
				convert(st.state, q, i)
			}
		}); err != nil {
			errs = append(errs, err)
		}
		begin = end
	}
	return errors.Join(errs...)
}

// append converts and appends one request to one archive.
func (e *archiveExporter) append(ctx context.Context, st *store, convert func(*request)) error {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if st.closed {
		return consumererror.NewPermanent(fmt.Errorf("staxarchive: recording %q is closed: its data is not stored", st.rec.ID()))
	}
	q := newRequest()
	defer q.release()
	convert(q)
	if err := st.state.claims(q); err != nil {
		return err
	}
	stored := false
	defer func() { q.settle(stored) }()
	drops := st.rec.TakeDrops()
	q.batch.Drops = append(q.batch.Drops, drops...)
	rows := q.batch.Len()

	err := e.check(st)
	if err == nil && rows > 0 {
		err = e.write(st, q)
	}
	if err != nil {
		st.rec.ReturnDrops(drops)
		tooLarge := errors.Is(err, archive.ErrBatchTooLarge)
		err = e.explain(st.rec.Path(), err)
		e.telemetry.StaxArchiveAppendErrors.Add(ctx, 1)
		if tooLarge { // of this request alone, and trying again does not help
			return consumererror.NewPermanent(err)
		}
		st.rec.SetProblem("archive", err.Error())
		if !st.failing.Swap(true) {
			e.log.Error("archive takes no data; targets retry and drop what does not fit into their buffers", zap.Error(err))
		}
		return err
	}
	if st.failing.Swap(false) {
		st.rec.SetProblem("archive", "")
		e.log.Info("archive takes data again", zap.String("path", st.rec.Path()))
	}
	stored = true
	st.state.commit(&q.batch)
	for _, d := range q.drops { // written with the next append, or when the archive closes
		st.rec.CountDrop(d)
		e.count(ctx, d.Reason, d.Signal, d.Count)
	}
	for _, id := range q.finals {
		st.rec.ObserveFinal(id)
	}
	e.telemetry.StaxArchiveRows.Add(ctx, int64(rows))
	return nil
}

// write appends the rows of a request. One append stores all or nothing. A request of more rows than one append takes, which
// only execution traces come to, is cut: what fails after a part is stored that must not be stored twice is given up and
// counted, since trying again would double that part.
func (e *archiveExporter) write(st *store, q *request) error {
	if len(q.batch.Samples)+len(q.batch.OffCPU)+len(q.batch.OriginEvents) == 0 {
		return st.w.Append(&q.batch)
	}
	begun := false
	all := parts(&q.batch, e.maxRows)
	for i, part := range all {
		err := st.w.Append(part)
		if err == nil {
			begun = begun || doubles(part)
			continue
		}
		if !begun {
			return err
		}
		lost := 0
		for _, p := range all[i:] {
			lost += p.Len()
		}
		e.log.Error("the rest of a request is given up", zap.Int("rows", lost), zap.Error(err))
		var runtime archive.RuntimeID
		if len(q.batch.ProfileSources) > 0 {
			runtime = q.batch.ProfileSources[0].Runtime
		}
		st.rec.ReturnDrops(q.batch.Drops) // they are in the last part
		q.drop(runtime, archive.Seq{}, signalProfile, reasonPartlyStored, lost-len(q.batch.Drops))
		return nil
	}
	return nil
}

// check looks once a second whether the archive is still there: on Unix writing into a file whose directory was removed
// succeeds. It also keeps the pids in the manifest, for an archive that is never finished.
func (e *archiveExporter) check(st *store) error {
	now := e.now().UnixNano()
	last := st.checked.Load()
	if !st.failing.Load() && now-last < int64(time.Second) {
		return nil
	}
	if !st.checked.CompareAndSwap(last, now) {
		return nil // another request looks
	}
	if _, err := os.Stat(filepath.Join(st.rec.Path(), "manifest.json")); err != nil {
		return err
	}
	if pids := st.rec.Info().PIDs; int64(len(pids)) != st.pids.Load() {
		if err := st.w.UpdateInfo(func(info *archive.RecordingInfo) { info.PIDs = pids64(pids) }); err != nil {
			return fmt.Errorf("update the manifest: %w", err)
		}
		st.pids.Store(int64(len(pids)))
	}
	return nil
}

// explain says which archive failed and what to do about it.
func (e *archiveExporter) explain(path string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint = ": free some disk space"
	case errors.Is(err, fs.ErrNotExist):
		hint = ": the archive was removed or moved, stop the recording and start a new one"
	case errors.Is(err, fs.ErrPermission):
		hint = ": make the archive writable again for the collector's user"
	}
	return fmt.Errorf("staxarchive: archive %s: %w%s", path, err, hint)
}

func (e *archiveExporter) count(ctx context.Context, reason, signal string, n uint64) {
	e.telemetry.StaxArchiveDropped.Add(ctx, int64(n), metric.WithAttributes(attribute.String("reason", reason), attribute.String("signal", signal)))
}

func pids64(pids []int) []int64 {
	out := make([]int64, len(pids))
	for i, p := range pids {
		out[i] = int64(p)
	}
	return out
}

func hostInfo() archive.Host {
	name, _ := os.Hostname() // unknown is fine
	return archive.Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Kernel: kernelRelease(), Hostname: name, CPUs: runtime.NumCPU()}
}
