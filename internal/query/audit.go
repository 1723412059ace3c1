package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stax-otel/stax/archive"
)

// Verdicts of [Audit] and of its rows.
const (
	VerdictClean     = "clean"     // every record that the targets made is in the archive
	VerdictAccounted = "accounted" // some are not, and each of those is counted as dropped by somebody
	VerdictUnproven  = "unproven"  // it cannot be shown where everything went; Reasons say why
)

// AuditRow is the account of one shard of one runtime: emitted = archived + dropped, by sequence numbers.
type AuditRow struct {
	Runtime archive.RuntimeID `json:"runtime"`
	PID     int64             `json:"pid"`
	Shard   uint32            `json:"shard"`
	// Owed is what the target says it made for this recording: emitted - base of its newest heartbeat, and the numbers
	// past that heartbeat which arrived.
	Owed       uint64      `json:"owed"`
	Archived   uint64      `json:"archived"`   // distinct numbers in the archive, of those owed
	Duplicates uint64      `json:"duplicates"` // records whose number is in the archive more than once
	Repeated   uint64      `json:"repeated"`   // copies of records that had arrived, dropped on arrival: nothing is lost by that
	Foreign    uint64      `json:"foreign"`    // distinct numbers that this recording does not owe
	Missing    uint64      `json:"missing"`    // owed - archived
	Dropped    uint64      `json:"dropped"`    // that somebody counted
	Drops      []DropCount `json:"drops"`
	// Unaccounted is missing - dropped, when positive. Overcounted is dropped - missing, when positive: records that
	// the target gave up sending and that had arrived nevertheless.
	Unaccounted  uint64        `json:"unaccounted"`
	Overcounted  uint64        `json:"overcounted"`
	MissingRuns  []NumberRange `json:"missing_runs"` // the first few runs of missing numbers
	Heartbeat    bool          `json:"heartbeat"`    // the shard has one
	Final        bool          `json:"final"`        // the runtime said that nothing more follows
	Verdict      string        `json:"verdict"`
	unexplained  bool
	giveUpsAtSDK uint64
}

// DropCount is a number of records lost at one place for one reason.
type DropCount struct {
	Stage  string `json:"stage"` // sdk, receiver, linker, archive
	Reason string `json:"reason"`
	Signal string `json:"signal,omitempty"`
	Count  uint64 `json:"count"`
}

// Reason is why a verdict is not better than it is.
type Reason struct {
	Code    string            `json:"code"` // stable snake_case
	Text    string            `json:"text"`
	Runtime archive.RuntimeID `json:"runtime,omitempty"`
	PID     int64             `json:"pid,omitempty"`
}

// AuditAnswer is the answer of [Audit].
type AuditAnswer struct {
	Answer[AuditRow]
	Verdict string   `json:"verdict"`
	Reasons []Reason `json:"reasons"` // of a verdict that is not clean
	// OtherDrops were counted without a sequence number: logs, metrics, profiles, records of unknown runtimes.
	OtherDrops []DropCount `json:"other_drops"`
	// ProfileLosses are stretches of time whose CPU samples and waits were given up.
	ProfileLosses []ProfileLoss    `json:"profile_losses"`
	Certificates  CertificateAudit `json:"certificates"`
}

// ProfileLoss is what one source of CPU samples in one process lost.
type ProfileLoss struct {
	PID       int64  `json:"pid"`
	Source    string `json:"source"`
	Stretches int64  `json:"stretches"`
	LostNanos int64  `json:"lost_ns"`
	Reason    string `json:"reason"`
}

// reasonRepeated is the reason of drops of records that are in the archive already.
const reasonRepeated = "repeated"

// Proven reports whether every loss is accounted for and every certificate stands.
func (a *AuditAnswer) Proven() bool { return a.Verdict != VerdictUnproven }

const maxRuns = 5

// Audit checks that nothing vanished, and that every certificate follows from the raw facts.
func Audit(ctx context.Context, r *archive.Reader) (AuditAnswer, error) {
	a := AuditAnswer{Answer: newAnswer[AuditRow]("audit"), Reasons: []Reason{}, OtherDrops: []DropCount{}, ProfileLosses: []ProfileLoss{}}
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	books, err := v.books(ctx)
	if err != nil {
		return a, err
	}
	a.Rows, a.OtherDrops = books.rows, append(a.OtherDrops, books.other...)
	a.Matched = len(a.Rows)
	a.Reasons = append(a.Reasons, v.auditReasons(books)...)
	silent, err := v.silentReasons(ctx)
	if err != nil {
		return a, err
	}
	a.Reasons = append(a.Reasons, silent...)
	if a.Certificates, err = v.recheck(ctx); err != nil {
		return a, err
	}
	if n := a.Certificates.Failed; n > 0 {
		a.Reasons = append(a.Reasons, Reason{
			Code: "certificate_refuted", Text: fmt.Sprintf("%s not borne out by the raw facts.", count(n, "certificate or link is", "certificates or links are")),
		})
	}
	a.Verdict = VerdictClean
	for _, row := range a.Rows {
		if row.Missing > 0 {
			a.Verdict = VerdictAccounted
		}
	}
	for _, d := range a.OtherDrops {
		if d.Count > 0 && !gateReason(d.Reason) && d.Reason != reasonRepeated { // what was refused as another's is not missing here
			a.Verdict = VerdictAccounted
		}
	}
	sources, err := v.cpuSources(ctx)
	if err != nil {
		return a, err
	}
	for i := range sources {
		if s := &sources[i]; s.LostStretches > 0 {
			a.Verdict = VerdictAccounted
			a.ProfileLosses = append(a.ProfileLosses, ProfileLoss{s.PID, s.Source, s.LostStretches, s.LostNanos, s.LostReason})
		}
	}
	if len(a.Reasons) > 0 {
		a.Verdict = VerdictUnproven
	}
	if len(v.runtimes) == 0 {
		a.Hints = append(a.Hints, v.emptyHints(0)...)
	}
	a.Coverage, err = v.coverage(ctx)
	return a, err
}

// books is what the archive says about sequence numbers.
type books struct {
	rows       []AuditRow
	other      []DropCount
	unnumbered map[archive.RuntimeID]int64 // records without a number
	beats      *heartbeats
}

func (v *view) books(ctx context.Context) (*books, error) {
	b := &books{unnumbered: map[archive.RuntimeID]int64{}}
	var err error
	if b.beats, err = readHeartbeats(ctx, v.r); err != nil {
		return nil, err
	}
	sets := map[shardKey]*numberSet{}
	var last shardKey
	var set *numberSet
	add := func(rt archive.RuntimeID, seq archive.Seq) {
		if seq.N == 0 {
			b.unnumbered[rt]++
			return
		}
		if key := (shardKey{rt, seq.Shard}); set == nil || key != last {
			last, set = key, sets[key]
			if set == nil {
				set = &numberSet{}
				sets[key] = set
			}
		}
		set.add(seq.N)
	}
	for rows, err := range archive.ScanColumns[archive.Dispatch](ctx, v.r, "runtime", "seq_shard", "seq_n") {
		if err != nil {
			return nil, err
		}
		for i := range rows {
			add(rows[i].Runtime, rows[i].Seq)
		}
	}
	for rows, err := range archive.ScanColumns[archive.CommandBuffer](ctx, v.r, "runtime", "seq_shard", "seq_n") {
		if err != nil {
			return nil, err
		}
		for i := range rows {
			add(rows[i].Runtime, rows[i].Seq)
		}
	}
	for rows, err := range archive.ScanColumns[archive.Wait](ctx, v.r, "runtime", "seq_shard", "seq_n") {
		if err != nil {
			return nil, err
		}
		for i := range rows {
			add(rows[i].Runtime, rows[i].Seq)
		}
	}
	byShard := map[shardKey]*AuditRow{}
	row := func(key shardKey) *AuditRow {
		x := byShard[key]
		if x == nil {
			x = &AuditRow{
				Runtime: key.runtime, PID: v.pid(key.runtime), Shard: key.shard, Drops: []DropCount{},
				MissingRuns: []NumberRange{}, Heartbeat: b.beats.shards[key], Final: b.beats.last[key.runtime].final,
			}
			byShard[key] = x
		}
		return x
	}
	for i, s := range b.beats.stints {
		x := row(s.shardKey)
		n := sets[s.shardKey]
		if n == nil {
			n = &numberSet{}
		}
		end := s.emitted
		if i+1 == len(b.beats.stints) || b.beats.stints[i+1].shardKey != s.shardKey {
			end = max(end, n.max) // arrived, though no heartbeat has announced it yet
		}
		if end > s.base {
			x.Owed += end - s.base
			x.Archived += n.within(s.base, end)
			x.MissingRuns = append(x.MissingRuns, n.holes(s.base, end, maxRuns-len(x.MissingRuns))...)
		}
		x.drop(stageSDK, "ring_full", s.droppedFull)
		x.drop(stageSDK, "send_given_up", s.droppedSend)
		x.drop(stageSDK, "other", s.droppedOther)
		x.giveUpsAtSDK += s.droppedSend
	}
	for key, n := range sets {
		x := row(key)
		if !x.Heartbeat {
			// Without a base nothing says where this recording's numbers begin.
			x.Owed, x.Archived = n.distinct, n.distinct
		}
		x.Duplicates = n.rows - n.distinct
		x.Foreign = n.distinct - x.Archived
	}
	type otherKey struct{ stage, reason, signal string }
	other := map[otherKey]uint64{}
	for rows, err := range archive.Scan[archive.Drop](ctx, v.r) {
		if err != nil {
			return nil, err
		}
		for _, d := range rows {
			switch {
			case b.beats.covers(d):
			case d.Reason == reasonRepeated && d.Sequenced && recordSignal(d.Signal) && d.Runtime != "":
				row(shardKey{d.Runtime, d.Shard}).Repeated += d.Count
			case d.Sequenced && recordSignal(d.Signal) && d.Runtime != "":
				row(shardKey{d.Runtime, d.Shard}).drop(d.Stage, d.Reason, d.Count)
			default:
				other[otherKey{d.Stage, d.Reason, d.Signal}] += d.Count
			}
		}
	}
	for k, n := range other {
		b.other = append(b.other, DropCount{k.stage, k.reason, k.signal, n})
	}
	slices.SortFunc(b.other, func(x, y DropCount) int {
		return cmp.Or(cmp.Compare(x.Stage, y.Stage), cmp.Compare(x.Reason, y.Reason), cmp.Compare(x.Signal, y.Signal))
	})
	b.rows = make([]AuditRow, 0, len(byShard))
	for _, x := range byShard {
		x.close()
		b.rows = append(b.rows, *x)
	}
	slices.SortFunc(b.rows, func(x, y AuditRow) int {
		return cmp.Or(cmp.Compare(x.PID, y.PID), cmp.Compare(x.Runtime, y.Runtime), cmp.Compare(x.Shard, y.Shard))
	})
	return b, nil
}

func (x *AuditRow) drop(stage, reason string, n uint64) {
	if n == 0 {
		return
	}
	x.Dropped += n
	for i := range x.Drops {
		if x.Drops[i].Stage == stage && x.Drops[i].Reason == reason {
			x.Drops[i].Count += n
			return
		}
	}
	x.Drops = append(x.Drops, DropCount{Stage: stage, Reason: reason, Count: n})
}

func (x *AuditRow) close() {
	x.Missing = x.Owed - x.Archived
	if x.Missing > x.Dropped {
		x.Unaccounted = x.Missing - x.Dropped
	} else {
		x.Overcounted = x.Dropped - x.Missing
	}
	slices.SortFunc(x.Drops, func(a, b DropCount) int {
		return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Reason, b.Reason))
	})
	// A sender that gives up cannot know whether the batch arrived: only that kind of drop may be counted too much.
	x.unexplained = x.Heartbeat && x.Overcounted > x.giveUpsAtSDK
	switch {
	case x.Unaccounted > 0 || x.unexplained || !x.Heartbeat || !x.Final:
		x.Verdict = VerdictUnproven
	case x.Missing > 0:
		x.Verdict = VerdictAccounted
	default:
		x.Verdict = VerdictClean
	}
}

// auditReasons lists what stands between the books and a proof.
func (v *view) auditReasons(b *books) []Reason {
	var out []Reason
	add := func(code string, rt archive.RuntimeID, format string, args ...any) {
		out = append(out, Reason{Code: code, Text: fmt.Sprintf(format, args...), Runtime: rt, PID: v.pid(rt)})
	}
	if len(v.runtimes) == 0 {
		add("no_runtime", "", "no instrumented process reported, so there is nothing to prove.")
	}
	switch v.state() {
	case StateLive:
		add("recording_live", "", "the recording is still running: records may be under way.")
	case StateCrashed:
		add("not_finished", "", "the recorder ended before it sealed the archive: what was under way is lost.")
	}
	for _, l := range v.r.Losses() {
		add("unreadable", "", "not readable: %s.", lossText(l))
	}
	for _, id := range v.order {
		rt := v.runtimes[id]
		_, beat := b.beats.last[id]
		switch {
		case !rt.Sequenced:
			add("unsequenced", id, "process %d numbers nothing, so losses cannot show: conservation is not provable.", rt.PID)
		case b.unnumbered[id] > 0:
			add("unsequenced", id, "process %d sent %s without a sequence number.", rt.PID, count(b.unnumbered[id], "record", "records"))
		case !beat:
			add("no_heartbeat", id, "process %d never said how much it made.", rt.PID)
		case !b.beats.last[id].final:
			add("no_final_heartbeat", id, "process %d %s", rt.PID, v.noLastWord())
		}
	}
	for _, x := range b.rows {
		rt := v.runtimes[x.Runtime]
		if rt == nil {
			add("unknown_runtime", x.Runtime, "records of runtime %s came, but the runtime itself is not in the archive.", x.Runtime)
			continue
		}
		if x.Unaccounted > 0 {
			add("unaccounted", x.Runtime, "process %d, shard %d: %s missing, and nobody counted dropping them.",
				x.PID, x.Shard, count(int64(x.Unaccounted), "record is", "records are"))
		}
		if x.unexplained {
			add("contradiction", x.Runtime, "process %d, shard %d: %s counted as dropped, yet only %s of the numbers are missing.",
				x.PID, x.Shard, count(int64(x.Dropped), "record is", "records are"), comma(x.Missing))
		}
		if _, beat := b.beats.last[x.Runtime]; beat && !x.Heartbeat && rt.Sequenced {
			add("no_heartbeat", x.Runtime, "process %d, shard %d: records came, but no heartbeat counts that shard.", x.PID, x.Shard)
		}
	}
	return out
}

// silentReasons lists runtimes that were asked to report and sent nothing.
func (v *view) silentReasons(ctx context.Context) (out []Reason, err error) {
	for rows, err := range archive.Scan[archive.Diagnostic](ctx, v.r) {
		if err != nil {
			return nil, err
		}
		for _, d := range rows {
			if d.Code == archive.DiagnosticSilentRuntime {
				out = append(out, Reason{Code: d.Code, Text: d.Text + ".", Runtime: d.Runtime})
			}
		}
	}
	return out, nil
}

// noLastWord says what follows from a missing final heartbeat.
func (v *view) noLastWord() string {
	switch v.state() {
	case StateLive:
		return "has not said that it is done: its last records may be under way."
	case StateCrashed:
		return "had not said that it was done when the recorder ended: its last records may be missing."
	}
	return "exited without Shutdown or was killed: up to one flush interval may be missing."
}

// count renders a number with the right form of its noun.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return comma(n) + " " + many
}

// comma renders a number with thousands separators.
func comma[N int | int64 | uint64](n N) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
