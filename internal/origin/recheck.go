package origin

import (
	"errors"
	"fmt"

	"github.com/stax-otel/stax/archive"
)

// Raw is what the archive reports about a dispatch and the wait that decided its class.
type Raw struct {
	Dispatch archive.Dispatch
	// LaneErrorNanos and RuntimeErrorNanos are the clock errors of the dispatch's lane and runtime rows.
	// A lane without a row has error 0.
	LaneErrorNanos, RuntimeErrorNanos int64
	// CommandBuffer is the dispatch's; nil: none, or not in the archive.
	CommandBuffer *archive.CommandBuffer
	// Wait is the deciding wait; nil: not in the archive. Awaits are its awaits.
	Wait   *archive.Wait
	Awaits []archive.Await
	// DispatchStack and WaitStack are the exact stacks of the two origins, as stored: those that the target sent, or else
	// those of the execution trace; nil: not defined.
	DispatchStack, WaitStack []archive.StackFrame
	// DispatchGoroutine and WaitGoroutine are what the execution trace says about the two origins; 0: nothing.
	DispatchGoroutine, WaitGoroutine int64
}

// ErrCertificate is what every error of Recheck is.
var ErrCertificate = errors.New("the certificate does not follow from the facts")

// Recheck verifies a certificate against the facts, condition by condition and without an Index: the
// wait declares to await the dispatch, the numbers in the certificate are those that were reported,
// and they have the order that the class claims, beyond the clock error. Of classes without a
// deciding wait it verifies the numbers only; that no wait covers a dispatch can be verified by
// deriving again (see Audit), and so can what CPU samples say about a wait.
func Recheck(c *archive.Certificate, raw Raw) error {
	d := &raw.Dispatch
	err := clockError(raw.LaneErrorNanos, raw.RuntimeErrorNanos)
	for _, x := range []struct {
		ok   bool
		what string
	}{
		{c.Runtime == d.Runtime && c.Dispatch == d.ID, "it is about another dispatch"},
		{c.OriginNanos == d.Origin.TimeNanos || c.Wait == 0, "origin instant"},
		{c.ClockErrorNanos == err, "clock error"},
		{c.Faulted == d.Faulted, "faulted"},
		{c.OwnedNanos == 0 || c.Class == ClassSynchronous, "owned time without synchronous"},
		{(c.Reason != "") == (c.Class == ClassUnproven), "reason"},
		{c.Reason != ReasonContradicted || c.Corroboration == CorroborationContradicted, "corroboration"},
		{c.Corroboration != CorroborationContradicted || c.Class != ClassSynchronous && c.Class != ClassTimedOut, "a contradicted wait proves nothing"},
	} {
		if !x.ok {
			return fmt.Errorf("%w: %s", ErrCertificate, x.what)
		}
	}
	if c.Wait == 0 {
		return recheckWithoutWait(c, d)
	}
	return recheckWait(c, raw, err)
}

func recheckWithoutWait(c *archive.Certificate, d *archive.Dispatch) error {
	if c.OriginNanos != 0 || c.BeginNanos != 0 || c.EndNanos != 0 || c.CrossThread || c.DifferentStack || c.Corroboration != "" {
		return fmt.Errorf("%w: evidence without a wait", ErrCertificate)
	}
	switch c.Class {
	case ClassAsynchronous:
	case ClassUnproven:
		if c.Reason == ReasonBadTimes && usableInterval(d.StartNanos, d.EndNanos) {
			return fmt.Errorf("%w: the times of the dispatch are usable", ErrCertificate)
		}
	default:
		return fmt.Errorf("%w: class %s without a wait", ErrCertificate, c.Class)
	}
	return nil
}

func recheckWait(c *archive.Certificate, raw Raw, err int64) error {
	d, w := &raw.Dispatch, raw.Wait
	if w == nil {
		if c.Class == ClassUnproven && c.Reason == ReasonWaitMissing {
			return nil
		}
		return fmt.Errorf("%w: the wait %016x is not in the archive", ErrCertificate, uint64(c.Wait))
	}
	if c.Wait != w.ID || c.BeginNanos != w.BeginNanos || c.EndNanos != w.EndNanos {
		return fmt.Errorf("%w: begin and end of the wait", ErrCertificate)
	}
	if c.CrossThread != crossThread(
		d.Origin.ThreadID, or(d.Origin.GoroutineID, raw.DispatchGoroutine), w.Origin.ThreadID, or(w.Origin.GoroutineID, raw.WaitGoroutine)) {
		return fmt.Errorf("%w: cross_thread", ErrCertificate)
	}
	different := len(raw.DispatchStack) > 0 && len(raw.WaitStack) > 0 && !CommonFrame(raw.DispatchStack, raw.WaitStack)
	if c.DifferentStack != different {
		return fmt.Errorf("%w: different_stack", ErrCertificate)
	}
	switch c.Corroboration {
	case CorroborationClaimed, CorroborationSlept, CorroborationSpun, CorroborationContradicted:
	default:
		return fmt.Errorf("%w: corroboration", ErrCertificate)
	}
	if c.Class == ClassUnproven {
		return nil
	}

	covered := false
	for i := range raw.Awaits {
		covered = covered || awaits(&raw.Awaits[i], w, d, raw.CommandBuffer, err)
	}
	var order bool
	s, e, t0 := d.StartNanos, d.EndNanos, d.Origin.TimeNanos
	switch c.Class {
	case ClassSynchronous:
		order = usable(t0) && t0 <= w.BeginNanos && w.BeginNanos+err <= e && e+err <= w.EndNanos
		if c.OwnedNanos != overlap(s, e, w.BeginNanos, w.EndNanos) {
			return fmt.Errorf("%w: owned time", ErrCertificate)
		}
	case ClassTimedOut:
		order = w.BeginNanos+err < e && w.EndNanos+err < e
	case ClassWaitedLate:
		order = w.BeginNanos > e+err
	}
	switch {
	case !usableInterval(s, e) || !usableInterval(w.BeginNanos, w.EndNanos):
		return fmt.Errorf("%w: times that are none", ErrCertificate)
	case err < 0 || !order:
		return fmt.Errorf("%w: the order of origin %d, wait %d to %d and end %d, with an error of %d ns, is not %s",
			ErrCertificate, t0, w.BeginNanos, w.EndNanos, e, err, c.Class)
	case !covered:
		return fmt.Errorf("%w: the wait does not await the dispatch", ErrCertificate)
	}
	return nil
}

// awaits reports whether an await of w names the dispatch for certain.
func awaits(a *archive.Await, w *archive.Wait, d *archive.Dispatch, b *archive.CommandBuffer, err int64) bool {
	if !namesWork(a) || a.Runtime != d.Runtime || a.Wait != w.ID {
		return false
	}
	switch a.Kind {
	case archive.AwaitDispatch:
		return a.Ref == uint64(d.ID)
	case archive.AwaitCommandBuffer:
		return a.Ref == uint64(d.CommandBuffer)
	}
	queue, seq := d.Queue, d.QueueSeq
	if b != nil && b.Runtime == d.Runtime && b.ID == d.CommandBuffer && b.Queue == a.Queue && (queue == "" || queue == b.Queue) {
		queue = b.Queue
		if seq == 0 {
			seq = b.QueueSeq
		}
	}
	switch {
	case queue != a.Queue:
		return false
	case a.UpTo != 0:
		return seq != 0 && seq <= a.UpTo
	case usable(d.Origin.TimeNanos):
		return d.Origin.TimeNanos <= w.BeginNanos
	}
	return err >= 0 && d.StartNanos+err <= w.BeginNanos
}
