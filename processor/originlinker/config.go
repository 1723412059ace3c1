package originlinker

import (
	"errors"
	"time"

	"go.opentelemetry.io/collector/component"
)

// Config is the configuration of the processor.
type Config struct {
	// Hold is how long target spans are held so that evidence about them can arrive; 0s resolves at once. Default: 2s.
	Hold time.Duration `mapstructure:"hold"`
	// Limit is the longest distance between an origin and the CPU sample it is linked to. Default: 50ms.
	Limit time.Duration `mapstructure:"limit"`
	// MaxHeldSpans and MaxHeldBytes (encoded size) bound what is held in all pipelines together. Beyond them the oldest
	// spans are resolved and forwarded at once, by whoever brings more. Default: 100000 and 64 MiB.
	MaxHeldSpans int   `mapstructure:"max_held_spans"`
	MaxHeldBytes int64 `mapstructure:"max_held_bytes"`
	// EvidenceAge is how long samples and waits are kept. A dispatch that runs longer than this loses the evidence about its
	// origin. Default: 30s.
	EvidenceAge time.Duration `mapstructure:"evidence_age"`
	// MaxEvidenceRows bounds the rows of each kind (samples, waits and so on) that are kept of one recording; what is more is
	// given up and counted, so verdicts get weaker, never stronger. Default: 1000000.
	MaxEvidenceRows int `mapstructure:"max_evidence_rows"`
	// Stacktrace adds the whole CPU stack of a linked origin as code.stacktrace, which makes spans about 1 KB larger.
	// Default: false.
	Stacktrace bool `mapstructure:"stacktrace"`
	// WallTrace adds derived traces in which dispatches lie below the waits that provably waited for them. Default: false.
	WallTrace bool `mapstructure:"wall_trace"`
	// Query names the staxquery extension that owns the recordings. When it does not run, the begin of a recording is not
	// known, which the status outside_recording needs. Default: staxquery.
	Query component.ID `mapstructure:"query"`
}

// Validate implements xconfmap.Validator.
func (c *Config) Validate() error {
	switch {
	case c.Hold < 0:
		return errors.New("hold must be at least 0s")
	case c.Limit <= 0:
		return errors.New("limit must be more than 0s")
	case c.MaxHeldSpans < 1:
		return errors.New("max_held_spans must be at least 1")
	case c.MaxHeldBytes < 1:
		return errors.New("max_held_bytes must be at least 1")
	case c.EvidenceAge < c.Hold+c.Limit:
		return errors.New("evidence_age must be at least hold + limit: spans would outlast the evidence about them")
	case c.MaxEvidenceRows < 1:
		return errors.New("max_evidence_rows must be at least 1")
	}
	return nil
}
