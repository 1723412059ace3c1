package staxarchiveexporter

import (
	"errors"
	"time"

	"go.opentelemetry.io/collector/component"
)

// Config is the configuration of the exporter.
type Config struct {
	// Query names the staxquery extension that owns the recordings. Default: staxquery.
	Query component.ID `mapstructure:"query"`
	// SyncInterval is the longest time that accepted rows stay unsynced, which is what a power failure may cost. 0s syncs
	// each request. Default: 1s.
	SyncInterval time.Duration `mapstructure:"sync_interval"`
	// SegmentRows is the number of rows after which the open log is sealed into Parquet. Default: 65536.
	SegmentRows int `mapstructure:"segment_rows"`
	// SegmentAge is the age after which the open log is sealed even if it is small. Default: 30s.
	SegmentAge time.Duration `mapstructure:"segment_age"`
}

// Validate implements xconfmap.Validator.
func (c *Config) Validate() error {
	switch {
	case c.SyncInterval < 0:
		return errors.New("sync_interval must be at least 0s (0s syncs each request)")
	case c.SegmentRows < 1:
		return errors.New("segment_rows must be at least 1")
	case c.SegmentAge <= 0:
		return errors.New("segment_age must be more than 0s")
	}
	return nil
}
