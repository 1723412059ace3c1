package timeline

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// fakeClock is a clock that only the test moves.
type fakeClock struct{ t time.Duration }

func (c *fakeClock) now() time.Duration      { return c.t }
func (c *fakeClock) advance(d time.Duration) { c.t += d }

// work returns a system that takes d.
func (c *fakeClock) work(d time.Duration) func() error {
	return func() error { c.t += d; return nil }
}

const ms = time.Millisecond

func enabled(c *fakeClock, change ...func(*Options)) *Recorder {
	o := Options{Enabled: true, Capacity: 8, StepBudget: 10 * ms, Clock: c.now}
	for _, f := range change {
		f(&o)
	}
	return New(o)
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func latest(t *testing.T, r *Recorder) Entry {
	t.Helper()
	e, ok := r.Latest()
	if !ok {
		t.Fatal("no entry")
	}
	return e
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (rewrite with -update):\n%s", path, got)
	}
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

// told collects what a recorder tells its telemetry.
type told struct {
	ticks   []TickOverBudget
	systems []SystemSlowWarning
}

func (t *told) TickOverBudget(w TickOverBudget) { t.ticks = append(t.ticks, w) }
func (t *told) SystemSlow(w SystemSlowWarning)  { t.systems = append(t.systems, w) }
func (t *told) option() func(*Options)          { return func(o *Options) { o.Telemetry = t } }
func tick(r *Recorder, n int64, systems ...func()) {
	r.BeginTick(TickStart{Tick: n})
	for _, s := range systems {
		s()
	}
	r.EndTick(TickEnd{})
}
