package originlinker

import (
	"context"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/stax-otel/stax/internal/profiles"
)

// logsNode observes definitions of stacks and lanes, and clock samples.
type logsNode struct {
	node
	next consumer.Logs
}

// ConsumeLogs implements consumer.Logs.
func (n *logsNode) ConsumeLogs(ctx context.Context, ld plog.Logs) error {
	for _, rl := range ld.ResourceLogs().All() {
		n.linker.evidence(rl.Resource()).observeLogs(rl)
	}
	return n.next.ConsumeLogs(ctx, ld)
}

// profilesNode observes CPU samples, waits and origin events.
type profilesNode struct {
	node
	next xconsumer.Profiles
}

// ConsumeProfiles implements xconsumer.Profiles. Profiles are observed before they are forwarded: encoding them may change
// them.
func (n *profilesNode) ConsumeProfiles(ctx context.Context, pd pprofile.Profiles) error {
	d := profiles.NewDecoder(pd)
	for i, rp := range pd.ResourceProfiles().All() {
		if skipped := n.linker.evidence(rp.Resource()).observeProfiles(d, rp.Resource(), i); skipped > 0 {
			n.linker.telemetry.StaxLinkerSkipped.Add(ctx, int64(skipped), metric.WithAttributes(attribute.String("signal", "profiles")))
		}
	}
	return n.next.ConsumeProfiles(ctx, pd)
}
