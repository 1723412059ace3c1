package profiles

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/sdk/semconv"
)

// Facts are what a profile says about its source by its time and attributes. State and Source are empty when it does not
// say; Period is in nanoseconds, 0 when it is not known or not of processor time.
type Facts struct {
	archive.ProfileSource
	Period                     int64
	LostGenerations, LostBytes uint64
}

func (f *Facts) lost() bool { return f.LostGenerations != 0 || f.LostBytes != 0 }

// ReadFacts reads what a profile says about its source.
func ReadFacts(pd pprofile.Profiles, p pprofile.Profile) Facts { return readFacts(pd.Dictionary(), p) }

func readFacts(dict pprofile.ProfilesDictionary, p pprofile.Profile) Facts {
	var f Facts
	f.BeginNanos = clampTime(uint64(p.Time()))
	f.EndNanos = clampTime(uint64(f.BeginNanos) + min(p.DurationNano(), math.MaxInt64))
	f.ClockErrorNanos = -1
	str := func(i int32) string {
		if i <= 0 || int(i) >= dict.StringTable().Len() {
			return ""
		}
		return dict.StringTable().At(int(i))
	}
	if str(p.PeriodType().TypeStrindex()) == typeCPU && str(p.PeriodType().UnitStrindex()) == unitNanos && p.Period() > 0 {
		f.Period = p.Period()
		f.PeriodNanos = f.Period
	}
	counts := map[string]*uint64{
		semconv.ProfileSamplesKey: &f.Samples, semconv.ProfileWaitsKey: &f.Waits, semconv.ProfileWaitsShortKey: &f.WaitsShort,
		semconv.ProfileOriginEventsKey: &f.OriginEvents, semconv.ProfileEventsKey: &f.Events, semconv.ProfileBytesKey: &f.Bytes,
		semconv.ProfileLostGenerationsKey: &f.LostGenerations, semconv.ProfileLostBytesKey: &f.LostBytes,
	}
	times := map[string]*int64{
		semconv.ProfileShortNanosKey: &f.ShortNanos, semconv.ProfileCostNanosKey: &f.CostNanos,
		semconv.ProfileProcessCPUNanosKey: &f.ProcessNanos, semconv.ProfileClockErrorNanosKey: &f.ClockErrorNanos,
	}
	for _, i := range p.AttributeIndices().All() {
		if i <= 0 || int(i) >= dict.AttributeTable().Len() {
			continue
		}
		a := dict.AttributeTable().At(int(i))
		key, v := str(a.KeyStrindex()), a.Value()
		switch v.Type() {
		case pcommon.ValueTypeStr:
			switch key {
			case semconv.ProfileSourceKey:
				f.Source = v.Str()
			case semconv.ProfileStateKey:
				f.State = v.Str()
			case semconv.ProfileReasonKey:
				f.Reason = v.Str()
			}
		case pcommon.ValueTypeInt:
			if to := counts[key]; to != nil && v.Int() >= 0 {
				*to = uint64(v.Int())
			}
			if to := times[key]; to != nil {
				*to = v.Int()
			}
		}
	}
	return f
}

func clampTime(n uint64) int64 {
	if n > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(n)
}
