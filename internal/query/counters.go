package query

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

type counterKey struct {
	runtime archive.RuntimeID
	set     archive.CounterSetID
	name    string
}

// counterUnits reads the counter definitions.
func (v *view) counterUnits(ctx context.Context) (map[counterKey]string, error) {
	units := map[counterKey]string{}
	for rows, err := range archive.Scan[archive.Counter](ctx, v.r) {
		if err != nil {
			return nil, err
		}
		for _, c := range rows {
			units[counterKey{c.Runtime, c.Set, c.Name}] = c.Unit
		}
	}
	return units, nil
}

// number renders a sample's value without losing digits. A float that JSON cannot say is left out.
func number(s *archive.CounterSample) json.Number {
	if !s.IsFloat {
		return json.Number(strconv.FormatInt(s.Int, 10))
	}
	if math.IsNaN(s.Float) || math.IsInf(s.Float, 0) {
		return ""
	}
	return json.Number(strconv.FormatFloat(s.Float, 'g', -1, 64))
}

// CounterRow summarises one counter at one sample point on one lane. Samples that did not resolve are counted and are
// never numbers.
type CounterRow struct {
	Lane       string               `json:"lane"`
	LaneID     archive.LaneID       `json:"lane_id"`
	PID        int64                `json:"pid"`
	Runtime    archive.RuntimeID    `json:"runtime"`
	Set        archive.CounterSetID `json:"counter_set"`
	Name       string               `json:"name"`
	Unit       string               `json:"unit"` // "" when the set was never defined
	Point      string               `json:"sample_point"`
	Count      int64                `json:"count"` // samples with a value
	Errors     int64                `json:"error_count"`
	Unresolved int64                `json:"unresolved_count"`
	// Total is absent for percentages, which are averaged and never summed. IntTotal is exact where every value was
	// an integer and the sum did not overflow.
	Total    *float64 `json:"total,omitempty"`
	IntTotal *int64   `json:"int_total,omitempty"`
	Avg      *float64 `json:"avg,omitempty"`
	Min      *float64 `json:"min,omitempty"`
	Max      *float64 `json:"max,omitempty"`
}

// CountersParams are the parameters of [Counters].
type CountersParams struct {
	Lane  string
	Name  string // of the counter
	Limit int
}

// Counters summarises the counter samples per lane, set, counter and sample point.
func Counters(ctx context.Context, r *archive.Reader, p CountersParams) (Answer[CounterRow], error) {
	a := newAnswer[CounterRow]("counters")
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	units, err := v.counterUnits(ctx)
	if err != nil {
		return a, err
	}
	type key struct {
		lane  *lane
		set   archive.CounterSetID
		name  string
		point string
	}
	type acc struct {
		ok, errors, unresolved int64
		sum, lo, hi            float64
		intSum                 int64
		notInt                 bool
	}
	accs := map[key]*acc{}
	lanes, name := v.laneFilter(p.Lane), newPattern(p.Name)
	var samples int64
	for rows, err := range archive.Scan[archive.CounterSample](ctx, r) {
		if err != nil {
			return a, err
		}
		samples += int64(len(rows))
		for i := range rows {
			s := &rows[i]
			l := v.lane(s.Runtime, s.Lane)
			if !lanes.match(l) || !name.match(s.Name) {
				continue
			}
			k := key{l, s.Set, s.Name, s.Point}
			c := accs[k]
			if c == nil {
				c = &acc{lo: math.Inf(1), hi: math.Inf(-1)}
				accs[k] = c
			}
			switch s.State {
			case archive.CounterError:
				c.errors++
				continue
			case archive.CounterUnresolved:
				c.unresolved++
				continue
			}
			x := s.Float
			if s.IsFloat {
				c.notInt = true
			} else {
				x = float64(s.Int)
				sum := c.intSum + s.Int
				if (sum > c.intSum) != (s.Int > 0) && s.Int != 0 {
					c.notInt = true
				}
				c.intSum = sum
			}
			c.ok++
			c.sum += x
			c.lo, c.hi = min(c.lo, x), max(c.hi, x)
		}
	}
	for k, c := range accs {
		row := CounterRow{
			Lane: k.lane.Name, LaneID: k.lane.ID, PID: v.pid(k.lane.Runtime), Runtime: k.lane.Runtime,
			Set: k.set, Name: k.name, Unit: units[counterKey{k.lane.Runtime, k.set, k.name}], Point: k.point,
			Count: c.ok, Errors: c.errors, Unresolved: c.unresolved,
		}
		if c.ok > 0 {
			row.Avg, row.Min, row.Max = finite(c.sum/float64(c.ok)), finite(c.lo), finite(c.hi)
			if row.Unit != semconv.CounterUnitPercent {
				row.Total = finite(c.sum)
				if !c.notInt {
					row.IntTotal = &c.intSum
				}
			}
		}
		a.Rows = append(a.Rows, row)
	}
	slices.SortFunc(a.Rows, func(x, y CounterRow) int {
		return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.PID, y.PID), cmp.Compare(x.Set, y.Set),
			cmp.Compare(x.Name, y.Name), cmp.Compare(x.Point, y.Point), cmp.Compare(x.Runtime, y.Runtime), cmp.Compare(x.LaneID, y.LaneID))
	})
	a.Matched = len(a.Rows)
	a.Rows = cut(a.Rows, p.Limit)
	if a.Matched == 0 {
		switch {
		case samples > 0:
			a.Hints = append(a.Hints, v.emptyHints(1, "lane", p.Lane, "counter", p.Name)...)
		case len(units) > 0:
			a.Hints = append(a.Hints, Hint{
				"no_counter_sample", "Counter sets are defined, but no dispatch carried a value.",
				"Attach values with Dispatch.Counters; run: stax diagnose",
			})
		default:
			a.Hints = append(a.Hints, Hint{
				"no_counter", "The target defines no counters.",
				"Define a set with sdk.NewCounterSet and attach values with Dispatch.Counters",
			})
		}
	}
	a.Coverage, err = v.coverage(ctx)
	return a, err
}

// finite returns nil for what JSON cannot say.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
