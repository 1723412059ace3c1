package origin

import (
	"context"
	"fmt"
	"iter"

	"github.com/stax-otel/stax/archive"
)

// AuditReport says how far the verdicts of an archive follow from its facts.
type AuditReport struct {
	Stored       string // version of the stored tables; "": none, so that only verdicts derived now were checked
	Current      bool   // Stored is the Version of this package, so stored rows were compared with rows derived now
	Certificates int64
	Links        int64
	Rechecked    int64 // certificates with a deciding wait whose conditions were verified one by one
	Problems     int64
	Examples     []string // of problems, the first few
}

const maxExamples = 20

func (a *AuditReport) problem(format string, args ...any) {
	a.Problems++
	if len(a.Examples) < maxExamples {
		a.Examples = append(a.Examples, fmt.Sprintf(format, args...))
	}
}

// Audit verifies every certificate and link of an archive: those that are stored are equal to what
// the facts give when everything is derived again, and each certificate that rests on a wait passes
// Recheck. Tables stored by another version of the rules are not compared, but rechecked.
func Audit(ctx context.Context, r *archive.Reader, cfg Config) (a AuditReport, err error) {
	ix, err := Load(ctx, r, cfg)
	if err != nil {
		return a, err
	}
	a.Stored, _ = r.HasDerived()
	a.Current = a.Stored == Version
	if a.Current {
		c := newComparer(ctx, r, &a)
		err = ix.Derive(ctx, r, c)
		if e := c.close(); err == nil {
			err = e
		}
	} else {
		err = ix.Derive(ctx, r, counter{&a})
	}
	if err != nil {
		return a, err
	}
	facts, err := loadRaw(ctx, r)
	if err != nil {
		return a, err
	}
	return a, facts.recheck(ctx, r, ix, &a)
}

// counter is a Sink that counts.
type counter struct{ a *AuditReport }

func (c counter) Links(rows []archive.Link) error {
	c.a.Links += int64(len(rows))
	return nil
}

func (c counter) Certificates(rows []archive.Certificate) error {
	c.a.Certificates += int64(len(rows))
	return nil
}

// comparer is a Sink that compares derived rows with the stored ones. Both are in the order of Derive.
type comparer struct {
	counter
	links        *stored[archive.Link]
	certificates *stored[archive.Certificate]
}

func newComparer(ctx context.Context, r *archive.Reader, a *AuditReport) *comparer {
	return &comparer{counter{a}, newStored[archive.Link](ctx, r), newStored[archive.Certificate](ctx, r)}
}

func (c *comparer) Links(rows []archive.Link) error {
	for i := range rows {
		x := &rows[i]
		got, ok, err := c.links.next()
		switch {
		case err != nil:
			return err
		case c.links.astray:
		case !ok:
			c.links.astray = true
			c.a.problem("links: the stored table ends before the %s origin of %s %016x", x.Kind, x.OwnerKind, x.Owner)
		case got.Runtime != x.Runtime || got.OwnerKind != x.OwnerKind || got.Owner != x.Owner || got.Kind != x.Kind:
			c.links.astray = true
			c.a.problem("links: the stored table has the %s origin of %s %016x where that of %s %016x belongs; the rest was not compared",
				got.Kind, got.OwnerKind, got.Owner, x.OwnerKind, x.Owner)
		case got != *x:
			c.a.problem("link of the %s origin of %s %016x: stored %s %s, derived %s %s", x.Kind, x.OwnerKind, x.Owner, got.Status, got.Grade, x.Status, x.Grade)
		}
	}
	return c.counter.Links(rows)
}

func (c *comparer) Certificates(rows []archive.Certificate) error {
	for i := range rows {
		x := &rows[i]
		got, ok, err := c.certificates.next()
		switch {
		case err != nil:
			return err
		case c.certificates.astray:
		case !ok:
			c.certificates.astray = true
			c.a.problem("certificates: the stored table ends before dispatch %016x", uint64(x.Dispatch))
		case got.Runtime != x.Runtime || got.Dispatch != x.Dispatch:
			c.certificates.astray = true
			c.a.problem("certificates: the stored table has dispatch %016x where %016x belongs; the rest was not compared", uint64(got.Dispatch), uint64(x.Dispatch))
		case got != *x:
			c.a.problem("certificate of dispatch %016x: stored %s wait %016x owned %d, derived %s wait %016x owned %d", uint64(x.Dispatch),
				got.Class, uint64(got.Wait), got.OwnedNanos, x.Class, uint64(x.Wait), x.OwnedNanos)
		}
	}
	return c.counter.Certificates(rows)
}

// close reports stored rows that nothing was derived for.
func (c *comparer) close() error {
	defer c.links.stop()
	defer c.certificates.stop()
	if _, ok, err := c.links.next(); err != nil {
		return err
	} else if ok && !c.links.astray {
		c.a.problem("links: the stored table has more rows than there are origins")
	}
	if _, ok, err := c.certificates.next(); err != nil {
		return err
	} else if ok && !c.certificates.astray {
		c.a.problem("certificates: the stored table has more rows than there are dispatches")
	}
	return nil
}

// stored is a table as a sequence of rows.
type stored[T archive.Row] struct {
	batch  []T
	pull   func() ([]T, error, bool)
	stop   func()
	astray bool // the rows no longer correspond
}

func newStored[T archive.Row](ctx context.Context, r *archive.Reader) *stored[T] {
	s := &stored[T]{}
	s.pull, s.stop = iter.Pull2(archive.Scan[T](ctx, r))
	return s
}

func (s *stored[T]) next() (row T, ok bool, err error) {
	for len(s.batch) == 0 {
		rows, err, more := s.pull()
		if err != nil {
			return row, false, fmt.Errorf("origin: reading the derived tables: %w", err)
		}
		if !more {
			return row, false, nil
		}
		s.batch = rows
	}
	row, s.batch = s.batch[0], s.batch[1:]
	return row, true, nil
}

// rawFacts holds what Recheck needs beside dispatches and certificates, as it is in the archive.
type rawFacts struct {
	laneErrors    map[laneKey]int64
	runtimeErrors map[archive.RuntimeID]int64
	buffers       map[bufferKey]archive.CommandBuffer
	waits         map[waitKey]archive.Wait
	awaits        map[waitKey][]archive.Await
	stacks        map[stackKey][]archive.StackFrame
	queues        bool
}

type (
	laneKey struct {
		runtime archive.RuntimeID
		lane    archive.LaneID
	}
	bufferKey struct {
		runtime archive.RuntimeID
		buffer  archive.CommandBufferID
	}
	waitKey struct {
		runtime archive.RuntimeID
		wait    archive.WaitID
	}
	stackKey struct {
		runtime archive.RuntimeID
		stack   archive.StackID
	}
)

func loadRaw(ctx context.Context, r *archive.Reader) (*rawFacts, error) {
	f := &rawFacts{
		laneErrors: map[laneKey]int64{}, runtimeErrors: map[archive.RuntimeID]int64{}, buffers: map[bufferKey]archive.CommandBuffer{},
		waits: map[waitKey]archive.Wait{}, awaits: map[waitKey][]archive.Await{}, stacks: map[stackKey][]archive.StackFrame{},
	}
	err := firstError(
		func() error {
			return scan(ctx, r, each(func(x *archive.Runtime) { f.runtimeErrors[x.ID] = x.ClockErrorNanos }))
		},
		func() error {
			return scan(ctx, r, each(func(x *archive.Lane) { f.laneErrors[laneKey{x.Runtime, x.ID}] = x.ClockErrorNanos }))
		},
		func() error {
			return scan(ctx, r, each(func(x *archive.StackFrame) {
				key := stackKey{x.Runtime, x.Stack}
				f.stacks[key] = append(f.stacks[key], *x)
			}))
		},
		func() error {
			return scan(ctx, r, each(func(x *archive.Wait) {
				key := waitKey{x.Runtime, x.ID} // of several rows of one id, the one that the Index keeps
				if old, again := f.waits[key]; !again || olderWait(x, &old) {
					f.waits[key] = *x
				}
			}))
		},
		func() error {
			return scan(ctx, r, each(func(x *archive.Await) {
				key := waitKey{x.Runtime, x.Wait}
				f.awaits[key] = append(f.awaits[key], *x)
				f.queues = f.queues || x.Kind == archive.AwaitQueue
			}))
		},
	)
	if err != nil || !f.queues {
		return f, err
	}
	return f, scan(ctx, r, each(func(x *archive.CommandBuffer) { f.buffers[bufferKey{x.Runtime, x.ID}] = *x }),
		"runtime", "command_buffer", "queue", "queue_seq")
}

// olderWait reports whether of two rows of one id the first is the one that the Index keeps.
func olderWait(a, b *archive.Wait) bool {
	x, y := newWaitRow(a), newWaitRow(b)
	return compareWaits(&x, &y) < 0
}

func each[T any](f func(*T)) func([]T) {
	return func(rows []T) {
		for i := range rows {
			f(&rows[i])
		}
	}
}

// recheck passes every certificate, stored or derived now, to Recheck.
func (f *rawFacts) recheck(ctx context.Context, r *archive.Reader, ix *Index, a *AuditReport) error {
	certificates := newStored[archive.Certificate](ctx, r)
	defer certificates.stop()
	raw := Raw{}
	for rows, err := range archive.ScanColumns[archive.Dispatch](ctx, r, dispatchColumns...) {
		if err != nil {
			return fmt.Errorf("origin: reading the archive: %w", err)
		}
		for i := range rows {
			raw.Dispatch = rows[i]
			d := &raw.Dispatch
			c := archive.Certificate{}
			if a.Stored != "" && !certificates.astray {
				var ok bool
				if c, ok, err = certificates.next(); err != nil {
					return err
				}
				certificates.astray = !ok || c.Runtime != d.Runtime || c.Dispatch != d.ID
			}
			if a.Stored == "" || certificates.astray {
				c = ix.Certificate(d)
			}
			f.about(&raw, ix, c.Wait)
			if c.Wait != 0 {
				a.Rechecked++
			}
			if err := Recheck(&c, raw); err != nil {
				a.problem("dispatch %016x: %v", uint64(d.ID), err)
			}
		}
	}
	return ctx.Err()
}

// about fills in the rows that a certificate with the given wait is about.
func (f *rawFacts) about(raw *Raw, ix *Index, wait archive.WaitID) {
	d := &raw.Dispatch
	*raw = Raw{Dispatch: *d, LaneErrorNanos: f.laneErrors[laneKey{d.Runtime, d.Lane}], RuntimeErrorNanos: f.runtimeErrors[d.Runtime]}
	d = &raw.Dispatch
	if wait == 0 {
		return
	}
	key := waitKey{d.Runtime, wait}
	if w, ok := f.waits[key]; ok {
		raw.Wait = &w
		raw.WaitStack, raw.WaitGoroutine = f.exact(ix, d.Runtime, &w.Origin)
	}
	raw.Awaits = f.awaits[key]
	raw.DispatchStack, raw.DispatchGoroutine = f.exact(ix, d.Runtime, &d.Origin)
	if b, ok := f.buffers[bufferKey{d.Runtime, d.CommandBuffer}]; ok && d.CommandBuffer != 0 {
		raw.CommandBuffer = &b
	}
}

// exact returns the frames of an origin's exact stack, and the goroutine that the execution trace says it was on.
func (f *rawFacts) exact(ix *Index, id archive.RuntimeID, o *archive.Origin) (frames []archive.StackFrame, goroutine int64) {
	rt := ix.runtimes[id]
	if rt == nil {
		return nil, 0
	}
	event := ix.event(rt, o.ThreadID, o.TimeNanos)
	for _, stack := range []archive.StackID{o.Stack, event.stack} {
		if stack == 0 {
			continue
		}
		if frames := f.stacks[stackKey{id, stack}]; frames != nil {
			return frames, event.goroutine
		}
		for _, other := range ix.pids[rt.row.PID] {
			if frames := f.stacks[stackKey{other.row.ID, stack}]; frames != nil {
				return frames, event.goroutine
			}
		}
	}
	return nil, event.goroutine
}
