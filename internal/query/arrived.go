package query

import (
	"context"

	"github.com/stax-otel/stax/archive"
)

// ArrivedRow says what a recording holds so far.
type ArrivedRow struct {
	State        string `json:"state"` // of the recording, as in Coverage
	StartedNanos int64  `json:"started_ns"`
	StoppedNanos int64  `json:"stopped_ns"` // 0: not stopped
	Samples      int64  `json:"samples"`    // rows of CPU samples
	Dispatches   int64  `json:"dispatches"`
	Lanes        int    `json:"lanes"`
	// Symbol is a function of a captured or sampled stack, or the name of a dispatch, that matches; "": none yet.
	Symbol string `json:"symbol"`
	// Lane is a lane with dispatches that matches; "": none yet.
	Lane string `json:"lane"`
}

// ArrivedParams are the parameters of [Arrived]. Empty filters are not looked for.
type ArrivedParams struct {
	Symbol string // filter of functions and dispatch names, see TopParams
	Lane   string // filter, see LanesParams
}

// Arrived says what has arrived of a recording: it is made to be asked again and again while the recording runs.
func Arrived(ctx context.Context, r *archive.Reader, p ArrivedParams) (Answer[ArrivedRow], error) {
	a := newAnswer[ArrivedRow]("arrived")
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	rows := r.Rows()
	row := ArrivedRow{
		State: v.state(), StartedNanos: v.info.StartedNanos, StoppedNanos: v.info.StoppedNanos, Samples: rows["samples"], Dispatches: rows["dispatches"],
	}
	if p.Symbol != "" {
		if row.Symbol, err = v.findSymbol(ctx, newPattern(p.Symbol)); err != nil {
			return a, err
		}
	}
	if p.Lane != "" && row.Dispatches > 0 {
		if row.Lane, err = v.findBusyLane(ctx, p.Lane); err != nil {
			return a, err
		}
	}
	row.Lanes = len(v.lanes)
	a.Rows, a.Matched = append(a.Rows, row), 1
	a.Coverage, err = v.coverage(ctx)
	return a, err
}

func (v *view) findSymbol(ctx context.Context, pat pattern) (string, error) {
	for rows, err := range archive.ScanColumns[archive.StackFrame](ctx, v.r, "function") {
		if err != nil {
			return "", err
		}
		for i := range rows {
			if pat.match(rows[i].Function) {
				return rows[i].Function, nil
			}
		}
	}
	for rows, err := range archive.ScanColumns[archive.Dispatch](ctx, v.r, "name") {
		if err != nil {
			return "", err
		}
		for i := range rows {
			if pat.match(rows[i].Name) {
				return rows[i].Name, nil
			}
		}
	}
	return "", nil
}

// findBusyLane finds a lane with dispatches.
func (v *view) findBusyLane(ctx context.Context, text string) (string, error) {
	busy := map[*lane]bool{}
	for rows, err := range archive.ScanColumns[archive.Dispatch](ctx, v.r, "runtime", "lane") {
		if err != nil {
			return "", err
		}
		for i := range rows {
			busy[v.lane(rows[i].Runtime, rows[i].Lane)] = true
		}
	}
	filter := v.laneFilter(text)
	for _, l := range v.lanes {
		if busy[l] && filter.match(l) {
			return l.Name, nil
		}
	}
	return "", nil
}
