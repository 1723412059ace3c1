package staxtargetreceiver

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/derive"
	"github.com/stax-otel/stax/sdk"
	"github.com/stax-otel/stax/sdk/semconv"
)

// TestRealSDK: what stax's own SDK sends, over a unix socket with the kernel's credentials, is taken as it is; the recording
// ends with its final heartbeat; and the derived metrics count every dispatch.
func TestRealSDK(t *testing.T) {
	dir := socketDir(t)
	path := filepath.Join(dir, "target.sock")
	fx := newFixture(t, onSockets(path, filepath.Join(dir, "grpc.sock")))
	rt := sdk.NewRuntime(sdk.Config{Endpoint: "unix://" + path, Token: fx.rec.Token(), ServiceName: "app"})
	lane := rt.NewLane("gpu queue", sdk.LaneGPU)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !rt.ReportingActive() && ctx.Err() == nil {
		runtime.Gosched()
	}
	require.True(t, rt.ReportingActive())

	name, frame := lane.Name("matmul"), lane.Name("frame")
	set := sdk.NewCounterSet("gpu", "GPU counters", sdk.Counter{Name: "read", Unit: sdk.UnitBytes})
	const frames, perFrame = 50, 7
	at := sdk.Now()
	for range frames {
		cb := lane.CommandBuffer(frame)
		for range perFrame {
			d := lane.Dispatch(name)
			d.CommandBuffer(cb.ID())
			d.CaptureOrigin(ctx)
			d.Counters(set, sdk.AfterDispatch, sdk.IntValue(10))
			d.Report(at, at+1000)
		}
		w := rt.BeginWait(ctx, frame)
		w.AwaitCommandBuffer(cb.ID())
		w.End()
		cb.Report(at, at+7000)
	}
	_, err := fx.manager.Stop(ctx, fx.rec.ID(), "test")
	require.NoError(t, err)
	require.NoError(t, rt.Shutdown(ctx))
	assert.Zero(t, fx.rec.Info().Undrained)
	assert.Empty(t, fx.rec.Info().Drops)

	types := map[string]int{}
	for _, td := range fx.traces.AllTraces() {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				_, isLane := ss.Scope().Attributes().Get(semconv.LaneIDKey)
				for _, s := range ss.Spans().All() {
					typ := semconv.SpanTypeDispatch
					if v, ok := s.Attributes().Get(semconv.SpanTypeKey); ok {
						typ = v.Str()
					} else if !isLane {
						typ = semconv.SpanTypeWait
					}
					types[typ]++
				}
			}
		}
	}
	assert.Equal(t, frames*perFrame, types[semconv.SpanTypeDispatch])
	assert.Equal(t, frames, types[semconv.SpanTypeCommandBuffer])
	assert.Equal(t, frames, types[semconv.SpanTypeWait])
	for _, name := range []string{"rejected", "diagnostics", "detached"} {
		_, err := fx.tel.GetMetric("otelcol_stax_receiver_" + name)
		require.Error(t, err, "nothing is %s", name)
	}

	fx.r.emit(t.Context())
	sums := map[string]int64{}
	for _, md := range fx.metrics.AllMetrics() {
		for _, m := range md.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().All() {
			if m.Type() == pmetric.MetricTypeHistogram {
				sums[m.Name()+" "+m.Unit()] = int64(m.Histogram().DataPoints().At(0).Count())
				continue
			}
			sums[m.Name()+" "+m.Unit()] = m.Sum().DataPoints().At(0).IntValue()
		}
	}
	assert.Equal(t, map[string]int64{
		derive.MetricDispatches + " {dispatch}": frames * perFrame, derive.MetricDispatchTime + " ns": frames * perFrame * 1000,
		derive.MetricDuration + " s": frames * perFrame, "stax.counter.gpu.read By": frames * perFrame * 10,
	}, sums)
}
