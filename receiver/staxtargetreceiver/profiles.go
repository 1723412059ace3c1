package staxtargetreceiver

import (
	"context"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/validate"
)

// takeProfiles admits profiles, turns the payloads that stax knows into samples, waits and events, and forwards the rest
// as it came: the indices in it are checked by who follows them. It returns how many samples were forwarded. The client
// counts profiles, drop rows and metrics count samples, or generations that could not be parsed.
func (r *targetReceiver) takeProfiles(ctx context.Context, q *request, pd pprofile.Profiles) (int, error) {
	p := payloads{request: q, pd: pd, logs: plog.NewLogs()}
	var failed error
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
			if failed == nil {
				failed = p.scope(ctx, adm, rp, sp)
			}
			return sp.Profiles().Len() == 0 && p.emptied
		})
		return rp.ScopeProfiles().Len() == 0
	})
	if failed != nil {
		return 0, failed
	}
	n := pd.SampleCount()
	if pd.ResourceProfiles().Len() == 0 {
		return 0, nil
	}
	if err := r.nextProfiles.ConsumeProfiles(ctx, pd); err != nil {
		return n, err
	}
	p.delivered(ctx)
	return n, nil
}

func (q *request) rejectProfiles(adm admission, sp pprofile.ScopeProfiles, reason string) {
	samples := 0
	for _, p := range sp.Profiles().All() {
		samples += p.Samples().Len()
	}
	q.reject(adm, "profile", reason, noSeq, samples, sp.Profiles().Len())
}
