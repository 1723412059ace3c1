// Overhead measures what being recorded costs a program: pairs of runs of the same fixed work, one not recorded and one
// recorded by stax record with CPU samples, in random order, so that whatever else the machine does hits both alike.
//
//	go run ./testbed/overhead [-pairs 20] [-work cpu|channels]
//
// What is compared is the processor time of the whole program (getrusage, user and system), from its start to its end:
// sampling, tracing, encoding and sending included. The recorder is another process and not part of it. Beside it stands
// what the program's own ledger claims. Run it on a quiet machine.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

type options struct {
	pairs int
	work  string
	units int
	hz    int
	child bool
}

func main() {
	var o options
	flag.IntVar(&o.pairs, "pairs", 20, "pairs of runs")
	flag.StringVar(&o.work, "work", "cpu", "cpu: computes on two goroutines; channels: hands numbers through a pipeline")
	flag.IntVar(&o.units, "units", 0, "amount of work of one run, about half a millisecond each (default: a few seconds of work)")
	flag.IntVar(&o.hz, "hz", 250, "CPU samples per second and thread")
	flag.BoolVar(&o.child, "child", false, "do the work and print what it cost (used by the program itself)")
	flag.Parse()
	if o.units == 0 {
		o.units = map[string]int{"channels": 6000}[o.work]
	}
	if o.units == 0 {
		o.units = 10000
	}
	var err error
	if o.child {
		err = child(o.work, o.units)
	} else {
		err = measure(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}

// cost is what one run says about itself.
type cost struct {
	CPUNanos  int64 `json:"cpu_ns"`
	WallNanos int64 `json:"wall_ns"`
	Traced    bool  `json:"traced"` // the execution trace ran when the work began
}

// ledger is what a recorded run claims to have spent on samples.
type ledger struct {
	costNanos, processNanos int64
	samples                 uint64
	states                  map[string]int
}

func measure(o options) error {
	dir, err := os.MkdirTemp("", "stax-overhead")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stax := filepath.Join(dir, "stax-cli") // "stax" is the name of its directory for sockets
	build := exec.Command("go", "build", "-o", stax, "./cmd/stax")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build stax (run from the root of the repository): %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	work := []string{self, "-child", "-work", o.work, "-units", fmt.Sprint(o.units)}

	var relative, offs, ons []float64
	sum := ledger{states: map[string]int{}}
	for i := range o.pairs {
		var off, on cost
		path := filepath.Join(dir, fmt.Sprintf("%d.stax", i))
		runOff := func() error { return run(&off, []string{semconv.EnvEndpoint + "=off"}, work) }
		runOn := func() error {
			return run(&on, []string{"XDG_RUNTIME_DIR=" + dir, "STAX_DIR=" + dir},
				append([]string{stax, "record", "--sample-hz", fmt.Sprint(o.hz), "--out", path, "--"}, work...))
		}
		runs := []func() error{runOff, runOn}
		rand.Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
		for _, r := range runs {
			if err := r(); err != nil {
				return err
			}
		}
		if !on.Traced {
			return fmt.Errorf("pair %d: the recorded run had no execution trace", i)
		}
		l, err := readLedger(path)
		if err != nil {
			return err
		}
		sum.add(l)
		_ = os.RemoveAll(path)
		d := float64(on.CPUNanos)/float64(off.CPUNanos) - 1
		relative, offs, ons = append(relative, d), append(offs, float64(off.CPUNanos)/1e9), append(ons, float64(on.CPUNanos)/1e9)
		fmt.Printf("pair %2d: off %.3f s, on %.3f s of CPU: %+.2f %%; ledger %.2f %%, %d samples\n",
			i+1, off.seconds(), on.seconds(), 100*d, 100*l.share(), l.samples)
	}
	mean, bound := confidence(relative)
	offMean, _ := confidence(offs)
	onMean, _ := confidence(ons)
	fmt.Printf("\n%s, %d pairs, %d Hz: off %.3f s, on %.3f s of CPU on average\n", o.work, len(relative), o.hz, offMean, onMean)
	fmt.Printf("overhead: mean %+.2f %%, 95 %% interval up to %+.2f %%, median %+.2f %%\n", 100*mean, 100*bound, 100*median(relative))
	fmt.Printf("the program's own ledger: %.2f %% of its CPU; sources: %v\n", 100*sum.share(), sum.states)
	return nil
}

func (c cost) seconds() float64 { return float64(c.CPUNanos) / 1e9 }

func (l *ledger) add(o ledger) {
	l.costNanos, l.processNanos, l.samples = l.costNanos+o.costNanos, l.processNanos+o.processNanos, l.samples+o.samples
	for k, n := range o.states {
		l.states[k] += n
	}
}

func (l *ledger) share() float64 {
	if l.processNanos == 0 {
		return math.NaN()
	}
	return float64(l.costNanos) / float64(l.processNanos)
}

// run runs a command that ends with the JSON of a child on its output.
func run(c *cost, env, command []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s%s", strings.Join(command, " "), err, &out, &said)
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "{") {
			return json.Unmarshal([]byte(line), c)
		}
	}
	return fmt.Errorf("%s printed no cost: %s%s", strings.Join(command, " "), &out, &said)
}

func readLedger(path string) (ledger, error) {
	l := ledger{states: map[string]int{}}
	r, err := archive.Open(path, archive.ReaderOptions{})
	if err != nil {
		return l, err
	}
	defer r.Close()
	for rows, err := range archive.Scan[archive.ProfileSource](context.Background(), r) {
		if err != nil {
			return l, err
		}
		for _, s := range rows {
			l.costNanos, l.processNanos = l.costNanos+s.CostNanos, l.processNanos+s.ProcessNanos
			l.samples += s.Samples
			l.states[s.Source+" "+s.State]++
		}
	}
	return l, nil
}

// confidence returns the mean of the values and the upper end of its two-sided 95 % interval (Student's t).
func confidence(v []float64) (mean, upper float64) {
	n := float64(len(v))
	for _, x := range v {
		mean += x / n
	}
	if len(v) < 2 {
		return mean, math.Inf(1)
	}
	squares := 0.0
	for _, x := range v {
		squares += (x - mean) * (x - mean)
	}
	return mean, mean + t975(n-1)*math.Sqrt(squares/(n-1)/n)
}

// t975 is the 97.5 % point of Student's distribution by its expansion around the normal one (Abramowitz and Stegun
// 26.7.5), good to 0.1 % from 10 degrees of freedom on.
func t975(df float64) float64 {
	const z = 1.959963984540054
	const z3, z5 = z * z * z, z * z * z * z * z
	return z + (z3+z)/(4*df) + (5*z5+16*z3+3*z)/(96*df*df)
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// settle is how long a run waits for the trace of its recording.
const settle = 2 * time.Second
