// Package foreign is a producer of OTLP that has nothing in common with stax's SDK but the semantic conventions: it builds
// requests with the collector's own data model and posts them.
package foreign

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/stax-otel/stax/sdk/otlp"
	"github.com/stax-otel/stax/sdk/semconv"
)

// profilesPath is where OTLP/HTTP takes profiles; the signal is still in development.
const profilesPath = "/v1development/profiles"

// Producer posts to one receiver. It is safe for concurrent use.
type Producer struct{ client *otlp.Client }

// New makes a producer of an endpoint and a recording token.
func New(endpoint, token string) (*Producer, error) {
	c, err := otlp.NewClient(endpoint, otlp.Options{Token: token, UserAgent: "foreign"})
	if err != nil {
		return nil, err
	}
	return &Producer{c}, nil
}

// FromEnvironment makes a producer for the recorder that launched this process.
func FromEnvironment() (*Producer, error) {
	return New(os.Getenv(semconv.EnvEndpoint), os.Getenv(semconv.EnvToken))
}

// Close closes idle connections.
func (p *Producer) Close() { p.client.Close() }

// Traces posts spans and returns how many were refused, and why.
func (p *Producer) Traces(ctx context.Context, td ptrace.Traces) (rejected int64, why string, err error) {
	body, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	if err != nil {
		return 0, "", fmt.Errorf("encode spans: %w", err)
	}
	r, err := p.client.Traces(ctx, body)
	return r.Rejected, r.Message, err
}

// Logs posts log records.
func (p *Producer) Logs(ctx context.Context, ld plog.Logs) error {
	body, err := plogotlp.NewExportRequestFromLogs(ld).MarshalProto()
	if err != nil {
		return fmt.Errorf("encode logs: %w", err)
	}
	_, err = p.client.Logs(ctx, body)
	return err
}

// Frame is one frame of a stack.
type Frame struct {
	Function, File string
	Line           int64
}

// Sample is one observation of a running thread. A sample without frames has no stack.
type Sample struct {
	Thread    int64
	UnixNanos int64
	Stack     []Frame // leaf first
}

// Samples posts on-CPU samples of the process, as a profiler from outside would: an OS thread id and an instant for each,
// no goroutines.
func (p *Producer) Samples(ctx context.Context, pid int, periodNanos int64, samples []Sample) error {
	pd := pprofile.NewProfiles()
	t := newTables(pd.Dictionary())
	rp := pd.ResourceProfiles().AppendEmpty()
	rp.Resource().Attributes().PutInt("process.pid", int64(pid))
	sp := rp.ScopeProfiles().AppendEmpty()
	sp.Scope().SetName("foreign-profiler")
	x := sp.Profiles().AppendEmpty()
	id := [16]byte{1}
	binary.BigEndian.PutUint64(id[8:], uint64(len(samples)))
	x.SetProfileID(id)
	x.SampleType().SetTypeStrindex(t.text("samples"))
	x.SampleType().SetUnitStrindex(t.text("count"))
	x.PeriodType().SetTypeStrindex(t.text("cpu"))
	x.PeriodType().SetUnitStrindex(t.text("nanoseconds"))
	x.SetPeriod(periodNanos)
	if n := len(samples); n > 0 {
		x.SetTime(pcommon.Timestamp(samples[0].UnixNanos))
		x.SetDurationNano(uint64(samples[n-1].UnixNanos - samples[0].UnixNanos))
	}
	for _, s := range samples {
		y := x.Samples().AppendEmpty()
		y.SetStackIndex(t.stack(s.Stack))
		y.AttributeIndices().Append(t.thread(s.Thread))
		y.Values().Append(1)
		y.TimestampsUnixNano().Append(uint64(s.UnixNanos))
	}
	body, err := pprofileotlp.NewExportRequestFromProfiles(pd).MarshalProto()
	if err != nil {
		return fmt.Errorf("encode samples: %w", err)
	}
	_, err = p.client.Post(ctx, profilesPath, body)
	return err
}

// tables interns what samples refer to. Index 0 of every table is its zero value.
type tables struct {
	d         pprofile.ProfilesDictionary
	texts     map[string]int32
	locations map[Frame]int32
	stacks    map[string]int32
	threads   map[int64]int32
}

func newTables(d pprofile.ProfilesDictionary) *tables {
	t := &tables{d, map[string]int32{"": 0}, map[Frame]int32{}, map[string]int32{"": 0}, map[int64]int32{}}
	d.StringTable().Append("")
	d.MappingTable().AppendEmpty()
	d.LocationTable().AppendEmpty()
	d.FunctionTable().AppendEmpty()
	d.LinkTable().AppendEmpty()
	d.AttributeTable().AppendEmpty()
	d.StackTable().AppendEmpty()
	return t
}

func (t *tables) text(s string) int32 {
	i, ok := t.texts[s]
	if !ok {
		i = int32(t.d.StringTable().Len())
		t.d.StringTable().Append(s)
		t.texts[s] = i
	}
	return i
}

func (t *tables) location(f Frame) int32 {
	i, ok := t.locations[f]
	if !ok {
		fn := t.d.FunctionTable().AppendEmpty()
		fn.SetNameStrindex(t.text(f.Function))
		fn.SetFilenameStrindex(t.text(f.File))
		i = int32(t.d.LocationTable().Len())
		line := t.d.LocationTable().AppendEmpty().Lines().AppendEmpty()
		line.SetFunctionIndex(int32(t.d.FunctionTable().Len() - 1))
		line.SetLine(f.Line)
		t.locations[f] = i
	}
	return i
}

func (t *tables) stack(frames []Frame) int32 {
	key := ""
	for _, f := range frames {
		key += fmt.Sprintf("%d,", t.location(f))
	}
	i, ok := t.stacks[key]
	if !ok {
		i = int32(t.d.StackTable().Len())
		s := t.d.StackTable().AppendEmpty()
		for _, f := range frames {
			s.LocationIndices().Append(t.location(f))
		}
		t.stacks[key] = i
	}
	return i
}

func (t *tables) thread(id int64) int32 {
	i, ok := t.threads[id]
	if !ok {
		i = int32(t.d.AttributeTable().Len())
		a := t.d.AttributeTable().AppendEmpty()
		a.SetKeyStrindex(t.text("thread.id"))
		a.Value().SetInt(id)
		t.threads[id] = i
	}
	return i
}
