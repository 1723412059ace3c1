package cli

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/stax-otel/stax/internal/recording"
)

// progress tells on stderr how a recording is doing: one line that is redrawn on a terminal, else a line now and then.
type progress struct {
	app     *app
	rec     *recording.Recording
	began   time.Time
	quiet   bool // the command writes to the same terminal: only sealing is shown
	last    time.Time
	every   time.Duration
	state   recording.State
	problem string
	drawn   bool
}

func newProgress(a *app, rec *recording.Recording, sharesTerminal bool) *progress {
	return &progress{app: a, rec: rec, began: time.Now(), quiet: sharesTerminal, last: time.Now(), every: 10 * time.Second}
}

// update is called often; it writes when there is something new to see.
func (p *progress) update() {
	info := p.rec.Info()
	changed := info.State != p.state && p.state != "" && info.State == recording.StateSealing
	p.state = info.State
	// A problem that comes and goes, as on a disk that is almost full, is said once.
	if info.Problem != "" && info.Problem != p.problem {
		p.problem = info.Problem
		p.clear()
		p.app.say("%s", clean(p.problem))
	}
	sealing := info.State == recording.StateSealing
	if p.app.progress {
		if !p.quiet || sealing {
			p.draw(p.line(info))
		}
		return
	}
	now := time.Now()
	if !changed && now.Sub(p.last) < p.every {
		return
	}
	if !changed {
		p.every = min(2*p.every, 5*time.Minute) // a long recording needs no line every few seconds
	}
	p.last = now
	p.app.say("%s", p.line(info))
}

func (p *progress) line(info recording.Info) string {
	switch info.State {
	case recording.StateDraining:
		return "stopping, waiting for the last data"
	case recording.StateSealing:
		if info.SealTotal > 0 {
			return fmt.Sprintf("sealing the archive, %d %%", 100*int64(info.SealDone)/int64(info.SealTotal))
		}
		return "sealing the archive"
	}
	parts := []string{"recording for " + formatDuration(int64(time.Since(p.began).Truncate(time.Second)))}
	if len(info.Runtimes) == 0 {
		parts = append(parts, "no instrumented process yet")
	} else {
		parts = append(parts, plural(len(info.Runtimes), "process", "processes"), formatBytes(size(info.Path)))
	}
	dropped := uint64(0)
	for _, d := range info.Drops {
		dropped += d.Count
	}
	if dropped > 0 {
		parts = append(parts, formatCount(dropped)+" dropped")
	}
	return strings.Join(parts, ", ")
}

func (p *progress) draw(line string) {
	fmt.Fprintf(p.app.stderr, "\r\x1b[K%s", shorten("stax: "+line, 79))
	p.drawn = true
}

// clear takes the line away.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.app.stderr, "\r\x1b[K")
		p.drawn = false
	}
}

// size adds up the files of an archive.
func size(dir string) (n int64) {
	// Files come and go while an archive is written: what cannot be seen does not count.
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
