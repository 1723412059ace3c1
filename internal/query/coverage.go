package query

import (
	"context"

	"github.com/stax-otel/stax/archive"
)

// States of a recording as an answer sees it.
const (
	StateFinished = "finished" // sealed
	StateLive     = "live"     // its recorder is still running: the answer is a snapshot
	StateCrashed  = "crashed"  // its recorder died before it sealed the archive
)

// Coverage says how much of the truth an answer rests on. Records are dispatches, command buffers and waits.
type Coverage struct {
	State string `json:"state"`
	// Emitted is what the sequenced runtimes say they made for this recording, by their last heartbeats.
	Emitted uint64 `json:"emitted"`
	// Archived counts the records in the archive.
	Archived uint64 `json:"archived"`
	// Dropped sums the records that somebody says were lost: in the target, the receiver, the archive.
	Dropped uint64 `json:"dropped"`
	// Runtimes counts the processes that reported; UnsequencedRuntimes those that number nothing, so that losses
	// cannot show.
	Runtimes            int `json:"runtimes"`
	UnsequencedRuntimes int `json:"unsequenced_runtimes"`
	// UnreadableParts counts the pieces of the archive that could not be read.
	UnreadableParts int `json:"unreadable_parts"`
	// Origins is present in answers about attribution.
	Origins *OriginCoverage `json:"origins,omitempty"`
}

// OriginCoverage counts the dispatch origins by what is known about them.
type OriginCoverage struct {
	Dispatches int64            `json:"dispatches"` // looked at
	Reported   int64            `json:"reported"`   // with an origin
	Grades     map[string]int64 `json:"grades"`     // A B C D; linked origins only
	Statuses   map[string]int64 `json:"statuses"`   // linked, missing_thread ...; of reported origins
}

func newOriginCoverage() *OriginCoverage {
	return &OriginCoverage{Grades: map[string]int64{}, Statuses: map[string]int64{}}
}

func (o *OriginCoverage) add(d *archive.Dispatch, l *archive.Link) {
	o.Dispatches++
	if !d.Origin.Present() {
		return
	}
	o.Reported++
	o.Statuses[l.Status]++
	if l.Grade != "" {
		o.Grades[l.Grade]++
	}
}

// coverage counts everything but the origins.
func (v *view) coverage(ctx context.Context) (Coverage, error) {
	c := Coverage{State: v.state(), Runtimes: len(v.runtimes), UnreadableParts: len(v.r.Losses())}
	for _, r := range v.runtimes {
		if !r.Sequenced {
			c.UnsequencedRuntimes++
		}
	}
	beats, err := readHeartbeats(ctx, v.r)
	if err != nil {
		return c, err
	}
	for _, s := range beats.stints {
		c.Emitted += s.owed()
		c.Dropped += s.droppedFull + s.droppedSend + s.droppedOther
	}
	for rows, err := range archive.Scan[archive.Drop](ctx, v.r) {
		if err != nil {
			return c, err
		}
		for _, d := range rows {
			if recordSignal(d.Signal) && d.Reason != reasonRepeated && !beats.covers(d) {
				c.Dropped += d.Count
			}
		}
	}
	rows := v.r.Rows()
	c.Archived = uint64(rows["dispatches"] + rows["command_buffers"] + rows["waits"])
	return c, nil
}

// state tells a live recording from one whose recorder died.
func (v *view) state() string {
	switch {
	case v.info.State == archive.StateFinished:
		return StateFinished
	case v.r.Live():
		return StateLive
	}
	return StateCrashed
}
