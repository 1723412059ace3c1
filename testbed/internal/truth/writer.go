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

// Writer writes a truth file. It is safe for concurrent use. A nil *Writer keeps the totals for [Writer.End] out of
// everything and writes nothing, so a target needs no second path for running without a truth file.
type Writer struct {
	mu    sync.Mutex
	file  *os.File
	buf   *bufio.Writer
	enc   *json.Encoder
	err   error // the first one; everything after it is dropped
	end   End
	lanes map[string]*LaneTotal

	stop chan struct{}
	done chan struct{}
}

// Create makes or truncates the file at path. An empty path gives a nil Writer and no error.
func Create(path string, p Process) (*Writer, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // a nil Writer is a valid Writer that writes nothing
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

// Close writes e, with the totals filled in, as the last line and closes the file.
func (w *Writer) Close(e End) error {
	if w == nil {
		return nil
	}
	close(w.stop)
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Dispatches, e.CommandBuffers, e.Waits = w.end.Dispatches, w.end.CommandBuffers, w.end.Waits
	for _, l := range w.lanes {
		e.Lanes = append(e.Lanes, *l)
	}
	slices.SortFunc(e.Lanes, func(a, b LaneTotal) int { return cmp.Compare(a.Lane, b.Lane) })
	w.line(Line{End: &e})
	w.keep(w.buf.Flush())
	return errors.Join(w.err, w.file.Close())
}

func (w *Writer) put(l Line) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case l.Dispatch != nil:
		w.end.Dispatches++
		t := w.lanes[l.Dispatch.Lane]
		if t == nil {
			t = &LaneTotal{Lane: l.Dispatch.Lane}
			w.lanes[l.Dispatch.Lane] = t
		}
		t.Count++
		t.TotalNanos += l.Dispatch.EndNanos - l.Dispatch.StartNanos
	case l.CommandBuffer != nil:
		w.end.CommandBuffers++
	case l.Wait != nil:
		w.end.Waits++
	}
	w.line(l)
}

// line needs w.mu, or sole ownership.
func (w *Writer) line(l Line) {
	if w.err == nil {
		w.keep(w.enc.Encode(l))
	}
}

func (w *Writer) keep(err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("truth: write %s: %w", w.file.Name(), err)
	}
}
