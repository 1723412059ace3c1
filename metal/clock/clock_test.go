package clock

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

var apple = Timebase{125, 3}

func TestTimebase(t *testing.T) {
	for _, c := range []struct {
		tb           Timebase
		ticks, nanos uint64
	}{
		{apple, 0, 0},
		{apple, 3, 125},
		{apple, 24_000_000, 1_000_000_000},
		{apple, 1, 41},
		{Timebase{1, 1}, 77, 77},
		{apple, math.MaxUint64 / 125 * 3, math.MaxUint64 / 125 * 125},
		{apple, math.MaxUint64, math.MaxUint64}, // capped
	} {
		if got := c.tb.Nanos(c.ticks); got != c.nanos {
			t.Errorf("%s: %d ticks = %d ns, want %d", c.tb, c.ticks, got, c.nanos)
		}
	}
	if got := apple.Ticks(1_000_000_000); got != 24_000_000 {
		t.Errorf("a second has %d ticks", got)
	}
	if apple.Hz() != 24_000_000 || apple.String() != "125/3" || (Timebase{}).Valid() || !apple.Valid() {
		t.Error("timebase of Apple silicon")
	}
}

func TestDecide(t *testing.T) {
	mach := func(start, end uint64) Trial { return Trial{1000, 2000, start, end} }
	nanos := func(start, end uint64) Trial { return Trial{24_000_000, 24_024_000, start, end} }
	for _, c := range []struct {
		name   string
		hz     uint64
		trials []Trial
		want   Unit
		err    string
	}{
		{"mach ticks", 24e6, []Trial{mach(1000, 1500), mach(1200, 1300), mach(1999, 2000)}, UnitMach, ""},
		{"mach ticks, frequency unknown", 0, []Trial{mach(1000, 1500), mach(1200, 1300), mach(1999, 2000)}, UnitMach, ""},
		{"nanoseconds", 1e9, []Trial{nanos(1_000_000_000, 1_000_900_000), nanos(1_000_000_500, 1_000_000_600), nanos(1_000_999_000, 1_001_000_000)}, UnitNanos, ""},
		{"one stamp outside its bracket", 24e6, []Trial{mach(1000, 1500), mach(1200, 2001), mach(1999, 2000)}, UnitFree, ""},
		{"another frequency", 12e6, []Trial{mach(1000, 1500), mach(1200, 1300), mach(1999, 2000)}, UnitFree, ""},
		{"own clock", 0, []Trial{mach(5, 6), mach(7, 8), mach(9, 10)}, UnitFree, ""},
		{"too few", 24e6, []Trial{mach(1000, 1500)}, UnitFree, "1 trials"},
		{"zeros", 24e6, []Trial{mach(1000, 1500), mach(0, 0), mach(1999, 2000)}, UnitFree, "trial 1: both stamps are unwritten"},
	} {
		got, err := Decide(apple, c.hz, c.trials)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %s, %v; want %s, %q", c.name, got, err, c.want, c.err)
		}
	}
}

func TestCheckStamps(t *testing.T) {
	for want, p := range map[string][2]uint64{
		"both stamps": {0, 0}, "start stamp is unwritten": {0, 5}, "end stamp is unwritten": {5, 0},
		"error value": {^uint64(0), 5}, "end stamp is 3 ticks before": {8, 5},
	} {
		if err := CheckStamps(p[0], p[1]); !errors.Is(err, ErrStamps) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", p, err)
		}
	}
	if err := CheckStamps(5, 5); err != nil {
		t.Errorf("an empty interval: %v", err)
	}
}

func TestIdentity(t *testing.T) {
	c := Identity{Timebase: apple, Unit: UnitMach}
	if ns, bound := c.Nanos(48); ns != 2000 || bound != 42 {
		t.Errorf("48 ticks = %d ± %d", ns, bound)
	}
	ns := Identity{Timebase: apple, Unit: UnitNanos}
	if got, bound := ns.Nanos(48); got != 48 || bound != 1 {
		t.Errorf("48 ns = %d ± %d", got, bound)
	}
	if !c.Verify(Trial{10, 20, 11, 12}) || !c.Verify(Trial{10, 20, 0, 0}) {
		t.Error("a good block and an unwritten one are no violations")
	}
	if c.Verify(Trial{10, 20, 11, 21}) || c.Verify(Trial{10, 20, 11, 12}) || c.Violations() != 1 {
		t.Errorf("%d violations", c.Violations())
	}
}

// gpuClock is a synthetic GPU clock: 24 MHz, 20 ppm fast, with a 5 ppm wobble of 40 s.
type gpuClock struct{ phase float64 }

func (g gpuClock) at(nanos float64) uint64 {
	const wobble, period = 5e-6, 40e9
	w := 2 * math.Pi / period
	t := nanos + 20e-6*nanos + wobble/w*(math.Cos(g.phase)-math.Cos(w*nanos+g.phase))
	return 9_999_999 + uint64(t*24e6/1e9)
}

// bracket is the time a reading takes: at least 0.4 µs, mostly few µs, now and then 50 µs because the thread was
// interrupted. The clock is read anywhere inside.
func bracket(r *rand.Rand) float64 { return min(400+r.ExpFloat64()*2500, 50_000) }

const base = 5_000_000_000_000 // ns: the machine has been up for a while

// synthesize reads the clock for 120 s: each Interval, n readings spread over spread ns.
func synthesize(t *testing.T, seed uint64, n int, every, spread float64) (*Track, gpuClock) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	g := gpuClock{r.Float64() * 6}
	track := &Track{}
	for s := 0.0; s <= 121e9; s += every {
		for i := range n {
			w := bracket(r)
			at := s + float64(i)*spread/float64(n) + 60_000
			where := r.Float64()
			p := Pair{base + uint64(at-where*w), base + uint64(at+(1-where)*w) + 1, g.at(at)}
			if err := track.Add(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	track.Seal()
	return track, g
}

// worst converts many ticks of 120 s and returns the worst error and how many conversions left their bound.
func worst(t *testing.T, track *Track, g gpuClock, seed uint64) (off float64, outside, n int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	for range 20_000 {
		at := 2e9 + r.Float64()*117e9
		ns, bound, res := track.Nanos(g.at(at))
		if res != Converted {
			t.Fatalf("at %.3f s: result %d", at/1e9, res)
		}
		e := math.Abs(float64(ns) - (base + at))
		off = max(off, e)
		if e > float64(bound) {
			outside++
		}
		n++
	}
	return off, outside, n
}

func TestTrackStaysInsideItsBound(t *testing.T) {
	var all float64
	for seed := range uint64(20) {
		track, g := synthesize(t, seed, PairsPerInterval, Interval, 2e6)
		off, outside, n := worst(t, track, g, seed)
		if outside > 0 {
			t.Errorf("seed %d: %d of %d conversions are outside their bound", seed, outside, n)
		}
		if off > 1000 {
			t.Errorf("seed %d: worst error %.0f ns over 120 s", seed, off)
		}
		all = max(all, off)
	}
	t.Logf("worst error of 20 clocks over 120 s: %.0f ns", all)
}

// TestTrackBoundIsHonestWhenReadingsAreFew keeps the bound true with one reading per second, with readings spread over the
// second and with pairs 5 s apart: then it is wider.
func TestTrackBoundIsHonestWhenReadingsAreFew(t *testing.T) {
	for name, c := range map[string]struct {
		n             int
		every, spread float64
	}{"one a second": {1, Interval, 0}, "spread": {8, Interval, 0.9e9}, "5 s apart": {8, 5 * Interval, 2e6}} {
		track, g := synthesize(t, 3, c.n, c.every, c.spread)
		off, outside, n := worst(t, track, g, 3)
		if outside > 0 {
			t.Errorf("%s: %d of %d conversions are outside their bound", name, outside, n)
		}
		t.Logf("%s: worst error %.0f ns", name, off)
	}
}

func TestTrackWaits(t *testing.T) {
	track := &Track{}
	is := func(tick uint64, want Result) {
		t.Helper()
		if _, _, got := track.Nanos(tick); got != want {
			t.Errorf("tick %d: result %d, want %d", tick, got, want)
		}
	}
	add := func(lo, hi, gpu uint64) {
		t.Helper()
		if err := track.Add(Pair{lo, hi, gpu}); err != nil {
			t.Fatal(err)
		}
	}
	is(5, Wait)
	add(1e9, 1e9+100, 1000)
	is(999, Lost)
	is(1000, Wait)
	add(1.1e9, 1.1e9+50, 1100) // tighter, same second
	is(1050, Lost)
	add(1.2e9, 1.2e9+500, 1200) // wider
	add(2.1e9, 2.1e9+50, 2100)
	is(1500, Wait) // the second pair may be replaced
	add(3.1e9, 3.1e9+50, 3100)
	if ns, bound, r := track.Nanos(1600); r != Converted || ns != 1.6e9+25 || bound > 2_000_200 {
		t.Errorf("%d ± %d, %d", ns, bound, r)
	}
	is(2500, Wait)
	track.Seal()
	is(2500, Converted)
	is(3101, Wait)
	if err := track.Add(Pair{4e9, 4e9, 4000}); err == nil {
		t.Error("a sealed track took a pair")
	}
}

func TestTrackRefuses(t *testing.T) {
	track := &Track{}
	for i, p := range []Pair{{1e9, 1e9 + 10, 100}, {5, 4, 200}, {5, 6, 200}, {2e9, 2e9 + 10, 99}} {
		if err := track.Add(p); (err == nil) != (i == 0) {
			t.Errorf("pair %d: %v", i, err)
		}
	}
	if track.Suspect() != 3 {
		t.Errorf("%d refused", track.Suspect())
	}
	_ = track.Add(Pair{2e9, 2e9 + 10, 100}) // a clock that stands still
	_ = track.Add(Pair{3e9, 3e9 + 10, 200})
	_ = track.Add(Pair{4e9, 4e9 + 10, 300})
	if _, _, r := track.Nanos(100); r != Converted {
		t.Errorf("a clock that stood still: %d", r)
	}
	for i := range uint64(maxPairs + 10) {
		if err := track.Add(Pair{(i + 10) * 1e9, (i+10)*1e9 + 10, (i + 10) * 1000}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, r := track.Nanos(10_000); r != Lost || len(track.kept) != maxPairs {
		t.Errorf("result %d, %d pairs", r, len(track.kept))
	}
}

func reading(mach uint64, width uint64, unix int64, slept uint64) Reading {
	return Reading{Lo: mach, Hi: mach + width, Unix: unix, Continued: mach + slept}
}

func TestSegment(t *testing.T) {
	const epoch = 1_800_000_000_000_000_000
	s, err := NewSegment(apple, "boot", []Reading{reading(1000, 900, epoch+1800, 7), reading(3000, 100, epoch+3050, 7), reading(5000, 400, epoch+5001, 7)})
	if err != nil {
		t.Fatal(err)
	}
	if s.Offset != epoch || s.Bound != 51 || s.Begin != 1000 || s.Unix(10) != epoch+10 {
		t.Errorf("segment %+v", s)
	}
	for _, c := range []struct {
		name string
		r    Reading
		want Reason
	}{
		{"quiet", reading(1e9, 200, epoch+1e9+100, 7), Goes},
		{"slew of 100 ppm", reading(2e9, 200, epoch+2e9+100_000, 7), Goes},
		{"slew goes on", reading(3e9, 200, epoch+3e9+500_000, 7), Goes},
		{"step back 2 ms", reading(4e9, 200, epoch+4e9-2_000_000, 7), Stepped},
		{"after the step", reading(5e9, 200, epoch+5e9-2_000_000, 7), Goes},
		{"step of an hour", reading(6e9, 200, epoch+3606e9, 7), Stepped},
		{"sleep of 2 s", reading(7e9, 200, epoch+3609e9, 2e9), Slept},
	} {
		if got := s.Check(c.r); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if s.WallDrift() != 3600e9-100 {
		t.Errorf("wall drift %d", s.WallDrift())
	}
	if s.Offset != epoch {
		t.Error("a later reading moved the offset")
	}
	for name, rs := range map[string][]Reading{"no readings": nil, "empty bracket": {{Lo: 5, Hi: 4}}} {
		if _, err := NewSegment(apple, "", rs); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := NewSegment(Timebase{}, "", []Reading{{}}); err == nil {
		t.Error("no timebase was accepted")
	}
	for _, u := range []Unit{UnitFree, UnitMach, UnitNanos} {
		if u.String() == "" {
			t.Error("unit without a name")
		}
	}
}
