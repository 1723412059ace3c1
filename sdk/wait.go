package sdk

import "context"

// A Wait says that the calling goroutine blocks from BeginWait to End for the work that it names. Only a wait can prove
// that the CPU waited; name everything that it covers. While not recorded it is inert.
type Wait struct{ b builder }

// BeginWait starts a wait of the default runtime: it captures the origin and then the begin. ctx may be nil; an OTel
// span in it becomes the wait's parent.
func BeginWait(ctx context.Context, n Name) (w Wait) {
	if std.active.Load() != 0 {
		w.begin(ctx, &std, n)
	}
	return w
}

// BeginWait is [BeginWait] for this runtime.
func (rt *Runtime) BeginWait(ctx context.Context, n Name) (w Wait) {
	if rt.active.Load() != 0 {
		w.begin(ctx, rt, n)
	}
	return w
}

func (w *Wait) begin(ctx context.Context, rt *Runtime, n Name) {
	w.b.rt = rt
	w.b.rec.id, w.b.rec.kind, w.b.rec.name = rt.reserveID(), kindWait, n.id
	// A wait without thread proves nothing, so the cheapest capture is the thread.
	o := rt.capture(ctx, max(OriginMode(rt.active.Load()), OriginThread), 2)
	w.b.rec.setOrigin(&o)
	w.b.rec.start = o.time
}

// Active reports whether an End will be recorded.
func (w *Wait) Active() bool { return w.b.rt != nil }

// Await says that the wait is for a dispatch. An id of 0 is ignored.
func (w *Wait) Await(id DispatchID) { w.await(sideAwait, 0, uint64(id)) }

// AwaitCommandBuffer says that the wait is for a command buffer and all its dispatches. An id of 0 is ignored.
func (w *Wait) AwaitCommandBuffer(id CommandBufferID) { w.await(sideAwaitBuf, 0, uint64(id)) }

// AwaitQueue says that the wait is for everything submitted to q up to submission number upTo, or, with upTo 0, for
// everything submitted before the wait began.
func (w *Wait) AwaitQueue(q Queue, upTo uint64) {
	if q.id != 0 {
		w.await(sideAwaitQueue, q.id, upTo)
	}
}

func (w *Wait) await(t sideItem, queue uint32, id uint64) {
	if w.b.rt == nil || (id == 0 && t != sideAwaitQueue) {
		return
	}
	if x := w.b.side(); x != nil && !x.await(t, queue, id) {
		w.b.lost(1)
		diagAwaitsDropped.add()
	}
}

// Tag is [Dispatch.Tag].
func (w *Wait) Tag(k Key, v string) { w.b.tag(k, v) }

// End records that the awaited work was seen finished now. Later calls on the same variable do nothing.
func (w *Wait) End() {
	if w.b.rt != nil {
		w.b.end()
	}
}

// EndTimedOut records that the wait gave up now.
func (w *Wait) EndTimedOut() {
	w.b.rec.flags |= flagTimedOut
	w.End()
}
