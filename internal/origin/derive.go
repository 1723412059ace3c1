package origin

import (
	"context"
	"fmt"

	"github.com/stax-otel/stax/archive"
)

// Load reads the facts of an archive that verdicts depend on: the waits and what they await, the
// stacks, the CPU evidence (samples, off_cpu, origin_events, profile_sources, clock_samples) unless the configuration has
// one, the small tables, and one pass over the ids of the dispatches.
func Load(ctx context.Context, r *archive.Reader, cfg Config) (*Index, error) {
	ix := newIndex(cfg, r.Manifest().Recording)
	err := firstError(
		func() error { return scan(ctx, r, ix.addRuntimes) },
		func() error { return scan(ctx, r, ix.addLanes) },
		func() error { return scan(ctx, r, ix.addStackFrames) },
		func() error { return scan(ctx, r, ix.addWaits) },
		func() error { return scan(ctx, r, ix.addAwaits) },
		func() error { return ix.loadEvidence(ctx, r, cfg) },
		func() error {
			ix.seal()
			if cfg.Evidence == nil {
				ix.evidence.trim()
			}
			return nil
		},
	)
	if err != nil || !ix.observes() {
		return ix, err
	}
	return ix, firstError(
		func() error {
			return scan(ctx, r, ix.addCommandBuffers, "runtime", "lane", "command_buffer", "queue", "queue_seq")
		},
		func() error {
			return scan(ctx, r, ix.Observe, "runtime", "lane", "dispatch", "command_buffer", "queue")
		},
	)
}

// loadEvidence reads what the archive knows about CPU threads, unless the caller has said that.
func (ix *Index) loadEvidence(ctx context.Context, r *archive.Reader, cfg Config) error {
	if cfg.Evidence != nil {
		return nil
	}
	e := ix.evidence
	return firstError(
		func() error {
			return scan(ctx, r, e.AddSamples, "runtime", "thread", "goroutine", "time_ns", "stack", "source")
		},
		func() error {
			return scan(ctx, r, e.AddOffCPU, "runtime", "thread", "goroutine", "begin_ns", "wake_ns", "end_ns", "stack", "source")
		},
		func() error {
			return scan(ctx, r, e.AddOriginEvents, "runtime", "thread", "goroutine", "time_ns", "stack", "span")
		},
		func() error { return scan(ctx, r, e.AddProfileSources) },
		func() error { return scan(ctx, r, e.AddClockSamples) },
	)
}

func firstError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// scan passes the rows of a table to add, with the named columns filled in; none: all.
func scan[T archive.Row](ctx context.Context, r *archive.Reader, add func([]T), columns ...string) error {
	for rows, err := range archive.ScanColumns[T](ctx, r, columns...) {
		if err != nil {
			return fmt.Errorf("origin: reading the archive: %w", err)
		}
		add(rows)
	}
	return nil
}

// Sink takes derived rows. The slices are valid until the call returns. archive.DerivedWriter is one.
type Sink interface {
	Links([]archive.Link) error
	Certificates([]archive.Certificate) error
}

// Derive passes to the sink the certificate of every dispatch and the link of every origin that was
// reported, in the order of the archive: for each batch of dispatches their links and certificates,
// then the links of command buffers, of waits, and of completion and fault origins.
func Derive(ctx context.Context, r *archive.Reader, cfg Config, to Sink) error {
	ix, err := Load(ctx, r, cfg)
	if err != nil {
		return err
	}
	return ix.Derive(ctx, r, to)
}

// Derive is the package's Derive with an Index that has been loaded.
func (ix *Index) Derive(ctx context.Context, r *archive.Reader, to Sink) error {
	var links []archive.Link
	link := func(rt archive.RuntimeID, owner archive.OwnerKind, id uint64, kind archive.OriginKind, o *archive.Origin) {
		if o.Present() {
			links = append(links, ix.Link(rt, owner, id, kind, o))
		}
	}
	flush := func() error {
		if len(links) == 0 {
			return nil
		}
		err := to.Links(links)
		links = links[:0]
		return err
	}

	var certificates []archive.Certificate
	for rows, err := range archive.ScanColumns[archive.Dispatch](ctx, r, dispatchColumns...) {
		if err != nil {
			return fmt.Errorf("origin: reading the archive: %w", err)
		}
		certificates = certificates[:0]
		for i := range rows {
			d := &rows[i]
			link(d.Runtime, archive.OwnerDispatch, uint64(d.ID), archive.OriginDispatch, &d.Origin)
			certificates = append(certificates, ix.Certificate(d))
		}
		if err := flush(); err != nil {
			return err
		}
		if len(certificates) > 0 {
			if err := to.Certificates(certificates); err != nil {
				return err
			}
		}
	}
	for rows, err := range archive.Scan[archive.CommandBuffer](ctx, r) {
		if err != nil {
			return fmt.Errorf("origin: reading the archive: %w", err)
		}
		for i := range rows {
			b := &rows[i]
			link(b.Runtime, archive.OwnerCommandBuffer, uint64(b.ID), archive.OriginDispatch, &b.Origin)
		}
		if err := flush(); err != nil {
			return err
		}
	}
	for rows, err := range archive.Scan[archive.Wait](ctx, r) {
		if err != nil {
			return fmt.Errorf("origin: reading the archive: %w", err)
		}
		for i := range rows {
			w := &rows[i]
			link(w.Runtime, archive.OwnerWait, uint64(w.ID), archive.OriginWait, &w.Origin)
		}
		if err := flush(); err != nil {
			return err
		}
	}
	for rows, err := range archive.Scan[archive.ExtraOrigin](ctx, r) {
		if err != nil {
			return fmt.Errorf("origin: reading the archive: %w", err)
		}
		for i := range rows {
			x := &rows[i]
			link(x.Runtime, x.OwnerKind, x.Owner, x.Kind, &x.Origin)
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// dispatchColumns are the columns that Certificate and Link read.
var dispatchColumns = []string{
	"runtime", "lane", "dispatch", "command_buffer", "queue", "queue_seq", "start_ns", "end_ns", "faulted",
	"origin_thread", "origin_goroutine", "origin_ns", "origin_stack", "origin_thread_locked", "origin_cpu_trace", "origin_cpu_span",
}

// DeriveInto derives the links and certificates of the archive in dir, which must be finished, and
// stores them there under Version. Until that has succeeded the archive keeps those it had.
func DeriveInto(ctx context.Context, dir string) (err error) {
	r, err := archive.Open(dir, archive.ReaderOptions{})
	if err != nil {
		return err
	}
	defer func() {
		if e := r.Close(); err == nil {
			err = e
		}
	}()
	return archive.WriteDerived(ctx, dir, Version, func(w *archive.DerivedWriter) error {
		return Derive(ctx, r, Config{}, w)
	})
}
