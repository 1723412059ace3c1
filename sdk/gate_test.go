package sdk

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stax-otel/stax/sdk/internal/collectortest"
	"github.com/stax-otel/stax/sdk/semconv"
)

// hammer reports from several goroutines until stop is called, and returns how many calls were made while active.
func hammer(lane *Lane, goroutines int) (stop func()) {
	var wg sync.WaitGroup
	done := make(chan struct{})
	n, key := lane.Name("hammer"), NewKey("hammer.key")
	for range goroutines {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				lane.Report(n, 1, 2)
				d := lane.Dispatch(n)
				d.Tag(key, "value")
				d.CaptureOrigin(context.Background())
				d.Report(1, 2)
				time.Sleep(50 * time.Microsecond)
			}
		})
	}
	return func() { close(done); wg.Wait() }
}

// TestGateFlips attaches and detaches several recordings while goroutines report. Each recording gets exactly what its
// final heartbeat says that it is owed, and nothing of another.
func TestGateFlips(t *testing.T) {
	c := collectortest.New(t)
	rt := newTestRuntime(t, c.Endpoint(), nil)
	lane := rt.NewLane("l", LaneGeneric)
	if lane.Active() {
		t.Fatal("active without recording")
	}
	if st := rt.Stats(); st.State != StateOff {
		t.Fatalf("state %q (%s), want off", st.State, st.Reason)
	}
	stop := hammer(lane, 4)
	for _, id := range []string{"a", "b", "", "c", "a2"} {
		c.Record(id)
		if id == "" {
			waitFor(t, "off", func() bool { return !lane.Active() && rt.Stats().RecordingID == "" })
			if rt.shards[0].ring != nil {
				t.Error("rings exist while off")
			}
			continue
		}
		c.Until("spans of "+id, func(v collectortest.View) bool {
			n := 0
			for _, r := range v.Traces() {
				if r.Resource[semconv.RecordingIDKey] == id {
					n += len(r.Spans)
				}
			}
			return n > 200
		})
	}
	c.Record("")
	c.Until("the last final", func(v collectortest.View) bool { return v.Final("a2") })
	stop()
	c.See(func(v collectortest.View) {
		for _, id := range []string{"a", "b", "c", "a2"} {
			if !v.Final(id) {
				t.Errorf("recording %s has no final heartbeat", id)
			}
			account(t, v, id)
		}
		lanes := map[any]int{}
		for _, r := range v.Logs() {
			for _, l := range r.Records {
				if l.Event == semconv.EventLane {
					lanes[r.Resource[semconv.RecordingIDKey]]++
				}
			}
		}
		for _, id := range []string{"a", "b", "c", "a2"} {
			if lanes[id] != 1 {
				t.Errorf("recording %s was told its lane %d times, want once", id, lanes[id])
			}
		}
		for _, q := range v.Asks() {
			if q.Runtime != rt.ID() || q.PID == 0 || q.SchemaVersion != semconv.SchemaVersion {
				t.Fatalf("gate question %+v", q)
			}
		}
		if v.Tokens()[0] != "secret" {
			t.Errorf("token %q", v.Tokens()[0])
		}
	})
	waitFor(t, "the end of the last session", func() bool { return rt.Stats().RecordingID == "" })
	st := rt.Stats()
	if st.State != StateOff || st.Queued != 0 || st.Emitted != st.Sent+st.Dropped.Full+st.Dropped.Send+st.Dropped.Other {
		t.Errorf("stats: %+v", st)
	}
}

func TestCollectorAppearsAndRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	rt := newTestRuntime(t, "unix://"+path, func(cfg *Config) { cfg.timing.grace = 500 * time.Millisecond })
	lane := rt.NewLane("l", LaneGeneric)
	n := lane.Name("x")
	if st := rt.Stats(); lane.Active() || st.State != StateDisconnected || st.Reason == "" {
		t.Fatalf("stats without collector: %+v", st)
	}
	c := collectortest.NewUnix(t, path)
	c.Record("r1")
	waitFor(t, "attach", lane.Active)
	lane.Report(n, 1, 2)
	flush(t, rt)

	c.Stop()
	waitFor(t, "off", func() bool { return !lane.Active() })
	waitFor(t, "disconnected", func() bool { return rt.Stats().State == StateDisconnected })

	c = collectortest.NewUnix(t, path)
	c.Record("r2")
	waitFor(t, "attach again", lane.Active)
	lane.Report(n, 3, 4)
	flush(t, rt)
	c.See(func(v collectortest.View) {
		if s := v.Spans(); len(s) != 1 || s[0].Start != 3 {
			t.Errorf("the new recording got %+v", s)
		}
		if len(v.Records(semconv.EventLane)) != 1 {
			t.Error("the new recording was not told its lane")
		}
		account(t, v, "r2")
	})
}

// TestReconnectKeepsQueue cuts the connection of a recording that goes on: what was queued arrives afterwards.
func TestReconnectKeepsQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	c := collectortest.NewUnix(t, path)
	c.Record("r")
	rt := newTestRuntime(t, "unix://"+path, nil)
	lane := rt.NewLane("l", LaneGeneric)
	n := lane.Name("x")
	c.Stop()
	for i := range 100 {
		lane.Report(n, Time(i+1), Time(i+2))
	}
	c = collectortest.NewUnix(t, path)
	c.Record("r")
	flush(t, rt)
	c.See(func(v collectortest.View) {
		if arrived, dropped := account(t, v, "r"); arrived != 100 || dropped != 0 {
			t.Errorf("%d arrived, %d dropped, want 100 and 0", arrived, dropped)
		}
	})
}

// TestHoldExpires loses the collector of a recording for longer than the hold time, then gets the same recording back:
// its account still knows what was given up.
func TestHoldExpires(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	c := collectortest.NewUnix(t, path)
	c.Record("r")
	rt := newTestRuntime(t, "unix://"+path, func(cfg *Config) {
		cfg.timing.grace, cfg.timing.hold = 500*time.Millisecond, 50*time.Millisecond
	})
	lane := rt.NewLane("l", LaneGeneric)
	n := lane.Name("x")
	flush(t, rt)
	c.Stop()
	for range 10 {
		lane.Report(n, 1, 2)
	}
	waitFor(t, "the hold time", func() bool { return rt.Stats().Dropped.Send == 10 })
	if rt.shards[0].ring != nil {
		t.Error("rings exist after the hold time")
	}
	c = collectortest.NewUnix(t, path)
	c.Record("r")
	waitFor(t, "attach again", lane.Active)
	lane.Report(n, 3, 4)
	flush(t, rt)
	c.See(func(v collectortest.View) {
		if arrived, dropped := account(t, v, "r"); arrived != 1 || dropped != 10 {
			t.Errorf("%d arrived, %d dropped, want 1 and 10", arrived, dropped)
		}
	})
}

func TestGateStates(t *testing.T) {
	for _, tc := range []struct {
		status int
		want   State
	}{
		{http.StatusConflict, StateSchemaMismatch},
		{http.StatusNotFound, StateUnsupported},
		{http.StatusForbidden, StateOff},
		{http.StatusServiceUnavailable, StateDisconnected},
	} {
		t.Run(http.StatusText(tc.status), func(t *testing.T) {
			c := collectortest.New(t)
			c.Record("r")
			c.Force(semconv.GatePath, tc.status, nil)
			rt := newTestRuntime(t, c.Endpoint(), nil)
			lane := rt.NewLane("l", LaneGeneric)
			if st := rt.Stats(); lane.Active() || st.State != tc.want || st.Reason == "" {
				t.Fatalf("active %v, stats %+v, want state %s", lane.Active(), st, tc.want)
			}
			c.Force(semconv.GatePath, 0, nil)
			waitFor(t, "recovery", lane.Active)
		})
	}
}

func TestOriginModes(t *testing.T) {
	c := collectortest.New(t)
	c.Origins("thread")
	c.Record("r")
	rt := newTestRuntime(t, c.Endpoint(), nil)
	wish := rt.NewLane("default", LaneGeneric)
	off := rt.NewLane("off", LaneGeneric, WithOrigins(OriginOff))
	stack := rt.NewLane("stack", LaneGeneric, WithOrigins(OriginStack))
	if o := wish.CaptureOrigin(t.Context()); o.HasStack() || o.Time() == 0 {
		t.Errorf("recording wants threads: got %+v", o)
	}
	if o := off.CaptureOrigin(t.Context()); !o.IsZero() {
		t.Errorf("lane wants none: got %+v", o)
	}
	d := off.Dispatch(Name{})
	d.CaptureOrigin(t.Context())
	if d.b.rec.originTime != 0 {
		t.Error("lane wants none: dispatch captured")
	}
	if o := stack.CaptureOrigin(t.Context()); o.HasStack() {
		t.Error("a lane must not capture more than the recording wants")
	}
	c.Origins("stack")
	c.Record("r2")
	waitFor(t, "r2", func() bool { return stack.CaptureOrigin(t.Context()).HasStack() })
}

func TestDecodeReply(t *testing.T) {
	long := strings.Repeat("x", maxRecordingID+1)
	for _, tc := range []struct {
		status int
		body   string
		want   State
	}{
		{200, `{"recording_id":"r","schema_version":1}`, StateRecording},
		{200, `{"recording_id":"r","unknown":[1]}`, StateRecording},
		{200, `{}`, StateOff},
		{200, `{"recording_id":"r","schema_version":99}`, StateSchemaMismatch},
		{200, `{"recording_id":7}`, StateUnsupported},
		{200, `{"recording_id":"` + long + `"}`, StateUnsupported},
		{200, ``, StateUnsupported},
		{200, `<html>`, StateUnsupported},
		{301, ``, StateUnsupported},
		{401, ``, StateOff},
		{404, ``, StateUnsupported},
		{409, ``, StateSchemaMismatch},
		{500, ``, StateDisconnected},
		{501, ``, StateUnsupported},
	} {
		if got := decodeReply(tc.status, []byte(tc.body)); got.state != tc.want {
			t.Errorf("decodeReply(%d, %.40s) = %s (%s), want %s", tc.status, tc.body, got.state, got.reason, tc.want)
		}
	}
}

func FuzzDecodeReply(f *testing.F) {
	f.Add(200, []byte(`{"recording_id":"r","schema_version":1,"origin_mode":"thread"}`))
	f.Add(200, []byte(`{"recording_id":"\ud800"}`))
	f.Add(409, []byte(``))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		v := decodeReply(status, body)
		switch v.state {
		case StateRecording:
			if v.reply.RecordingID == "" || len(v.reply.RecordingID) > maxRecordingID {
				t.Errorf("recording id %q", v.reply.RecordingID)
			}
		case StateOff, StateDisconnected, StateUnsupported, StateSchemaMismatch:
			if v.reply.RecordingID != "" {
				t.Errorf("state %s with recording", v.state)
			}
		default:
			t.Errorf("state %q", v.state)
		}
		if m := v.originMode(); m < OriginOff || m > OriginStack {
			t.Errorf("origin mode %d", m)
		}
	})
}
