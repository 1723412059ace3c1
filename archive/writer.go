package archive

import (
	"context"
	"errors"
	"time"
)

// WriterOptions are the settings of a Writer. The zero value is ready to use.
type WriterOptions struct {
	Sync        time.Duration    // longest time that accepted rows stay unsynced; 0: 1 s; negative: every Append syncs
	SegmentRows int              // rows of a log that make it full; 0: 65536
	SegmentAge  time.Duration    // age of a log that is not empty that makes it full; 0: 30 s
	Now         func() time.Time // nil: time.Now
}

// Writer writes one archive. Its methods are safe for concurrent use.
type Writer struct{}

var errNotYet = errors.New("archive: not yet")

// Create makes a new archive in the directory dir, which must not exist, and returns its Writer.
func Create(dir string, info RecordingInfo, o WriterOptions) (*Writer, error) { return nil, errNotYet }

// Append stores the rows of b: all of them or none.
func (w *Writer) Append(b *Batch) error { return errNotYet }

// Sync makes everything that Append accepted durable.
func (w *Writer) Sync() error { return errNotYet }

// UpdateInfo changes the recording's description.
func (w *Writer) UpdateInfo(change func(*RecordingInfo)) error { return errNotYet }

// Finish seals and merges everything, marks the recording finished and closes the Writer.
func (w *Writer) Finish(ctx context.Context, change func(*RecordingInfo), progress func(done, total int)) error {
	return errNotYet
}

// Close ends the Writer without finishing the recording.
func (w *Writer) Close() error { return errNotYet }
