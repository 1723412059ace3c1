package truth

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// FlushInterval is the longest time that a line stays in the writer's buffer.
const FlushInterval = 20 * time.Millisecond

// Writer writes a truth file and keeps the totals for its end line. It is safe for concurrent use. Without a path it
// keeps the totals only, so a target needs no second way of running without a truth file.
type Writer struct {
	mu    sync.Mutex
	file  *os.File // nil: totals only
	buf   *bufio.Writer
	enc   *json.Encoder
	err   error // the first one; everything after it is dropped
	end   End
	lanes map[string]*LaneTotal

	stop chan struct{}
	done chan struct{}
}

// Create makes or truncates the file at path; "" makes none.
func Create(path string, p Process) (*Writer, error) {
	if path == "" {
		return &Writer{lanes: map[string]*LaneTotal{}}, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("truth: create: %w", err)
	}
	w := &Writer{
		file:  f,
		buf:   bufio.NewWriterSize(f, 1<<16),
		lanes: map[string]*LaneTotal{},
		stop:  make(chan struct{}),
		done:  make(chan struct{}),
	}
	w.enc = json.NewEncoder(w.buf)
	w.line(Line{Process: &p})
	go w.flushLoop()
	return w, nil
}

func (w *Writer) flushLoop() {
	defer close(w.done)
	t := time.NewTicker(FlushInterval)
	defer t.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-t.C:
			w.mu.Lock()
			w.keep(w.buf.Flush())
			w.mu.Unlock()
		}
	}
}

// Lane writes a lane.
func (w *Writer) Lane(l Lane) { w.put(Line{Lane: &l}) }

// CommandBuffer writes a command buffer that was reported.
func (w *Writer) CommandBuffer(c CommandBuffer) { w.put(Line{CommandBuffer: &c}) }

// Dispatch writes a dispatch that was reported.
func (w *Writer) Dispatch(d Dispatch) { w.put(Line{Dispatch: &d}) }

// Wait writes a wait that has ended.
func (w *Writer) Wait(x Wait) { w.put(Line{Wait: &x}) }

// Verdict writes what is expected of a dispatch. A later verdict on the same dispatch replaces this one.
func (w *Writer) Verdict(v Verdict) { w.put(Line{Verdict: &v}) }

// Count adds dispatches to the totals of a lane without writing them one by one, for targets that make too many.
func (w *Writer) Count(lane string, count uint64, totalNanos int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(lane, count, totalNanos)
}

// count needs w.mu.
func (w *Writer) count(lane string, count uint64, totalNanos int64) {
	w.end.Dispatches += count
	t := w.lanes[lane]
	if t == nil {
		t = &LaneTotal{Lane: lane}
		w.lanes[lane] = t
	}
	t.Count += count
	t.TotalNanos += totalNanos
}

// Close fills the totals into e, writes it as the last line, closes the file and returns it.
func (w *Writer) Close(e End) (End, error) {
	if w.file != nil {
		close(w.stop)
		<-w.done
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Dispatches, e.CommandBuffers, e.Waits = w.end.Dispatches, w.end.CommandBuffers, w.end.Waits
	for _, l := range w.lanes {
		e.Lanes = append(e.Lanes, *l)
	}
	slices.SortFunc(e.Lanes, func(a, b LaneTotal) int { return cmp.Compare(a.Lane, b.Lane) })
	if w.file == nil {
		return e, nil
	}
	w.line(Line{End: &e})
	w.keep(w.buf.Flush())
	return e, errors.Join(w.err, w.file.Close())
}

func (w *Writer) put(l Line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case l.Dispatch != nil:
		w.count(l.Dispatch.Lane, 1, l.Dispatch.EndNanos-l.Dispatch.StartNanos)
	case l.CommandBuffer != nil:
		w.end.CommandBuffers++
	case l.Wait != nil:
		w.end.Waits++
	}
	w.line(l)
}

// line needs w.mu, or sole ownership.
func (w *Writer) line(l Line) {
	if w.file != nil && w.err == nil {
		w.keep(w.enc.Encode(l))
	}
}

func (w *Writer) keep(err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("truth: write %s: %w", w.file.Name(), err)
	}
}
