package staxtargetreceiver

import (
	"context"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/validate"
)

// takeProfiles admits profiles and forwards them unparsed: the indices in them are checked by who follows them. It
// returns how many samples were forwarded. The client counts profiles, drop rows and metrics count samples.
func (r *targetReceiver) takeProfiles(ctx context.Context, q *request, pd pprofile.Profiles) (int, error) {
	pd.ResourceProfiles().RemoveIf(func(rp pprofile.ResourceProfiles) bool {
		adm, reason := q.admit(rp.Resource())
		if reason != "" {
			for _, sp := range rp.ScopeProfiles().All() {
				q.rejectProfiles(adm, sp, reason)
			}
			return true
		}
		rp.ScopeProfiles().RemoveIf(func(sp pprofile.ScopeProfiles) bool {
			if reason := checkScope(sp.Scope()); reason != validate.OK {
				q.rejectProfiles(adm, sp, string(reason))
				return true
			}
			return false
		})
		return rp.ScopeProfiles().Len() == 0
	})
	n := pd.SampleCount()
	if pd.ResourceProfiles().Len() == 0 {
		return 0, nil
	}
	return n, r.nextProfiles.ConsumeProfiles(ctx, pd)
}

func (q *request) rejectProfiles(adm admission, sp pprofile.ScopeProfiles, reason string) {
	samples := 0
	for _, p := range sp.Profiles().All() {
		samples += p.Samples().Len()
	}
	q.reject(adm, "profile", reason, noSeq, samples, sp.Profiles().Len())
}
