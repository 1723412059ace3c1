package staxarchiveexporter

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/exporter/xexporter"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"golang.org/x/tools/txtar"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/exporter/staxarchiveexporter/internal/metadata"
	"github.com/stax-otel/stax/exporter/staxarchiveexporter/internal/metadatatest"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/sdk/semconv"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata")

// host has a staxquery extension with m.
type host struct{ m *recording.Manager }

func (h host) GetExtensions() map[component.ID]component.Component {
	if h.m == nil {
		return nil
	}
	return map[component.ID]component.Component{component.MustNewID("staxquery"): ext(h)}
}

type ext struct{ m *recording.Manager }

func (ext) Start(context.Context, component.Host) error { return nil }
func (ext) Shutdown(context.Context) error              { return nil }
func (e ext) RecordingManager() *recording.Manager      { return e.m }

// rig is an exporter of all four signals on a manager.
type rig struct {
	t        *testing.T
	m        *recording.Manager
	e        *archiveExporter
	traces   exporter.Traces
	metrics  exporter.Metrics
	logs     exporter.Logs
	profiles xexporter.Profiles
	tel      *componenttest.Telemetry
}

// clock is a fixed time, in the data's past.
var clock = time.Unix(1_700_000_000, 0)

func newRig(t *testing.T) *rig {
	t.Helper()
	m, err := recording.NewManager(recording.Options{Dir: t.TempDir(), Now: func() time.Time { return clock }})
	require.NoError(t, err)
	r := &rig{t: t, m: m, tel: componenttest.NewTelemetry()}
	set := exportertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = r.tel.NewTelemetrySettings()
	f := &factory{shared: map[*Config]*archiveExporter{}}
	cfg := createDefaultConfig()
	r.e, err = f.get(set, cfg)
	require.NoError(t, err)
	r.e.now = func() time.Time { return clock }
	ctx := t.Context()
	r.traces, err = f.createTraces(ctx, set, cfg)
	require.NoError(t, err)
	r.metrics, err = f.createMetrics(ctx, set, cfg)
	require.NoError(t, err)
	r.logs, err = f.createLogs(ctx, set, cfg)
	require.NoError(t, err)
	r.profiles, err = f.createProfiles(ctx, set, cfg)
	require.NoError(t, err)
	all := []component.Component{r.traces, r.metrics, r.logs, r.profiles}
	for _, c := range all {
		require.NoError(t, c.Start(ctx, host{m}))
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = m.Shutdown(ctx)
		for _, c := range all {
			assert.NoError(t, c.Shutdown(ctx))
		}
		assert.Empty(t, f.shared)
		_ = r.tel.Shutdown(ctx)
	})
	return r
}

func (r *rig) start() *recording.Recording {
	r.t.Helper()
	rec, err := r.m.Start(r.t.Context(), recording.StartOptions{Name: "test"})
	require.NoError(r.t, err)
	return rec
}

func (r *rig) stop(rec *recording.Recording) recording.Info {
	r.t.Helper()
	in, err := r.m.Stop(r.t.Context(), rec.ID(), "test")
	require.NoError(r.t, err)
	return in
}

// placeholder stands for the recording's id in test data; it is as long.
const placeholder = "REC0RDINGREC0RD1"

// send sends one file of OTLP JSON; its name says the signal.
func (r *rig) send(name string, data []byte) error {
	r.t.Helper()
	ctx := r.t.Context()
	base := filepath.Base(name)
	switch {
	case strings.HasPrefix(base, "traces"):
		q := ptraceotlp.NewExportRequest()
		require.NoError(r.t, q.UnmarshalJSON(data), name)
		return r.traces.ConsumeTraces(ctx, q.Traces())
	case strings.HasPrefix(base, "logs"):
		q := plogotlp.NewExportRequest()
		require.NoError(r.t, q.UnmarshalJSON(data), name)
		return r.logs.ConsumeLogs(ctx, q.Logs())
	case strings.HasPrefix(base, "metrics"):
		q := pmetricotlp.NewExportRequest()
		require.NoError(r.t, q.UnmarshalJSON(data), name)
		return r.metrics.ConsumeMetrics(ctx, q.Metrics())
	case strings.HasPrefix(base, "profiles"):
		q := pprofileotlp.NewExportRequest()
		require.NoError(r.t, q.UnmarshalJSON(data), name)
		return r.profiles.ConsumeProfiles(ctx, q.Profiles())
	}
	r.t.Fatalf("file %s names no signal", name)
	return nil
}

// dump returns the archive as text, without the line that names this machine.
func dump(t *testing.T, rec *recording.Recording) string {
	t.Helper()
	r, err := archive.Open(rec.Path(), archive.ReaderOptions{})
	require.NoError(t, err)
	defer r.Close()
	var b bytes.Buffer
	require.NoError(t, archive.Dump(&b, r))
	require.Empty(t, r.Losses())
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "recording ") && !strings.HasPrefix(line, "stax-archive ") &&
			!strings.HasPrefix(line, "links ") && !strings.HasPrefix(line, "certificates ") && !strings.HasPrefix(line, "derived ") {
			out.WriteString(line)
		}
	}
	return strings.ReplaceAll(out.String(), string(rec.ID()), placeholder)
}

func TestConvert(t *testing.T) {
	files, err := filepath.Glob("testdata/convert/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			require.NoError(t, err)
			r := newRig(t)
			rec := r.start()
			var golden *txtar.File
			for i := range ar.Files {
				f := &ar.Files[i]
				if f.Name == "archive" {
					golden = f
					continue
				}
				require.NoError(t, r.send(f.Name, bytes.ReplaceAll(f.Data, []byte(placeholder), []byte(rec.ID()))), f.Name)
			}
			r.stop(rec)
			got := dump(t, rec)
			if *update {
				if golden == nil {
					ar.Files = append(ar.Files, txtar.File{Name: "archive"})
					golden = &ar.Files[len(ar.Files)-1]
				}
				golden.Data = []byte(got)
				require.NoError(t, os.WriteFile(file, txtar.Format(ar), 0o600))
				return
			}
			require.NotNil(t, golden, "no golden; run with -update")
			assert.Empty(t, cmp.Diff(string(golden.Data), got))
		})
	}
}

// oneDispatch returns a request of n dispatches.
func oneDispatch(id recording.ID, n int) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	a := rs.Resource().Attributes()
	a.PutStr(semconv.RecordingIDKey, string(id))
	a.PutStr(semconv.RuntimeIDKey, "r")
	a.PutInt(semconv.ProcessPIDKey, 7)
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().Attributes().PutStr(semconv.LaneIDKey, "lane")
	for i := range n {
		sp := ss.Spans().AppendEmpty()
		sp.SetName("work")
		sp.SetSpanID(pcommon.SpanID{0, 0, 0, 0, 0, 1, byte(i >> 8), byte(i)})
		sp.SetStartTimestamp(1)
		sp.SetEndTimestamp(2)
		sp.Attributes().PutInt(semconv.SeqKey, int64(i+1))
	}
	return td
}

// renumber gives the spans of a request numbers that follow a number.
func renumber(td ptrace.Traces, after int64) ptrace.Traces {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, sp := range ss.Spans().All() {
				after++
				sp.Attributes().PutInt(semconv.SeqKey, after)
			}
		}
	}
	return td
}

// fakeWriter notes the batches, and fails when told to.
type fakeWriter struct {
	mu       sync.Mutex
	batches  []archive.Batch
	err      error
	finished bool
	closed   bool
	blocked  chan struct{} // if not nil, Append waits for it
	failAt   int           // if not 0, err is of this append, counted from 1, and of later ones
	appends  int
}

func (w *fakeWriter) Append(b *archive.Batch) error {
	if w.blocked != nil {
		<-w.blocked
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.appends++
	if w.err != nil && w.appends >= w.failAt {
		return w.err
	}
	w.batches = append(w.batches, archive.Batch{
		Runtimes: append([]archive.Runtime(nil), b.Runtimes...), Lanes: append([]archive.Lane(nil), b.Lanes...),
		Dispatches: append([]archive.Dispatch(nil), b.Dispatches...), Drops: append([]archive.Drop(nil), b.Drops...),
		StackFrames: append([]archive.StackFrame(nil), b.StackFrames...), Threads: append([]archive.Thread(nil), b.Threads...),
		Samples: append([]archive.Sample(nil), b.Samples...), OffCPU: append([]archive.OffCPU(nil), b.OffCPU...),
		OriginEvents: append([]archive.OriginEvent(nil), b.OriginEvents...), Passthrough: append([]archive.Passthrough(nil), b.Passthrough...),
		ProfileSources: append([]archive.ProfileSource(nil), b.ProfileSources...),
	})
	return nil
}

func (w *fakeWriter) UpdateInfo(func(*archive.RecordingInfo)) error { return nil }

func (w *fakeWriter) Finish(context.Context, func(*archive.RecordingInfo), func(int, int)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = w.err == nil
	return w.err
}

func (w *fakeWriter) Close() error { w.closed = true; return nil }

func (w *fakeWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// fake replaces the archive by a fakeWriter, in a directory that has a manifest.
func (r *rig) fake() *fakeWriter {
	w := &fakeWriter{}
	r.e.create = func(dir string, _ archive.RecordingInfo, _ archive.WriterOptions) (writer, error) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		return w, os.WriteFile(filepath.Join(dir, "manifest.json"), []byte("{}"), 0o600)
	}
	r.e.derive = func(context.Context, string) error { return nil }
	return w
}

func TestOneRequestIsOneAppend(t *testing.T) {
	r := newRig(t)
	w := r.fake()
	rec := r.start()
	td := oneDispatch(rec.ID(), 500)
	second := oneDispatch(rec.ID(), 20)
	second.ResourceSpans().At(0).Resource().Attributes().PutStr(semconv.RuntimeIDKey, "other")
	second.ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	require.NoError(t, r.traces.ConsumeTraces(t.Context(), td))
	require.Len(t, w.batches, 1)
	assert.Len(t, w.batches[0].Dispatches, 520)
	assert.Len(t, w.batches[0].Runtimes, 2)
	assert.Len(t, w.batches[0].Lanes, 2)
	assert.NotEqual(t, w.batches[0].Lanes[0].PseudoTID, w.batches[0].Lanes[1].PseudoTID)

	require.NoError(t, r.traces.ConsumeTraces(t.Context(), renumber(oneDispatch(rec.ID(), 1), 500)))
	require.Len(t, w.batches, 2)
	assert.Empty(t, w.batches[1].Runtimes, "known by now")
	assert.Empty(t, w.batches[1].Lanes)
}

func TestRequestForTwoRecordings(t *testing.T) {
	r := newRig(t)
	a, b := r.start(), r.start()
	td := oneDispatch(a.ID(), 3)
	oneDispatch(b.ID(), 5).ResourceSpans().MoveAndAppendTo(td.ResourceSpans())
	require.NoError(t, r.traces.ConsumeTraces(t.Context(), td))
	r.stop(a)
	r.stop(b)
	assert.Equal(t, 3, strings.Count(dump(t, a), "\ndispatches "))
	assert.Equal(t, 5, strings.Count(dump(t, b), "\ndispatches "))
}

func TestFullDiskAndAfter(t *testing.T) {
	r := newRig(t)
	w := r.fake()
	rec := r.start()
	rec.CountDrop(archive.Drop{Stage: "receiver", Reason: "x", Signal: "span", Count: 2})
	w.fail(&os.PathError{Op: "write", Path: "log", Err: syscall.ENOSPC})
	for range 2 {
		err := r.traces.ConsumeTraces(t.Context(), oneDispatch(rec.ID(), 1))
		require.ErrorIs(t, err, syscall.ENOSPC)
		assert.False(t, consumererror.IsPermanent(err), "the target may try again")
		require.ErrorContains(t, err, rec.Path())
		require.ErrorContains(t, err, "free some disk space")
	}
	assert.Contains(t, rec.Info().Problem, "free some disk space")

	w.fail(nil)
	require.NoError(t, r.traces.ConsumeTraces(t.Context(), oneDispatch(rec.ID(), 1)))
	assert.Empty(t, rec.Info().Problem)
	require.Len(t, w.batches, 1)
	assert.Len(t, w.batches[0].Runtimes, 1, "a request that failed has told nothing")
	assert.Len(t, w.batches[0].Lanes, 1)
	require.Len(t, w.batches[0].Drops, 1)
	assert.Equal(t, uint64(2), w.batches[0].Drops[0].Count)
	metadatatest.AssertEqualStaxArchiveAppendErrors(t, r.tel, []metricdata.DataPoint[int64]{{Value: 2}}, metricdatatest.IgnoreTimestamp(), metricdatatest.IgnoreExemplars())
}

func TestDiskFullAtTheEnd(t *testing.T) {
	r := newRig(t)
	w := r.fake()
	rec := r.start()
	require.NoError(t, r.traces.ConsumeTraces(t.Context(), oneDispatch(rec.ID(), 1)))
	w.fail(syscall.ENOSPC)
	in, err := r.m.Stop(t.Context(), rec.ID(), "test")
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, rec.Path())
	assert.Contains(t, in.Problem, rec.Path())
	assert.True(t, w.closed)
	assert.False(t, w.finished)
}

func TestRemovedDirectory(t *testing.T) {
	r := newRig(t)
	rec := r.start()
	require.NoError(t, r.traces.ConsumeTraces(t.Context(), oneDispatch(rec.ID(), 1)))
	require.NoError(t, os.RemoveAll(rec.Path()))
	r.e.now = func() time.Time { return clock.Add(2 * time.Second) }
	err := r.traces.ConsumeTraces(t.Context(), oneDispatch(rec.ID(), 1))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, rec.Path())
	require.ErrorContains(t, err, "stop the recording")
	assert.Contains(t, rec.Info().Problem, rec.Path())
	_, err = r.m.Stop(t.Context(), rec.ID(), "test")
	assert.Error(t, err)
}

func TestDataWithoutARecording(t *testing.T) {
	r := newRig(t)
	rec := r.start()
	r.stop(rec)
	err := r.traces.ConsumeTraces(t.Context(), oneDispatch(rec.ID(), 3))
	require.ErrorContains(t, err, "is not open")
	assert.True(t, consumererror.IsPermanent(err))
	err = r.traces.ConsumeTraces(t.Context(), oneDispatch("", 2))
	require.ErrorContains(t, err, "staxtarget")
	assert.True(t, consumererror.IsPermanent(err))
	m, err := r.tel.GetMetric("otelcol_stax_archive_dropped")
	require.NoError(t, err)
	total := int64(0)
	for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
		total += p.Value
	}
	assert.Equal(t, int64(5), total)
}

func TestCloseWaitsForAppends(t *testing.T) {
	r := newRig(t)
	w := r.fake()
	w.blocked = make(chan struct{})
	rec := r.start()
	sent := make(chan error, 1)
	td := oneDispatch(rec.ID(), 1)
	st := r.e.stores[rec.ID()]
	go func() { sent <- r.traces.ConsumeTraces(context.WithoutCancel(t.Context()), td) }()
	require.Eventually(t, func() bool { // the request holds the archive
		if st.mu.TryLock() {
			st.mu.Unlock()
			return false
		}
		return true
	}, 5*time.Second, time.Millisecond)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = r.m.Stop(context.WithoutCancel(t.Context()), rec.ID(), "test")
	}()
	close(w.blocked)
	require.NoError(t, <-sent)
	<-done
	assert.True(t, w.finished)
	assert.Len(t, w.batches, 1)
}

func TestFinalHeartbeatEndsDraining(t *testing.T) {
	r := newRig(t)
	rec := r.start()
	td := oneDispatch(rec.ID(), 1)
	hb := td.ResourceSpans().At(0).ScopeSpans().AppendEmpty().Scope()
	hb.SetName(semconv.ScopeHeartbeat)
	m := hb.Attributes()
	m.PutInt(semconv.HeartbeatTimeKey, 5)
	m.PutBool(semconv.HeartbeatFinalKey, true)
	for _, key := range []string{
		semconv.HeartbeatShardsKey, semconv.HeartbeatBaseKey, semconv.HeartbeatEmittedKey,
		semconv.HeartbeatDroppedFullKey, semconv.HeartbeatDroppedSendKey, semconv.HeartbeatDroppedOtherKey,
	} {
		m.PutEmptySlice(key).AppendEmpty().SetInt(1)
	}
	require.NoError(t, r.traces.ConsumeTraces(t.Context(), td))
	require.Len(t, rec.Info().Runtimes, 1)
	assert.True(t, rec.Info().Runtimes[0].Final)
}

func TestConcurrentRequests(t *testing.T) {
	r := newRig(t)
	rec := r.start()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 10 {
				td := renumber(oneDispatch(rec.ID(), 100), int64(1000*i+100*k))
				assert.NoError(t, r.traces.ConsumeTraces(t.Context(), td))
			}
		})
	}
	wg.Wait()
	in := r.stop(rec)
	assert.Empty(t, in.Drops)
	assert.Equal(t, 8000, strings.Count(dump(t, rec), "\ndispatches "))
}

func TestSharedByAllSignalsUntilTheLast(t *testing.T) {
	m, err := recording.NewManager(recording.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	f := NewFactory()
	cfg := f.CreateDefaultConfig()
	set := exportertest.NewNopSettings(metadata.Type)
	traces, err := f.CreateTraces(t.Context(), set, cfg)
	require.NoError(t, err)
	logs, err := f.CreateLogs(t.Context(), set, cfg)
	require.NoError(t, err)
	require.NoError(t, traces.Start(t.Context(), host{m}))
	require.NoError(t, logs.Start(t.Context(), host{m}))
	rec, err := m.Start(t.Context(), recording.StartOptions{Name: "x"})
	require.NoError(t, err)
	require.NoError(t, logs.Shutdown(t.Context()))
	require.NoError(t, traces.ConsumeTraces(t.Context(), oneDispatch(rec.ID(), 1)), "the other pipeline still runs")
	require.NoError(t, traces.Shutdown(t.Context()))

	_, err = m.Stop(t.Context(), rec.ID(), "test")
	require.NoError(t, err, "the archive is sealed although the exporter has ended")
	next, err := m.Start(t.Context(), recording.StartOptions{Name: "y"})
	require.NoError(t, err)
	assert.NoDirExists(t, next.Path(), "it is a sink no more")
	require.NoError(t, m.Shutdown(t.Context()))
}

func TestStartNeedsTheExtension(t *testing.T) {
	f := NewFactory()
	e, err := f.CreateTraces(t.Context(), exportertest.NewNopSettings(metadata.Type), f.CreateDefaultConfig())
	require.NoError(t, err)
	err = e.Start(t.Context(), host{})
	require.ErrorContains(t, err, `extension "staxquery" is not running`)
	require.NoError(t, e.Shutdown(t.Context()))
	require.NoError(t, e.Shutdown(t.Context()))
}

func TestOpenFailsWhenTheArchiveCannotBeMade(t *testing.T) {
	r := newRig(t)
	r.e.create = func(string, archive.RecordingInfo, archive.WriterOptions) (writer, error) {
		return nil, errors.New("no space")
	}
	_, err := r.m.Start(t.Context(), recording.StartOptions{Name: "x"})
	require.ErrorContains(t, err, "no space")
	assert.Empty(t, r.e.stores)
}

func TestConfig(t *testing.T) {
	cm, err := confmaptest.LoadConf("testdata/config.yaml")
	require.NoError(t, err)
	sub, err := cm.Sub("staxarchive")
	require.NoError(t, err)
	cfg := createDefaultConfig().(*Config)
	require.NoError(t, sub.Unmarshal(cfg))
	require.NoError(t, cfg.Validate())
	assert.Equal(t, &Config{
		Query: component.MustNewIDWithName("staxquery", "mine"), SyncInterval: 0, SegmentRows: 1000, SegmentAge: 5 * time.Second,
	}, cfg)
	for want, c := range map[string]func(*Config){
		"sync_interval": func(c *Config) { c.SyncInterval = -1 },
		"segment_rows":  func(c *Config) { c.SegmentRows = 0 },
		"segment_age":   func(c *Config) { c.SegmentAge = 0 },
	} {
		bad := createDefaultConfig().(*Config)
		c(bad)
		require.ErrorContains(t, bad.Validate(), want)
	}
}

func BenchmarkConvert(b *testing.B) {
	m, err := recording.NewManager(recording.Options{Dir: b.TempDir()})
	require.NoError(b, err)
	rec, err := m.Start(b.Context(), recording.StartOptions{})
	require.NoError(b, err)
	defer func() { require.NoError(b, m.Shutdown(context.WithoutCancel(b.Context()))) }()
	const spans = 512
	td := oneDispatch(rec.ID(), spans)
	for _, sp := range td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().All() {
		a := sp.Attributes()
		a.PutInt(semconv.OriginThreadIDKey, 42)
		a.PutInt(semconv.OriginTimeKey, 1)
		a.PutStr(semconv.OriginStackIDKey, "00000000000000ff")
		a.PutStr(semconv.QueueIDKey, "q")
		a.PutInt(semconv.CounterPrefix+"set/"+semconv.SamplePointAfterDispatch+"/cycles", 7)
		a.PutStr("model", "llama")
	}
	st := newState(rec, time.Now)
	b.ReportAllocs()
	for b.Loop() {
		q := newRequest()
		st.spans(q, td.ResourceSpans().At(0))
		st.commit(&q.batch)
		q.release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/spans, "ns/span")
}
