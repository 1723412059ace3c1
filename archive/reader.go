package archive

import (
	"context"
	"io"
	"iter"
)

// ReaderOptions are the settings of a Reader. The zero value is ready to use.
type ReaderOptions struct{}

// Reader reads a snapshot of an archive.
type Reader struct{}

// Row is any row of any table.
type Row interface {
	Runtime | Lane | Thread | Dispatch | CommandBuffer | Wait | Await | ExtraOrigin | StackFrame | Counter |
		CounterSample | Heartbeat | Drop | ClockSample | Diagnostic | Passthrough | Link | Certificate
}

// Open opens the archive in dir.
func Open(dir string, o ReaderOptions) (*Reader, error) { return nil, errNotYet }

// Manifest returns the manifest of the snapshot.
func (r *Reader) Manifest() Manifest { return Manifest{} }

// Losses returns what could not be read so far.
func (r *Reader) Losses() []Loss { return nil }

// Close closes the files.
func (r *Reader) Close() error { return nil }

// HasDerived returns the version of the derived tables.
func (r *Reader) HasDerived() (version string, ok bool) { return "", false }

// Dispatch returns the dispatch with the given id.
func (r *Reader) Dispatch(ctx context.Context, id DispatchID) (Dispatch, bool, error) {
	return Dispatch{}, false, errNotYet
}

// CommandBuffer returns the command buffer with the given id.
func (r *Reader) CommandBuffer(ctx context.Context, id CommandBufferID) (CommandBuffer, bool, error) {
	return CommandBuffer{}, false, errNotYet
}

// Wait returns the wait with the given id.
func (r *Reader) Wait(ctx context.Context, id WaitID) (Wait, bool, error) {
	return Wait{}, false, errNotYet
}

// Scan returns the rows of T's table in write order. A batch is valid until the next iteration.
func Scan[T Row](ctx context.Context, r *Reader) iter.Seq2[[]T, error] {
	return ScanColumns[T](ctx, r)
}

// ScanColumns is Scan with only the named columns filled in. No names: all columns.
func ScanColumns[T Row](ctx context.Context, r *Reader, columns ...string) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {}
}

// DerivedWriter takes the rows of the derived tables.
type DerivedWriter struct{}

// Links adds rows to the table links.
func (d *DerivedWriter) Links(rows []Link) error { return errNotYet }

// Certificates adds rows to the table certificates.
func (d *DerivedWriter) Certificates(rows []Certificate) error { return errNotYet }

// WriteDerived replaces the derived tables of the archive in dir.
func WriteDerived(ctx context.Context, dir string, version string, fill func(*DerivedWriter) error) error {
	return errNotYet
}

// Dump writes the archive as text.
func Dump(w io.Writer, r *Reader) error { return errNotYet }

// Assemble makes an archive from the text that Dump writes.
func Assemble(r io.Reader, dir string) error { return errNotYet }

// Report is the result of Verify.
type Report struct {
	Manifest Manifest
	Rows     map[string]int64 // readable rows by table
	Files    int              // checked
	Losses   []Loss
}

// Verify reads every file of the archive in dir and checks it.
func Verify(ctx context.Context, dir string) (Report, error) { return Report{}, errNotYet }
