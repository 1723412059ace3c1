package query

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/stax-otel/stax/archive"
)

// defaultLimit is the number of rows of an answer that may be long, unless a limit is given.
const defaultLimit = 20

// runner decodes parameters and asks.
type runner func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error)

// ask runs a query once its parameters are known to be good.
func ask[A any](p *paramReader, query func() (A, error)) (any, error) {
	if err := p.done(); err != nil || p.dry {
		return nil, err
	}
	return query()
}

func classParam(p *paramReader) string {
	return p.oneOf("class", "", Classes...)
}

var runners = map[string]runner{
	"info": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		return ask(p, func() (Answer[InfoRow], error) { return Info(ctx, r) })
	},
	"lanes": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		q := LanesParams{Lane: p.text("lane")}
		return ask(p, func() (Answer[LaneRow], error) { return Lanes(ctx, r, q) })
	},
	"top": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		q := TopParams{
			By: p.oneOf("by", ByTime, TopOrders...), Lane: p.text("lane"), Name: p.text("name"), Limit: p.limit(defaultLimit),
		}
		return ask(p, func() (Answer[TopRow], error) { return Top(ctx, r, q) })
	},
	"dispatches": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		q := DispatchesParams{
			Lane: p.text("lane"), Name: p.text("name"), Shader: p.text("shader"), Class: classParam(p), Thread: p.tid("thread"),
			Sort: p.oneOf("sort", SortStart, SortStart, SortDuration), Limit: p.limit(defaultLimit),
		}
		return ask(p, func() (Answer[DispatchRow], error) { return Dispatches(ctx, r, q) })
	},
	"dispatch": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		id := p.id("id")
		if id == 0 {
			p.fail("id", "the dispatch id, 1 to 16 hex digits")
		}
		return ask(p, func() (Answer[DispatchDetail], error) { return Dispatch(ctx, r, id) })
	},
	"origins": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		if id := p.id("dispatch"); id != 0 {
			return ask(p, func() (Answer[OriginDetail], error) { return DispatchOrigins(ctx, r, id) })
		}
		q := OriginsParams{Lane: p.text("lane"), Name: p.text("name"), Thread: p.tid("thread"), Limit: p.limit(defaultLimit)}
		return ask(p, func() (Answer[OriginRow], error) { return Origins(ctx, r, q) })
	},
	"waits": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		q := WaitsParams{
			Thread: p.tid("thread"), Name: p.text("name"), Class: classParam(p),
			Sort: p.oneOf("sort", SortDuration, SortDuration, SortStart, SortOwned), Limit: p.limit(defaultLimit),
		}
		return ask(p, func() (Answer[WaitRow], error) { return Waits(ctx, r, q) })
	},
	"counters": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		q := CountersParams{Lane: p.text("lane"), Name: p.text("name"), Limit: p.limit(0)}
		return ask(p, func() (Answer[CounterRow], error) { return Counters(ctx, r, q) })
	},
	"threads": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		q := ThreadsParams{Limit: p.limit(defaultLimit)}
		return ask(p, func() (ThreadsAnswer, error) { return Threads(ctx, r, q) })
	},
	"flame": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		q := FlameParams{
			TID: p.tid("tid"), PID: p.tid("pid"), Lane: p.text("lane"), Name: p.text("name"), Limit: p.limit(0),
			Mode: p.oneOf("mode", "", FlameModes...),
		}
		return ask(p, func() (FlameAnswer, error) { return Flame(ctx, r, q) })
	},
	"arrived": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		q := ArrivedParams{Symbol: p.text("symbol"), Lane: p.text("lane")}
		return ask(p, func() (Answer[ArrivedRow], error) { return Arrived(ctx, r, q) })
	},
	"cpu_top": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		q := CPUTopParams{
			By: p.oneOf("by", BySelf, BySelf, ByTotal), TID: p.tid("tid"), PID: p.tid("pid"), Lane: p.text("lane"),
			Name: p.text("name"), Source: p.text("source"), Limit: p.limit(defaultLimit),
		}
		return ask(p, func() (CPUTopAnswer, error) { return CPUTop(ctx, r, q) })
	},
	"gaps": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		q := GapsParams{Lane: p.text("lane"), TID: p.tid("tid"), Limit: p.limit(0)}
		return ask(p, func() (GapsAnswer, error) { return Gaps(ctx, r, q) })
	},
	"wall": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		q := WallParams{TID: p.tid("tid"), PID: p.tid("pid"), Limit: p.limit(0)}
		return ask(p, func() (WallAnswer, error) { return Wall(ctx, r, q) })
	},
	"why": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		q := WhyParams{Dispatch: p.id("dispatch"), Wait: p.id("wait")}
		if (q.Dispatch == 0) == (q.Wait == 0) {
			p.fail("dispatch", "the id of a dispatch or of a wait, 1 to 16 hex digits")
		}
		return ask(p, func() (WhyAnswer, error) { return Why(ctx, r, q) })
	},
	"diagnose": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		return ask(p, func() (Answer[Finding], error) { return Diagnose(ctx, r) })
	},
	"audit": func(ctx context.Context, r *archive.Reader, p *paramReader) (any, error) {
		return ask(p, func() (AuditAnswer, error) { return Audit(ctx, r) })
	},
}

// Names lists the queries that [Run] knows.
func Names() []string {
	names := make([]string, 0, len(runners))
	for name := range runners {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Run answers the query name with URL parameters. The returned value marshals to the envelope of [Answer]. Errors are
// [ErrUnknownQuery], [*ParamError], [ErrNotFound] (each possibly wrapped), or those of reading the archive.
func Run(ctx context.Context, r *archive.Reader, name string, params url.Values) (any, error) {
	run, ok := runners[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q; there are %s", ErrUnknownQuery, name, strings.Join(Names(), ", "))
	}
	return run(ctx, r, readParams(params))
}

// Check says whether [Run] would accept the query's name and parameters, without an archive.
func Check(name string, params url.Values) error {
	run, ok := runners[name]
	if !ok {
		return fmt.Errorf("%w: %q; there are %s", ErrUnknownQuery, name, strings.Join(Names(), ", "))
	}
	p := readParams(params)
	p.dry = true
	_, err := run(context.Background(), nil, p)
	return err
}
