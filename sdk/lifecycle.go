package sdk

import "context"

// Stats is a snapshot of the runtime's reporter.
func (rt *Runtime) Stats() ReporterStats { return ReporterStats{State: StateDisabled} }

// Flush sends what is queued; see the package function.
func (rt *Runtime) Flush(ctx context.Context) error { return ctx.Err() }

// Shutdown ends the runtime for good.
func (rt *Runtime) Shutdown(ctx context.Context) error { return ctx.Err() }
