package sdk

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	before, now, after := time.Now(), Now(), time.Now()
	if TimeOf(before) > now || now > TimeOf(after) {
		t.Errorf("TimeOf(%v) = %d, Now = %d, TimeOf(%v) = %d", before, TimeOf(before), now, after, TimeOf(after))
	}
	if d := now.Time().Sub(before); d < -time.Millisecond || d > time.Second {
		t.Errorf("Now is %v from the wall clock", d)
	}
	if got := TimeOf(before.Round(0)); got-TimeOf(before) > Time(time.Millisecond) || TimeOf(before)-got > Time(time.Millisecond) {
		t.Errorf("without monotonic reading TimeOf differs by %d ns", got-TimeOf(before))
	}
	if b := clock.bound.Load(); b < 0 || b > int64(10*time.Millisecond) {
		t.Errorf("clock error bound %d ns", b)
	}
}

func TestCalibrateFollowsAStep(t *testing.T) {
	c := newClock()
	c.offset.Add(int64(time.Hour))
	c.calibrate()
	if d := time.Duration(c.offset.Load() - c.base.UnixNano()); d < -time.Second || d > time.Second {
		t.Errorf("offset is off by %v after calibration", d)
	}
}

func TestClockSample(t *testing.T) {
	a, b := clock.read(), clock.read()
	if b.mono < a.mono || a.bracket < 0 || a.bracket > int64(10*time.Millisecond) {
		t.Errorf("samples %+v, %+v", a, b)
	}
	if d := time.Since(time.Unix(0, a.unix)); d < 0 || d > time.Minute {
		t.Errorf("sample taken %v ago", d)
	}
}
