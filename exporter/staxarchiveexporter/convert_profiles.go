package staxarchiveexporter

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/profiles"
)

// Reasons of drops of profiles.
const (
	reasonMalformedSample = "malformed_sample" // refers to table entries that are not there, or contradicts itself
	reasonTooManySamples  = "too_many_samples" // more observations than one resource may hold
	reasonPartlyStored    = "partly_stored"    // the archive failed in the middle of a request that does not fit into one append
	reasonGenerationLost  = "generation_lost"  // the target says so
)

const stageSDK = "sdk"

// profiles converts the i-th resource of a profiles request: samples, waits, events of traces and what their sources say
// of themselves become rows, other profiles pass through.
func (s *state) profiles(req *request, dec *profiles.Decoder, pd pprofile.Profiles, i int) {
	resource := pd.ResourceProfiles().At(i)
	rs := s.begin(resource.Resource())
	defer s.end(req, rs)
	d := dec.Resource(i)
	req.drop(rs.id, archive.Seq{}, signalProfile, reasonMalformedSample, int(d.Malformed))
	req.drop(rs.id, archive.Seq{}, signalProfile, reasonTooManySamples, int(d.TooMany))
	if d.LostGenerations > 0 {
		req.batch.Drops = append(req.batch.Drops, archive.Drop{
			Runtime: rs.id, TimeNanos: s.now().UnixNano(), Stage: stageSDK, Reason: reasonGenerationLost, Signal: signalProfile,
			Count: d.LostGenerations,
		})
	}
	d.AppendRows(&req.batch, rs.id)
	rs.threadsOf(req, &d.Data)
	for k := range d.Stacks {
		if _, held := rs.stacks[d.Stacks[k].ID]; !held {
			profiles.AppendStack(&req.batch, rs.id, &d.Stacks[k])
		}
	}
	if len(d.Rest) > 0 {
		s.foreignProfiles(req, rs, pd, i, d.Rest)
	}
}

// threadsOf appends rows of the threads that the archive lacks. rs.mu is held.
func (rs *runtimeState) threadsOf(req *request, d *profiles.Data) {
	names := make(map[int64]string, len(d.Threads))
	for _, t := range d.Threads {
		names[t.ID] = t.Name
	}
	done := map[int64]struct{}{0: {}}
	note := func(id int64) {
		if _, ok := done[id]; ok {
			return
		}
		done[id] = struct{}{}
		name := names[id]
		if held, ok := rs.threads[id]; ok && (name == "" || name == held) {
			return
		}
		req.batch.Threads = append(req.batch.Threads, archive.Thread{Runtime: rs.id, ID: id, Name: name})
	}
	for i := range d.Samples {
		note(d.Samples[i].ThreadID)
	}
	for i := range d.OffCPU {
		note(d.OffCPU[i].ThreadID)
		note(d.OffCPU[i].ResumeThreadID)
		note(d.OffCPU[i].WakerThreadID)
	}
	for i := range d.OriginEvents {
		note(d.OriginEvents[i].ThreadID)
	}
}

// foreignProfiles passes profiles through that are not part of the model, with the dictionary that they refer to.
//
// Encoding profiles that are not read-only turns the strings of their attributes into dictionary references in place, and
// encoding read-only ones copies them first. So the copy is made here, and only the copy is encoded.
func (s *state) foreignProfiles(req *request, rs *runtimeState, pd pprofile.Profiles, i int, rest []profiles.Ref) {
	resource := pd.ResourceProfiles().At(i)
	one := pprofile.NewProfiles()
	pd.Dictionary().CopyTo(one.Dictionary())
	dst := one.ResourceProfiles().AppendEmpty()
	resource.Resource().CopyTo(dst.Resource())
	dst.SetSchemaUrl(resource.SchemaUrl())
	for si, sp := range resource.ScopeProfiles().All() {
		if !slices.ContainsFunc(rest, func(r profiles.Ref) bool { return r.Scope == si }) {
			continue
		}
		to := dst.ScopeProfiles().AppendEmpty()
		sp.Scope().CopyTo(to.Scope())
		to.SetSchemaUrl(sp.SchemaUrl())
		for _, r := range rest {
			if r.Scope == si {
				sp.Profiles().At(r.Profile).CopyTo(to.Profiles().AppendEmpty())
			}
		}
	}
	n := max(one.SampleCount(), len(rest))
	payload, err := pprofileotlp.NewExportRequestFromProfiles(one).MarshalProto()
	s.passthrough(req, rs, "profiles", signalProfile, n, payload, err)
}

// maxAppendRows is less than what an archive takes in one append, to leave room for what comes with each.
const maxAppendRows = 100_000

// parts splits the batch of a request with profiles into batches of about limit rows, which an archive takes. What may be written twice without
// harm (runtimes, threads, stacks) comes first, so an append that fails before the last batches leaves nothing behind that
// a second try would double. The parts share the memory of b.
func parts(b *archive.Batch, limit int) []*archive.Batch {
	if b.Len() <= limit {
		return []*archive.Batch{b}
	}
	var out []*archive.Batch
	first := &archive.Batch{Runtimes: b.Runtimes, Lanes: b.Lanes, Counters: b.Counters}
	if first.Len() > 0 {
		out = append(out, first)
	}
	split(&out, limit, b.Threads, func(x *archive.Batch, rows []archive.Thread) { x.Threads = rows })
	for rows := b.StackFrames; len(rows) > 0; { // a stack stays in one piece
		n := min(limit, len(rows))
		for n < len(rows) && rows[n].Depth != 0 {
			n++
		}
		out = append(out, &archive.Batch{StackFrames: rows[:n]})
		rows = rows[n:]
	}
	rest := *b
	rest.Runtimes, rest.Lanes, rest.Counters, rest.Threads, rest.StackFrames = nil, nil, nil, nil, nil
	if rest.Len() <= limit {
		return append(out, &rest)
	}
	split(&out, limit, b.Samples, func(x *archive.Batch, rows []archive.Sample) { x.Samples = rows })
	split(&out, limit, b.OffCPU, func(x *archive.Batch, rows []archive.OffCPU) { x.OffCPU = rows })
	split(&out, limit, b.OriginEvents, func(x *archive.Batch, rows []archive.OriginEvent) { x.OriginEvents = rows })
	rest.Samples, rest.OffCPU, rest.OriginEvents = nil, nil, nil
	return append(out, &rest)
}

func split[T any](out *[]*archive.Batch, limit int, rows []T, set func(*archive.Batch, []T)) {
	for part := range slices.Chunk(rows, limit) {
		b := &archive.Batch{}
		set(b, part)
		*out = append(*out, b)
	}
}

// doubles reports whether a second append of the batch would store something twice.
func doubles(b *archive.Batch) bool {
	return b.Len() != len(b.Runtimes)+len(b.Lanes)+len(b.Counters)+len(b.Threads)+len(b.StackFrames)
}
