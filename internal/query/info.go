package query

import (
	"context"

	"github.com/stax-otel/stax/archive"
	"github.com/stax-otel/stax/internal/origin"
)

// Classes lists the containment classes.
var Classes = []string{
	origin.ClassSynchronous, origin.ClassTimedOut, origin.ClassWaitedLate, origin.ClassAsynchronous, origin.ClassUnproven,
}

// RuntimeRow is one process that reported.
type RuntimeRow struct {
	Runtime         archive.RuntimeID `json:"runtime"`
	PID             int64             `json:"pid"`
	ParentPID       int64             `json:"parent_pid,omitempty"`
	ServiceName     string            `json:"service_name"`
	Executable      string            `json:"executable"`
	SDKName         string            `json:"sdk_name"`
	SDKVersion      string            `json:"sdk_version"`
	SDKLanguage     string            `json:"sdk_language"`
	Sequenced       bool              `json:"sequenced"`
	ClockErrorNanos int64             `json:"clock_error_ns"` // -1: unknown
	Final           bool              `json:"final"`          // it said that nothing more follows
}

// InfoRow describes a recording as a whole.
type InfoRow struct {
	ID              string              `json:"recording_id"`
	Name            string              `json:"name"`
	Mode            string              `json:"mode"`
	State           string              `json:"state"`
	Command         []string            `json:"command"`
	PIDs            []int64             `json:"pids"`
	StartedNanos    int64               `json:"started_ns"`
	StoppedNanos    int64               `json:"stopped_ns"` // 0: not stopped
	ExitCode        *int                `json:"exit_code"`
	ExitSignal      string              `json:"exit_signal"`
	StopReason      string              `json:"stop_reason"`
	Host            archive.Host        `json:"host"`
	RecorderVersion string              `json:"recorder_version"`
	SchemaVersion   int                 `json:"schema_version"`
	DerivedVersion  string              `json:"derived_version"` // "" when links and certificates are not stored
	Runtimes        []RuntimeRow        `json:"runtimes"`
	Lanes           int                 `json:"lanes"`
	Dispatches      int64               `json:"dispatches"`
	CommandBuffers  int64               `json:"command_buffers"`
	Waits           int64               `json:"waits"`
	CounterSamples  int64               `json:"counter_samples"`
	Samples         int64               `json:"samples"`           // rows of CPU samples
	OffCPU          int64               `json:"off_cpu_intervals"` // of threads and goroutines
	CPUSources      []CPUSourceRow      `json:"cpu_sources"`
	TargetNanos     int64               `json:"target_ns"`
	OwnedNanos      int64               `json:"owned_ns"` // proven to be waited for
	Classes         map[string]int64    `json:"classes"`
	Losses          []archive.Loss      `json:"losses"`
	Privacy         []archive.DataClass `json:"privacy"`
}

// Info summarises a recording.
func Info(ctx context.Context, r *archive.Reader) (Answer[InfoRow], error) {
	a := newAnswer[InfoRow]("info")
	v, err := load(ctx, r)
	if err != nil {
		return a, err
	}
	m := r.Manifest()
	row := InfoRow{
		ID: v.info.ID, Name: v.info.Name, Mode: v.info.Mode, State: v.state(), Command: orEmpty(v.info.Command),
		PIDs: orEmpty(v.info.PIDs), StartedNanos: v.info.StartedNanos, StoppedNanos: v.info.StoppedNanos,
		ExitCode: v.info.ExitCode, ExitSignal: v.info.ExitSignal, StopReason: v.info.StopReason, Host: v.info.Host,
		RecorderVersion: v.info.RecorderVersion, SchemaVersion: m.Schema, Classes: map[string]int64{},
		Privacy: orEmpty(m.Privacy), Runtimes: []RuntimeRow{},
	}
	row.DerivedVersion, _ = r.HasDerived()
	beats, err := readHeartbeats(ctx, r)
	if err != nil {
		return a, err
	}
	for _, id := range v.order {
		rt := v.runtimes[id]
		row.Runtimes = append(row.Runtimes, RuntimeRow{
			Runtime: id, PID: rt.PID, ParentPID: rt.ParentPID, ServiceName: rt.ServiceName, Executable: rt.Executable,
			SDKName: rt.SDKName, SDKVersion: rt.SDKVersion, SDKLanguage: rt.SDKLanguage, Sequenced: rt.Sequenced,
			ClockErrorNanos: rt.ClockErrorNanos, Final: beats.last[id].final,
		})
	}
	origins := newOriginCoverage()
	var work tally
	err = v.attributed(ctx, func(d *archive.Dispatch, c *archive.Certificate, l *archive.Link) {
		origins.add(d, l)
		v.lane(d.Runtime, d.Lane)
		work.add(d.StartNanos, d.EndNanos)
		row.Classes[c.Class]++
		row.OwnedNanos = addSaturated(row.OwnedNanos, max(c.OwnedNanos, 0))
	})
	if err != nil {
		return a, err
	}
	row.Lanes, row.Dispatches, row.TargetNanos = len(v.lanes), work.count, work.total
	rows := r.Rows()
	row.CommandBuffers, row.Waits, row.CounterSamples = rows["command_buffers"], rows["waits"], rows["counter_samples"]
	row.Samples, row.OffCPU = rows["samples"], rows["off_cpu"]
	if row.CPUSources, err = v.cpuSources(ctx); err != nil {
		return a, err
	}
	row.Losses = orEmpty(r.Losses())
	a.Rows, a.Matched = append(a.Rows, row), 1
	if work.count == 0 {
		a.Hints = append(a.Hints, v.emptyHints(0)...)
	}
	a.Coverage, err = v.coverage(ctx)
	a.Coverage.Origins = origins
	return a, err
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
