package clock

import (
	"fmt"
	"math"
	"math/bits"
)

// Pair is one reading of a GPU clock between two readings of the CPU clock, which are nanoseconds of the mach timeline.
type Pair struct {
	Lo, Hi uint64 // ns
	GPU    uint64 // GPU ticks
}

func (p Pair) width() uint64 { return p.Hi - p.Lo }

// mid is the best guess of the CPU time at which the GPU clock was read.
func (p Pair) mid() uint64 { return p.Lo + (p.Hi-p.Lo)/2 }

// Wobble is what a conversion between two neighbours one second apart may be off beyond the readings, in nanoseconds: the
// clock's rate is not constant between them. A wobble of amplitude A and period T bends the line by at most A·2π/T·Δ²/8,
// which is 0.1 µs for 5 ppm, 40 s and Δ = 1 s. It grows with the square of the distance, and so does the bound.
const Wobble = 100

// Interval is the time that one kept pair stands for, and PairsPerInterval how many readings should compete for it, best
// one right after the other: the tightest wins, cut by what the others leave possible. With one reading per second, or with pairs 10 s apart, conversions are
// off by microseconds (see the tests).
const (
	Interval         = 1_000_000_000 // ns
	PairsPerInterval = 8
)

// maxPairs bounds the memory of a track: about an hour.
const maxPairs = 4096

// Track follows a GPU clock of unknown rate and offset.
type Track struct {
	kept    []Pair // one per interval, the last one may still be improved
	dropped int    // pairs forgotten at the front
	suspect int
	sealed  bool
}

// Add takes a reading. Readings must come in the order they were taken; one that contradicts this, or whose GPU clock ran
// backwards beyond the brackets, is refused with an error and counted.
func (t *Track) Add(p Pair) error {
	if p.Hi < p.Lo {
		t.suspect++
		return fmt.Errorf("clock pair: the bracket [%d, %d] is empty", p.Lo, p.Hi)
	}
	if t.sealed {
		return fmt.Errorf("clock pair: the track is sealed")
	}
	n := len(t.kept)
	if n == 0 {
		t.kept = append(t.kept, p)
		return nil
	}
	last := t.kept[n-1]
	if p.Lo < last.Lo || p.GPU < last.GPU {
		t.suspect++
		return fmt.Errorf("clock pair: (%d, %d) after (%d, %d) runs backwards", p.Lo, p.GPU, last.Lo, last.GPU)
	}
	if p.Lo/Interval == last.Lo/Interval {
		t.kept[n-1] = t.join(last, p)
		return nil
	}
	t.kept = append(t.kept, p)
	if len(t.kept) > maxPairs {
		t.dropped++
		t.kept = t.kept[1:]
	}
	return nil
}

// MaxRateError is how much the clock's rate may differ from the one between the last kept pairs, parts per million.
const MaxRateError = 50

// join makes one pair of two readings of one interval: the tighter one, its bracket cut by the other's. What the clock
// did between the two is known but for the rate's error, so each reading says when the other one can have been taken.
// Brackets that exclude each other tell of a preempted or stepped reading: the tighter one stays as it is.
func (t *Track) join(a, b Pair) Pair {
	if b.width() < a.width() {
		a, b = b, a
	}
	n := len(t.kept)
	if n < 2 || a.GPU == t.kept[n-2].GPU {
		return a // no rate yet
	}
	before := t.kept[n-2]
	perTick := float64(a.mid()-before.mid()) / float64(a.GPU-before.GPU)
	shift := (float64(a.GPU) - float64(b.GPU)) * perTick
	slack := math.Abs(shift)*MaxRateError/1e6 + perTick + 1
	cut := a
	cut.Lo = max(a.Lo, b.Lo+uint64(int64(math.Floor(shift-slack))))
	cut.Hi = min(a.Hi, b.Hi+uint64(int64(math.Ceil(shift+slack))))
	if cut.Hi < cut.Lo {
		return a
	}
	return cut
}

// Suspect is the number of readings that were refused.
func (t *Track) Suspect() int { return t.suspect }

// Result tells what became of a conversion.
type Result int

// The results of a conversion.
const (
	Converted Result = iota
	Wait             // the next pair is not there yet: ask again after it
	Lost             // before the first pair that is kept: it can never be converted
)

// Nanos converts a GPU tick to nanoseconds of the mach timeline, which lies within off of the truth as long as the
// wobble is no more than [Wobble]. It only converts between neighbours.
func (t *Track) Nanos(tick uint64) (nanos, off uint64, r Result) {
	n := len(t.kept)
	if n == 0 {
		return 0, 0, Wait
	}
	if tick < t.kept[0].GPU {
		return 0, 0, Lost
	}
	// The last pair may still be replaced by a tighter one, so what lies before it waits until its interval has passed,
	// that is until there is a pair after it.
	hi := n - 1
	for hi > 0 && t.kept[hi-1].GPU > tick {
		hi--
	}
	if hi == 0 || tick > t.kept[hi].GPU || !t.final(hi) {
		return 0, 0, Wait
	}
	a, b := t.kept[hi-1], t.kept[hi]
	nanos, ok := interpolate(a, b, tick)
	if !ok {
		return 0, 0, Lost
	}
	return nanos, bound(a, b), Converted
}

// Seal says that no reading will follow, so that the last pair is final. Ticks after it stay unconverted.
func (t *Track) Seal() { t.sealed = true }

// final tells whether the pair at i can no longer be replaced.
func (t *Track) final(i int) bool { return t.sealed || i < len(t.kept)-1 }

// bound is half the wider bracket, the wobble over the distance, one tick for each of the three ticks that were rounded,
// and the rounding of nanoseconds.
func bound(a, b Pair) uint64 {
	cpu := b.mid() - a.mid()
	seconds := float64(cpu) / 1e9
	tick := uint64(1)
	if gpu := b.GPU - a.GPU; gpu > 0 {
		tick = cpu/gpu + 1
	}
	return max(a.width(), b.width())/2 + uint64(Wobble*seconds*seconds) + 2*tick + 2
}

func interpolate(a, b Pair, tick uint64) (uint64, bool) {
	gpu, cpu := b.GPU-a.GPU, b.mid()-a.mid()
	if gpu == 0 {
		return a.mid(), tick == a.GPU
	}
	hi, lo := bits.Mul64(tick-a.GPU, cpu)
	if hi >= gpu {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, gpu)
	return a.mid() + q, true
}
