package query

import (
	"context"
	"iter"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/origin"
)

// Links and certificates follow from the raw facts. A finished archive stores them; for a live one, one whose recorder
// died, or one that an older version derived, they are computed here, by the same code that stores them. So an answer
// does not depend on which it was.

type waitKey struct {
	runtime archive.RuntimeID
	id      archive.WaitID
}

// waitTable is the declared waits, in memory.
type waitTable struct {
	waits  map[waitKey]*archive.Wait
	order  []waitKey // in write order
	awaits map[waitKey]int64
}

// evidence is what classes and links follow from, in memory: waits, what they await, stacks, what samples say. Never the
// dispatches. Loading it costs as much as a pass over all CPU samples: what stored verdicts answer needs no evidence.
type evidence struct {
	*waitTable
	ix *origin.Index
}

// waitTable is loaded once per view.
func (v *view) waitTable(ctx context.Context) (*waitTable, error) {
	if v.declared != nil {
		return v.declared, nil
	}
	t := &waitTable{waits: map[waitKey]*archive.Wait{}, awaits: map[waitKey]int64{}}
	for rows, err := range archive.Scan[archive.Wait](ctx, v.r) {
		if err != nil {
			return nil, err
		}
		for _, w := range rows {
			key := waitKey{w.Runtime, w.ID}
			if t.waits[key] == nil { // a repeated batch repeats its waits
				t.order = append(t.order, key)
				t.waits[key] = &w
			}
		}
	}
	for rows, err := range archive.ScanColumns[archive.Await](ctx, v.r, "runtime", "wait") {
		if err != nil {
			return nil, err
		}
		for i := range rows {
			t.awaits[waitKey{rows[i].Runtime, rows[i].Wait}]++
		}
	}
	v.declared = t
	return t, nil
}

// loadEvidence loads what an answer about causes and waits needs: the small tables, stacks and evidence.
func loadEvidence(ctx context.Context, r *archive.Reader) (*view, *evidence, error) {
	v, err := load(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	if err := v.loadStacks(ctx); err != nil {
		return nil, nil, err
	}
	ev, err := v.evidence(ctx)
	return v, ev, err
}

// evidence is loaded once per view.
func (v *view) evidence(ctx context.Context) (*evidence, error) {
	if v.ev != nil {
		return v.ev, nil
	}
	t, err := v.waitTable(ctx)
	if err != nil {
		return nil, err
	}
	ix, err := origin.Load(ctx, v.r, origin.Config{})
	if err != nil {
		return nil, err
	}
	v.ev = &evidence{t, ix}
	return v.ev, nil
}

func (e *evidence) certificate(d *archive.Dispatch) archive.Certificate {
	return e.ix.Certificate(d)
}

// link is the verdict on an origin; the zero value when none was reported.
func (e *evidence) link(owner archive.OwnerKind, id uint64, rt archive.RuntimeID, kind archive.OriginKind, o archive.Origin) archive.Link {
	if !o.Present() {
		return archive.Link{Runtime: rt, OwnerKind: owner, Owner: id, Kind: kind, DistanceNanos: -1}
	}
	return e.ix.Link(rt, owner, id, kind, &o)
}

func (e *evidence) covering(d *archive.Dispatch) map[archive.WaitID]bool {
	ids := map[archive.WaitID]bool{}
	for _, id := range e.ix.Covering(d) {
		ids[id] = true
	}
	return ids
}

// verdictColumns are the columns of dispatches that links, certificates and totals are made of.
var verdictColumns = []string{
	"runtime", "lane", "dispatch", "command_buffer", "queue", "queue_seq", "start_ns", "end_ns", "faulted",
	"origin_thread", "origin_goroutine", "origin_ns", "origin_stack", "origin_thread_locked", "origin_cpu_trace", "origin_cpu_span",
}

// attributed visits every dispatch with its certificate and the link of its dispatch origin, in write order. The
// arguments are valid until visit returns. Of the dispatch, what verdicts depend on is filled in, and the named columns.
func (v *view) attributed(ctx context.Context, visit func(*archive.Dispatch, *archive.Certificate, *archive.Link), columns ...string) error {
	certs, links := &cursor[archive.Certificate]{}, &cursor[archive.Link]{}
	if version, ok := v.r.HasDerived(); ok && version == origin.Version && v.info.State == archive.StateFinished {
		certs.open(archive.Scan[archive.Certificate](ctx, v.r))
		defer certs.close()
		links.open(archive.Scan[archive.Link](ctx, v.r))
		defer links.close()
	}
	for rows, err := range archive.ScanColumns[archive.Dispatch](ctx, v.r, append(columns, verdictColumns...)...) {
		if err != nil {
			return err
		}
		for i := range rows {
			d := &rows[i]
			cert, link, err := v.stored(d, certs, links)
			if err != nil {
				return err
			}
			if cert == nil || link == nil && d.Origin.Present() {
				ev, err := v.evidence(ctx)
				if err != nil {
					return err
				}
				if cert == nil {
					c := ev.certificate(d)
					cert = &c
				}
				if link == nil {
					l := ev.link(archive.OwnerDispatch, uint64(d.ID), d.Runtime, archive.OriginDispatch, d.Origin)
					link = &l
				}
			}
			if link == nil {
				link = &archive.Link{DistanceNanos: -1}
			}
			visit(d, cert, link)
		}
	}
	return nil
}

// stored takes the certificate and the link of a dispatch from the derived tables, which are in the order of the
// dispatches. Where they are not, it returns nil and the caller derives.
func (v *view) stored(d *archive.Dispatch, certs *cursor[archive.Certificate], links *cursor[archive.Link]) (*archive.Certificate, *archive.Link, error) {
	c, err := certs.peek()
	if err != nil {
		return nil, nil, err
	}
	if c != nil {
		if c.Dispatch == d.ID && c.Runtime == d.Runtime {
			certs.at++
		} else {
			c = nil
		}
	}
	if !d.Origin.Present() {
		return c, nil, nil
	}
	for {
		l, err := links.peek()
		if err != nil || l == nil {
			return c, nil, err
		}
		if l.OwnerKind != archive.OwnerDispatch || l.Kind != archive.OriginDispatch {
			links.at++ // of a wait, a completion ...: not wanted here
			continue
		}
		if l.Owner != uint64(d.ID) || l.Runtime != d.Runtime {
			return c, nil, nil
		}
		links.at++
		return c, l, nil
	}
}

// cursor reads a table row by row. The zero cursor is at its end.
type cursor[T any] struct {
	next  func() ([]T, error, bool)
	stop  func()
	batch []T
	at    int
}

func (c *cursor[T]) open(rows iter.Seq2[[]T, error]) { c.next, c.stop = iter.Pull2(rows) }

func (c *cursor[T]) close() {
	if c.stop != nil {
		c.stop()
	}
}

// peek returns the current row, or nil at the end. It is valid until the row after the batch is peeked at.
func (c *cursor[T]) peek() (*T, error) {
	for c.at >= len(c.batch) {
		if c.next == nil {
			return nil, nil
		}
		batch, err, ok := c.next()
		if !ok || err != nil {
			c.next = nil
			return nil, err
		}
		c.batch, c.at = batch, 0
	}
	return &c.batch[c.at], nil
}
