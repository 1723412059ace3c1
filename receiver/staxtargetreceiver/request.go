package staxtargetreceiver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/recording"
	"github.com/stax-otel/stax/receiver/staxtargetreceiver/internal/validate"
	"github.com/stax-otel/stax/sdk/semconv"
)

// stage is the receiver's name in drop rows.
const stage = "receiver"

// sender is who sent a request, by its own word and by the kernel's.
type sender struct {
	token    string
	peer     recording.Peer
	havePeer bool
}

// request is one export on its way: what was admitted, what was refused, and what has to be undone when the next consumer
// does not take the rest.
type request struct {
	r        *targetReceiver
	from     sender
	rejected map[rejection]uint64
	items    int // refused items, as the client counts them
	diag     validate.Diagnostics
	detached int
	undo     []func()
	finals   []admission
	releases []func()
}

type rejection struct {
	rec       *recording.Recording // nil: none is known
	runtime   archive.RuntimeID
	shard     uint32
	sequenced bool
	signal    string
	reason    string
}

// admission says which recording a resource belongs to.
type admission struct {
	rec     *recording.Recording
	runtime archive.RuntimeID
	window  validate.Window
}

func (r *targetReceiver) newRequest(from sender) *request {
	return &request{r: r, from: from}
}

// admit decides which recording takes the resource, and writes the recording's id and the runtime's on it. The recording
// is held open until release.
func (q *request) admit(res pcommon.Resource) (admission, string) {
	attrs := res.Attributes()
	if r := validate.Attributes(attrs); r != validate.OK {
		return admission{}, string(r)
	}
	c := recording.Claim{Token: q.from.token}.WithPeer(q.from.peer, q.from.havePeer)
	if v, ok := attrs.Get(semconv.ProcessPIDKey); ok {
		if v.Type() != pcommon.ValueTypeInt {
			return admission{}, string(validate.WrongType)
		}
		c.PID = int(v.Int())
	}
	if v, ok := attrs.Get(semconv.PIDNamespaceKey); ok {
		c.PIDNamespace = uint64(v.Int())
	}
	if v, ok := attrs.Get(semconv.RecordingIDKey); ok {
		c.RecordingID = v.Str()
	}
	if v, ok := attrs.Get(semconv.RuntimeIDKey); ok {
		c.Runtime = archive.RuntimeID(v.Str())
	} else {
		c.Runtime = deriveRuntime(attrs, q.from)
	}
	rec, reason := q.r.manager.Admit(c)
	if rec == nil {
		// Nothing of it is let in, but a recording whose token came with it is told what was refused.
		return admission{rec: q.r.manager.TokenOwner(q.from.token)}, reason
	}
	release, ok := rec.Hold()
	if !ok {
		return admission{}, recording.ReasonRecordingOver
	}
	q.releases = append(q.releases, release)
	attrs.PutStr(semconv.RecordingIDKey, string(rec.ID()))
	attrs.PutStr(semconv.RuntimeIDKey, string(c.Runtime))
	return admission{rec: rec, runtime: c.Runtime, window: q.r.windows.of(rec, q.r.now().UnixNano())}, ""
}

// deriveRuntime makes an id for a target that has none: the same for the same process of the same service.
func deriveRuntime(attrs pcommon.Map, from sender) archive.RuntimeID {
	h := sha256.New()
	for _, key := range [...]string{
		semconv.ProcessPIDKey, "process.creation.time", semconv.ServiceNameKey, "service.namespace", "service.instance.id",
		"host.name", "container.id", semconv.PIDNamespaceKey,
	} {
		if v, ok := attrs.Get(key); ok {
			_, _ = h.Write([]byte(key + "\x00" + v.AsString() + "\x00"))
		}
	}
	if _, ok := attrs.Get(semconv.ProcessPIDKey); !ok && from.havePeer {
		_, _ = h.Write([]byte("peer\x00" + strconv.Itoa(from.peer.PID)))
	}
	return archive.RuntimeID(hex.EncodeToString(h.Sum(nil)[:16]))
}

// reject counts n records of one kind. items is how many of the request's items they are.
func (q *request) reject(adm admission, signal, reason string, seq archive.Seq, n, items int) {
	if q.rejected == nil {
		q.rejected = map[rejection]uint64{}
	}
	q.rejected[rejection{
		rec: adm.rec, runtime: adm.runtime, shard: seq.Shard, sequenced: seq.N != 0, signal: signal, reason: reason,
	}] += uint64(n)
	q.items += items
}

// release lets the recordings go on. It is called once, last.
func (q *request) release() {
	for _, f := range q.releases {
		f()
	}
}

// fail undoes what was noted for a request that is not delivered. Nothing of it is counted: the client knows that all of
// it was refused, and sends it again or counts it itself.
func (q *request) fail() {
	for _, f := range q.undo {
		f()
	}
}

// settle counts what was refused and what is odd, after the rest was delivered.
func (q *request) settle(ctx context.Context) {
	t := q.r.telemetry
	for k, n := range q.rejected {
		t.StaxReceiverRejected.Add(ctx, int64(n), metric.WithAttributes(
			attribute.String("signal", k.signal), attribute.String("reason", k.reason)))
		if k.rec != nil {
			k.rec.CountDrop(archive.Drop{
				Runtime: k.runtime, Shard: k.shard, Sequenced: k.sequenced, Stage: stage, Reason: k.reason, Signal: k.signal, Count: n,
			})
		}
	}
	for c := range validate.Codes {
		if n := q.diag[c]; n > 0 {
			t.StaxReceiverDiagnostics.Add(ctx, int64(n), metric.WithAttributes(attribute.String("code", c.String())))
		}
	}
	if q.detached > 0 {
		t.StaxReceiverDetached.Add(ctx, int64(q.detached))
	}
	for _, f := range q.finals {
		f.rec.ObserveFinal(f.runtime)
	}
}

var admissionHints = map[string]string{
	recording.ReasonNoActiveRecording: "nothing is being recorded",
	recording.ReasonRecordingOver:     "the recording has ended",
	recording.ReasonUnknownRecording:  "stax.recording.id names no recording of this collector",
	recording.ReasonWrongPID:          "the process belongs to no recording: process.pid is missing, is not recorded, or is not the sender's",
	recording.ReasonWrongUser:         "the sender runs as another user and has no valid token",
	recording.ReasonBadToken:          "the token in " + semconv.HeaderToken + " is not of an active recording",
	reasonBadGeneration:               "the generation of an execution trace cannot be parsed",
	reasonGenerationTooLarge:          "a generation of an execution trace may have 8 MiB",
	reasonBadPprof:                    "the pprof profile cannot be parsed",
	reasonPprofTooLarge:               "a pprof profile may have 8 MiB, 32 MiB unpacked",
	reasonRepeated:                    "it was delivered before",
	reasonBadOriginEvent:              "the message of an event in the trace is not as its category says",
	reasonTooManySamples:              "more than one generation of a trace may hold",
	reasonTooManyWaits:                "more than one generation of a trace may hold",
	reasonTooManyOrigins:              "more than one generation of a trace may hold",
	reasonTooManyStacks:               "more than one generation of a trace may hold",
	reasonTooManyGoroutines:           "more than are followed at a time",
}

// message tells the client what was refused and why, the most frequent reason first; empty when nothing was.
func (q *request) message() string {
	if len(q.rejected) == 0 {
		return ""
	}
	counts := map[string]uint64{}
	for k, n := range q.rejected {
		counts[k.reason] += n
	}
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	parts := make([]string, 0, len(reasons))
	for _, reason := range reasons {
		hint := cmp.Or(validate.Hint(validate.Reason(reason)), admissionHints[reason])
		parts = append(parts, fmt.Sprintf("%d %s (%s)", counts[reason], reason, hint))
	}
	return "refused: " + strings.Join(parts, "; ")
}

// windows remembers when recordings began, since Recording.Info is too dear for every request.
type windows struct {
	mu      sync.Mutex
	started map[*recording.Recording]int64 // Unix ns; 0: an import, which has no window
}

// of returns the window in which data of rec is expected at now.
func (w *windows) of(rec *recording.Recording, now int64) validate.Window {
	w.mu.Lock()
	defer w.mu.Unlock()
	started, ok := w.started[rec]
	if !ok {
		w.forgetFinished()
		if info := rec.Info(); info.Mode != modeImport {
			started = info.StartedUnixNano
		}
		w.started[rec] = started
	}
	if started == 0 {
		return validate.Window{}
	}
	return validate.LiveWindow(started, now)
}

// modeImport is the mode of recordings whose data is not from here and now.
const modeImport = "import"

func (w *windows) forgetFinished() {
	if w.started == nil {
		w.started = map[*recording.Recording]int64{}
	}
	for rec := range w.started {
		select {
		case <-rec.Done():
			delete(w.started, rec)
		default:
		}
	}
}
